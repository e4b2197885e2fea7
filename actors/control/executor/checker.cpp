#include "actors/control/executor/checker.hpp"

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
  auto chosen = resolved(what, *read);
  if (!chosen) return wrong(chosen.error());
  auto& s = *chosen;
  if (what.received) {
    if (const auto begun = begin_with_given(at_, *s.job, what.job, what.given, what.what.overrides); !begun) {
      c.messages.push_back(begun.error().to_string());
      return c;
    }
  }
  c = facts_of(*s.job);
  c.overrides = overrides_of(s.chosen);
  c.notes = std::move(s.warnings);
  c.notes.insert(c.notes.end(), notes.begin(), notes.end());
  c.alert = advice_on_replicas(*s.job, at_.self);
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
  auto newest = take_newest(at_, j, what.job, notes);
  if (!newest) return wrong("resume", newest.error());
  return *std::move(newest);
}

// A resumed job with measured convolutions retains those of its checkpoint.
expected<resolved_convolutions, diagnostics> checker::resolved(const check_text& what, std::shared_ptr<prepared_job> j) const {
  const auto measure = [&]() -> expected<resolved_convolutions, diagnostics> {
    auto r = resolve_convolutions(j, *dev_);
    if (!r) return unexpected(std::move(r).error());
    return *std::move(r);
  };
  if (what.given.kind != given_file::checkpoint || j->spec.convolution != "measured") return measure();
  if (!what.received) return resolved_convolutions{j, {}, {}, {}};
  auto read = load_checkpoint(given_path(at_, what.job).string());
  const auto table = read ? conv_table_from(kept_convolutions(read->extra)) : std::nullopt;
  if (!table || table->empty()) return measure();
  auto with = with_convolutions(*j, *table);
  if (!with) return unexpected(std::move(with).error());
  return resolved_convolutions{*with, *table, {}, {}};
}

}  // namespace troupe::control
