// The job executor's actor: detached, one order at a time.
#include "actors/control/executor/job_folders.hpp"
#include "actors/control/host/actors.hpp"
#include "actors/view/failed_job.hpp"

namespace troupe::control {
namespace {

// Restored jobs, by the ids that the cluster controller gives them.
std::map<std::uint32_t, unfinished_job> taken_up_of(const shared& s) {
  std::map<std::uint32_t, unfinished_job> jobs;
  for (const auto& j : s.book ? s.book->found().jobs : std::vector<unfinished_job>())
    if (begins_with(j).kind != given_file::nothing) jobs[std::uint32_t{tag_of(s)} << 16 | j.number] = j;
  return jobs;
}

class executor_actor final : public compat::base_actor {
 public:
  executor_actor(caf::actor_config& c, shared& s)
      : compat::base_actor(c),
        s_(s),
        keep_({job_place_of(s), *s.host, s.route, s.dev, taken_up_of(s), s.faults.pace(), &s.memory, s.coordinates()}) {
    compat::ignore_unknown(*this);
    remove_old_folders();
  }
  const char* name() const override { return "executor"; }
  caf::behavior make_behavior() override {
    return {[this](const executor_note& n) {
      s_.executor_clock.mine();
      try {
        std::visit([this](const auto& x) { take(x); }, n.what);
      } catch (const std::exception& e) {  // out of memory; the missing answer has a deadline
        s_.log(std::string("executor: ") + e.what());
      }
    }};
  }

 private:
  template <class T>
  void answer(T what) {
    s_.control.post(control_note{std::move(what)});
  }
  void take(const keep_piece& x) { answer(piece_done{x.job, keep_.keep(x)}); }
  void take(const drop_given& x) { keep_.drop(x.job); }
  void take(const make_roles& x) {
    auto error = keep_.make(x.what);
    if (const auto r = keep_.running_of(x.what.job); r && s_.runs && error.empty())
      s_.runs->begin(number_of(x.what.job), r->made, s_.numerics);
    answer(make_done{x.what.job, std::move(error)});
  }
  void take(const end_run& x) { s_.runs->end(x.number, x.last, x.weights); }
  void take(const end_roles& x) {
    const auto last = x.why.error.empty() ? nullptr : failed_now(x.job);
    keep_.end(x.job);
    std::string folder;
    if (last) {
      if (before_ && !last->replays()) leave(x.why, *before_);
      folder = leave(x.why, *last);
    }
    before_.reset();
    s_.release_all_unused();
    answer(end_done{x.job, std::move(folder)});
    remove_old_folders();
  }
  void remove_old_folders() const {
    if (const auto n = keep_.remove_old_folders(); n > 0)
      s_.log("removed the folders of " + std::to_string(n) + " jobs that are over; the newest " + std::to_string(keep_job_folders) +
             " stay");
  }
  void take(const check_move& x) { answer(keep_.amend(x)); }
  void take(const make_plan_order& x) { answer(revise_done{x.what.what.job, x.what.plan_generation, keep_.revise(x.what)}); }
  // The running plan, for a post-mortem. A plan that restarted after a role failure starts from
  // shard state and cannot be replayed; the plan before it can (before_).
  std::unique_ptr<failed_job> failed_now(std::uint32_t job) const {
    auto r = keep_.running_of(job);
    if (!r) return nullptr;
    return std::make_unique<failed_job>(*s_.host, std::move(r->made), std::move(r->from));
  }
  // Returns the folder; empty: it could not be written.
  std::string leave(const end_job& why, const failed_job& what) const {
    const auto kept = what.write(why.where, why.error, why.step, s_.said.after(0, number_of(why.job)));
    const auto* bad = std::get_if<record_error>(&kept);
    s_.log("job " + std::to_string(number_of(why.job)) +
           (bad ? ": no post-mortem: " + bad->to_string() : " has failed; post-mortem: " + std::get<std::string>(kept)));
    return bad ? std::string() : std::get<std::string>(kept);
  }
  void remember(std::uint32_t job) {
    if (auto now = failed_now(job); now && now->replays()) before_ = std::move(now);
  }
  void take(const swap_roles& x) {
    remember(x.what.job);
    answer(swap_roles_done{x.what.job, x.what.plan_generation, keep_.swap(x.what)});
  }
  void take(const drop_beginning& x) { keep_.drop_beginning_of(x.job); }
  void take(const forget_plan& x) { keep_.forget(x.job, x.plan_generation); }
  void take(const probe&) { answer(probe_back{watched_actor::job_executor}); }
  void take(const store_in& x) {
    if (x.what.what == kept_kind::handover)
      keep_.hand_over(x.job, x.what);
    else if (x.left_out)
      answer(save_done{{x.job, x.what.what, {}, {}, "left out: two earlier ones are still being written"}});
    else
      answer(save_done{keep_.save(x.job, x.what)});
  }

  shared& s_;
  job_executor keep_;
  std::unique_ptr<failed_job> before_;  // the job's last plan that can be replayed
};

}  // namespace

caf::actor spawn_executor(caf::actor_system& system, shared& s) { return system.spawn<executor_actor, caf::detached>(s); }

}  // namespace troupe::control
