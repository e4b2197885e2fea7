#include "actors/control/checker.hpp"

#include "runtime/job/record.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe::control {

checked checker::check(const check_text& what) const {
  checked c;
  const auto wrong = [&](const diagnostics& bad) {
    for (const auto& d : bad) c.messages.push_back(d.to_string());
    return c;
  };
  auto m = read_job(at_, what.what);
  if (const auto* bad = std::get_if<diagnostics>(&m)) return wrong(*bad);
  auto chosen = settled(what, std::get<std::shared_ptr<prepared_job>>(m));
  if (const auto* bad = std::get_if<diagnostics>(&chosen)) return wrong(*bad);
  auto& s = std::get<settled_convolutions>(chosen);
  if (what.received) {
    if (const auto bad = begin_with_given(at_, *s.job, what.job, what.given, what.what.overrides)) {
      c.messages.push_back(bad->to_string());
      return c;
    }
  }
  c = facts_of(*s.job);
  c.overrides = overrides_of(s.chosen);
  c.notes = std::move(s.warnings);
  return c;
}

// A job with measured convolutions goes on with those of its checkpoint.
std::variant<settled_convolutions, diagnostics> checker::settled(const check_text& what, std::shared_ptr<prepared_job> j) const {
  if (what.given.kind != given_file::checkpoint || j->spec.convolution != "measured") return settle_convolutions(j, *dev_);
  if (!what.received) return settled_convolutions{j, {}, {}, {}};
  auto read = load_checkpoint(given_path(at_, what.job).string());
  const auto* c = std::get_if<checkpoint>(&read);
  const auto table = c ? conv_table_from(kept_convolutions(c->extra)) : std::nullopt;
  if (!table || table->empty()) return settle_convolutions(j, *dev_);
  auto with = with_convolutions(*j, *table);
  if (auto* bad = std::get_if<diagnostics>(&with)) return std::move(*bad);
  return settled_convolutions{std::get<std::shared_ptr<prepared_job>>(with), *table, {}, {}};
}

}  // namespace troupe::control
