// Nodes whose inputs are constants: shapes that torch.onnx.export computes in the graph, and
// weights that it transposes.
#include <algorithm>
#include <utility>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {

const tensor_value& operand(const node_view& n, std::size_t k) {
  if (!n.constant_at(k)) throw refusal("input " + std::to_string(k) + " must be a constant");
  return *std::get<constant>(n.input(k));
}

// A tensor of the type and extents, without values.
tensor_value like(const tensor_value& t, extents dims) {
  tensor_value made;
  made.type = t.type, made.dims = std::move(dims);
  std::int64_t count = 1;
  for (const auto e : made.dims) {
    if (e < 0 || (e > 0 && count > most_folded / e)) throw refusal("a constant of " + text_of(made.dims) + " values is too large");
    count *= e;
  }
  return made;
}

namespace {

// Copies values: value i of `to` is value from(i) of `t`.
template <class F>
void pick(const tensor_value& t, tensor_value& to, F from) {
  const auto count = to.count();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = from(i);
    if (is_real(t.type))
      to.reals.push_back(t.real(at));
    else
      to.whole.push_back(t.integer(at));
  }
}

void fold_constant(const node_view& n) {
  tensor_value t;
  if (const auto* a = n.find("value"); a && a->tensor) return n.result(*a->tensor);
  if (const auto* a = n.find("value_float")) {
    t.reals = {a->real};
  } else if (const auto* b = n.find("value_int")) {
    t.type = int64, t.whole = {b->integer};
  } else if (const auto* c = n.find("value_ints")) {
    t.type = int64, t.whole = c->integers, t.dims = {std::ssize(c->integers)};
  } else if (const auto* d = n.find("value_floats")) {
    t.reals = d->reals, t.dims = {std::ssize(d->reals)};
  } else {
    throw refusal("its value is not supported");
  }
  n.result(std::move(t));
}

void fold_same(const node_view& n) { n.result(operand(n, 0)); }

void fold_cast(const node_view& n) {
  const auto& t = operand(n, 0);
  auto made = like(t, t.dims);
  made.type = static_cast<std::int32_t>(n.integer("to", 0));
  if (made.type != int64 && made.type != int32 && made.type != boolean && !is_real(made.type))
    throw refusal("a conversion to " + element_name(made.type) + " is not supported");
  for (std::int64_t i = 0; i < t.count(); ++i) {
    if (is_real(made.type)) {
      made.reals.push_back(is_real(t.type) ? t.real(i) : static_cast<float>(t.integer(i)));
      continue;
    }
    const double v = is_real(t.type) ? static_cast<double>(t.real(i)) : 0.0;
    if (!(v > -9e18 && v < 9e18)) throw refusal("a number does not fit into " + element_name(made.type));
    made.whole.push_back(is_real(t.type) ? static_cast<std::int64_t>(v) : t.integer(i));
  }
  n.result(std::move(made));
}

// To real numbers, or to whole ones, as input 1 has them.
void fold_cast_like(const node_view& n) {
  const auto& t = operand(n, 0);
  if (is_real(t.type) != is_real(operand(n, 1).type)) throw refusal("a conversion between real and whole numbers is not supported");
  n.result(t);
}

void fold_reshape(const node_view& n) {
  const auto& t = operand(n, 0);
  auto to = n.wholes(1, "shape");
  std::int64_t rest = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0) to[i] = i < t.dims.size() ? t.dims[i] : 0;
    if (to[i] < -1 || to[i] > most_folded / rest) throw refusal("its shape is not possible");
    if (to[i] > 0) rest *= to[i];
  }
  for (auto& e : to)
    if (e == -1) e = t.count() / rest;
  auto made = t;
  made.dims = like(t, std::move(to)).dims;
  if (made.count() != t.count()) throw refusal("its shape has another number of values");
  n.result(std::move(made));
}

void fold_unsqueeze(const node_view& n) {
  auto made = operand(n, 0);
  auto axes = n.list("axes", 1);
  for (auto& a : axes) a = n.axis(a, made.dims.size() + axes.size());
  std::sort(axes.begin(), axes.end());
  for (const auto a : axes) made.dims.insert(made.dims.begin() + std::min<std::ptrdiff_t>(a, std::ssize(made.dims)), 1);
  n.result(std::move(made));
}

void fold_squeeze(const node_view& n) {
  auto made = operand(n, 0);
  auto axes = n.list("axes", 1);
  for (auto& a : axes) a = n.axis(a, made.dims.size());
  extents left;
  for (std::size_t a = 0; a < made.dims.size(); ++a) {
    const bool named =
        axes.empty() ? made.dims[a] == 1 : std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(a)) != axes.end();
    if (named && made.dims[a] != 1) throw refusal("an axis of " + text_of(made.dims) + " is not 1");
    if (!named) left.push_back(made.dims[a]);
  }
  made.dims = std::move(left);
  n.result(std::move(made));
}

extents strides_of(const extents& dims) {
  extents s(dims.size(), 1);
  for (std::size_t a = dims.size(); a-- > 1;) s[a - 1] = s[a] * dims[a];
  return s;
}

void fold_transpose(const node_view& n) {
  const auto& t = operand(n, 0);
  auto perm = n.integers("perm");
  if (perm.empty())
    for (auto a = std::ssize(t.dims); a-- > 0;) perm.push_back(a);
  auto sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted.size() != t.dims.size() || sorted[i] != static_cast<std::int64_t>(i)) throw refusal("perm is no order of the axes");
  if (perm.size() != t.dims.size()) throw refusal("perm is no order of the axes");
  extents dims;
  for (const auto p : perm) dims.push_back(t.dims[static_cast<std::size_t>(p)]);
  auto made = like(t, dims);
  const auto from = strides_of(t.dims), to = strides_of(dims);
  pick(t, made, [&](std::int64_t i) {
    std::int64_t at = 0;
    for (std::size_t a = 0; a < perm.size(); ++a) at += i / to[a] % dims[a] * from[static_cast<std::size_t>(perm[a])];
    return at;
  });
  n.result(std::move(made));
}

void fold_concat(const node_view& n) {
  const auto& first = operand(n, 0);
  const auto axis = static_cast<std::size_t>(n.axis(n.integer("axis", 0), first.dims.size()));
  auto dims = first.dims;
  dims[axis] = 0;
  for (std::size_t k = 0; k < n.is.inputs.size(); ++k) {
    auto other = operand(n, k).dims;
    const bool same_rank = other.size() == dims.size() && is_real(operand(n, k).type) == is_real(first.type);
    const auto extent = same_rank ? std::exchange(other[axis], dims[axis]) : 0;
    if (!same_rank || other != dims) throw refusal("its constants have different extents");
    dims[axis] += extent;
  }
  auto made = like(first, dims);
  const auto inner = product(dims, axis + 1), rows = made.count() == 0 ? 0 : made.count() / (inner * dims[axis]);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::size_t k = 0; k < n.is.inputs.size(); ++k) {
      const auto& t = operand(n, k);
      const auto length = t.dims[axis] * inner;
      for (std::int64_t i = row * length; i < (row + 1) * length; ++i) {
        if (is_real(t.type))
          made.reals.push_back(t.real(i));
        else
          made.whole.push_back(t.integer(i));
      }
    }
  n.result(std::move(made));
}

void fold_gather(const node_view& n) {
  const auto& t = operand(n, 0);
  const auto from = n.wholes(1, "indices");
  if (t.dims.size() != 1 || n.integer("axis", 0) != 0) throw refusal("only single values of a list of constants are supported");
  auto made = like(t, operand(n, 1).dims);
  for (const auto i : from)
    if (i < -t.dims[0] || i >= t.dims[0]) throw refusal("an index is outside its axis");
  pick(t, made, [&](std::int64_t i) {
    const auto at = from[static_cast<std::size_t>(i)];
    return at < 0 ? at + t.dims[0] : at;
  });
  n.result(std::move(made));
}

// One value for all elements, which are not stored.
void fold_uniform(const node_view& n, const tensor_value& of, extents dims) {
  tensor_value made;
  made.type = of.type, made.uniform = true;
  std::int64_t count = 1;
  for (const auto e : dims) {
    if (e < 0 || (e > 0 && count > (std::int64_t{1} << 40) / e))
      throw refusal("a constant of " + text_of(dims) + " values is too large");
    count *= e;
  }
  made.dims = std::move(dims);
  if (is_real(of.type))
    made.reals = {of.real(0)};
  else
    made.whole = {of.integer(0)};
  n.result(std::move(made));
}

void fold_slice(const node_view& n) {
  const auto& t = operand(n, 0);
  const auto starts = n.list("starts", 1), ends = n.list("ends", 2);
  auto axes = n.list("axes", 3), steps = n.list("steps", 4);
  for (std::int64_t a = 0; axes.size() < starts.size(); ++a) axes.push_back(a);
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size())
    throw refusal("starts, ends, axes and steps have different lengths");
  extents at(t.dims.size(), 0), dims = t.dims, by(t.dims.size(), 1);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto a = static_cast<std::size_t>(n.axis(axes[k], t.dims.size()));
    const auto extent = t.dims[a];
    const bool up = steps[k] > 0;
    if (steps[k] == 0 || steps[k] < -most_folded || steps[k] > most_folded) throw refusal("a step is " + std::to_string(steps[k]));
    const auto place = [&](std::int64_t v, std::int64_t least, std::int64_t most) {
      return std::clamp<std::int64_t>(v < 0 ? std::max(v, -extent - 1) + extent : v, least, most);
    };
    const auto begin = up ? place(starts[k], 0, extent) : place(starts[k], 0, extent - 1),
               end = up ? place(ends[k], 0, extent) : place(ends[k], -1, extent - 1);
    const auto room = up ? end - begin : begin - end, step = up ? steps[k] : -steps[k];
    at[a] = begin, by[a] = steps[k], dims[a] = extent == 0 || room <= 0 ? 0 : (room - 1) / step + 1;
  }
  if (t.uniform) return fold_uniform(n, t, dims);
  auto made = like(t, dims);
  const auto from = strides_of(t.dims), to = strides_of(dims);
  pick(t, made, [&](std::int64_t i) {
    std::int64_t from_at = 0;
    for (std::size_t a = 0; a < dims.size(); ++a) from_at += (i / to[a] % dims[a] * by[a] + at[a]) * from[a];
    return from_at;
  });
  n.result(std::move(made));
}

void fold_shape(const node_view& n) {
  tensor_value made;
  made.type = int64, made.whole = extents_asked(n, operand(n, 0).dims), made.dims = {std::ssize(made.whole)};
  n.result(std::move(made));
}

void fold_constant_of_shape(const node_view& n) {
  tensor_value zero;
  zero.reals = {0.0F};
  const auto* a = n.find("value");
  if (a && (!a->tensor || a->tensor->count() != 1)) throw refusal("its value is not one number");
  fold_uniform(n, a ? *a->tensor : zero, n.wholes(0, "shape"));
}

void fold_expand(const node_view& n) {
  const auto& t = operand(n, 0);
  const bool one =
      t.uniform || t.count() == 1 ||
      (t.count() > 0 && is_real(t.type) && std::all_of(t.reals.begin(), t.reals.end(), [&](float v) { return v == t.reals[0]; }));
  if (!one) throw refusal("only a constant of one value can be expanded");
  fold_uniform(n, t, n.wholes(1, "shape"));
}

}  // namespace

handlers constant_handlers() {
  return {{"Constant", fold_constant},   {"Identity", fold_same},
          {"Cast", fold_cast},           {"CastLike", fold_cast_like},
          {"Reshape", fold_reshape},     {"Squeeze", fold_squeeze},
          {"Unsqueeze", fold_unsqueeze}, {"Transpose", fold_transpose},
          {"Concat", fold_concat},       {"Gather", fold_gather},
          {"Slice", fold_slice},         {"Expand", fold_expand},
          {"Shape", fold_shape},         {"ConstantOfShape", fold_constant_of_shape}};
}

}  // namespace troupe::onnx
