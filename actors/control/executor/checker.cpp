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
  auto m = read_job(at_, what.what);
  if (const auto* bad = std::get_if<diagnostics>(&m)) return wrong(*bad);
  auto notes = std::vector<std::string>();
  std::optional<given_file> found;
  if (const auto bad = look_for_checkpoints(*std::get<std::shared_ptr<prepared_job>>(m), what, found, notes)) return wrong({*bad});
  auto chosen = resolved(what, std::get<std::shared_ptr<prepared_job>>(m));
  if (const auto* bad = std::get_if<diagnostics>(&chosen)) return wrong(*bad);
  auto& s = std::get<resolved_convolutions>(chosen);
  if (what.received) {
    if (const auto bad = begin_with_given(at_, *s.job, what.job, what.given, what.what.overrides)) {
      c.messages.push_back(bad->to_string());
      return c;
    }
  }
  c = facts_of(*s.job);
  c.overrides = overrides_of(s.chosen);
  c.notes = std::move(s.warnings);
  c.notes.insert(c.notes.end(), notes.begin(), notes.end());
  c.alert = advice_on_replicas(*s.job, at_.self);
  c.found = std::move(found);
  return c;
}

// Checks that the checkpoint folder is writable. With resume = "auto" also looks for a checkpoint
// to start from; `what` then names it, as if the client had uploaded it.
std::optional<diagnostic> checker::look_for_checkpoints(const prepared_job& j, check_text& what, std::optional<given_file>& found,
                                                        std::vector<std::string>& notes) const {
  const auto& c = j.spec.checkpoint;
  const auto at = [&](const char* key) { return position_of(c.key_at, key, c.at); };
  if (!c.dir.empty() && j.plan.nodes[j.plan.roles.front().node].name == at_.self)
    if (auto why = why_no_home(c.dir, j.spec.name); !why.empty()) return diagnostic{at("dir"), "[checkpoint]: 'dir': " + why};
  if (c.resume != "auto" || what.received || what.given.kind != given_file::nothing) return std::nullopt;
  auto newest = take_newest(at_, j, what.job, notes);
  if (auto* why = std::get_if<std::string>(&newest)) return diagnostic{at("resume"), "[checkpoint]: 'resume': " + *why};
  found = std::get<std::optional<given_file>>(std::move(newest));
  if (!found) return std::nullopt;
  what.given = *found;
  what.received = true;
  return std::nullopt;
}

// A resumed job with measured convolutions retains those of its checkpoint.
std::variant<resolved_convolutions, diagnostics> checker::resolved(const check_text& what, std::shared_ptr<prepared_job> j) const {
  if (what.given.kind != given_file::checkpoint || j->spec.convolution != "measured") return resolve_convolutions(j, *dev_);
  if (!what.received) return resolved_convolutions{j, {}, {}, {}};
  auto read = load_checkpoint(given_path(at_, what.job).string());
  const auto* c = std::get_if<checkpoint>(&read);
  const auto table = c ? conv_table_from(kept_convolutions(c->extra)) : std::nullopt;
  if (!table || table->empty()) return resolve_convolutions(j, *dev_);
  auto with = with_convolutions(*j, *table);
  if (auto* bad = std::get_if<diagnostics>(&with)) return std::move(*bad);
  return resolved_convolutions{std::get<std::shared_ptr<prepared_job>>(with), *table, {}, {}};
}

}  // namespace troupe::control
