#include "apps/commands/look/plan.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "apps/cli/output.hpp"
#include "apps/cli/screen.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

enum model_column {
  layer_column,
  type_column,
  output_column,
  parameter_column,
  flop_column,
  place_column,
  memory_column,
  model_columns
};
using model_cells = std::array<std::string, model_columns>;
constexpr std::array<std::size_t, model_columns> widest = {18, 15, 14, 13, 7, 12, 9};  // with two blanks between them: 100

// "576 k", "1.15 M": three digits and a power of 1000.
std::string count_with_prefix(double x) {
  static const char* const prefixes[] = {"", " k", " M", " G", " T", " P"};
  std::size_t p = 0;
  while (x >= 999.5 && p + 1 < std::size(prefixes)) x /= 1000, ++p;
  return fixed(x, p == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2) + prefixes[p];
}

// The shape of one example: without the first axis, which counts the examples of a packet.
std::string example_shape(const shape& s) {
  const auto text = s.to_string();
  const auto first = text.find('x');
  return first == std::string::npos ? "1" : text.substr(first + 1);
}

std::string outputs_text(const graph_layer& l) {
  std::string s;
  for (const auto& one : l.out)
    if (const auto text = example_shape(one); s.empty())
      s = text;
    else if (s != text)
      s += ", " + text;
  return l.out.size() > 1 && s.find(',') == std::string::npos ? std::to_string(l.out.size()) + " x " + s : s;
}

// Where the layer is trained: its node and device; "n1 +3" if it has three more.
std::string places_text(const prepared_job& j, std::uint32_t layer) {
  std::set<std::string> places;
  for (const auto& r : j.plan.roles)
    if (r.trains() && std::find(r.layers.begin(), r.layers.end(), layer) != r.layers.end()) places.insert(j.plan.place_of(r));
  if (places.empty()) return "-";
  return *places.begin() + (places.size() == 1 ? "" : " +" + std::to_string(places.size() - 1));
}

struct model_sums {
  double parameters = 0, trained = 0, forward = 0, step = 0,
         memory = 0;  // forward: FLOPs of an example; step: of a step, with backward
};

model_cells cells_of(const prepared_job& j, const graph_layer& l, model_sums& all) {
  const auto examples = static_cast<double>(std::max<std::int64_t>(j.graph.packet_examples, 1));
  double parameters = 0, trained = 0, outputs = 0;
  for (const auto p : l.params) {
    const auto n = static_cast<double>(j.graph.params[p].spec.dims.count());
    parameters += n;
    if (j.graph.params[p].spec.trainable) trained += n;
  }
  for (const auto& o : l.out) outputs += static_cast<double>(o.count());
  const double flops = l.in_train ? l.maths->flops(l.in) : 0;
  const bool gives_back = std::find(l.grad_in_wanted.begin(), l.grad_in_wanted.end(), true) != l.grad_in_wanted.end();
  const double memory =
      (parameters + trained * (1.0 + j.plan.rule_states)) * static_cast<double>(size_of(j.spec.parameter_type())) +
      outputs * (l.wants_backward ? 2 : 1) * static_cast<double>(size_of(j.spec.type()));
  all.parameters += parameters;
  all.trained += trained;
  all.forward += flops / examples;
  all.step += flops * j.plan.packets * (1 + (l.wants_backward ? (gives_back ? 1 : 0) + (l.params.empty() ? 0 : 1) : 0));
  all.memory += memory;
  return {l.name,
          l.type,
          outputs_text(l),
          parameters > 0 ? with_commas(static_cast<std::uint64_t>(parameters)) : "-",
          flops > 0 ? count_with_prefix(flops / examples) : "-",
          l.in_train ? places_text(j, l.index) : "test only",
          bytes_text(memory)};
}

std::string row_text(const model_cells& cells, const std::array<std::size_t, model_columns>& wide) {
  std::string s;
  for (std::size_t c = 0; c < model_columns; ++c) {
    auto text = cells[c];
    if (width_of(text) > wide[c]) text = cut_to(text, wide[c] - 1) + "~";
    const bool number = c == parameter_column || c == flop_column || c == memory_column;
    s += (c == 0 ? "" : "  ") + (number ? flush_right(text, wide[c]) : left(text, wide[c]));
  }
  return s.substr(0, s.find_last_not_of(' ') + 1) + "\n";
}

// Other programs count trained parameters only.
std::string trained_text(const model_sums& all) {
  const auto statistics = static_cast<std::uint64_t>(all.parameters - all.trained);
  if (statistics == 0) return {};
  return "Of the parameters, " + with_commas(static_cast<std::uint64_t>(all.trained)) + " are trained; " + with_commas(statistics) +
         (statistics == 1 ? " is a running statistic.\n" : " are running statistics.\n");
}

}  // namespace

std::string model_table(const prepared_job& j) {
  std::vector<model_cells> rows{{"layer", "type", "output", "parameters", "FLOPs", "place", "memory"}};
  model_sums all;
  for (const auto& l : j.graph.layers) rows.push_back(cells_of(j, l, all));
  rows.push_back({"total", "", "", with_commas(static_cast<std::uint64_t>(all.parameters)), count_with_prefix(all.forward), "",
                  bytes_text(all.memory)});
  std::array<std::size_t, model_columns> wide{};
  for (const auto& r : rows)
    for (std::size_t c = 0; c < model_columns; ++c) wide[c] = std::min(widest[c], std::max(wide[c], width_of(r[c])));
  std::string s;
  for (const auto& r : rows) s += row_text(r, wide);
  const auto examples = static_cast<std::uint64_t>(std::max<std::int64_t>(j.graph.packet_examples, 1));
  return s + trained_text(all) +
         "Output: of one example. FLOPs: forward, of one example. Memory: parameters, gradients and states\n"
         "of the update rule, and outputs with their gradients for one packet of " +
         with_commas(examples) + " example" + (examples == 1 ? "" : "s") + ".\nA step of " +
         with_commas(static_cast<std::uint64_t>(j.spec.data.batch)) + " examples takes " + count_with_prefix(all.step) +
         std::string(all.step < 999.5 ? " " : "") + "FLOP, forward and backward.\n";
}

}  // namespace troupe
