#include "ops/check_layer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/layer_support.hpp"
#include "ops/packet_sum.hpp"
#include "ops/tensor_values.hpp"

namespace troupe {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::string numbered(const char* what, std::size_t i) { return std::string(what) + " " + std::to_string(i); }

// What goes into one pass and what comes out of it.
struct pass_values {
  tensors in, params, grad_out;
  dtype type = dtype::f64;  // of activations
};
struct pass_results {
  tensors out, grad_in, grad_params;
};

class checker {
 public:
  checker(const layer& l, bool takes_bf16, const layer_case& c, device& dev, const layer_check& how)
      : layer_(l),
        takes_bf16_(takes_bf16),
        case_(c),
        dev_(dev),
        how_(how),
        out_shapes_(l.infer(c.in)),
        specs_(l.params(c.in)),
        needs_(l.backward_needs(c.in)) {}

  std::vector<std::string> run() {
    const pass_values values = random_values(0);
    check_inputs();
    check_contract(values);
    if (findings_.empty() && differentiable()) {
      check_gradients(values);
      check_skipping(values);
      check_accumulate(values);
    }
    if (findings_.empty()) {
      check_statistics(values);
      check_purity();
      check_f32(values);
      if (takes_bf16_) check_bf16(values);
      if (layer_.in_place()) check_in_place(values);
      if (layer_.gathered()) check_gathered();
      check_test_phase(values);
    }
    return std::move(findings_);
  }

 private:
  void find(std::string what) { findings_.push_back(std::move(what)); }
  std::vector<dtype> types() const {
    return takes_bf16_ ? std::vector{dtype::f64, dtype::f32, dtype::bf16} : std::vector{dtype::f64, dtype::f32};
  }
  bool differentiable() const { return !layer_.is_metric(); }
  bool wants_gradient(std::size_t input) const { return differentiable() && layer_.differentiable(input); }

  // ---- values
  tensor random(shape s, std::uint32_t number, double deviation = 1.0) {
    tensor narrow = tensor::allocate(dev_, s, dtype::f32), wide = tensor::allocate(dev_, s, dtype::f64);
    dev_.fill_gaussian({how_.seed, number, 0x40000000U}, 0.0, deviation, narrow);
    dev_.copy(narrow, wide);  // values that f32 holds exactly, so that both types see the same
    return wide;
  }
  tensor labels(shape s, std::uint32_t number) {
    const tensor u = random(s, number);
    tensor t = tensor::allocate(dev_, s, dtype::i32);
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const auto n = static_cast<std::int64_t>(std::fabs(value(u, i)) * 1e6);
      t.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(n % std::max<std::int64_t>(case_.classes, 1));
    }
    return t;
  }
  pass_values random_values(std::uint32_t packet) {
    pass_values v;
    std::uint32_t number = packet * 1000;
    for (std::size_t i = 0; i < case_.in.size(); ++i) {
      const bool label = case_.integer_labels && i + 1 == case_.in.size();
      v.in.push_back(label ? labels(case_.in[i], ++number) : random(case_.in[i], ++number));
    }
    number = 500;  // parameters are shared by the packets
    for (const auto& p : specs_) {
      v.params.push_back(random(p.dims, ++number, 0.5));
      if (!p.trainable) dev_.map(unary::absolute, 0.0, v.params.back(), v.params.back());  // a running variance is not negative
    }
    number = packet * 1000 + 800;
    for (const auto& s : out_shapes_) v.grad_out.push_back(random(s, ++number));
    return v;
  }
  tensors converted(const tensors& from, dtype t) {
    tensors to;
    for (const auto& x : from) {
      to.push_back(x);
      if (!floating(x) || x.type() == t) continue;
      to.back() = tensor::allocate(dev_, x.dims(), t);
      dev_.copy(x, to.back());
    }
    return to;
  }
  // As a job in t has them.
  pass_values converted(const pass_values& v, dtype t) {
    pass_values w{converted(v.in, t), converted(v.params, wide_of(t)), {}, t};
    for (std::size_t i = 0; i < v.grad_out.size(); ++i)
      w.grad_out.push_back(converted({v.grad_out[i]}, output_type(layer_, i, t))[0]);
    return w;
  }
  tensor copied(const tensor& x) {
    tensor y = tensor::allocate(dev_, x.dims(), x.type());
    dev_.copy(x, y);
    return y;
  }
  tensors copied(const tensors& xs) {
    tensors ys;
    for (const auto& x : xs) ys.push_back(x ? copied(x) : tensor());
    return ys;
  }
  tensor poisoned(shape s, dtype t) {
    tensor x = tensor::allocate(dev_, s, t);
    dev_.fill(nan, x);
    return x;
  }
  tensors poisoned_outputs(dtype t) {
    tensors out;
    for (std::size_t i = 0; i < out_shapes_.size(); ++i) out.push_back(poisoned(out_shapes_[i], output_type(layer_, i, t)));
    return out;
  }
  tensors poisoned_like(const tensors& xs) {
    tensors ys;
    for (const auto& x : xs) ys.push_back(floating(x) ? poisoned(x.dims(), x.type()) : x);
    return ys;
  }

  // ---- passes
  context make_context(phase ph, std::uint32_t packet = 0) const {
    return {.dev = dev_,
            .ph = ph,
            .seed = how_.seed,
            .layer = 3,
            .step = 7,
            .first_example = 100ULL * packet,
            .packet = packet,
            .packets = 2};
  }
  std::unique_ptr<plan> make_plan(phase ph, dtype t) const { return layer_.prepare(dev_, case_.in, ph, t); }

  tensors forward(const pass_values& v, plan& p, saved& s, phase ph, std::uint32_t packet = 0) {
    context c = make_context(ph, packet);
    tensors out = poisoned_outputs(v.type);
    for (const auto* list : {&v.in, &v.params})
      for (tensor x : *list) x.freeze();
    layer_.forward(c, p, v.in, v.params, out, s);
    s.inputs = needs_.inputs ? v.in : poisoned_like(v.in);
    s.outputs = needs_.outputs ? out : poisoned_like(out);
    return out;
  }
  // `wanted_in` and `wanted_params` tell which gradients to ask for; those of `into` (if any) are added to.
  pass_results backward(const pass_values& v, plan& p, const saved& s, std::uint32_t packet = 0, bool want_in = true,
                        bool want_params = true, const tensors* into = nullptr) {
    context c = make_context(phase::train, packet);
    pass_results r;
    for (std::size_t i = 0; i < v.in.size(); ++i)
      r.grad_in.push_back(want_in && wants_gradient(i) ? poisoned(v.in[i].dims(), v.type) : tensor());
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      r.grad_params.push_back(want_params && specs_[i].trainable ? poisoned(specs_[i].dims, wide_of(v.type)) : tensor());
      if (into != nullptr && r.grad_params[i]) r.grad_params[i] = copied((*into)[i]);
    }
    layer_.backward(c, p, s, v.params, v.grad_out, r.grad_in, r.grad_params, into != nullptr);
    return r;
  }
  pass_results both(const pass_values& v, plan& p, std::uint32_t packet = 0) {
    saved s;
    tensors out = forward(v, p, s, phase::train, packet);
    pass_results r;
    if (differentiable()) r = backward(v, p, s, packet);
    r.out = std::move(out);
    return r;
  }
  double objective(const pass_values& v) {
    auto p = make_plan(phase::train, dtype::f64);
    saved s;
    const tensors out = forward(v, *p, s, phase::train);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i)
      for (std::int64_t j = 0; j < out[i].count(); ++j) sum += value(out[i], j) * value(v.grad_out[i], j);
    return sum;
  }

  // ---- checks
  void check_written(const char* what, const tensors& got, const shapes& declared) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (!got[i]) continue;
      if (!(got[i].dims() == declared[i]))
        find(numbered(what, i) + " is " + got[i].dims().to_string() + ", declared " + declared[i].to_string());
      else if (!got[i].backed())
        find(numbered(what, i) + " has no memory");
      else if (any_nan(got[i]))
        find(numbered(what, i) +
             " has elements that were not written, or NaN (was something used that backward_needs() does not ask for?)");
    }
  }

  void check_contract(const pass_values& v) {
    if (layer_.supported().empty()) find("supported() is empty");
    for (const auto& s : out_shapes_)
      if (s.count() <= 0) find("infer() yields an empty output " + s.to_string());
    const tensors in = copied(v.in), params = copied(v.params), grad_out = copied(v.grad_out);
    auto p = make_plan(phase::train, dtype::f64);
    saved s;
    const tensors out = forward(v, *p, s, phase::train);
    check_written("output", out, out_shapes_);
    check_saved(v, out, s);
    if (findings_.empty() && differentiable()) {
      const tensors kept = copied(out);
      const pass_results r = backward(v, *p, s);
      check_written("gradient of input", r.grad_in, case_.in);
      shapes dims;
      for (const auto& spec : specs_) dims.push_back(spec.dims);
      check_written("gradient of parameter", r.grad_params, dims);
      if (!same_bits(kept, out)) find("backward() changes an output of forward()");
    }
    if (!same_bits(in, v.in)) find("an input is changed");
    if (!same_bits(params, v.params)) find("a parameter is changed");
    if (!same_bits(grad_out, v.grad_out)) find("an incoming gradient is changed");
  }

  void check_saved(const pass_values& v, const tensors& out, const saved& s) {
    std::int64_t bytes = 0;
    for (const auto& x : s.extra) {
      const auto shared = [&](const tensor& y) { return x.same_storage(y); };
      if (!x.backed() || std::any_of(v.in.begin(), v.in.end(), shared) || std::any_of(out.begin(), out.end(), shared)) continue;
      bytes += x.count() * static_cast<std::int64_t>(floating(x) ? size_of(dtype::f32) : size_of(x.type()));
    }
    if (bytes > needs_.saved_bytes)
      find("forward() saves " + std::to_string(bytes) + " bytes, backward_needs() says " + std::to_string(needs_.saved_bytes));
  }

  void check_gradients(const pass_values& v) {
    auto p = make_plan(phase::train, dtype::f64);
    const pass_results r = both(v, *p);
    for (std::size_t i = 0; i < v.in.size(); ++i)
      if (wants_gradient(i)) check_gradient(numbered("input", i), v, &pass_values::in, i, r.grad_in[i]);
    for (std::size_t i = 0; i < v.params.size(); ++i)
      if (specs_[i].trainable) check_gradient("parameter '" + specs_[i].name + "'", v, &pass_values::params, i, r.grad_params[i]);
  }

  void check_gradient(const std::string& what, const pass_values& v, tensors pass_values::*list, std::size_t i,
                      const tensor& gradient) {
    const std::int64_t count = gradient.count(), stride = std::max<std::int64_t>(1, count / how_.samples);
    for (std::int64_t j = 0; j < count; j += stride) {
      const std::string error = compare(v, list, i, j, value(gradient, j));
      if (error.empty()) continue;
      find("gradient of " + what + ", element " + std::to_string(j) + ": " + error);
      return;  // one element tells enough
    }
  }

  // Central differences with the given step and a smaller one (a kink may lie within the larger step, but not within both unless
  // the point sits on it). On a kink, anything between the two one-sided derivatives is a right answer.
  std::string compare(const pass_values& v, tensors pass_values::*list, std::size_t i, std::int64_t j, double analytic) {
    const auto shifted = [&](double by) {
      pass_values w = v;
      tensor& t = (w.*list)[i];
      t = copied(t);
      t.mutable_data<double>()[j] += by;
      return objective(w);
    };
    const auto close = [&](double a, double b) {
      return std::fabs(a - b) <= how_.tolerance * std::max({1.0, std::fabs(a), std::fabs(b)});
    };
    const double x = value((v.*list)[i], j), here = objective(v);
    double left = 0, right = 0;
    for (const double factor : {1.0, 0.01}) {
      const double h = how_.step * factor * std::max(1.0, std::fabs(x));
      right = (shifted(h) - here) / h;
      left = (here - shifted(-h)) / h;
      if (close((left + right) / 2, analytic)) return "";
    }
    const bool kink = !close(left, right) && std::fabs(right - left) > 100 * how_.tolerance;
    const double low = std::min(left, right) - how_.tolerance, high = std::max(left, right) + how_.tolerance;
    if (kink && analytic >= low && analytic <= high) return "";
    return "backward() says " + std::to_string(analytic) + ", central differences " + std::to_string((left + right) / 2) +
           (kink ? " (at a kink: " + std::to_string(left) + " and " + std::to_string(right) + ")" : "");
  }

  void check_skipping(const pass_values& v) {
    auto p = make_plan(phase::train, dtype::f64);
    saved s;
    forward(v, *p, s, phase::train);
    const pass_results all = backward(v, *p, s);
    if (!same_bits(all.grad_params, backward(v, *p, s, 0, false, true).grad_params))
      find("gradients of parameters change when nobody wants those of inputs");
    if (!same_bits(all.grad_in, backward(v, *p, s, 0, true, false).grad_in))
      find("gradients of inputs change when nobody wants those of parameters");
    const pass_results none = backward(v, *p, s, 0, false, false);
    const auto unwanted = [](const tensor& t) { return bool(t); };
    if (std::any_of(none.grad_in.begin(), none.grad_in.end(), unwanted) ||
        std::any_of(none.grad_params.begin(), none.grad_params.end(), unwanted))
      find("a gradient that nobody wants is made");
  }

  void check_accumulate(const pass_values& v) {
    for (const dtype t : types()) {
      const pass_values w = converted(v, t);
      auto p = make_plan(phase::train, t);
      saved s;
      forward(w, *p, s, phase::train);
      const pass_results fresh = backward(w, *p, s);
      tensors before, sum;
      for (std::size_t i = 0; i < specs_.size(); ++i) {
        before.push_back(converted({random(specs_[i].dims, 900 + static_cast<std::uint32_t>(i))}, wide_of(t))[0]);
        sum.push_back(specs_[i].trainable ? copied(before[i]) : tensor());
        if (sum[i]) dev_.apply(binary::add, sum[i], fresh.grad_params[i], sum[i]);
      }
      const pass_results added = backward(w, *p, s, 0, true, true, &before);
      if (!same_bits(sum, added.grad_params))
        find(std::string("with accumulate, gradients of parameters are not old plus new (") + name_of(t) + ")");
      if (!same_bits(fresh.grad_in, added.grad_in)) find("accumulate changes gradients of inputs");
    }
  }

  // What it says that its inputs hold is what the case gives it, and it has a place for every label.
  void check_inputs() {
    for (std::size_t i = 0; i < case_.in.size(); ++i) {
      const bool label = case_.integer_labels && i + 1 == case_.in.size();
      const auto says = layer_.holds(i, case_.in);
      if (says == (label ? holding::values : holding::ids))
        find(numbered("input", i) + " is " + (label ? "labels" : "values") + " in this case, but holds() says " +
             (label ? "values" : "ids"));
      const auto below = label && says != holding::values ? layer_.ids_below(i, case_.in) : 0;
      if (below > 0 && below < case_.classes)
        find(numbered("input", i) + " has " + std::to_string(case_.classes) + " classes in this case, but ids_below() says " +
             std::to_string(below));
    }
  }

  // One statistic for each buffer, in training, and the same outputs whether somebody wants them or not.
  void check_statistics(const pass_values& v) {
    shapes wanted_dims;
    for (const auto& p : specs_)
      if (!p.trainable) wanted_dims.push_back(p.dims);
    tensors stats, out = poisoned_outputs(v.type);
    context c = make_context(phase::train);
    c.stats_out = &stats;
    saved s, t;
    layer_.forward(c, *make_plan(phase::train, dtype::f64), v.in, v.params, out, s);
    if (stats.size() != wanted_dims.size())
      return find("leaves " + std::to_string(stats.size()) + " statistics, has " + std::to_string(wanted_dims.size()) +
                  " parameters that are not trainable");
    check_written("statistic", stats, wanted_dims);
    if (!same_bits(out, forward(v, *make_plan(phase::train, dtype::f64), t, phase::train)))
      find("an output changes when somebody wants statistics");
  }

  // One packet after the other, against forward 0, forward 1, backward 0, backward 1, with two plans and with one.
  void check_purity() {
    const pass_values v[2] = {random_values(0), random_values(1)};
    pass_results alone[2];
    for (std::uint32_t k : {0U, 1U}) alone[k] = both(v[k], *make_plan(phase::train, dtype::f64), k);
    for (const bool shared : {false, true}) {
      std::unique_ptr<plan> plans[2] = {make_plan(phase::train, dtype::f64), make_plan(phase::train, dtype::f64)};
      saved s[2];
      tensors out[2];
      bool same = true;
      for (std::uint32_t k : {0U, 1U}) out[k] = forward(v[k], *plans[shared ? 0 : k], s[k], phase::train, k);
      for (std::uint32_t k : {0U, 1U}) {
        same = same && same_bits(out[k], alone[k].out);
        if (!differentiable()) continue;
        const pass_results r = backward(v[k], *plans[shared ? 0 : k], s[k], k);
        same = same && same_bits(r.grad_in, alone[k].grad_in) && same_bits(r.grad_params, alone[k].grad_params);
      }
      if (!same)
        find(std::string("impure: two packets in flight ") + (shared ? "through one plan" : "with a plan each") +
             " differ from one after the other; does the layer keep something of a pass?");
    }
  }

  void check_f32(const pass_values& v) {
    const pass_values narrow = converted(v, dtype::f32);
    const pass_results a = both(v, *make_plan(phase::train, dtype::f64)), b = both(narrow, *make_plan(phase::train, dtype::f32));
    compare_types("output", a.out, b.out, how_.f32_tolerance);
    compare_types("gradient of input", a.grad_in, b.grad_in, how_.f32_tolerance);
    compare_types("gradient of parameter", a.grad_params, b.grad_params, how_.f32_tolerance);
  }
  void check_bf16(const pass_values& given) {
    pass_values v = converted(given, dtype::bf16);
    v.params = converted(converted(v.params, dtype::bf16), dtype::f32);  // which products round
    const pass_results a = both(converted(v, dtype::f32), *make_plan(phase::train, dtype::f32)),
                       b = both(v, *make_plan(phase::train, dtype::bf16));
    check_written("in bf16, output", b.out, out_shapes_);
    for (std::size_t i = 0; i < b.out.size(); ++i)
      if (b.out[i].type() != output_type(layer_, i, v.type))
        find(numbered("in bf16, output", i) + " is " + name_of(b.out[i].type()));
    for (std::size_t i = 0; i < b.grad_in.size(); ++i)
      if (b.grad_in[i] && b.grad_in[i].type() != v.type) find(numbered("in bf16, gradient of input", i) + " is not");
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
  void compare_types(const char* what, const tensors& wide, const tensors& narrow, double tolerance) {
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (!wide[i]) continue;
      double largest = 1.0, error = 0;
      for (std::int64_t j = 0; j < wide[i].count(); ++j) {
        const double difference = std::fabs(value(wide[i], j) - value(narrow[i], j));
        largest = std::max(largest, std::fabs(value(wide[i], j)));
        error = std::isnan(difference) ? nan : std::max(error, difference);
        if (std::isnan(error)) break;
      }
      if (!(error <= tolerance * largest))
        find(numbered(what, i) + ": " + name_of(narrow[i].type()) + " differs from " + name_of(wide[i].type()) + " by " +
             std::to_string(error) + ", the largest being " + std::to_string(largest));
    }
  }

  // In the memory of what is read, in both phases and types: the same bits.
  void check_in_place(const pass_values& given) {
    if (case_.in.empty() || out_shapes_.size() != 1 || !(out_shapes_[0] == case_.in[0]))
      return find("in_place() with an output unlike input 0");
    for (const dtype t : types())
      for (const phase ph : {phase::train, phase::test}) {
        const pass_values v = converted(given, t);
        auto p = make_plan(ph, t);
        saved s;
        const tensors apart = forward(v, *p, s, ph);
        tensors in = v.in, out;
        in[0] = copied(in[0]);
        out.push_back(in[0]);
        context c = make_context(ph);
        saved again;
        if (!needs_.inputs || ph == phase::test) {  // else no host does it
          layer_.forward(c, *p, in, v.params, out, again);
          if (!same_bits(apart, out)) find("forward in the memory of input 0 makes other values");
        }
        if (ph == phase::test || !differentiable()) continue;
        const pass_results r = backward(v, *p, s);
        tensors grad_out = {copied(v.grad_out[0])}, grad_in = r.grad_in, grad_params = r.grad_params;
        grad_in[0] = grad_out[0];
        for (auto& g : grad_params)
          if (g) g = poisoned(g.dims(), g.type());
        layer_.backward(c, *p, s, v.params, grad_out, grad_in, grad_params, false);
        if (!same_bits(r.grad_in, grad_in) || !same_bits(r.grad_params, grad_params))
          find("backward in the memory of the incoming gradient makes other gradients");
      }
  }

  // Several packets as one, against one after the other and their gradients added.
  void check_gathered() {
    for (const dtype t : types())
      for (const std::uint32_t packets : {2U, 3U, 4U}) {
        std::vector<pass_values> each;
        std::vector<pass_results> alone;
        for (std::uint32_t k = 0; k < packets; ++k) {
          each.push_back(converted(random_values(k), t));
          alone.push_back(both(each[k], *make_plan(phase::train, t), k));
        }
        const auto of_each = [&](const auto& list, auto tensors_of) {
          tensors all;
          for (std::size_t i = 0; i < (list[0].*tensors_of).size(); ++i) {
            tensors parts;
            for (const auto& x : list) parts.push_back((x.*tensors_of)[i]);
            all.push_back(stacked(dev_, parts));
          }
          return all;
        };
        const pass_values v{of_each(each, &pass_values::in), each[0].params, of_each(each, &pass_values::grad_out), t};
        const pass_results want{of_each(alone, &pass_results::out), of_each(alone, &pass_results::grad_in), {}};
        shapes in;
        for (const auto& x : v.in) in.push_back(x.dims());
        auto p = layer_.prepare(dev_, in, phase::train, t);
        context c = make_context(phase::train);
        saved s;
        tensors out = poisoned_like(want.out);
        layer_.gathered()->forward_all(c, packets, *p, v.in, v.params, out, s);
        const std::string what = std::to_string(packets) + " packets as one (" + name_of(t) + "): ";
        if (!same_bits(want.out, out)) find(what + "other outputs than one by one");
        if (!differentiable()) continue;
        s.inputs = needs_.inputs ? v.in : poisoned_like(v.in);
        s.outputs = needs_.outputs ? out : poisoned_like(out);
        tensors grad_in, grad_params, sums;
        for (const auto& g : want.grad_in) grad_in.push_back(g ? poisoned(g.dims(), g.type()) : tensor());
        for (std::size_t i = 0; i < specs_.size(); ++i) {
          const auto& g = alone[0].grad_params[i];
          grad_params.push_back(g ? poisoned(g.dims(), g.type()) : tensor());
          sums.push_back(grad_params[i] ? copied(g) : tensor());
          if (sums[i])
            sum_over_packets(dev_, packets, sums[i],
                             [&](std::int64_t k, tensor& to) { dev_.copy(alone[static_cast<std::size_t>(k)].grad_params[i], to); });
        }
        layer_.gathered()->backward_all(c, packets, *p, s, v.params, v.grad_out, grad_in, grad_params);
        if (!same_bits(want.grad_in, grad_in)) find(what + "other gradients of inputs than one by one");
        if (!same_bits(sums, grad_params)) find(what + "gradients of parameters are not the sum over the packets");
      }
  }

  void check_test_phase(const pass_values& v) {
    saved s;
    check_written("test phase: output", forward(v, *make_plan(phase::test, dtype::f64), s, phase::test), out_shapes_);
  }

  const layer& layer_;
  const bool takes_bf16_;
  const layer_case& case_;
  device& dev_;
  const layer_check& how_;
  shapes out_shapes_;
  param_specs specs_;
  struct backward_needs needs_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> check_layer(const layer_type& type, const layer_case& c, device& dev, const layer_check& how) {
  try {
    const auto made = type.make(check_options(c.given, type.specs));
    return checker(*made, type.takes_bf16, c, dev, how).run();
  } catch (const option_error& e) {
    return {std::string("options: ") + e.what()};
  } catch (const shape_error& e) {
    return {std::string("infer(): ") + e.what()};
  }
}

std::vector<std::string> check_layer_type(const layer_type& type, device& dev, const layer_check& how) {
  std::vector<std::string> all;
  if (type.doc.empty()) all.push_back("the row has no doc");
  for (const auto& s : type.specs)
    if (s.doc.empty()) all.push_back("option '" + s.name + "' has no doc");
  if (type.cases.size() < 5) all.push_back("fewer than five cases");
  for (const auto& c : type.cases) {
    const auto inputs = static_cast<int>(c.in.size());
    if (inputs < type.min_inputs || inputs > type.max_inputs)
      all.push_back("case '" + c.name + "': " + std::to_string(inputs) + " inputs, the row allows " +
                    std::to_string(type.min_inputs) + " to " + std::to_string(type.max_inputs));
    for (const auto& finding : check_layer(type, c, dev, how)) all.push_back("case '" + c.name + "': " + finding);
  }
  return all;
}

}  // namespace troupe
