// Compositions of nodes that are one layer of Troupe. Exporters write them for operators that their
// operator set lacks.
//   Gelu             an expression of +, -, x, /, powers, Erf or Tanh in one tensor, whose values
//                    at some points are those of gelu
//   Normalise        ReduceMean, Sub, Pow or Mul, ReduceMean, Add, Sqrt, Div, and a weight, or both
//                    weight and bias
//   NormaliseWithin  x / (k + alpha mean of x^2 over a window)^beta, Troupe's own
//   Lookup           Gather with zeros for negative ids, Troupe's own
//   NormaliseGroups  Reshape, InstanceNormalization, Reshape, and a weight and bias: the group
//                    normalisation of operator sets before 18
//   MatMul           a product with a constant and a sum with a bias
// Invariant: a node inside a composition is read by nothing else.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numbers>
#include <optional>
#include <set>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

using std::size_t;

class pattern_finder {
 public:
  explicit pattern_finder(const model& m) : nodes_(m.graph.nodes) {
    for (const auto& t : m.graph.initializers) constants_.emplace(t.name, &t);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const auto& o : nodes_[i].outputs) made_by_.emplace(o, i);
      for (const auto& k : nodes_[i].inputs) readers_[k].push_back(i);
      if (nodes_[i].op != "Constant") continue;
      if (!nodes_[i].outputs.empty())
        for (const auto& a : nodes_[i].attributes) add_constant(nodes_[i].outputs[0], a);
    }
    for (const auto& o : m.graph.outputs) kept_.insert(o.name);
  }

  std::vector<node> found() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (gone_.contains(i)) continue;
      const auto& n = nodes_[i];
      if (!n.domain.empty() && n.domain != "ai.onnx") continue;
      if (n.op == "Erf" || n.op == "Tanh") gelu(i);
      if (n.op == "ReduceMean") normalise(i);
      if (n.op == "AveragePool") normalise_within(i);
      if (n.op == "Where") lookup(i);
      if (n.op == "MatMul") bias(i);
      if (n.op == "InstanceNormalization") normalise_groups(i);
    }
    std::vector<node> all;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (const auto made = made_.find(i); made != made_.end())
        all.push_back(made->second);
      else if (!gone_.contains(i))
        all.push_back(nodes_[i]);
    }
    return all;
  }

 private:
  // The value of a node Constant, in one of the forms that ONNX has for it.
  void add_constant(const std::string& name, const attribute& a) {
    tensor_value t;
    if (a.name == "value" && a.tensor) {
      constants_.emplace(name, a.tensor.get());
      return;
    }
    if (a.name == "value_float") {
      t.reals = {a.real};
    } else if (a.name == "value_floats") {
      t.reals = a.reals, t.dims = {std::ssize(a.reals)};
    } else if (a.name == "value_int") {
      t.type = int64, t.whole = {a.integer};
    } else if (a.name == "value_ints") {
      t.type = int64, t.whole = a.integers, t.dims = {std::ssize(a.integers)};
    } else {
      return;
    }
    constants_.emplace(name, &kept_constants_.emplace_back(std::move(t)));
  }

  // The node that computes a value, if it has this operator; null otherwise.
  const node* maker(const std::string& name, const char* op) const {
    const auto at = made_by_.find(name);
    return at == made_by_.end() || nodes_[at->second].op != op || gone_.contains(at->second) ? nullptr : &nodes_[at->second];
  }
  size_t index(const node& n) const { return static_cast<size_t>(&n - nodes_.data()); }
  const tensor_value* constant_of(const std::string& name) const {
    const auto at = constants_.find(name);
    return at == constants_.end() ? nullptr : at->second;
  }
  std::optional<double> number(const std::string& name) const {
    const auto* t = constant_of(name);
    if (!t || t->count() != 1) return std::nullopt;
    return is_real(t->type) ? static_cast<double>(t->real(0)) : static_cast<double>(t->integer(0));
  }
  // The only reader of a value; null if there are several, or the value is an output.
  const node* reader(const std::string& name) const {
    const auto at = readers_.find(name);
    if (at == readers_.end() || at->second.size() != 1 || kept_.contains(name)) return nullptr;
    return &nodes_[at->second[0]];
  }
  static const std::string& other(const node& n, const std::string& than) { return n.inputs[n.inputs[0] == than ? 1 : 0]; }
  static bool binary(const node& n) { return n.inputs.size() == 2 && n.outputs.size() == 1; }

  // `inside` are read by nodes of `inside` and `root` only.
  bool closed(const std::set<size_t>& inside, size_t root) const {
    for (const auto i : inside)
      for (const auto& o : nodes_[i].outputs) {
        if (kept_.contains(o)) return false;
        const auto at = readers_.find(o);
        if (at == readers_.end()) continue;
        for (const auto r : at->second)
          if (r != root && !inside.contains(r)) return false;
      }
    return true;
  }

  void replace(size_t root, const std::set<size_t>& inside, node by, const std::string& name) {
    by.domain = pattern_domain, by.name = name.empty() ? nodes_[root].name : name, by.outputs = nodes_[root].outputs;
    made_[root] = std::move(by);
    gone_.insert(inside.begin(), inside.end());
    gone_.insert(root);
  }

  // --- Gelu

  // The value of `name` where x has the value `at`; nothing if it is no such expression. Each node
  // of it is added to `inside`.
  std::optional<double> evaluated(const std::string& name, const std::string& x, double at, std::set<size_t>& inside, int depth,
                                  int& steps) const {
    if (name == x) return at;
    if (const auto c = number(name)) return c;
    const auto made = made_by_.find(name);
    if (made == made_by_.end() || depth == 0 || --steps < 0 || gone_.contains(made->second)) return std::nullopt;
    const auto& n = nodes_[made->second];
    if (n.inputs.empty() || n.inputs.size() > 2) return std::nullopt;
    std::array<double, 2> v{};
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const auto operand = evaluated(n.inputs[k], x, at, inside, depth - 1, steps);
      if (!operand) return std::nullopt;
      v[k] = *operand;
    }
    inside.insert(made->second);
    const bool pair = n.inputs.size() == 2;
    if (n.op == "Add" && pair) return v[0] + v[1];
    if (n.op == "Sub" && pair) return v[0] - v[1];
    if (n.op == "Mul" && pair) return v[0] * v[1];
    if (n.op == "Div" && pair) return v[0] / v[1];
    if (n.op == "Pow" && pair) return std::pow(v[0], v[1]);
    if (n.op == "Erf" && !pair) return std::erf(v[0]);
    if (n.op == "Tanh" && !pair) return std::tanh(v[0]);
    return std::nullopt;
  }

  static double gelu_at(double x, bool by_tanh) {
    return by_tanh ? x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)))
                   : x / 2 * (1 + std::erf(x / std::numbers::sqrt2));
  }

  // Tries each value before Erf or Tanh as x, and each value behind it as the result.
  void gelu(size_t at) {
    const bool by_tanh = nodes_[at].op == "Tanh";
    if (nodes_[at].inputs.size() != 1) return;
    std::vector<std::string> candidates{nodes_[at].inputs[0]};
    for (size_t k = 0; k < candidates.size() && candidates.size() < 16; ++k) {
      const auto made = made_by_.find(candidates[k]);
      if (made == made_by_.end()) continue;
      for (const auto& i : nodes_[made->second].inputs)
        if (!number(i) && std::find(candidates.begin(), candidates.end(), i) == candidates.end()) candidates.push_back(i);
    }
    for (const auto& x : candidates) {
      const auto* n = &nodes_[at];
      for (int step = 0; step < 5 && n && n->outputs.size() == 1; ++step) {
        n = reader(n->outputs[0]);
        if (n && n->outputs.size() == 1 && is_gelu(*n, x, by_tanh)) return;
      }
    }
  }

  bool is_gelu(const node& last, const std::string& x, bool by_tanh) {
    std::set<size_t> inside;
    int steps = 2000;  // a value may be read often
    for (double v = -4; v <= 4; v += 0.37) {
      const auto y = evaluated(last.outputs[0], x, v, inside, 12, steps);
      if (!y || !(std::abs(*y - gelu_at(v, by_tanh)) < 1e-5)) return false;
    }
    const auto root = index(last);
    inside.erase(root);
    if (!closed(inside, root)) return false;
    node by;
    by.op = by_tanh ? "GeluTanh" : "Gelu", by.inputs = {x};
    replace(root, inside, by, {});
    return true;
  }

  // --- Normalise

  // The axes of a ReduceMean that keeps its axes, if they are consecutive: an attribute, since
  // operator set 18 a constant.
  std::optional<extents> mean_axes(const node& n) const {
    extents axes;
    const auto* list = n.inputs.size() == 2 ? constant_of(n.inputs[1]) : nullptr;
    if (list && !is_real(list->type)) axes = list->whole;
    for (const auto& a : n.attributes) {
      if (a.name == "axes") axes = a.integers;
      if (a.name == "keepdims" && a.integer == 0) return std::nullopt;
    }
    std::sort(axes.begin(), axes.end());
    for (size_t i = 1; i < axes.size(); ++i)
      if (axes[i] != axes[i - 1] + 1) return std::nullopt;
    if (axes.empty()) return std::nullopt;
    return axes;
  }

  void normalise(size_t at) {
    const auto& mean = nodes_[at];
    const auto axes = mean_axes(mean);
    if (!axes || mean.outputs.size() != 1) return;
    const auto* difference = reader(mean.outputs[0]);
    if (!difference || difference->op != "Sub" || !binary(*difference) || difference->inputs[0] != mean.inputs[0] ||
        difference->inputs[1] != mean.outputs[0])
      return;
    const auto& d = difference->outputs[0];
    std::set<size_t> inside{at, index(*difference)};
    const node* variance = nullptr;
    for (const auto r : readers_[d]) {
      const auto& n = nodes_[r];
      const bool square = binary(n) && ((n.op == "Pow" && n.inputs[0] == d && number(n.inputs[1]) == 2.0) ||
                                        (n.op == "Mul" && n.inputs[0] == d && n.inputs[1] == d));
      if (!square) continue;
      inside.insert(r);
      variance = reader(n.outputs[0]);
    }
    if (!variance || variance->op != "ReduceMean" || mean_axes(*variance) != axes) return;
    const auto* sum = reader(variance->outputs[0]);
    if (!sum || sum->op != "Add" || !binary(*sum)) return;
    const auto epsilon = number(other(*sum, variance->outputs[0]));
    const auto* root = reader(sum->outputs[0]);
    if (!epsilon || !root || root->op != "Sqrt") return;
    const auto* quotient = reader(root->outputs[0]);
    if (!quotient || quotient->op != "Div" || !binary(*quotient) || quotient->inputs[0] != d) return;
    for (const auto* n : {variance, sum, root}) inside.insert(index(*n));
    node by;
    by.op = "Normalise", by.inputs = {mean.inputs[0]};
    with_scale(quotient, *axes, inside, by);
    attribute axis, small, count;
    axis.name = "axis", axis.integer = axes->front();
    count.name = "count", count.integer = std::ssize(*axes);
    small.name = "epsilon", small.real = static_cast<float>(*epsilon);
    by.attributes = {axis, small, count};
    const auto last = index(*quotient);
    if (closed(inside, last)) replace(last, inside, by, {});
  }

  // A product with a weight, and a sum with a bias if there is one, of the extents of the
  // normalised axes.
  void with_scale(const node*& last, const extents& axes, std::set<size_t>& inside, node& by) const {
    const auto parameter = [&](const node* n, const char* op, const std::string& of) {
      if (!n || n->op != op || !binary(*n)) return false;
      const auto* t = constant_of(other(*n, of));
      return t && is_real(t->type) && t->dims.size() == axes.size();
    };
    const auto* product = reader(last->outputs[0]);
    if (!parameter(product, "Mul", last->outputs[0])) return;
    const auto* sum = reader(product->outputs[0]);
    const bool biased = parameter(sum, "Add", product->outputs[0]);
    const auto& weight = other(*product, last->outputs[0]);
    if (!biased && number(weight)) return;  // a product with a number
    inside.insert(index(*last));
    by.inputs.push_back(weight);
    last = product;
    if (!biased) return;
    inside.insert(index(*product));
    by.inputs.push_back(other(*sum, product->outputs[0]));
    last = sum;
  }

  // --- Troupe's own

  // x / (k + alpha mean)^beta.
  struct normalised {
    std::vector<attribute> numbers;  // alpha, bias (k), beta
    size_t quotient = 0;
    std::set<size_t> inside;
  };
  std::optional<normalised> normalised_by(const std::string& mean, const std::string& x) const {
    const auto* scaled = reader(mean);
    if (!scaled || scaled->op != "Mul" || !binary(*scaled)) return std::nullopt;
    const auto* sum = reader(scaled->outputs[0]);
    if (!sum || sum->op != "Add" || !binary(*sum)) return std::nullopt;
    const auto* power = reader(sum->outputs[0]);
    if (!power || power->op != "Pow" || !binary(*power) || power->inputs[0] != sum->outputs[0]) return std::nullopt;
    const auto* quotient = reader(power->outputs[0]);
    if (!quotient || quotient->op != "Div" || !binary(*quotient) || quotient->inputs[0] != x) return std::nullopt;
    normalised made;
    for (const auto& [name, from] :
         {std::pair{"alpha", other(*scaled, mean)}, {"bias", other(*sum, scaled->outputs[0])}, {"beta", power->inputs[1]}}) {
      const auto v = number(from);
      if (!v) return std::nullopt;
      made.numbers.emplace_back().name = name, made.numbers.back().real = static_cast<float>(*v);
    }
    made.quotient = index(*quotient);
    made.inside = {index(*scaled), index(*sum), index(*power)};
    return made;
  }

  static extents listed(const node& n, const char* name) {
    for (const auto& a : n.attributes)
      if (a.name == name) return a.integers;
    return {};
  }

  void replace_norm(normalised by_numbers, const char* op, std::int64_t size, std::vector<std::string> inputs) {
    if (!closed(by_numbers.inside, by_numbers.quotient)) return;
    node by;
    by.op = op, by.inputs = std::move(inputs), by.attributes = std::move(by_numbers.numbers);
    by.attributes.emplace_back().name = "size", by.attributes.back().integer = size;
    replace(by_numbers.quotient, by_numbers.inside, by, {});
  }

  void normalise_within(size_t at) {
    const auto& mean = nodes_[at];
    const auto* squares = mean.inputs.empty() ? nullptr : maker(mean.inputs[0], "Mul");
    if (!squares || !binary(*squares) || squares->inputs[0] != squares->inputs[1] || mean.outputs.size() != 1) return;
    auto by = normalised_by(mean.outputs[0], squares->inputs[0]);
    if (!by) return;
    const auto kernel = listed(mean, "kernel_shape"), strides = listed(mean, "strides");
    const auto size = kernel.empty() ? 0 : kernel[0];
    const bool counts = std::any_of(mean.attributes.begin(), mean.attributes.end(),
                                    [](const attribute& a) { return a.name == "count_include_pad" && a.integer != 0; });
    const bool own = size % 2 == 1 && kernel == extents(2, size) && listed(mean, "pads") == extents(4, size / 2) && counts &&
                     (strides.empty() || strides == extents{1, 1});
    if (!own) return;
    by->inside.insert({at, index(*squares)});
    replace_norm(*std::move(by), "NormaliseWithin", size, {squares->inputs[0]});
  }

  void lookup(size_t at) {
    const auto& where = nodes_[at];
    if (where.inputs.size() != 3) return;
    const auto* each = maker(where.inputs[0], "Unsqueeze");
    const auto* rows = maker(where.inputs[2], "Gather");
    if (!each || !rows || each->inputs.empty() || rows->inputs.size() != 2 || number(where.inputs[1]) != 0.0) return;
    const auto* padding = maker(each->inputs[0], "Less");
    const auto* above = maker(rows->inputs[1], "Max");
    if (!padding || !above || !binary(*padding) || !binary(*above) || padding->inputs != above->inputs ||
        number(above->inputs[1]) != 0.0)
      return;
    node by;
    by.op = "Lookup", by.inputs = {above->inputs[0], rows->inputs[0]};
    const std::set<size_t> inside{index(*each), index(*rows), index(*padding), index(*above)};
    if (closed(inside, at)) replace(at, inside, by, {});
  }

  // A constant, perhaps with other extents.
  bool constant_parameter(const std::string& name) const {
    const auto* seen = maker(name, "Unsqueeze");
    if (!seen) seen = maker(name, "Reshape");
    return constant_of(seen && !seen->inputs.empty() ? seen->inputs[0] : name) != nullptr;
  }

  void normalise_groups(size_t at) {
    const auto& norm = nodes_[at];
    const auto* rows = norm.inputs.size() == 3 && norm.outputs.size() == 1 ? maker(norm.inputs[0], "Reshape") : nullptr;
    const auto* back = rows ? reader(norm.outputs[0]) : nullptr;
    if (!back || back->op != "Reshape" || !binary(*rows) || !binary(*back)) return;
    node by;
    by.op = "NormaliseGroups", by.attributes = norm.attributes;
    by.inputs = {rows->inputs[0], rows->inputs[1], norm.inputs[1], norm.inputs[2], back->inputs[1]};
    std::set<size_t> inside{index(*rows), at};
    const auto* last = back;
    const auto* product = reader(back->outputs[0]);
    const auto* sum = product && product->op == "Mul" && binary(*product) ? reader(product->outputs[0]) : nullptr;
    if (sum && sum->op == "Add" && binary(*sum)) {
      const auto &weight = other(*product, back->outputs[0]), &shift = other(*sum, product->outputs[0]);
      if (constant_parameter(weight) && constant_parameter(shift)) {
        by.inputs.push_back(weight), by.inputs.push_back(shift);
        inside.insert(index(*back)), inside.insert(index(*product));
        last = sum;
      }
    }
    if (closed(inside, index(*last))) replace(index(*last), inside, by, norm.name);
  }

  // MatMul with a constant, and a bias along its last axis.
  void bias(size_t at) {
    const auto& n = nodes_[at];
    if (!binary(n)) return;
    const auto* sum = reader(n.outputs[0]);
    if (!sum || sum->op != "Add" || !binary(*sum)) return;
    const auto& by_output = other(*sum, n.outputs[0]);
    const auto* t = constant_of(by_output);
    if (!t || t->dims.empty() || t->count() != t->dims.back() ||
        (constant_of(n.inputs[1]) && constant_of(n.inputs[1])->dims.size() != 2))
      return;
    node by;
    by.op = "MatMul", by.inputs = {n.inputs[0], n.inputs[1], by_output};
    replace(index(*sum), {at}, by, n.name);
  }

  const std::vector<node>& nodes_;
  std::map<std::string, const tensor_value*> constants_;
  std::deque<tensor_value> kept_constants_;  // those that no attribute holds as a tensor
  std::map<std::string, size_t> made_by_;
  std::map<std::string, std::vector<size_t>> readers_;
  std::set<std::string> kept_;  // outputs of the graph
  std::set<size_t> gone_;       // nodes in compositions
  std::map<size_t, node> made_;
};

}  // namespace

std::vector<node> with_patterns(const model& m) { return pattern_finder(m).found(); }

}  // namespace troupe::onnx
