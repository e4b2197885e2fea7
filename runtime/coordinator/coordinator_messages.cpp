// Messages to the coordinator from outside of training: commands of users and the host, and notices
// of lost nodes.
#include <utility>

#include "runtime/coordinator/coordinator.hpp"

namespace troupe {

// --- commands

void coordinator::take_command(const command& c, effects& out) {
  std::visit(overloaded{
                 [&](const pause_command&) { take_pause_command(c.id, out); },
                 [&](const stop_command&) { boundary_.want_stop(hold()); },
                 [&](const checkpoint_command&) {
                   open_commands::add(open_.checkpoint, c.id);
                   boundary_.want_checkpoint(hold());
                 },
                 [&](const eval_command&) { take_eval_command(c.id, out); },
                 [&](const staleness_command&) {
                   open_commands::add(open_.staleness, c.id);
                   begin_observe(out);
                 },
                 [&](const histograms_command&) {
                   open_commands::add(open_.histograms, c.id);
                   request_next_histograms(out);
                 },
                 [&](const mode_command& m) { take_mode_command(m.mode, c.id, out); },
                 [&](const set_option_command& s) { take_option(s, c.id, out); },
                 [&](const set_command& s) { take_setting(s, c.id, out); },
                 [&](const handover_command& h) { take_handover_command(h, out); },
                 [&](const resume_command&) { take_resume_command(c.id, out); },
                 [&](const auto& other) { refuse(std::string("unknown command '") + other.name + "'", out, answers_to(c.id)); },
             },
             c.what);
}

void coordinator::take_pause_command(command_id id, effects& out) {
  if (boundary_.paused()) return find_unchanged(id, out);
  open_commands::add(open_.pause, id);
  boundary_.want_pause(hold());
}

// Withdraws a pause that the job has not reached.
void coordinator::take_resume_command(command_id id, effects& out) {
  time_.last_step = time_.now;
  if (boundary_.resume()) return out.event(completed(), resumed_event{}, answers_to(id));
  if (auto withdrawn = open_commands::take(open_.pause); !withdrawn.empty())
    refuse("the job was resumed before it had paused", out, std::move(withdrawn));
  find_unchanged(id, out);
}

void coordinator::take_eval_command(command_id id, effects& out) {
  if (!boundary_.can_evaluate()) return refuse("the job has no test data, or no tester to evaluate on it", out, answers_to(id));
  open_commands::add(open_.evaluation, id);
  boundary_.want_evaluation(hold());
}

void coordinator::refuse(std::string why, effects& out, std::vector<command_id> answers) const {
  out.event(completed(), refused_event{std::move(why)}, std::move(answers));
}

// The job is already as the command wants it.
void coordinator::find_unchanged(command_id id, effects& out) const {
  if (id != 0) out.event(completed(), unchanged_event{}, {id});
}

// The present mode with another value of an option.
void coordinator::take_option(const set_option_command& s, command_id id, effects& out) {
  mode_choice m{boundary_.mode().name, boundary_.mode().options};
  std::erase_if(m.options, [&](const auto& o) { return o.first == s.option; });
  m.options.emplace_back(s.option, s.value);
  take_mode_command(m, id, out);
}

void coordinator::take_setting(const set_command& s, command_id id, effects& out) {
  const auto from = ledger_.max_granted();
  settings_.push_back({s.key, s.value, from});
  send_setting(settings_.back(), out);
  set_event is{{s.key, s.value}, {}};
  if (s.key == "train.dynamics.lr" && config_.rate) is.rate = lr_of(from);
  out.event(from, std::move(is), answers_to(id));
}

void coordinator::send_setting(const set_value& s, effects& out) const {
  for (auto r : config_.plan->shards) out.send({to(r), s});
  for (auto r : config_.plan->workers) out.send({to(r), s});
}

// From the host: all nodes have the next plan of this job.
void coordinator::take_handover_command(const handover_command& c, effects& out) {
  const auto mode = boundary_.mode().text();
  if (boundary_.changing() || c.mode.text() != mode)
    return refuse_handover("the mode has changed meanwhile (now " + mode + "): repeat the command", out);
  boundary_.want_handover(hold());
}

// From the host: nodes have failed, and the next plan is made without them.
void coordinator::take_surviving_state_command(const surviving_state_command& c, effects& out) {
  const std::set<std::string> lost(c.lost.begin(), c.lost.end());
  if (boundary_.finishing() || written_) return refuse_handover("the job was ending", out);
  if (boundary_.changing()) return refuse_handover("a mode switch was in progress", out);
  if (!started_) return refuse_handover("the job has not started", out);
  const auto enough = check_survivors(*config_.plan, *config_.graph, boundary_.mode().left, lost);
  if (!enough) return refuse_handover(enough.error().text, out);
  if (!left_) left_.emplace(what_is_left{surviving_state(config_.plan), {}, {}});
  left_->lost = lost;
  left_->step.reset();
  left_->all.begin(lost);
  quiesce what{left_->all.request()};
  for (std::uint32_t w = 0; w < config_.plan->workers.size(); ++w)
    if (lives(w)) what.living.push_back(w);
  for (auto r : left_->all.asked()) out.send({to(r), what});
}

// Returns true if the worker's node is not among the failed ones.
bool coordinator::lives(std::uint32_t worker) const {
  const auto& plan = *config_.plan;
  return !left_->lost.contains(plan.nodes[plan[plan.workers[worker]].node].name);
}

void coordinator::refuse_handover(std::string why, effects& out) const {
  out.event(completed(), handover_refused_event{std::move(why)});
}

void coordinator::take_mode_command(const mode_choice& m, command_id id, effects& out) {
  if (!config_.find_mode) return refuse("this job's mode is fixed", out, answers_to(id));
  if (boundary_.handing_over()) return refuse("layers are being moved", out, answers_to(id));
  if (boundary_.changing())
    return refuse("a switch to mode '" + boundary_.wanted_mode().value_or(boundary_.mode()).name + "' is under way", out,
                  answers_to(id));
  if (config_.plan->through_reducers())
    return refuse("with reducer = \"" + config_.reducer + "\" the mode is fixed: no other mode supports it", out, answers_to(id));
  if (config_.plan->server_groups > 1) return refuse("with several server groups the mode is fixed", out, answers_to(id));
  auto found = config_.find_mode(m.name, m.options);
  if (!found) return refuse(found.error().text, out, answers_to(id));
  if (found->work_unit > 0 || dealer_.deals())
    return refuse("a job cannot switch to or from sandblaster: its work units are dealt from the first step on", out,
                  answers_to(id));
  open_commands::add(open_.mode, id);
  boundary_.want_mode(*std::move(found), hold());
}

// --- roles that are ready

void coordinator::take_ready(const header& h, const ready& r, effects& out) {
  if (index_of(h.src) >= config_.plan->roles.size()) return drop(drop_reason::misaddressed);
  const auto& who = (*config_.plan)[h.src];
  const auto answers = boundary_.answers();
  switch (r.what) {
    case ready::what_of::flushed:
      if (who.kind != role_kind::shard) return drop(drop_reason::misaddressed);
      if (!boundary_.flushed(h.src, r.round, config_.plan->shards.size(), completed()) && boundary_.answers() == answers)
        drop(drop_reason::outdated);
      return;
    case ready::what_of::adopted:
      if (who.kind != role_kind::worker) return drop(drop_reason::misaddressed);
      if (boundary_.adopted(h.src, h.mode_epoch, config_.plan->workers.size()))
        switched(out);
      else if (boundary_.answers() == answers)
        drop(drop_reason::outdated);
      return;
    case ready::what_of::copied: return drop(drop_reason::unexpected);
    case ready::what_of::work_unit:
      return who.kind == role_kind::worker ? take_work_unit_done(who.worker, h.step, r) : drop(drop_reason::misaddressed);
  }
}

// For the error that ends a job with a lost node: the roles of the node, as a suffix.
std::string coordinator::held_by(const std::string& node) const {
  std::string names;
  for (const auto& r : config_.plan->roles) {
    const bool part = r.kind == role_kind::stage || r.kind == role_kind::loader || r.kind == role_kind::reducer;  // of a worker
    if (part || config_.plan->nodes[r.node].name != node) continue;
    names += (names.empty() ? "; it hosted " : ", ") + r.name;
  }
  return names;
}

}  // namespace troupe
