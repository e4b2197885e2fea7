#include "runtime/node/executor/checker.hpp"

#include "runtime/base/wording.hpp"
#include "runtime/job/copy.hpp"
#include "runtime/node/executor/file_states.hpp"

namespace troupe::control {

checker::checker(job_place at, std::shared_ptr<job_preparer> plans, std::shared_ptr<state_store> states)
    : at_(std::move(at)),
      plans_(plans ? std::move(plans) : std::make_shared<node_preparer>(at_)),
      states_(states ? std::move(states) : std::make_shared<file_states>(at_)) {}

checked checker::check(const check_text& asked) const {
  checked c;
  auto what = asked;
  const auto wrong = [&](const diagnostics& bad) {
    for (const auto& d : bad) c.messages.push_back(d.to_string());
    return c;
  };
  const auto read = plans_->first(what.job, what.what);
  if (!read) return wrong(read.error());
  auto notes = std::vector<std::string>();
  auto found = look_for_checkpoints(*read->job, what, notes);
  if (!found) return wrong(found.error());
  if (*found) {
    what.given = **found;
    what.received = true;
  }
  auto job = read->job;
  if (what.received) {
    const auto own = copy_of(*job);
    job = own;
    if (const auto begun = states_->begin(*own, what.job, what.given, what.what.overrides); !begun) {
      c.messages.push_back(begun.error().to_string());
      if (*found) states_->drop(what.job);  // the controller does not know of it
      return c;
    }
  }
  c = facts_of(*job);
  c.notes = std::move(notes);
  c.alert = advice_on_replicas(*job, at_.self);
  c.found = std::move(*found);
  return c;
}

// Checks that the checkpoint folder is writable. With resume = "auto" also looks for a checkpoint
// to start from, which is then at its given_path(), as if the client had uploaded it.
expected<std::optional<given_file>, diagnostics> checker::look_for_checkpoints(const prepared_job& j, const check_text& what,
                                                                               std::vector<std::string>& notes) const {
  const auto& c = j.spec.checkpoint;
  const auto wrong = [&](const char* key, const error& why) {
    return unexpected(diagnostics{{position_of(c.key_at, key, c.at), why.in("[checkpoint]: '" + std::string(key) + "'").text}});
  };
  if (j.plan.nodes[j.plan.roles.front().node].name == at_.self)
    if (const auto fine = states_->check_place(j); !fine) return wrong("dir", fine.error());
  if (c.resume != "auto" || what.received || what.given.kind != given_file::nothing) return std::nullopt;
  auto newest = states_->take_newest(j, what.job, what.owner, notes);
  if (!newest) return wrong("resume", newest.error());
  return *std::move(newest);
}

}  // namespace troupe::control
