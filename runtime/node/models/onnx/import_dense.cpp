// Products with constant matrices, and lookups in tables.
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

void take_gemm(const node_view& n) {
  const auto& x = n.active(0);
  const auto& w = matrix_of(n);
  if (n.integer("transA", 0) != 0) throw refusal("transA is not supported");
  if (!x.in_order() || x.axes.size() != 2) throw refusal("its input is " + text_of(x.shown()) + "; a matrix [N, values] is needed");
  const bool turned = n.integer("transB", 0) != 0;
  const auto outputs = w.dims[turned ? 0 : 1], width = w.dims[turned ? 1 : 0];
  std::vector<std::vector<float>> weights{rows_of(n, turned, outputs, width, n.real("alpha", 1.0))};
  if (n.given(2)) weights.push_back(bias_of(n, outputs, n.real("beta", 1.0)));
  n.result(n.layer("linear", {x}, {{"outputs", outputs}, {"bias", n.given(2)}}, std::move(weights)));
}

// MatMul, and with a third input its sum with a bias.
void take_mat_mul(const node_view& n) {
  const auto& x = n.active(0);
  const auto& w = matrix_of(n);
  const auto f = x.folded();
  const auto shown = x.shown();
  // The last axis of ONNX's value is Troupe's last, or an added one.
  const bool added = !x.axes.empty() && x.axes.back() < 0;
  if (x.axes.size() != f.size() + added || x.axes.size() < 2 || (!added && x.axes.back() != static_cast<int>(f.size()) - 1) ||
      shown.back() != w.dims[0])
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
