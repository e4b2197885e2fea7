#include "ops/conv_algorithm.hpp"

#include <algorithm>
#include <cassert>

#include "ops/cpu/bf16x3.hpp"
#include "ops/cpu/onednn.hpp"

namespace troupe {

namespace {

struct row {
  const char* name;
  conv_algorithm algorithm;
};
constexpr row rows[] = {
    {"auto", conv_algorithm::automatic},      {"lowering1", conv_algorithm::lowering1}, {"lowering2", conv_algorithm::lowering2},
    {"lowering3", conv_algorithm::lowering3}, {"direct", conv_algorithm::direct},       {"winograd", conv_algorithm::winograd},
    {"winograd4", conv_algorithm::winograd4}, {"onednn", conv_algorithm::onednn},       {"bf16x3", conv_algorithm::bf16x3}};

}  // namespace

std::vector<std::string> conv_algorithm_names() {
  std::vector<std::string> names;
  for (const auto& r : rows) names.emplace_back(r.name);
  return names;
}

conv_algorithm conv_algorithm_named(std::string_view name) {
  for (const auto& r : rows)
    if (name == r.name) return r.algorithm;
  assert(false);
  return conv_algorithm::automatic;
}

std::string name_of(conv_algorithm a) {
  for (const auto& r : rows)
    if (a == r.algorithm) return r.name;
  return {};
}

const char* name_of(conv_pass p) {
  return p == conv_pass::forward ? "forward" : p == conv_pass::backward_data ? "data" : "weights";
}

conv_algorithm algorithm_of(const conv_geometry& g, conv_pass p) {
  if (p == conv_pass::backward_data) return g.algorithm_data.value_or(g.algorithm);
  return p == conv_pass::backward_weights ? g.algorithm_weights.value_or(g.algorithm) : g.algorithm;
}

conv_choice choice_of(const conv_geometry& g) {
  conv_choice c;
  for (const auto p : conv_passes_all) c[p] = algorithm_of(g, p);
  return c;
}

bool blocks_between(const conv_geometry& from, const conv_geometry& to) {
  constexpr std::int64_t widest_block = 16;
  bool all = from.outputs % widest_block == 0;
  for (const auto p : conv_passes_all)
    for (const auto& g : {from, to}) all = all && algorithm_of(g, p) == conv_algorithm::onednn;
  return all;
}

bool has_f64(conv_algorithm a) {
  return a == conv_algorithm::lowering1 || a == conv_algorithm::lowering2 || a == conv_algorithm::lowering3;
}

std::string why_not(conv_algorithm a, const conv_geometry& g) {
  if (a == conv_algorithm::onednn) return cpu::onednn_id().empty() ? "this build has no oneDNN" : "";
  if (a == conv_algorithm::bf16x3) return cpu::bf16x3_here() == nullptr ? "this machine has no matrix unit for bf16 (AMX)" : "";
  if (a != conv_algorithm::winograd && a != conv_algorithm::winograd4) return {};
  const bool five = a == conv_algorithm::winograd;
  const bool fits = g.kernel_h == g.kernel_w && (g.kernel_h == 3 || (five && g.kernel_h == 5)) && g.unit_stride() &&
                    g.dilation_h == 1 && g.dilation_w == 1 && g.pad_h < g.kernel_h && g.pad_w < g.kernel_w;
  return fits ? std::string()
              : name_of(a) + " requires kernel 3" + (five ? " or 5" : "") + ", stride 1, dilation 1 and less padding than kernel";
}

}  // namespace troupe
