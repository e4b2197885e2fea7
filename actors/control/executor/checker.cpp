#include "actors/control/executor/checker.hpp"

#include <filesystem>
#include <system_error>

#include "runtime/base/wording.hpp"
#include "runtime/job/record.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/checkpoint_home.hpp"

namespace troupe::control {

checked checker::check(const check_text& asked) const {
  checked c;
  auto what = asked;
  const auto wrong = [&](const diagnostics& bad) {
    for (const auto& d : bad) c.messages.push_back(d.to_string());
    return c;
  };
  const auto read = read_job(at_, what.what);
  if (!read) return wrong(read.error());
  auto notes = std::vector<std::string>();
  auto found = look_for_checkpoints(**read, what, notes);
  if (!found) return wrong(found.error());
  if (*found) {
    what.given = **found;
    what.received = true;
  }
  auto& job = **read;
  if (what.received) {
    if (const auto begun = begin_with_given(at_, job, what.job, what.given, what.what.overrides); !begun) {
      c.messages.push_back(begun.error().to_string());
      std::error_code ignored;
      if (*found) std::filesystem::remove(given_path(at_, what.job), ignored);  // the controller does not know of it
      return c;
    }
  }
  c = facts_of(job);
  c.notes = std::move(notes);
  c.alert = advice_on_replicas(job, at_.self);
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
  if (!c.dir.empty() && j.plan.nodes[j.plan.roles.front().node].name == at_.self)
    if (const auto fine = check_home(c.dir, j.spec.name); !fine) return wrong("dir", fine.error());
  if (c.resume != "auto" || what.received || what.given.kind != given_file::nothing) return std::nullopt;
  auto newest = take_newest(at_, j, what.job, what.owner, notes);
  if (!newest) return wrong("resume", newest.error());
  return *std::move(newest);
}

}  // namespace troupe::control
