// Comparison of narrow types with wide ones.
#include <algorithm>
#include <cmath>

#include "ops/check_layer_checker.hpp"

namespace troupe {

void layer_checker::check_f32(const pass_values& v) {
  const pass_values narrow = converted(v, dtype::f32);
  const pass_results a = both(v, *make_plan(phase::train, dtype::f64)), b = both(narrow, *make_plan(phase::train, dtype::f32));
  compare_types("output", a.out, b.out, how_.f32_tolerance);
  compare_types("gradient of input", a.grad_in, b.grad_in, how_.f32_tolerance);
  compare_types("gradient of parameter", a.grad_params, b.grad_params, how_.f32_tolerance);
}

void layer_checker::check_bf16(const pass_values& given) {
  pass_values v = converted(given, dtype::bf16);
  v.params = converted(converted(v.params, dtype::bf16), dtype::f32);  // to the precision of products
  const pass_results a = both(converted(v, dtype::f32), *make_plan(phase::train, dtype::f32)),
                     b = both(v, *make_plan(phase::train, dtype::bf16));
  check_written("in bf16, output", b.out, out_shapes_);
  for (std::size_t i = 0; i < b.out.size(); ++i)
    if (b.out[i].type() != output_type(layer_, i, v.type)) find(numbered("in bf16, output", i) + " is " + name_of(b.out[i].type()));
  for (std::size_t i = 0; i < b.grad_in.size(); ++i)
    if (b.grad_in[i] && b.grad_in[i].type() != v.type) find(numbered("in bf16, gradient of input", i) + " is not bf16");
  for (std::size_t i = 0; i < b.grad_params.size(); ++i)
    if (b.grad_params[i] && b.grad_params[i].type() != dtype::f32)
      find(numbered("in bf16, gradient of parameter", i) + " is not f32");
  compare_types("output", a.out, b.out, how_.bf16_tolerance);
  compare_types("gradient of input", a.grad_in, b.grad_in, how_.bf16_tolerance);
  compare_types("gradient of parameter", a.grad_params, b.grad_params, how_.bf16_tolerance);
  saved s, t;
  compare_types("test phase: output", forward(converted(v, dtype::f32), *make_plan(phase::test, dtype::f32), s, phase::test),
                forward(v, *make_plan(phase::test, dtype::bf16), t, phase::test), how_.bf16_tolerance);
}

void layer_checker::compare_types(const char* what, const tensors& wide, const tensors& narrow, double tolerance) {
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (!wide[i]) continue;
    const tensor a = home(wide[i]), b = home(narrow[i]);
    double largest = 1.0, error = 0;
    for (std::int64_t j = 0; j < a.count(); ++j) {
      const double difference = std::fabs(value(a, j) - value(b, j));
      largest = std::max(largest, std::fabs(value(a, j)));
      error = std::isnan(difference) ? nan : std::max(error, difference);
      if (std::isnan(error)) break;
    }
    if (!(error <= tolerance * largest))
      find(numbered(what, i) + ": " + name_of(narrow[i].type()) + " differs from " + name_of(wide[i].type()) + " by " +
           real_text(error) + "; the largest element is " + real_text(largest));
  }
}

}  // namespace troupe
