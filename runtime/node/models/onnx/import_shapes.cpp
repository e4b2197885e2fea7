// Operators that only change how a value is laid out: most need no layer.
#include <algorithm>
#include <numeric>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

void take_identity(const node_view& n) { n.result(n.scores(0)); }

// Between types of numbers that Troupe holds in one type.
void take_cast(const node_view& n) {
  const auto& x = n.scores(0);
  const auto type = static_cast<std::int32_t>(n.integer("to", 0));
  const bool same = x.ids ? type == int32 || type == int64 : is_real(type);
  if (!same) throw refusal("a conversion of the data to " + element_name(type) + " is not supported");
  n.result(x);
}

// To the type of another input.
void take_cast_like(const node_view& n) {
  if (n.constant_at(0)) return n.result(*std::get<constant>(n.input(0)));
  const auto& x = n.scores(0);
  const auto& like = n.input(1);
  const auto* numbers = std::get_if<constant>(&like);
  const bool real = numbers ? is_real((*numbers)->type) : !std::get<activation>(like).ids;
  if (real == x.ids) throw refusal("a conversion of the data between real and whole numbers is not supported");
  n.result(x);
}

void take_flatten(const node_view& n) {
  const auto& x = n.active(0);
  const auto shown = x.shown();
  const auto axis = n.integer("axis", 1);
  const auto a = axis == static_cast<std::int64_t>(shown.size()) ? axis : n.axis(axis, shown.size());
  if (a != 1) throw refusal("axis is " + std::to_string(axis) + "; only 1, which keeps the batch, is supported");
  n.result(reshaped_by_layer(n.to, n.name(), x, {shown.empty() ? 1 : shown[0], product(shown, 1)}));
}

void take_reshape(const node_view& n) {
  const auto& x = n.view(0);
  n.result(reshaped_by_layer(n.to, n.name(), x, reshape_extents(n, 1, x.shown())));
}

void take_squeeze(const node_view& n) {
  const auto& x = n.view(0);
  const auto shown = x.shown();
  auto axes = n.list("axes", 1);
  if (axes.empty())
    for (std::size_t a = 0; a < shown.size(); ++a)
      if (shown[a] == 1) axes.push_back(static_cast<std::int64_t>(a));
  for (auto& a : axes) a = n.axis(a, shown.size());
  std::sort(axes.begin(), axes.end(), std::greater<>());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  n.result(dropped(n.to, n.name(), x, axes));
}

void take_unsqueeze(const node_view& n) {
  auto x = n.view(0);
  auto shown = x.shown();
  auto axes = n.list("axes", 1);
  const auto rank = x.rank() + axes.size();
  if (rank > 16) throw refusal("it has too many axes");
  for (auto& a : axes) a = n.axis(a, rank);
  std::sort(axes.begin(), axes.end());
  for (const auto a : axes) {
    const auto at = std::min<std::ptrdiff_t>(a, std::ssize(shown));
    shown.insert(shown.begin() + at, 1);
    if (x.joined.empty()) x.axes.insert(x.axes.begin() + at, -1);
  }
  n.result(x.joined.empty() ? x : reshaped_by_layer(n.to, n.name(), x, shown));
}

void take_transpose(const node_view& n) {
  const auto& x = n.view(0);
  auto perm = n.integers("perm");
  if (perm.empty())
    for (auto a = static_cast<std::int64_t>(x.rank()); a-- > 0;) perm.push_back(a);
  auto sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted.size() != x.rank() || sorted[i] != static_cast<std::int64_t>(i)) throw refusal("perm is no order of the axes");
  n.result(with_axes_turned(x, perm));
}

// The extents of a value, with the number that stands for the batch.
void take_shape(const node_view& n) {
  tensor_value t;
  t.type = int64;
  t.whole = extents_asked(n, n.scores(0).shown());
  t.dims = {static_cast<std::int64_t>(t.whole.size())};
  n.result(std::move(t));
}

}  // namespace

handlers shape_handlers() {
  return {{"Identity", take_identity},   {"Cast", take_cast},           {"CastLike", take_cast_like},
          {"Flatten", take_flatten},     {"Reshape", take_reshape},     {"Squeeze", take_squeeze},
          {"Unsqueeze", take_unsqueeze}, {"Transpose", take_transpose}, {"Shape", take_shape}};
}

}  // namespace troupe::onnx
