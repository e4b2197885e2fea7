#include "ops/check_layer.hpp"

#include <algorithm>

#include "ops/check_layer_checker.hpp"

namespace troupe {

std::vector<std::string> layer_checker::run() {
  const pass_values values = random_values(0);
  check_inputs();
  check_contract(values);
  if (findings_.empty() && differentiable()) {
    check_gradients();
    check_skipping(values);
    check_accumulate(values);
  }
  if (findings_.empty()) {
    check_statistics(values);
    check_purity();
    check_f32(values);
    check_f32(random_values(1, spread::wide));
    if (takes_bf16_) check_bf16(values);
    if (layer_.in_place()) check_in_place(values);
    if (layer_.gathered()) check_gathered();
    check_mean_weight(values);
    check_test_phase(values);
  }
  return std::move(findings_);
}

layer_coverage& layer_coverage::operator+=(const layer_coverage& more) {
  compared += more.compared;
  elements += more.elements;
  kinks += more.kinks;
  draws += more.draws;
  low = std::min(low, more.low);
  high = std::max(high, more.high);
  return *this;
}

std::vector<std::string> check_layer(const layer_type& type, const layer_case& c, device& dev, const layer_check& how,
                                     layer_coverage* seen) {
  try {
    const auto made = type.make(check_options(c.given, type.specs));
    layer_checker checker(*made, type.takes_bf16, c, dev, how);
    auto findings = checker.run();
    if (seen != nullptr) *seen += checker.seen();
    return findings;
  } catch (const option_error& e) {
    return {std::string("options: ") + e.what()};
  } catch (const shape_error& e) {
    return {std::string("infer(): ") + e.what()};
  }
}

std::vector<std::string> check_layer_entry(const layer_type& type) {
  std::vector<std::string> all;
  if (type.doc.empty()) all.push_back("the entry has no documentation");
  for (const auto& s : type.specs)
    if (s.doc.empty()) all.push_back("option '" + s.name + "' has no documentation");
  if (type.cases.size() < 5) all.push_back("fewer than five cases");
  for (const auto& c : type.cases) {
    const auto inputs = static_cast<int>(c.in.size());
    if (inputs < type.min_inputs || inputs > type.max_inputs)
      all.push_back("case '" + c.name + "': " + std::to_string(inputs) + " inputs, the entry allows " +
                    std::to_string(type.min_inputs) + " to " + std::to_string(type.max_inputs));
  }
  return all;
}

std::vector<std::string> check_layer_type(const layer_type& type, device& dev, const layer_check& how) {
  auto all = check_layer_entry(type);
  for (const auto& c : type.cases)
    for (const auto& finding : check_layer(type, c, dev, how)) all.push_back("case '" + c.name + "': " + finding);
  return all;
}

}  // namespace troupe
