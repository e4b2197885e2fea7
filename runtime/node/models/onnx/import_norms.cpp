// Normalising operators.
#include <algorithm>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

void take_batch_norm(const node_view& n) {
  const auto x = n.plain(0);
  if (x.dims.size() < 2) throw refusal("its input has no channels");
  for (std::size_t k = 1; k < n.is.outputs.size(); ++k)
    if (n.read(k)) throw refusal("its statistics are read; export the model for inference");
  if (n.integer("training_mode", 0) != 0)
    throw refusal(
        "it normalises by the statistics of the batch (training_mode = 1): export the model for inference, after model.eval()");
  const auto channels = x.dims[1];
  n.result(
      n.layer("batch_norm", {x},
              {{"epsilon", n.real("epsilon", 1e-5)}, {"momentum", decimal_of(static_cast<float>(1.0 - n.real("momentum", 0.9)))}},
              {n.reals_of(1, "scale", channels), n.reals_of(2, "bias", channels), n.reals_of(3, "mean", channels),
               n.reals_of(4, "variance", channels)}));
}

// LayerNormalization, and Normalise, its composition, whose weights are optional.
void take_layer_norm(const node_view& n) {
  const auto& given = n.view(0);
  const auto rank = given.rank();
  for (std::size_t k = 1; k < n.is.outputs.size(); ++k)
    if (n.read(k)) throw refusal("its output " + std::to_string(k) + ", a statistic, is not supported");
  const auto first = n.axis(n.integer("axis", -1), rank);
  if (n.has("count") && first + n.integer("count", 0) != static_cast<std::int64_t>(rank))
    throw refusal("a mean over other axes than the last ones is not supported");
  const auto view = settled(n.to, given);
  const auto& x = view.plain;
  const auto axis = view.own(static_cast<std::size_t>(first));
  for (auto a = static_cast<std::size_t>(first); a < rank; ++a) static_cast<void>(view.own(a));  // the batch is not among them
  options_given o{{"axis", axis}, {"epsilon", n.real("epsilon", 1e-5)}, {"affine", n.given(1)}};
  const auto count = product(x.dims, static_cast<std::size_t>(axis));
  std::vector<std::vector<float>> weights;
  if (n.given(1)) {
    weights.push_back(n.reals_of(1, "scale", count));
    weights.push_back(n.given(2) ? n.reals_of(2, "bias", count) : std::vector<float>(static_cast<std::size_t>(count), 0.0F));
  }
  n.result(view.seen(n.layer("layer_norm", {x}, o, std::move(weights))));
}

options_given lrn_options(const node_view& n) {
  return {
      {"size", n.integer("size", 0)}, {"alpha", n.real("alpha", 1e-4)}, {"beta", n.real("beta", 0.75)}, {"k", n.real("bias", 1.0)}};
}

void take_lrn(const node_view& n) { n.result(n.layer("lrn", {n.plain(0)}, lrn_options(n))); }

void take_lrn_within(const node_view& n) {
  auto o = lrn_options(n);
  o["region"] = std::string("within_channel");
  n.result(n.layer("lrn", {n.plain(0)}, o));
}

// The columns behind the diagonal are masked: a causal softmax.
void take_causal_softmax(const node_view& n, activation x) {
  const auto rank = x.rank();
  x.causal = false;
  if (n.axis(n.integer("axis", n.opset() < 13 ? 1 : -1), rank) + 1 != static_cast<std::int64_t>(rank))
    throw refusal("a softmax of masked columns is supported over the last axis only");
  const auto view = settled(n.to, x);
  for (const auto a : {rank - 2, rank - 1}) static_cast<void>(view.own(a));  // rows and columns, without the batch
  const auto last = std::ssize(view.plain.dims) - 1;
  n.result(view.seen(n.layer("softmax", {view.plain}, {{"axis", last}, {"causal", true}})));
}

void take_softmax(const node_view& n) {
  auto x = n.scores(0);
  if (x.causal) return take_causal_softmax(n, x);
  if (x.merged < x.dims.size()) x = plain_of(n.to, x);
  if (!x.joined.empty()) x = settled(n.to, x).view();
  const auto shown = x.shown();
  const auto axis = static_cast<std::size_t>(n.axis(n.integer("axis", n.opset() < 13 ? 1 : -1), shown.size()));
  // Operator sets before 13 normalise all axes from `axis` on together.
  if (n.opset() < 13 && product(shown, axis) != shown[axis])
    throw refusal("a softmax over axis " + std::to_string(axis) + " of " + text_of(shown) +
                  " and the axes behind it together, as before operator set 13, is not supported");
  if (x.joined.empty() && x.axes[axis] < 0) x = plain_of(n.to, x);
  const auto group = groups_of(x)[axis];
  if (group.size() != 1 || group[0] == 0) throw refusal("a softmax over the examples of the batch is not supported");
  const options_given o{{"axis", std::int64_t{group[0]}}};
  n.result(seen_as(n.layer("softmax", {activation_of(x.tensor, x.dims)}, o), x));
}

void take_instance_norm(const node_view& n) {
  const auto x = n.plain(0);
  if (x.dims.size() < 3) throw refusal("its input " + text_of(x.dims) + " has no pixels");
  n.result(n.layer("instance_norm", {x}, {{"epsilon", n.real("epsilon", 1e-5)}},
                   {n.reals_of(1, "scale", x.dims[1]), n.reals_of(2, "bias", x.dims[1])}));
}

bool all_are(const std::vector<float>& values, float v) {
  return std::all_of(values.begin(), values.end(), [&](float e) { return e == v; });
}

// Reshape, InstanceNormalization and Reshape, then a product and a sum by channel if there are
// seven inputs: x, extents, scale, bias, extents, weight, bias.
void take_group_norm(const node_view& n) {
  const auto x = n.plain(0);
  const auto rows = reshape_extents(n, 1, x.dims);
  const auto refused = [] {
    return refusal("a Reshape and InstanceNormalization that are no group normalisation are not supported");
  };
  if (x.dims.size() < 2 || rows.size() != 3 || rows[0] != x.dims[0] || x.dims[1] % rows[1] != 0 ||
      reshape_extents(n, 4, rows) != x.dims)
    throw refused();
  if (!all_are(n.reals_of(2, "scale", rows[1]), 1.0F) || !all_are(n.reals_of(3, "bias", rows[1]), 0.0F)) throw refused();
  std::vector<std::vector<float>> weights;
  bool affine = false;  // else one 1 and one 0, which PyTorch writes for none
  for (std::size_t k = 5; n.given(5) && k < 7; ++k) {
    const auto& t = n.reals(k, "parameter");
    const auto at = x.dims.size() - t.dims.size();
    const bool one = t.count() == 1, by_channel = t.count() == x.dims[1] && at <= 1 && t.dims[1 - at] == x.dims[1];
    if (t.dims.size() > x.dims.size() || !(one || by_channel)) throw refused();
    affine |= !one || t.real(0) != (k == 5 ? 1.0F : 0.0F);
    weights.push_back(one ? std::vector<float>(static_cast<std::size_t>(x.dims[1]), t.real(0))
                          : n.reals_of(k, "parameter", x.dims[1]));
  }
  if (!affine) weights.clear();
  const options_given o{{"groups", rows[1]}, {"epsilon", n.real("epsilon", 1e-5)}, {"affine", affine}};
  n.result(n.layer("group_norm", {x}, o, std::move(weights)));
}

// GroupNormalization: in operator sets 18 to 20 with a scale and bias for each group, then for each
// channel.
void take_group_norm_operator(const node_view& n) {
  const auto x = n.plain(0);
  const auto groups = n.integer("num_groups", 0);
  if (x.dims.size() < 2 || groups < 1 || x.dims[1] % groups != 0) throw refusal("num_groups does not divide the channels");
  const auto parameter = [&](std::size_t k, const char* what) {
    const auto count = n.opset() < 21 ? groups : x.dims[1];
    const auto given = n.reals_of(k, what, count);
    std::vector<float> all;
    for (std::int64_t c = 0; c < x.dims[1]; ++c) all.push_back(given[static_cast<std::size_t>(c * count / x.dims[1])]);
    return all;
  };
  n.result(n.layer("group_norm", {x}, {{"groups", groups}, {"epsilon", n.real("epsilon", 1e-5)}, {"affine", true}},
                   {parameter(1, "scale"), parameter(2, "bias")}));
}

}  // namespace

handlers norm_handlers() {
  return {{"BatchNormalization", take_batch_norm},
          {"LayerNormalization", take_layer_norm},
          {"Normalise", take_layer_norm},
          {"LRN", take_lrn},
          {"NormaliseWithin", take_lrn_within},
          {"Softmax", take_softmax},
          {"NormaliseGroups", take_group_norm},
          {"GroupNormalization", take_group_norm_operator},
          {"InstanceNormalization", take_instance_norm}};
}

}  // namespace troupe::onnx
