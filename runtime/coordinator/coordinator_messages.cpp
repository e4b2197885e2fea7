// What the coordinator is told from outside of training: what a person or the host wants, and that
// a role was restarted or is lost.
#include <utility>

#include "runtime/coordinator/coordinator.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t max_ahead = 1024;  // steps beyond what was ever granted, that a worker may join at

}  // namespace

// --- a person, and the host

void coordinator::take_command(const command& c, effects& out) {
  if (c.name == "pause") return boundary_.want_pause(hold());
  if (c.name == "stop") return boundary_.want_stop(hold());
  if (c.name == "checkpoint") return boundary_.want_checkpoint(hold());
  if (c.name == "eval") return boundary_.want_evaluation(hold());
  if (c.name == "mode") return take_mode_command(c.key, c.options, out);
  if (c.name == "handover") return take_handover_command(c, out);
  if (c.name == "staleness") return begin_observe(out);
  if (c.name == "set") return take_setting(c, out);
  if (c.name != "resume") return out.event({"refused", completed(), {}, "unknown command '" + c.name + "'"});
  if (boundary_.resume()) out.event({"resumed", completed(), {}, {}});
  time_.last_step = time_.now;
}

void coordinator::take_setting(const command& c, effects& out) {
  if (c.key.starts_with("train.sync.")) {  // the mode in use, with another option
    auto options = boundary_.mode().options;
    const auto key = c.key.substr(11);
    std::erase_if(options, [&](const auto& o) { return o.first == key; });
    for (const auto& o : c.options) options.emplace_back(key, o.second);
    if (c.options.empty()) return out.event({"refused", completed(), {}, "no value for " + c.key});
    return take_mode_command(boundary_.mode().name, std::move(options), out);
  }
  const auto from = ledger_.max_granted();
  settings_.push_back({c.key, c.value, from});
  send_setting(settings_.back(), out);
  out.event({"set", from, {{c.key, c.value}}, {}});
}

void coordinator::send_setting(const set_value& s, effects& out) const {
  for (auto r : config_.plan->shards) out.send({to(r), s});
  for (auto r : config_.plan->workers) out.send({to(r), s});
}

// From the host: the next plan of this job has been made everywhere, for mode `key`.
void coordinator::take_handover_command(const command& c, effects& out) {
  const auto refuse = [&](std::string why) { out.event({"refused", completed(), {{"handover", 1}}, std::move(why)}); };
  const auto mode = boundary_.mode().text();
  if (boundary_.changing() || c.key != mode) return refuse("the mode has changed meanwhile (it is " + mode + "): say it again");
  boundary_.want_handover(hold());
}

// From the host: nodes are lost, and the next plan has been made without them.
void coordinator::take_surviving_state_command(const command& c, effects& out) {
  std::set<std::string> lost;
  for (const auto& [key, node] : c.options) lost.insert(node);
  auto why = why_nothing_is_left(*config_.plan, *config_.graph, boundary_.mode().left, lost);
  if (!started_) why = "it has not begun";
  if (boundary_.changing()) why = "the mode was changing";
  if (boundary_.finishing() || written_) why = "it was at its end";
  if (!why.empty()) return refuse_surviving_state(why, out);
  if (!left_) left_.emplace(what_is_left{surviving_state(config_.plan), {}, {}});
  left_->lost = lost;
  left_->step.reset();
  left_->all.begin(lost);
  quiesce what{left_->all.request()};
  for (std::uint32_t w = 0; w < config_.plan->workers.size(); ++w)
    if (lives(w)) what.living.push_back(w);
  for (auto r : left_->all.asked()) out.send({to(r), what});
}

// A worker, after the loss.
bool coordinator::lives(std::uint32_t worker) const {
  const auto& plan = *config_.plan;
  return !left_->lost.contains(plan.nodes[plan[plan.workers[worker]].node].name);
}

void coordinator::refuse_surviving_state(const std::string& why, effects& out) const {
  out.event({"refused", completed(), {{"handover", 1}}, why});
}

void coordinator::take_mode_command(const std::string& name, std::vector<std::pair<std::string, std::string>> options,
                                    effects& out) {
  std::string why;
  std::optional<mode_facts> found;
  if (!config_.find_mode)
    why = "this job's mode is fixed";
  else if (boundary_.handing_over())
    why = "layers are being moved";
  else if (boundary_.changing())
    why = "a switch to mode '" + boundary_.wanted_mode().value_or(boundary_.mode()).name + "' is under way";
  else if (config_.plan->through_reducers())
    why = "with reducer = \"" + config_.reducer + "\" the mode is fixed: no other mode works with it";
  else if (config_.plan->server_groups > 1)
    why = "with several server groups the mode is fixed";
  else
    found = config_.find_mode(name, options, why);
  if (found && (found->work_unit > 0 || dealer_.deals())) {
    found.reset();
    why = "portions are dealt from the first step on: a job cannot switch to or from sandblaster";
  }
  if (!found) return out.event({"refused", completed(), {}, why});
  boundary_.want_mode(std::move(*found), hold());
}

// --- roles that are there, or there again

void coordinator::take_ready(const header& h, const ready& r, effects& out) {
  if (index_of(h.src) >= config_.plan->roles.size()) return drop(drop_reason::misaddressed);
  const auto& who = (*config_.plan)[h.src];
  const auto answers = boundary_.answers();
  switch (r.what) {
    case ready::what_of::flushed:
      if (who.kind != role_kind::shard) return drop(drop_reason::misaddressed);
      if (!boundary_.flushed(h.src, static_cast<std::uint64_t>(h.id), config_.plan->shards.size(), completed()) &&
          boundary_.answers() == answers)
        drop(drop_reason::outdated);
      return;
    case ready::what_of::adopted:
      if (who.kind != role_kind::worker) return drop(drop_reason::misaddressed);
      if (boundary_.adopted(h.src, r.mode_epoch, config_.plan->workers.size()))
        switched(out);
      else if (boundary_.answers() == answers)
        drop(drop_reason::outdated);
      return;
    case ready::what_of::joined: return take_joined(h, who, out);
    case ready::what_of::copied: return drop(drop_reason::unexpected);
    case ready::what_of::work_unit:
      return who.kind == role_kind::worker ? take_work_unit_done(who.worker, h, out) : drop(drop_reason::misaddressed);
  }
}

void coordinator::take_joined(const header& h, const role_plan& who, effects& out) {
  if (who.kind == role_kind::loader && config_.retains_for_replay) loader_is_back(h.src, out);
  if (who.kind == role_kind::tester) tester_lives(h.incarnation, out);
  if (who.kind != role_kind::worker) return;
  if (config_.plan->rule != weight_rule::drain && !config_.retains_for_replay) {
    ended_ = true;
    return out.event({"error",
                      completed(),
                      {},
                      "node " + config_.plan->nodes[who.node].name +
                          " was restarted: the versions of weights that packets under way have met are gone with it"});
  }
  joined(who.worker, h.step, ledger_.meet(who.worker, h.incarnation), out);
  // It joined before the shards took the mode that all take now, or it gets no blocks and no shard
  // can tell it (the half of placed layers without parameters); what we told it was lost with it.
  if (boundary_.mode_epoch() > 0 && h.flags >> 8 != boundary_.pending_epoch()) send_adopt(h.src, out);
}

// `again`: its word has come twice; what it was dealt since is not lost.
void coordinator::joined(std::uint32_t worker, std::uint64_t step, bool again, effects& out) {
  if (config_.retains_for_replay) return ask_again(worker, out);  // nothing else is lost with it
  if (worker >= ledger_.workers()) return;                        // the half of a placed layer: no loader, no packets of its own
  if (step > hold() && step - hold() > max_ahead) return drop(drop_reason::malformed);  // would open each step below
  const auto loader = config_.plan->loaders[worker];
  notices_.forget(worker);
  ledger_.give_up_before(worker, step);
  if (dealer_.dealt() && !again) {
    for (const auto& p : dealer_.lost(worker, step)) send_work_unit(worker, p, out);
    drop_done_work_units();
  }
  if (ledger_.granted(worker) > config_.first_step && !dealer_.deals()) out.send({to(loader), grant{ledger_.granted(worker)}});
  const bool evaluates = evaluation_.under_way() && boundary_.lockstep();
  evaluation_.put_off(worker, evaluates && !dealer_.complete());
  if (evaluates && dealer_.complete()) send_round_to(loader, out);
  ledger_.open_below(step);  // steps of which nobody has reported yet, and that it will not report
  complete_steps(out);
  ask_again(worker, out);
}

// What it was asked, or its answer, may have been lost with it.
void coordinator::ask_again(std::uint32_t worker, effects& out) const {
  const auto worker_role = config_.plan->workers[worker];
  if (staleness_.waits_for(worker_role)) out.send({to(worker_role), observe{}});
  if (boundary_.now() == boundary::state::flushing) send_flush(worker_role, out);
}

// It begins with the oldest step of which anybody may want a packet: who has them takes them for
// what they are, packets that come twice.
void coordinator::loader_is_back(role_id loader, effects& out) {
  const auto worker = (*config_.plan)[loader].worker;
  out.send({to(loader), resume_at{std::max(config_.first_step, config_.plan->needed_from(completed()))}});
  if (ledger_.granted(worker) > config_.first_step) out.send({to(loader), grant{ledger_.granted(worker)}});
  if (evaluation_.under_way()) send_round_to(loader, out);
}

// For the message that ends a job with a lost node: the roles that the node had, so that a person
// sees what is missing. When a role reports its own end (h.src is that role), it has named itself,
// and nothing is added.
std::string coordinator::held_by(const header& h, const std::string& node) const {
  std::string names;
  for (const auto& r : config_.plan->roles) {
    const bool part = r.kind == role_kind::stage || r.kind == role_kind::loader || r.kind == role_kind::reducer;  // of a worker
    if (h.src != no_role || part || config_.plan->nodes[r.node].name != node) continue;
    names += (names.empty() ? "; it had " : ", ") + r.name;
  }
  return names;
}

}  // namespace troupe
