// LSTM, GRU and RNN of one direction, which begin with zeros.
#include <algorithm>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

struct recurrent_kind {
  const char* type;
  extents gates;  // Troupe's blocks, as blocks of ONNX's
  std::vector<std::string> activations;
};
recurrent_kind kind_of(const std::string& op) {
  if (op == "LSTM") return {"lstm", {0, 2, 3, 1}, {"sigmoid", "tanh", "tanh"}};  // i f g o of i o f c
  if (op == "GRU") return {"gru", {1, 0, 2}, {"sigmoid", "tanh"}};               // r z n of z r h
  return {"rnn", {0}, {"tanh"}};
}

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return s;
}

void check_cell(const node_view& n, const recurrent_kind& kind, options_given& o) {
  if (n.text("direction", "forward") != "forward")
    throw refusal("direction '" + n.text("direction", "") + "' is not supported, only 'forward'");
  for (const char* key : {"clip", "activation_alpha", "activation_beta"})
    if (n.has(key)) throw refusal("attribute '" + std::string(key) + "' is not supported");
  if (n.integer("input_forget", 0) != 0) throw refusal("input_forget is not supported");
  if (n.is.op == "GRU" && n.integer("linear_before_reset", 0) == 0)
    throw refusal("only linear_before_reset = 1, as in PyTorch and cuDNN, is supported");
  auto given = n.find("activations") ? n.find("activations")->texts : kind.activations;
  for (auto& a : given) a = lower(a);
  if (n.is.op == "RNN" && given == std::vector<std::string>{"relu"})
    o["activation"] = std::string("relu");
  else if (given != kind.activations)
    throw refusal("its activations are not supported");
}

// Initial states are zeros, and all sequences have all steps.
void check_states(const node_view& n, std::int64_t steps) {
  if (n.given(4)) {
    const auto lengths = n.wholes(4, "sequence_lens");
    if (std::any_of(lengths.begin(), lengths.end(), [&](std::int64_t l) { return l != steps; }))
      throw refusal("sequence_lens is not supported");
  }
  for (const std::size_t k : {std::size_t{5}, std::size_t{6}}) {
    if (!n.given(k)) continue;
    const auto& t = n.reals(k, "initial state");
    for (std::int64_t i = 0; i < (t.uniform ? std::min<std::int64_t>(t.count(), 1) : t.count()); ++i)
      if (t.real(i) != 0.0F) throw refusal("an initial state other than zeros is not supported");
  }
  if (n.given(7)) throw refusal("peephole weights are not supported");
}

std::vector<float> reordered(const std::vector<float>& all, std::size_t begin, std::size_t count, const extents& gates) {
  const auto block = static_cast<std::ptrdiff_t>(count / gates.size());
  std::vector<float> made;
  for (const auto g : gates) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin) + g * block;
    made.insert(made.end(), from, from + block);
  }
  return made;
}

// Y [T, 1, N, H], or with layout 1 [N, T, 1, H]; Y_h [1, N, H], or [N, 1, H]: the last step.
void give_results(const node_view& n, const activation& y, bool batch_first) {
  if (n.read(0)) {
    auto all = y;
    all.axes = batch_first ? std::vector<int>{0, 1, -1, 2} : std::vector<int>{1, -1, 0, 2};
    n.result(all);
  }
  if (!n.read(1)) return;
  auto last = y;
  if (y.dims[1] > 1)
    last = add_layer(n.to, n.name() + "_last", "crop", {y},
                     {{"axis", std::int64_t{1}}, {"size", extents{1, y.dims[2]}}, {"offsets", extents{y.dims[1] - 1, 0}}})[0];
  if (!batch_first) last.axes = {1, 0, 2};
  n.result(last, 1);
}

void take_recurrent(const node_view& n) {
  const auto kind = kind_of(n.is.op);
  const auto gates = static_cast<std::int64_t>(kind.gates.size());
  auto x = n.active(0);
  const bool batch_first = n.integer("layout", 0) == 1;
  const auto wanted = batch_first ? std::vector<int>{0, 1, 2} : std::vector<int>{1, 0, 2};
  auto turned = x;  // with the batch in front
  if (!batch_first && x.axes.size() == 3) std::swap(turned.axes[0], turned.axes[1]);
  if (x.axes.size() != 3 || turned.axes[0] != 0)
    throw refusal("its input " + text_of(x.shown()) + " must be sequences, [steps, N, values]" +
                  (x.in_order() && !batch_first ? ": a Transpose of [N, steps, values]" : ""));
  if (x.axes != wanted || x.folded().size() != 3) x = plain_of(n.to, turned), x.axes = wanted;
  const auto& r = n.reals(2, "recurrent weights");
  if (r.dims.size() != 3 || r.dims[0] != 1 || r.dims[2] < 1 || r.dims[1] != gates * r.dims[2])
    throw refusal("its recurrent weights are " + text_of(r.dims));
  const auto units = r.dims[2], rows = gates * units, width = x.folded()[2];
  if (n.integer("hidden_size", units) != units) throw refusal("hidden_size is not that of the weights");
  options_given o{{"units", units}, {"bias", n.given(3)}};
  check_cell(n, kind, o);
  check_states(n, x.folded()[1]);
  if (n.read(2)) throw refusal("its output Y_c, the last cell, is not supported");
  const auto all = static_cast<std::size_t>(rows);
  std::vector<std::vector<float>> weights{
      reordered(n.reals_of(1, "weights", rows * width), 0, all * static_cast<std::size_t>(width), kind.gates),
      reordered(n.reals_of(2, "recurrent weights", rows * units), 0, all * static_cast<std::size_t>(units), kind.gates)};
  for (const bool hidden : {false, true})
    if (n.given(3)) weights.push_back(reordered(n.reals_of(3, "bias", 2 * rows), hidden ? all : 0, all, kind.gates));
  auto in = activation_of(x.tensor, x.dims);
  give_results(n, n.layer(kind.type, {in}, o, std::move(weights)), batch_first);
}

}  // namespace

handlers recurrent_handlers() { return {{"LSTM", take_recurrent}, {"GRU", take_recurrent}, {"RNN", take_recurrent}}; }

}  // namespace troupe::onnx
