// Sums, products, comparisons and choices of constants: extents, factors of attention, and masks.
#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

// Two constants of equal extents, or one of them a single value: the extents of the result, and
// which value of each belongs to a place.
struct value_pair {
  const tensor_value &a, &b;
  const tensor_value& larger() const { return a.dims.size() > b.dims.size() || a.count() > b.count() ? a : b; }
  std::int64_t of_a(std::int64_t i) const { return a.count() == 1 ? 0 : i; }
  std::int64_t of_b(std::int64_t i) const { return b.count() == 1 ? 0 : i; }
};

value_pair pair_of(const tensor_value& a, const tensor_value& b) {
  if (is_real(a.type) != is_real(b.type) || (a.count() != b.count() && a.count() != 1 && b.count() != 1) || a.count() == 0 ||
      b.count() == 0)
    throw refusal("its inputs are constants; this is supported for numbers of one type and equal extents only");
  return {a, b};
}

// Sums, products and the like of whole numbers (extents) and real ones (factors, masks).
template <class F>
void fold_pair(const node_view& n, F f) {
  const auto both = pair_of(operand(n, 0), operand(n, 1));
  auto made = like(both.larger(), both.larger().dims);
  const auto count = made.count();
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_real(made.type)) {
      made.reals.push_back(f(both.a.real(both.of_a(i)), both.b.real(both.of_b(i))));
      continue;
    }
    const auto x = both.a.integer(both.of_a(i)), y = both.b.integer(both.of_b(i));
    constexpr auto most = std::int64_t{1} << 31;
    if (x > most || x < -most || y > most || y < -most) throw refusal("a number is too large");
    made.whole.push_back(f(x, y));
  }
  n.result(std::move(made));
}

void fold_add(const node_view& n) { fold_pair(n, std::plus<>()); }
void fold_sub(const node_view& n) { fold_pair(n, std::minus<>()); }
void fold_mul(const node_view& n) { fold_pair(n, std::multiplies<>()); }
void fold_div(const node_view& n) {
  fold_pair(n, [](auto x, auto y) {
    if (y == 0) throw refusal("a division by zero");
    return x / y;
  });
}

// --- masks of attention

void fold_equal(const node_view& n) {
  const auto both = pair_of(operand(n, 0), operand(n, 1));
  auto made = like(both.larger(), both.larger().dims);
  const bool real = is_real(made.type);
  made.type = boolean;
  const auto count = made.count();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = both.of_a(i), y = both.of_b(i);
    made.whole.push_back(real ? both.a.real(x) == both.b.real(y) : both.a.integer(x) == both.b.integer(y));
  }
  n.result(std::move(made));
}

void fold_not(const node_view& n) {
  const auto& t = operand(n, 0);
  if (is_real(t.type)) throw refusal("its input is of type " + element_name(t.type) + " instead of BOOL");
  auto made = like(t, t.dims);
  const auto count = made.count();
  for (std::int64_t i = 0; i < count; ++i) made.whole.push_back(t.integer(i) == 0);
  n.result(std::move(made));
}

void fold_where(const node_view& n) {
  const auto& condition = operand(n, 0);
  const auto both = pair_of(operand(n, 1), operand(n, 2));
  if (is_real(condition.type)) throw refusal("its condition is of type " + element_name(condition.type) + " instead of BOOL");
  const auto& larger = condition.count() > both.larger().count() ? condition : both.larger();
  const auto count = larger.count();
  if ((condition.count() != count && condition.count() != 1) || (both.larger().count() != count && both.larger().count() != 1))
    throw refusal("its inputs are constants; this is supported for equal extents only");
  auto made = like(both.a, larger.dims);
  for (std::int64_t i = 0; i < count; ++i) {
    const bool first = condition.integer(condition.count() == 1 ? 0 : i) != 0;
    const auto& from = first ? both.a : both.b;
    const auto at = first ? both.of_a(i) : both.of_b(i);
    if (is_real(made.type))
      made.reals.push_back(from.real(at));
    else
      made.whole.push_back(from.integer(at));
  }
  n.result(std::move(made));
}

// The values of the last two axes on and above a diagonal, or on and below it; zeros elsewhere.
void fold_trilu(const node_view& n) {
  const auto& t = operand(n, 0);
  if (t.dims.size() < 2) throw refusal("its input " + text_of(t.dims) + " is no matrix");
  const auto shifts = n.given(1) ? n.wholes(1, "diagonal") : extents{0};
  const bool upper = n.integer("upper", 1) != 0;
  if (shifts.size() != 1 || shifts[0] < -most_folded || shifts[0] > most_folded) throw refusal("its diagonal is not one number");
  auto made = like(t, t.dims);
  const auto columns = t.dims.back(), rows = t.dims[t.dims.size() - 2], count = made.count();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto column = i % columns, diagonal = i / columns % rows + shifts[0];
    const bool kept = upper ? column >= diagonal : column <= diagonal;
    if (is_real(t.type))
      made.reals.push_back(kept ? t.real(i) : 0.0F);
    else
      made.whole.push_back(kept ? t.integer(i) : 0);
  }
  n.result(std::move(made));
}

// Powers and roots of real numbers: factors of attention made of a shape.
template <class F>
void fold_reals(const node_view& n, const tensor_value& a, F f) {
  if (!is_real(a.type) || a.count() > 4096) throw refusal("its input is a constant; this is supported for few real numbers only");
  auto made = like(a, a.dims);
  for (std::int64_t i = 0; i < made.count(); ++i) made.reals.push_back(f(a.real(i)));
  n.result(std::move(made));
}
void fold_pow(const node_view& n) {
  const auto& power = operand(n, 1);
  if (!is_real(power.type) || power.count() != 1) throw refusal("its inputs are constants; the power is not one real number");
  fold_reals(n, operand(n, 0), [&](float v) { return std::pow(v, power.real(0)); });
}
void fold_sqrt(const node_view& n) {
  fold_reals(n, operand(n, 0), [](float v) { return std::sqrt(v); });
}

}  // namespace

handlers constant_math_handlers() {
  return {{"Add", fold_add},   {"Sub", fold_sub},     {"Mul", fold_mul}, {"Div", fold_div},     {"Pow", fold_pow},
          {"Sqrt", fold_sqrt}, {"Equal", fold_equal}, {"Not", fold_not}, {"Where", fold_where}, {"Trilu", fold_trilu}};
}

}  // namespace troupe::onnx
