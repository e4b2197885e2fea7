// Products, and lookups in tables.
#include <algorithm>
#include <numeric>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

// The matrix of input 1 as rows by output: [outputs, width].
std::vector<float> rows_of(const node_view& n, bool turned, std::int64_t outputs, std::int64_t width, double factor) {
  const auto all = n.reals_of(1, "weights", outputs * width);
  std::vector<float> rows(all.size());
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t d = 0; d < width; ++d) {
      const auto v = all[static_cast<std::size_t>(turned ? o * width + d : d * outputs + o)];
      rows[static_cast<std::size_t>(o * width + d)] = factor == 1.0 ? v : static_cast<float>(factor * static_cast<double>(v));
    }
  return rows;
}

// A bias along the last axis: one value, or one for each output.
std::vector<float> bias_of(const node_view& n, std::int64_t outputs, double factor) {
  const auto& t = n.reals(2, "bias");
  if (t.count() != 1 && (t.count() != outputs || t.dims.back() != outputs))
    throw refusal("its bias is " + text_of(t.dims) + " for " + std::to_string(outputs) + " outputs");
  std::vector<float> values;
  for (std::int64_t o = 0; o < outputs; ++o)
    values.push_back(static_cast<float>(factor * static_cast<double>(t.real(t.count() == 1 ? 0 : o))));
  return values;
}

const tensor_value& matrix_of(const node_view& n) {
  const auto& w = n.reals(1, "second factor");
  if (w.dims.size() != 2 || w.count() == 0)
    throw refusal("its second factor is " + text_of(w.dims) + "; only a matrix is supported");
  return w;
}

// Rows that the batch counts with other axes, as [N T, values].
void joined_linear(const node_view& n, const activation& x, options_given o, std::vector<std::vector<float>> weights) {
  const auto view = settled(n.to, x);
  const auto axis = view.own(view.groups.size() - 1);
  if (axis != 1) o["axis"] = axis;
  n.result(view.seen(n.layer("linear", {view.plain}, o, std::move(weights))));
}

void take_gemm(const node_view& n) {
  const auto& x = n.view(0);
  const auto& w = matrix_of(n);
  if (n.integer("transA", 0) != 0) throw refusal("transA is not supported");
  if (x.joined.empty() && (!x.in_order() || x.axes.size() != 2))
    throw refusal("its input is " + text_of(x.shown()) + "; a matrix [N, values] is needed");
  const bool turned = n.integer("transB", 0) != 0;
  const auto outputs = w.dims[turned ? 0 : 1], width = w.dims[turned ? 1 : 0];
  std::vector<std::vector<float>> weights{rows_of(n, turned, outputs, width, n.real("alpha", 1.0))};
  if (n.given(2)) weights.push_back(bias_of(n, outputs, n.real("beta", 1.0)));
  const options_given o{{"outputs", outputs}, {"bias", n.given(2)}};
  if (!x.joined.empty()) return joined_linear(n, x, o, std::move(weights));
  n.result(n.layer("linear", {x}, o, std::move(weights)));
}

// A factor of a product of two tensors: `transposed` if only its last two axes are exchanged, which
// the layer does itself.
activation factor_of(const node_view& n, std::size_t k, bool& transposed) {
  const auto& x = n.active(k);
  const auto rank = x.axes.size();
  auto turned = x;
  if (rank >= 3) std::swap(turned.axes[rank - 2], turned.axes[rank - 1]);
  transposed = rank >= 3 && !x.in_order() && turned.in_order();
  return plain_of(n.to, transposed ? turned : x);
}

// A factor whose batch is one axis with others: `transposed` if its columns are in front of its
// rows in Troupe's tensor.
settled_view joined_factor(const node_view& n, std::size_t k, bool& transposed) {
  const auto& x = n.view(k);
  const auto rank = x.rank();
  const auto groups = groups_of(x);
  const auto &rows = groups[rank - 2], &columns = groups[rank - 1];
  transposed = !rows.empty() && !columns.empty() && columns.front() < rows.front();
  if (!transposed) return settled(n.to, x);
  extents order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[rank - 2], order[rank - 1]);
  return settled(n.to, with_axes_turned(x, order));
}

// A product of tensors such as [N heads, T, values], whose first axis is the batch and the heads.
void joined_product(const node_view& n) {
  const auto rank = n.view(0).rank();
  if (n.given(2)) throw refusal("a sum with a constant behind a product of tensors with a joined batch is not supported");
  bool turned_a = false, turned_b = false;
  const auto a = joined_factor(n, 0, turned_a), b = joined_factor(n, 1, turned_b);
  for (const auto* x : {&a, &b})
    for (const auto axis : {rank - 2, rank - 1}) static_cast<void>(x->own(axis));
  const auto in_front = [&](const settled_view& x) { return axis_groups(x.groups.begin(), x.groups.end() - 2); };
  if (in_front(a) != in_front(b)) throw refusal("its factors have the batch joined with other axes in different ways");
  auto made = n.layer("matmul", {a.plain, b.plain}, {{"transpose_a", turned_a}, {"transpose_b", turned_b}});
  n.result(a.seen(std::move(made)));
}

// The product of the matrices in the last two axes, and with a third input its sum with one number.
void take_product(const node_view& n) {
  const auto a = n.view(0).shown(), b = n.view(1).shown();
  if (a.size() < 3 || a.size() != b.size() || !std::equal(a.begin(), a.end() - 2, b.begin()) || a.back() != b[b.size() - 2])
    throw refusal("a product of " + text_of(a) + " with " + text_of(b) +
                  " is not supported: the axes in front of the matrices must be equal, the batch first");
  if (!n.view(0).joined.empty() || !n.view(1).joined.empty()) return joined_product(n);
  bool turned_a = false, turned_b = false;
  const auto x = factor_of(n, 0, turned_a), y = factor_of(n, 1, turned_b);
  auto made = n.layer("matmul", {x, y}, {{"transpose_a", turned_a}, {"transpose_b", turned_b}});
  if (n.given(2)) {
    const auto bias = n.reals_of(2, "bias of a product of two tensors", 1);
    made = n.layer("bias", {made}, {}, {std::vector<float>(static_cast<std::size_t>(made.dims[1]), bias[0])});
  }
  n.result(made);
}

// MatMul with a constant matrix, and with a third input its sum with a bias.
void take_mat_mul(const node_view& n) {
  if (!n.constant_at(0) && !n.constant_at(1)) return take_product(n);
  auto x = n.view(0);
  const auto& w = matrix_of(n);
  if (!x.joined.empty()) {
    const auto outputs = w.dims[1];
    std::vector<std::vector<float>> weights{rows_of(n, false, outputs, w.dims[0], 1.0)};
    if (n.given(2)) weights.push_back(bias_of(n, outputs, 1.0));
    return joined_linear(n, x, {{"outputs", outputs}, {"bias", n.given(2)}}, std::move(weights));
  }
  // The last axis of ONNX's value is Troupe's last, or an added one. Others need layers.
  const auto direct = [&] {
    const auto axes = x.folded().size();
    const bool last_added = !x.axes.empty() && x.axes.back() < 0;
    return x.axes.size() >= 2 && x.axes.size() == axes + last_added && (last_added || x.axes.back() == static_cast<int>(axes) - 1);
  };
  if (!direct()) x = plain_of(n.to, x);
  const auto f = x.folded();
  const auto shown = x.shown();
  const bool added = !x.axes.empty() && x.axes.back() < 0;
  if (!direct() || shown.back() != w.dims[0])
    throw refusal("a product of " + text_of(shown) + " with " + text_of(w.dims) + " is not supported");
  const auto axis = static_cast<std::int64_t>(added ? f.size() : f.size() - 1);
  const auto outputs = w.dims[1];
  std::vector<std::vector<float>> weights{rows_of(n, false, outputs, w.dims[0], 1.0)};
  if (n.given(2)) weights.push_back(bias_of(n, outputs, 1.0));
  options_given o{{"outputs", outputs}, {"bias", n.given(2)}};
  if (axis != 1) o["axis"] = axis;
  auto y = n.layer("linear", {x}, o, std::move(weights));
  y.axes = x.axes;
  if (added) y.axes.back() = static_cast<int>(f.size());
  n.result(y);
}

// Rows of a table by ids, zeros for negative ones.
void take_lookup(const node_view& n) {
  const auto& table = n.reals(1, "table");
  const auto ids = n.plain(0);
  if (table.dims.size() != 2 || !ids.ids) throw refusal("only rows of a table [ids, outputs], by the data, are supported");
  n.result(n.layer("embedding", {ids}, {{"vocabulary", table.dims[0]}, {"outputs", table.dims[1]}},
                   {n.reals_of(1, "table", table.count())}));
}

}  // namespace

handlers dense_handlers() { return {{"Gemm", take_gemm}, {"MatMul", take_mat_mul}, {"Lookup", take_lookup}}; }

}  // namespace troupe::onnx
