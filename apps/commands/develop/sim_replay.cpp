#include "apps/commands/develop/sim.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/commands/job.hpp"
#include "apps/commands/look/recorded_plans.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

using replay_json = nlohmann::ordered_json;

class replay_run {
 public:
  replay_run(const recorded_plan& p, device& dev, const output& out) : p_(p), out_(out), player_(make_player(p, dev)) {
    player_->on_event = [this](role_id r, const event_effect& e) { handle_event(r, e); };
    player_->on_store = [this](const store_effect& s) {
      if (s.what == store_effect::kind_of::weights) weights_ = weights_sha256(s.named);
    };
  }

  int finish() {
    introduce();
    while (!stdout_unread() && player_->step()) {
    }
    if (stdout_unread()) return exit_done;
    const auto end = player_->end();
    for (const auto& f : end.failures) failed("role " + p_.job->plan[f.who].name + ": " + f.text, f.step);
    const auto& first = p_.first();
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
    for (const auto& m : p_.nodes)
      for (const auto& r : m.messages.roles)
        if (!r.failure.empty() && index_of(r.id) < p_.job->plan.roles.size() &&
            announced == "role " + p_.job->plan[r.id].name + ": " + r.failure)
          return true;
    return false;
  }

  void introduce() {
    out_.text(job_summary(*p_.job));
    for (const auto& l : limits_of_replay(p_)) out_.remark(l);
  }

  void handle_event(role_id who, const event_effect& e) {
    if (const auto* bad = e.as<error_event>()) return failed(bad->message, e.step);
    const auto* s = e.as<step_event>();
    if (s) {
      step_ = e.step;
      loss_ = s->loss;
    }
    if (!s || out_.json()) tell_replayed(out_, *p_.job, who, e);
  }

  void failed(const std::string& text, std::uint64_t step) {
    errors_.push_back(text);
    out_.json() ? out_.object({{"event", "error_again"}, {"step", step}, {"message", text}})
                : out_.text("error at step " + with_commas(step) + ": " + text + "\n");
  }

  const recorded_plan& p_;
  const output& out_;
  const std::unique_ptr<replay::player> player_;
  std::uint64_t step_ = 0;
  double loss_ = 0;
  std::string weights_;
  std::vector<std::string> errors_;
};

}  // namespace

int run_replay(const std::vector<std::string>& folders, bool load_plugins, const std::shared_ptr<device>& dev, const output& out) {
  recorded_plan p;
  for (const auto& f : folders) {
    auto read = read_post_mortem(f);
    if (!read) return unreadable(out, read.error());
    read->what.load_plugins = load_plugins;
    p.nodes.push_back(*std::move(read));
    p.folders.push_back(f);
  }
  if (const auto code = prepare_to_replay(p, *dev, out); code != exit_done) return code;
  return replay_run(p, *dev, out).finish();
}

}  // namespace troupe
