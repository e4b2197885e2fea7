#include "runtime/cluster/view/injection.hpp"

#include <algorithm>
#include <array>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

struct fault_descriptor {
  const char* word;
  bool lasts;
  fault_time amount;
};
constexpr std::array<fault_descriptor, fault_kinds> fault_descriptors = {{{"kill", false, fault_time{0}},
                                                                          {"stop", true, fault_time{0}},
                                                                          {"drop", true, fault_time{0}},
                                                                          {"delay", true, fault_time{50}},
                                                                          {"slow-disk", true, fault_time{200}}}};

const fault_descriptor& entry_of(fault_kind k) { return fault_descriptors[static_cast<std::uint8_t>(k)]; }

}  // namespace

const char* text_of(fault_kind k) { return entry_of(k).word; }

std::optional<fault_kind> fault_named(std::string_view word) {
  for (std::uint8_t i = 0; i < fault_kinds; ++i)
    if (word == fault_descriptors[i].word) return fault_kind{i};
  return std::nullopt;
}

std::vector<std::string> fault_words() {
  std::vector<std::string> all;
  for (const auto& r : fault_descriptors) all.emplace_back(r.word);
  return all;
}

bool fault_lasts(fault_kind k) { return entry_of(k).lasts; }
fault_time usual_fault_amount(fault_kind k) { return entry_of(k).amount; }

std::string fault_time_text(fault_time t) {
  const auto n = t.count();
  if (n != 0 && n % 60'000 == 0) return std::to_string(n / 60'000) + " min";
  if (n != 0 && n % 1'000 == 0) return std::to_string(n / 1'000) + " s";
  return std::to_string(n) + " ms";
}

std::string text_of(const injection& i) {
  std::string text = text_of(i.what);
  if (usual_fault_amount(i.what).count() != 0) text += " by " + fault_time_text(i.by);
  if (fault_lasts(i.what)) text += " for " + fault_time_text(i.lasts);
  return text;
}

expected<void> check_fault_times(const injection& i) {
  const auto check = [&](const char* word, fault_time t, fault_time most) -> expected<void> {
    if (t >= shortest_fault_time && t <= most) return {};
    return unexpected(error(std::string(text_of(i.what)) + " " + word + " " + fault_time_text(t) + ": the time must be " +
                            fault_time_text(shortest_fault_time) + " to " + fault_time_text(most)));
  };
  if (fault_lasts(i.what))
    if (auto fine = check("for", i.lasts, longest_fault_time); !fine) return fine;
  if (usual_fault_amount(i.what).count() != 0) return check("by", i.by, largest_fault_amount);
  return {};
}

expected<void> check_injection(const person& who, bool allowed, const cluster_spec& cluster, const injection& i) {
  if (auto fine = check_right(who, right::all, "inject"); !fine) return fine;
  if (!allowed)
    return unexpected(error("inject: the cluster file of " + cluster.name +
                            " does not allow it; set [cluster] inject = true and restart the daemons"));
  std::vector<std::string> names;
  for (const auto& n : cluster.nodes) names.push_back(n.name);
  if (std::find(names.begin(), names.end(), i.node) == names.end())
    return unexpected(error("inject: there is no node " + in_quotes(i.node) + did_you_mean(i.node, names) +
                            " (available: " + joined(names) + ")"));
  return check_fault_times(i).transform_error([](const error& e) { return e.in("inject"); });
}

}  // namespace troupe
