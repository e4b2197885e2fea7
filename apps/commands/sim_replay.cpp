#include "apps/commands/sim_replay.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/troupe_job.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/post_mortem.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/sha256.hpp"
#include "runtime/replay/player.hpp"

namespace troupe {
namespace {

using replay_json = nlohmann::ordered_json;

struct replay_parts {
  std::vector<post_mortem> all;  // one for each node, of one plan of one job
  std::shared_ptr<prepared_job> job;
};

// An error if the folders do not belong together, or one of them cannot be replayed.
expected<void, record_error> check_same_job(const std::vector<std::string>& folders, const std::vector<post_mortem>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& m = all[i];
    if (m.messages.job != all[0].messages.job || m.plan_generation != all[0].plan_generation)
      return unexpected(record_error{folders[i], {}, "it belongs to another plan than " + folders[0]});
    for (std::size_t k = 0; k < i; ++k)
      if (all[k].messages.node == m.messages.node)
        return unexpected(
            record_error{folders[i], {}, "it belongs to node " + m.messages.node + ", and " + folders[k] + " does too"});
    if (auto fine = check_replay(m); !fine) return unexpected(record_error{folders[i], {}, std::move(fine).error().text});
  }
  return {};
}

// Gives the job the state that the failed run began with.
expected<void, record_error> begin_like(prepared_job& j, const std::vector<post_mortem>& all, const std::string& numerics) {
  const auto& first = all.front().begins;
  if (first.kind == plan_beginning::with::fillers) return {};
  const auto named = std::find_if(all.begin(), all.end(), [](const post_mortem& m) { return !m.begins.file.empty(); });
  if (named == all.end())
    return unexpected(record_error{
        "--replay", {}, "the initial file of the job is named in the folder of the coordinator role's node: add that folder"});
  const auto& b = named->begins;
  if (b.sha256.empty())
    return unexpected(record_error{b.file, {}, "the job began with this file, but the file had changed when the job failed"});
  const auto read = read_file(b.file);
  if (!read) return unexpected(record_error{b.file, {}, "the job began with this file: " + read.error().text});
  const auto& bytes = *read;
  if (sha256_hex(bytes.data.get(), bytes.bytes) != b.sha256)
    return unexpected(record_error{b.file, {}, "the job began with this file, but it has changed since"});
  if (b.kind == plan_beginning::with::checkpoint) return resume_from(j, b.file, numerics, named->what.overrides);
  auto from = begin_from_weights(j, b.file);
  if (!from) return unexpected(std::move(from).error());
  return {};
}

expected<std::shared_ptr<prepared_job>, diagnostics> prepared_like(const post_mortem& m) {
  auto made = prepare_text(m.what, std::make_shared<const tables>(node_tables()), m.nodes);
  if (made && m.chosen) choose(**made, *m.chosen);
  if (m.changes == amendments{} || !made) return made;
  return prepare_again(*made, m.changes);
}

const replay::role_part* part_of(const std::vector<post_mortem>& all, role_id r) {
  for (const auto& m : all)
    for (const auto& p : m.messages.roles)
      if (p.id == r) return &p;
  return nullptr;
}

class replay_run {
 public:
  replay_run(const replay_parts& p, device& dev, const output& out) : p_(p), out_(out), player_(dev, p.job->id) {
    for (const auto& r : p.job->plan.roles) player_.add(make_role(p.job, r.id), r.name, r.node, part_of(p.all, r.id));
    player_.on_event = [this](role_id r, const event_effect& e) { handle_event(r, e); };
    player_.on_store = [this](const store_effect& s) {
      if (s.what == store_effect::kind_of::weights) weights_ = weights_sha256(s.named);
    };
  }

  int finish() {
    introduce();
    const auto end = player_.run();
    for (const auto& f : end.failures) failed("role " + p_.job->plan[f.who].name + ": " + f.text, f.step);
    const auto& first = p_.all.front();
    const bool came = std::any_of(errors_.begin(), errors_.end(), [&](const std::string& e) { return is(e, first) || of_log(e); });
    replay_json o{{"event", "replayed"},
                  {"followed", end.departures.empty()},
                  {"messages", end.delivered},
                  {"lost", end.lost},
                  {"step", step_},
                  {"loss", loss_},
                  {"came_again", came},
                  {"departures", end.departures}};
    if (!weights_.empty()) o["weights_sha256"] = weights_;
    if (out_.json()) out_.object(o);
    std::string s = with_commas(end.delivered) + " messages; the last step was " + with_commas(step_) +
                    (step_ > p_.job->first_step ? ", its loss " + fixed(loss_, 4) : "") + "\n";
    s += came ? "The error occurred again.\n" : "The error did not occur again: " + first.where + ": " + first.error + "\n";
    if (end.lost > 0) s += with_commas(end.lost) + " messages were sent but are not in the logs: they were lost in transit\n";
    out_.text(s);
    for (const auto& d : end.departures) out_.failed("--replay", "departs from the log at " + d);
    return end.departures.empty() ? exit_done : exit_failed;
  }

 private:
  // Returns true if the replayed error `told` is the recorded one. Errors that a daemon reports
  // itself (a node failure, a hung role) have no prefix of a role.
  static bool is(const std::string& announced, const post_mortem& m) {
    return announced == m.error || announced == "role " + m.where + ": " + m.error || announced.ends_with(": " + m.error) ||
           m.error.ends_with(announced);
  }

  // Returns true if `told` is a failure that the log of its role has. The recorded error may be of
  // a later failure, if the failed role was restarted and failed again.
  bool of_log(const std::string& announced) const {
    for (const auto& m : p_.all)
      for (const auto& r : m.messages.roles)
        if (!r.failure.empty() && index_of(r.id) < p_.job->plan.roles.size() &&
            announced == "role " + p_.job->plan[r.id].name + ": " + r.failure)
          return true;
    return false;
  }

  void introduce() {
    out_.text(job_summary(*p_.job));
    std::string missing;
    for (const auto& n : p_.job->plan.nodes) {
      const bool has = std::any_of(p_.all.begin(), p_.all.end(), [&](const post_mortem& m) { return m.messages.node == n.name; });
      if (!has) missing += (missing.empty() ? "" : ", ") + n.name;
    }
    if (!missing.empty()) out_.remark("no folder of " + missing + " was given: roles on these nodes run in any order");
    const auto mode = mode_text(*p_.job);
    if (mode.starts_with("hogwild"))
      out_.remark(
          "hogwild accesses its array without a lock, in an order that no log records: numbers may differ from the failed run");
  }

  void handle_event(role_id who, const event_effect& e) {
    if (const auto* bad = e.as<error_event>()) return failed(bad->message, e.step);
    const auto* s = e.as<step_event>();
    if (s) {
      step_ = e.step;
      loss_ = s->loss;
    }
    if (!s || out_.json()) tell(who, e);
  }

  void failed(const std::string& text, std::uint64_t step) {
    errors_.push_back(text);
    out_.json() ? out_.object({{"event", "error_again"}, {"step", step}, {"message", text}})
                : out_.text("error at step " + with_commas(step) + ": " + text + "\n");
  }

  void tell(role_id who, const event_effect& e) const {
    const auto flat = flatten(e);
    replay_json o{{"event", name_of(e).name}, {"step", e.step}, {"role", p_.job->plan[who].name}};
    for (const auto& [name, value] : flat.values) o[name] = value;
    if (out_.json()) return out_.object(o);
    out_.text(std::string(name_of(e).name) + " at step " + with_commas(e.step) + (flat.message.empty() ? "" : ": " + flat.message) +
              "\n");
  }

  const replay_parts& p_;
  const output& out_;
  replay::player player_;
  std::uint64_t step_ = 0;
  double loss_ = 0;
  std::string weights_;
  std::vector<std::string> errors_;
};

}  // namespace

int run_replay(const std::vector<std::string>& folders, const std::shared_ptr<device>& dev, const output& out) {
  replay_parts p;
  for (const auto& f : folders) {
    auto read = read_post_mortem(f);
    if (!read) return wrong_file(out, read.error());
    p.all.push_back(*std::move(read));
  }
  if (const auto ok = check_same_job(folders, p.all); !ok) return wrong_file(out, ok.error());
  auto made = prepared_like(p.all.front());
  if (!made) return out.wrong(made.error());
  p.job = *made;
  p.job->id = p.all.front().job;
  if (plan_hash(p.job->plan) != p.all.front().messages.job)
    return out.wrong(folders.front(), "this build makes another plan for the job, or the job's data have changed");
  if (const auto ok = begin_like(*p.job, p.all, dev->numerics_id()); !ok) return wrong_file(out, ok.error());
  return replay_run(p, *dev, out).finish();
}

}  // namespace troupe
