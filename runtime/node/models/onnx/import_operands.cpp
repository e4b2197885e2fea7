// Sums, products and the like of several tensors, or of one and a constant; masks of attention.
#include <algorithm>
#include <optional>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

enum class operation : std::uint8_t { add, subtract, multiply, divide };

// The last two axes of t are a square with `open` on and below the diagonal and `masked` above it;
// the others are 1.
template <class Open, class Masked>
bool is_causal(const tensor_value& t, Open open, Masked masked) {
  const auto rank = t.dims.size();
  if (rank < 2 || t.uniform || t.dims[rank - 1] != t.dims[rank - 2] || t.count() != t.dims[rank - 1] * t.dims[rank - 1])
    return false;
  const auto steps = t.dims[rank - 1];
  for (std::int64_t row = 0; row < steps; ++row)
    for (std::int64_t column = 0; column < steps; ++column)
      if (const auto k = row * steps + column; column > row ? !masked(k) : !open(k)) return false;
  return true;
}

bool hides(float v) { return v <= -1e4F; }  // exp is 0 beside any score of a row

// x with the columns behind the diagonal masked, if that fits its extents.
std::optional<activation> masked_by(const activation& x, const tensor_value& t) {
  const auto shown = x.shown();
  const auto rank = shown.size();
  if (rank < 3 || t.dims.size() > rank || shown[rank - 1] != t.dims.back() || shown[rank - 2] != t.dims.back()) return std::nullopt;
  auto y = x;
  y.causal = true;
  return y;
}

// Scores where the constant condition allows it, and a very low number elsewhere.
void take_where(const node_view& n) {
  const bool first = n.constant_at(1);
  if (n.constant_at(0) && n.constant_at(first ? 1 : 2)) {
    const auto& condition = *std::get<constant>(n.input(0));
    const auto& low = n.reals(first ? 1 : 2, "masked value");
    const auto& x = n.view(first ? 2 : 1);
    const auto is = [&](bool wanted) {
      return [&condition, wanted](std::int64_t k) { return (condition.integer(k) != 0) == wanted; };
    };
    if (!is_real(condition.type) && low.count() == 1 && hides(low.real(0)) && is_causal(condition, is(!first), is(first)))
      if (auto y = masked_by(x, condition)) return n.result(*std::move(y));
  }
  throw refusal("only a mask of the columns behind the diagonal of square matrices, by a constant, is supported");
}

// A value for each place of an example: a layer between two reshapes.
activation by_place(const node_view& n, const activation& x, const char* type, const std::vector<float>& values) {
  const auto row = reshaped_by_layer(n.to, n.name() + "_row", x, {x.dims[0], product(x.dims, 1)});
  const auto y = n.layer(type, {plain_of(n.to, row)}, {}, {values});
  return reshaped_by_layer(n.to, n.name() + "_shape", y, x.dims);
}

bool is_sum(operation op) { return op == operation::add || op == operation::subtract; }

// The values of the constant as those of a sum or product.
std::vector<float> each_of(const tensor_value& c, operation op) {
  std::vector<float> values(static_cast<std::size_t>(c.count()));
  for (std::int64_t k = 0; k < c.count(); ++k) {
    const auto v = c.real(k);
    values[static_cast<std::size_t>(k)] = op == operation::subtract ? -v : op == operation::divide ? 1.0F / v : v;
  }
  return values;
}

// For a sum or product with a value for each place on one axis behind the channels, such as the
// values of [N, steps, values]: a layer on the tensor with that axis in front. False: the constant
// has no such values.
bool by_other_axis(const node_view& n, operation op, const batch_in_front& given, const tensor_value& c) {
  const auto& x = given.plain;
  const auto values = std::count_if(c.dims.begin(), c.dims.end(), [](std::int64_t e) { return e != 1; });
  if (values != 1 || c.dims.size() > x.dims.size() || !is_real(c.type)) return false;
  const auto axis =
      static_cast<std::size_t>(std::find_if(c.dims.begin(), c.dims.end(), [](auto e) { return e != 1; }) - c.dims.begin()) +
      x.dims.size() - c.dims.size();
  if (axis < 2 || x.dims[axis] != c.count()) return false;
  auto view = x;
  std::swap(view.axes[1], view.axes[axis]);
  auto y = n.layer(is_sum(op) ? "bias" : "scale", {plain_of(n.to, view)}, {}, {each_of(c, op)});
  std::swap(y.axes[1], y.axes[axis]);
  n.result(given.back(y));
  return true;
}

// True if the constant has the extents of an example of x, with axes of extent 1 in front or not.
bool of_example(const tensor_value& c, const extents& x) {
  auto dims = c.dims;
  while (dims.size() >= x.size() && !dims.empty() && dims[0] == 1) dims.erase(dims.begin());
  return dims.size() > 1 && dims.size() + 1 == x.size() && std::equal(dims.begin(), dims.end(), x.begin() + 1);
}

// For a sum or product with a value for each channel of a transposed view, such as [N, H, W, C]: a
// layer on the tensor behind the view, whose channels are in front. False: it is no such case.
bool by_channel_of_view(const node_view& n, operation op, const activation& x, const tensor_value& c, bool reversed) {
  const auto shown = x.shown();
  if (x.in_order() || !x.joined.empty() || x.causal || x.merged < 2 || reversed || !is_real(c.type) ||
      c.dims.size() > shown.size() || c.count() < 2)
    return false;
  const auto shift = shown.size() - c.dims.size();
  for (std::size_t a = 0; a < c.dims.size(); ++a)
    if (c.dims[a] != 1 && (x.axes[a + shift] != 1 || c.dims[a] != shown[a + shift])) return false;
  auto y = n.layer(is_sum(op) ? "bias" : "scale", {activation_of(x.tensor, x.dims)}, {}, {each_of(c, op)});
  n.result(seen_as(std::move(y), x));
  return true;
}

// x times a number, or divided by it: in the order of x's own axes. False: the constant is no such
// number.
bool by_number(const node_view& n, operation op, const activation& x, const tensor_value& c, bool reversed) {
  const bool scaled = op == operation::multiply || (op == operation::divide && !reversed);
  if (!scaled || c.count() != 1 || c.dims.size() > x.rank()) return false;
  const auto v = c.real(0);
  const auto factor = decimal_of(op == operation::divide ? 1.0F / v : v);
  if (factor == 1.0) {
    n.result(x);
    return true;
  }
  n.result(seen_as(n.layer("eltwise", {activation_of(x.tensor, x.dims)}, {{"coeffs", std::vector<double>{factor}}}), x));
  return true;
}

// The constant with the axis that meets the batch in front; it has one value for all examples.
tensor_value constant_turned(const tensor_value& c, const batch_in_front& x) {
  if (x.place == 0 || c.dims.size() + x.place < x.plain.dims.size() + 1) return c;
  auto turned = c;
  const auto at = turned.dims.begin() + static_cast<std::ptrdiff_t>(x.place + c.dims.size() - x.plain.dims.size());
  if (*at != 1) throw refusal("a constant of " + text_of(c.dims) + ", which has several values along the axis of the batch");
  std::rotate(turned.dims.begin(), at, at + 1);
  return turned;
}

bool is_causal_mask(const tensor_value& c) {
  const auto open = [&](std::int64_t k) { return c.real(k) == 0.0F; };
  const auto masked = [&](std::int64_t k) { return hides(c.real(k)); };
  return is_causal(c, open, masked) && c.dims.back() > 1;
}

// Layers for x op c, or c op x if `reversed`.
void with_constant(const node_view& n, operation op, const activation& given_x, const tensor_value& given_c, bool reversed) {
  const bool sum = op == operation::add || op == operation::subtract;
  if (op == operation::add && is_real(given_c.type) && is_causal_mask(given_c))
    if (auto y = masked_by(given_x, given_c)) return n.result(*std::move(y));
  if (by_channel_of_view(n, op, given_x, given_c, reversed) || by_number(n, op, given_x, given_c, reversed)) return;
  const auto turned = with_batch_in_front(n.to, given_x);
  const auto c = constant_turned(given_c, turned);
  auto x = turned.plain;
  if (reversed && op == operation::divide) throw refusal("a constant divided by a tensor is not supported");
  if (reversed && op == operation::subtract)
    x = add_layer(n.to, n.name() + "_negated", "eltwise", {x}, {{"coeffs", std::vector<double>{-1.0}}})[0];
  auto values = by_channel_of(c, x.dims);
  const bool placed = !values && (op == operation::add || op == operation::multiply) && of_example(c, x.dims);
  if (placed) {
    std::vector<float> all(static_cast<std::size_t>(c.count()));
    for (std::int64_t k = 0; k < c.count(); ++k) all[static_cast<std::size_t>(k)] = c.real(k);
    return n.result(turned.back(by_place(n, x, sum ? "bias" : "scale", all)));
  }
  if (!values && !reversed && by_other_axis(n, op, turned, c)) return;
  if (!values || product(c.dims) > static_cast<std::int64_t>(values->size()))
    throw refusal("a constant of " + text_of(c.dims) + " with a tensor of " + text_of(x.dims) +
                  "; one value, or one by channel (axis 1) is supported");
  if (op == operation::subtract && !reversed)
    for (auto& v : *values) v = -v;
  if (op == operation::divide)
    for (auto& v : *values) v = 1.0F / v;
  if (sum) return n.result(turned.back(n.layer("bias", {x}, {}, {*std::move(values)})));
  if (c.count() > 1) return n.result(turned.back(n.layer("scale", {x}, {}, {*std::move(values)})));
  n.result(turned.back(n.layer("eltwise", {x}, {{"coeffs", std::vector<double>{decimal_of((*values)[0])}}})));
}

// A layer eltwise of all inputs, which have one shape.
void all_inputs(const node_view& n, options_given given) {
  std::vector<activation> in;
  for (std::size_t k = 0; k < n.is.inputs.size(); ++k) in.push_back(n.view(k));
  if (in.empty()) throw refusal("it has no inputs");
  const auto first = in[0];
  const bool alike = std::all_of(in.begin(), in.end(), [&](const activation& x) {
    return x.dims == first.dims && x.axes == first.axes && x.merged == first.merged && x.joined == first.joined;
  });
  if (alike) {
    for (auto& x : in) x = activation_of(x.tensor, x.dims);
    return n.result(seen_as(n.layer("eltwise", in, std::move(given)), first));
  }
  settled_view view;
  for (auto& x : in) {
    if (x.shown() != first.shown())
      throw refusal("its inputs are " + text_of(first.shown()) + " and " + text_of(x.shown()) +
                    "; only equal extents are supported");
    auto own = settled(n.to, x);
    if (&x != in.data() && (own.groups != view.groups || own.plain.dims != view.plain.dims))
      throw refusal("its inputs have the batch on different axes");
    x = own.plain, view = std::move(own);
  }
  n.result(view.seen(n.layer("eltwise", in, std::move(given))));
}

// The product of input `a` [N, C, ...] and input `b` [N, C, 1, ...], as in squeeze and excitation.
// False: they are not of these extents.
bool times_channels(const node_view& n, std::size_t a, std::size_t b) {
  const auto shown = n.view(a).shown(), gate = n.view(b).shown();
  if (shown == gate || shown.size() < 3 || gate.size() != shown.size() || gate[0] != shown[0] || gate[1] != shown[1]) return false;
  if (product(gate, 2) != 1) return false;
  auto numbers = n.active(b);
  const auto& own = numbers.dims;
  const bool as_it_is = own.size() >= 2 && own[0] == gate[0] && own[1] == gate[1] && product(own, 2) == 1 && !numbers.causal;
  numbers = as_it_is ? activation_of(numbers.tensor, own) : n.plain(b);
  n.result(n.layer("channel_scale", {n.plain(a), numbers}));
  return true;
}

// The sum or difference of a tensor [N, C, H, W] and one [N, C, 1, 1], whose values are repeated.
// False: they are not of these extents.
bool plus_channels(const node_view& n, operation op) {
  const auto a = n.view(0).shown(), b = n.view(1).shown();
  if (a == b || a.size() != 4 || b.size() != 4 || a[0] != b[0] || a[1] != b[1]) return false;
  const std::size_t small = product(a, 2) == 1 ? 0 : 1;
  const auto& image = small == 0 ? b : a;
  if (product(small == 0 ? a : b, 2) != 1) return false;
  const options_given extent{{"height", image[2]}, {"width", image[3]}};
  const auto repeated = add_layer(n.to, n.name() + "_repeated", "upsample", {n.plain(small)}, extent)[0];
  const auto whole = n.plain(1 - small);
  options_given o;
  if (op == operation::subtract) o["coeffs"] = std::vector<double>{1.0, -1.0};
  n.result(n.layer("eltwise", {small == 0 ? repeated : whole, small == 0 ? whole : repeated}, o));
  return true;
}

void two_operands(const node_view& n, operation op) {
  if (n.is.inputs.size() != 2) throw refusal("it has " + std::to_string(n.is.inputs.size()) + " inputs instead of 2");
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}})
    if (n.constant_at(k)) return with_constant(n, op, n.view(1 - k), n.reals(k, "constant"), k == 0);
  if (op == operation::divide) throw refusal("only a constant divisor is supported");
  if (op == operation::multiply && (times_channels(n, 0, 1) || times_channels(n, 1, 0))) return;
  if ((op == operation::add || op == operation::subtract) && plus_channels(n, op)) return;
  options_given o;
  if (op == operation::multiply) o["operation"] = std::string("prod");
  if (op == operation::subtract) o["coeffs"] = std::vector<double>{1.0, -1.0};
  all_inputs(n, std::move(o));
}

void take_add(const node_view& n) { two_operands(n, operation::add); }
void take_sub(const node_view& n) { two_operands(n, operation::subtract); }
void take_mul(const node_view& n) { two_operands(n, operation::multiply); }
void take_div(const node_view& n) { two_operands(n, operation::divide); }
void take_sum(const node_view& n) { all_inputs(n, {}); }
void take_max(const node_view& n) { all_inputs(n, {{"operation", std::string("max")}}); }

}  // namespace

handlers operand_handlers() {
  return {{"Add", take_add}, {"Sub", take_sub}, {"Mul", take_mul},    {"Div", take_div},
          {"Sum", take_sum}, {"Max", take_max}, {"Where", take_where}};
}

}  // namespace troupe::onnx
