// Formats the staleness of a job's weights.
#include "actors/repl/tables.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/text_table.hpp"

namespace troupe {

using namespace repl_text;

std::string repl_staleness_text(const staleness_event& e) {
  const auto& entries = e.parameters;
  if (entries.empty()) return "no data: no step has used weights yet";
  constexpr std::uint64_t shown = 8;
  std::uint64_t most = 0;
  for (const auto& r : entries) most = std::max(most, r.reads.empty() ? 0 : r.reads.rbegin()->first);
  std::vector<std::string> head = {"parameter", "reads", "mean", "oldest"};
  for (std::uint64_t c = 0; c <= std::min(most, shown - 1); ++c) head.push_back(std::to_string(c));
  if (most >= shown) head.push_back(std::to_string(shown) + "+");
  text_table t(head);
  for (const auto& r : entries) {
    std::vector<std::string> entry = {r.parameter, number(r.count()), fixed_text(r.mean(), 2),
                                      number(r.reads.empty() ? 0 : r.reads.rbegin()->first)};
    std::vector<std::uint64_t> counts(head.size() - entry.size(), 0);
    for (const auto& [clocks, times] : r.reads) counts[std::min(clocks, shown)] += times;
    for (auto n : counts) entry.push_back(number(n));
    t.add(std::move(entry));
  }
  return t.text();
}

}  // namespace troupe
