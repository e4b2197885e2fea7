// cross_batch_norm: batch normalisation over the whole step, across packets and workers (Ioffe and
// Szegedy 2015, algorithm 1, with the statistics of the global batch: synchronised batch norm).
//   y  = gamma (x - mean) / sqrt(var + eps) + beta, per channel
//   dx = gamma r (dy - (sum dy + xhat sum(dy xhat)) / M), r = 1 / sqrt(var + eps)
// Mean, (biased) variance, sums and M are over all examples of all packets.
// Shapes: N x C [x H x W] -> same. Parameters: weight (gamma) [C], bias (beta) [C].
//
// An actor-based layer: a stage with its own messages. Phases of a packet in training:
//   sums       a task sums x and x^2 per channel; the result goes to the same stage of every worker
//              as `user` message 1
//   normalise  when the sums of all packets of the step have arrived, they are added in packet
//              order and a task normalises
//   backward   a task sums dy and dy xhat, sent as `user` message 2; when those of all packets have
//              arrived, a task computes dx
// Messages per step: packets x workers of each type, 2 C doubles each. Every worker receives all
// sums, so all have equal running statistics.
//
// Invariant: all packets of a step must be in flight at once, otherwise the stage deadlocks:
// sub_solvers >= packets of the worker with the most, checked when the job is prepared.
#include <algorithm>
#include <cmath>
#include <map>

#include "ops/device.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/stage/stage.hpp"

namespace {

using namespace troupe;

struct moments {
  std::vector<double> a, b;  // per channel: sums of x and x^2, or of dy and dy xhat
};

struct extent {
  std::int64_t n = 0, channels = 0, inner = 0;
};
extent extent_of(const shape& s) { return {s[0], s[1], s.count_from(2)}; }

template <class F>
void each(const tensor& t, F&& f) {
  t.type() == dtype::f64 ? f(double{}) : f(float{});
}

// sum_a[c] = sum of x, sum_b[c] = sum of x * z (z empty: x * x), in double.
moments add_up_channels(const tensor& x, const tensor& z) {
  const auto e = extent_of(x.dims());
  moments m{std::vector<double>(static_cast<std::size_t>(e.channels)), std::vector<double>(static_cast<std::size_t>(e.channels))};
  each(x, [&](auto zero) {
    using T = decltype(zero);
    const T* p = x.data<T>();
    const T* q = z ? z.data<T>() : p;
    for (std::int64_t n = 0; n < e.n; ++n)
      for (std::int64_t c = 0; c < e.channels; ++c)
        for (std::int64_t i = 0; i < e.inner; ++i, ++p, ++q) {
          m.a[static_cast<std::size_t>(c)] += static_cast<double>(*p);
          m.b[static_cast<std::size_t>(c)] += static_cast<double>(*p) * static_cast<double>(*q);
        }
  });
  return m;
}

// y = x scale[c] + shift[c], or with z: y = x scale[c] + z slope[c] + shift[c].
void affine(const tensor& x, const tensor& z, const std::vector<double>& scale, const std::vector<double>& slope,
            const std::vector<double>& shift, tensor& y) {
  const auto e = extent_of(x.dims());
  each(x, [&](auto zero) {
    using T = decltype(zero);
    const T* p = x.data<T>();
    const T* q = z ? z.data<T>() : p;
    T* r = y.mutable_data<T>();
    for (std::int64_t n = 0; n < e.n; ++n)
      for (std::int64_t c = 0; c < e.channels; ++c) {
        const auto k = static_cast<std::size_t>(c);
        for (std::int64_t i = 0; i < e.inner; ++i, ++p, ++q, ++r)
          *r = static_cast<T>(static_cast<double>(*p) * scale[k] + (z ? static_cast<double>(*q) * slope[k] : 0.0) + shift[k]);
      }
  });
}

std::vector<double> values_of(const tensor& t) {
  std::vector<double> v(static_cast<std::size_t>(t.count()));
  each(t, [&](auto zero) {
    using T = decltype(zero);
    std::transform(t.data<T>(), t.data<T>() + t.count(), v.begin(), [](T x) { return static_cast<double>(x); });
  });
  return v;
}

void assign(const std::vector<double>& v, tensor& t, device& d, bool accumulate) {
  t.back(d);
  each(t, [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < v.size(); ++i) {
      auto& x = t.mutable_data<T>()[i];
      x = static_cast<T>(v[i]) + (accumulate ? x : T(0));
    }
  });
}

// The maths of one normalisation, for sums over any set of packets.
struct normalisation {
  std::vector<double> mean, inverse;  // 1 / sqrt(var + eps)

  static normalisation from(const moments& m, double count, double eps) {
    normalisation n;
    for (std::size_t c = 0; c < m.a.size(); ++c) {
      n.mean.push_back(m.a[c] / count);
      n.inverse.push_back(1.0 / std::sqrt(std::max(0.0, m.b[c] / count - n.mean[c] * n.mean[c]) + eps));
    }
    return n;
  }
  void standardise(const tensor& x, tensor& xhat) const {
    std::vector<double> shift;
    for (std::size_t c = 0; c < mean.size(); ++c) shift.push_back(-mean[c] * inverse[c]);
    affine(x, {}, inverse, {}, shift, xhat);
  }
  void dx(const tensor& dy, const tensor& xhat, const std::vector<double>& gamma, const moments& total, double count,
          tensor& out) const {
    std::vector<double> scale, slope, shift;
    for (std::size_t c = 0; c < gamma.size(); ++c) {
      scale.push_back(gamma[c] * inverse[c]);
      slope.push_back(-scale[c] * total.b[c] / count);
      shift.push_back(-scale[c] * total.a[c] / count);
    }
    affine(dy, xhat, scale, slope, shift, out);
  }
};

// The layer for the graph and for check_layer: the same maths, with one packet as the whole step.
class cross_batch_norm final : public layer {
 public:
  explicit cross_batch_norm(double eps) : eps_(eps) {}
  double eps() const { return eps_; }

  shapes infer(const shapes& in) const override {
    if (in[0].rank() < 2) throw shape_error("wants N x C [x ...], got " + in[0].to_string());
    return {in[0]};
  }
  signatures supported() const override {
    return {{{distribution::split_0}, {distribution::broadcast, distribution::broadcast}, {distribution::split_0}}};
  }
  param_specs params(const shapes& in) const override {
    param_spec gamma, beta;
    gamma.name = "weight";
    beta.name = "bias";
    gamma.dims = beta.dims = shape{in[0][1]};
    gamma.filler.values.values = {{"value", 1.0}};
    beta.filler.values.values = {{"value", 0.0}};
    return {gamma, beta};
  }

  struct backward_needs backward_needs(const shapes& in) const override {
    return {.saved_bytes = in[0].count() * static_cast<std::int64_t>(sizeof(float))};
  }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const auto e = extent_of(in[0].dims());
    const auto n = normalisation::from(add_up_channels(in[0], {}), static_cast<double>(e.n * e.inner), eps_);
    s.extra = {tensor::allocate(c.dev, in[0].dims(), in[0].type())};
    n.standardise(in[0], s.extra[0]);
    out[0].back(c.dev);
    affine(s.extra[0], {}, values_of(params[0]), {}, values_of(params[1]), out[0]);
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const auto e = extent_of(grad_out[0].dims());
    const auto count = static_cast<double>(e.n * e.inner);
    const auto sums = add_up_channels(grad_out[0], s.extra[0]);
    if (grad_params[0]) assign(sums.b, grad_params[0], c.dev, accumulate);
    if (grad_params[1]) assign(sums.a, grad_params[1], c.dev, accumulate);
    if (!grad_in[0]) return;
    grad_in[0].back(c.dev);
    const auto n = normalisation::from(add_up_channels(s.inputs[0], {}), count, eps_);
    n.dx(grad_out[0], s.extra[0], values_of(params[0]), sums, count, grad_in[0]);
  }

 private:
  double eps_;
};

class cross_batch_norm_stage final : public stage {
 public:
  explicit cross_batch_norm_stage(stage_config c)
      : stage(std::move(c)), eps_(static_cast<const cross_batch_norm&>(*layout().hosted(0).maths).eps()) {
    const auto e = extent_of(layout().hosted(0).in[0]);
    total_count_ = static_cast<double>(e.n * e.inner) * config().plan->packets;
    running_.mean.assign(static_cast<std::size_t>(e.channels), 0.0);
    running_.inverse.assign(static_cast<std::size_t>(e.channels), 1.0);
  }

 protected:
  enum kind : std::uint32_t { sums, normalise, grad_sums, grads };
  enum type : std::uint32_t { forward_sums = 1, backward_sums = 2 };

  void begin_forward(slot& s, effects& out) override {
    if (!training(s))
      return run_own(
          s, normalise, [m = maths_of_stage(), n = running_](packet_work& w, task_context& c) { run_normalise(*m, w, n, c.dev); },
          {}, out);
    auto sum = begin_sum(s);
    run_own(
        s, sums,
        [m = maths_of_stage(), sum](packet_work& w, task_context& c) {
          m->gather(w, 0);
          *sum = pack(add_up_channels(w.passes[0].in[0], {}), c.dev);
        },
        {}, out);
  }

  void begin_backward(slot& s, effects& out) override {
    auto sum = begin_sum(s);
    run_own(
        s, grad_sums,
        [m = maths_of_stage(), sum](packet_work& w, task_context& c) {
          m->fill_grad_out(w, 0, c.dev);
          auto& pass = w.passes[0];
          const auto added = add_up_channels(pass.grad_out[0], pass.kept.extra[0]);
          if (pass.grad_params[0]) assign(added.b, pass.grad_params[0], c.dev, false);
          if (pass.grad_params[1]) assign(added.a, pass.grad_params[1], c.dev, false);
          *sum = pack(added, c.dev);
        },
        {}, out);
  }

  void on_task(slot& s, std::uint32_t task, effects& out) override {
    if (task == normalise) return forward_done(s, out);
    if (task == grads) return backward_done(s, out);
    user u;
    u.type = task == sums ? forward_sums : backward_sums;
    u.values = {*mine_[s.index]};
    for (auto peer : config().peers) out.send({reply(s, peer), u});
  }

  // Sums of one packet, from this worker or another.
  void on_user(const envelope& e, effects& out) override {
    const auto& u = std::get<user>(e.body);
    if ((u.type != forward_sums && u.type != backward_sums) || e.h.packet >= config().plan->packets || u.values.size() != 1 ||
        !holds(u.values[0], 2 * layout().hosted(0).in[0][1], dtype::f64))
      return;  // not trusted: a peer may send an invalid message
    auto& step = steps_[{e.h.step, u.type}];
    step.by_packet.resize(config().plan->packets);
    if (step.by_packet[e.h.packet]) return;  // a duplicate
    step.by_packet[e.h.packet] = u.values[0];
    if (++step.arrived < config().plan->packets) return;
    auto all = std::make_shared<moments>(total(step.by_packet));
    if (u.type == forward_sums) {
      now_ = normalisation::from(*all, total_count_, eps_);
      follow(now_);
    }
    for (std::uint32_t i = 0; i < config().slots; ++i) {
      auto& s = slot_at(i);
      if (s.at == slot::stage_of::free || !training(s) || s.h.step != e.h.step) continue;
      const auto m = maths_of_stage();
      if (u.type == forward_sums)
        run_own(
            s, normalise, [m, n = now_](packet_work& w, task_context& c) { run_normalise(*m, w, n, c.dev); }, {}, out);
      else
        run_own(
            s, grads,
            [m, n = now_, all, count = total_count_](packet_work& w, task_context& c) { run_grads(*m, w, n, *all, count, c.dev); },
            {}, out);
    }
    steps_.erase({e.h.step, u.type});
  }

 private:
  struct arrivals {
    std::vector<tensor> by_packet;
    std::uint32_t arrived = 0;
  };

  std::shared_ptr<tensor> begin_sum(const slot& s) {
    const auto channels = static_cast<std::int64_t>(running_.mean.size());
    return mine_[s.index] = std::make_shared<tensor>(tensor::declare({2, channels}, dtype::f64));
  }

  static tensor pack(const moments& m, device& d) {
    auto t = tensor::allocate(d, {2, static_cast<std::int64_t>(m.a.size())}, dtype::f64);
    std::copy(m.a.begin(), m.a.end(), t.mutable_data<double>());
    std::copy(m.b.begin(), m.b.end(), t.mutable_data<double>() + m.a.size());
    return t;
  }

  // Adds in packet order, which gives the same bits on every worker.
  static moments total(const std::vector<tensor>& packets) {
    moments m;
    for (const auto& t : packets) {
      const auto channels = static_cast<std::size_t>(t.dims()[1]);
      m.a.resize(channels), m.b.resize(channels);
      if (!t.backed()) continue;  // maths none
      for (std::size_t c = 0; c < channels; ++c) m.a[c] += t.data<double>()[c], m.b[c] += t.data<double>()[channels + c];
    }
    return m;
  }

  // Updates the running statistics for evaluation, an exponential mean over steps; equal on every
  // worker.
  void follow(const normalisation& n) {
    constexpr double keep = 0.9;
    for (std::size_t c = 0; c < n.mean.size(); ++c) {
      const auto variance = [](double inverse) { return 1.0 / (inverse * inverse); };
      const double v = keep * variance(running_.inverse[c]) + (1 - keep) * variance(n.inverse[c]);
      running_.mean[c] = keep * running_.mean[c] + (1 - keep) * n.mean[c];
      running_.inverse[c] = 1.0 / std::sqrt(v);
    }
  }

  static void run_normalise(const stage_maths& m, packet_work& w, const normalisation& n, device& d) {
    auto& pass = w.passes[0];
    m.gather(w, 0);
    pass.kept.extra = {tensor::allocate(d, pass.in[0].dims(), pass.in[0].type())};
    n.standardise(pass.in[0], pass.kept.extra[0]);
    pass.out[0].back(d);
    affine(pass.kept.extra[0], {}, values_of(pass.params[0]), {}, values_of(pass.params[1]), pass.out[0]);
  }

  static void run_grads(const stage_maths& m, packet_work& w, const normalisation& n, const moments& all, double count, device& d) {
    auto& pass = w.passes[0];
    if (pass.grad_in[0]) {
      pass.grad_in[0].back(d);
      n.dx(pass.grad_out[0], pass.kept.extra[0], values_of(pass.params[0]), all, count, pass.grad_in[0]);
    }
    m.hand_back(w, d);
  }

  double eps_, total_count_ = 1;
  normalisation running_, now_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, arrivals> steps_;
  std::map<std::uint32_t, std::shared_ptr<tensor>> mine_;  // by slot: the sums of its current task
};

expected<void> check(const job_plan& p, const graph_layer&) {
  std::uint32_t most = 0;
  for (const auto& r : p.ranges) most = std::max(most, r.count);
  if (p.sub_solvers >= most) return {};
  return unexpected(error("its statistics cover all packets of a step, so all must be in flight: a worker has " +
                          std::to_string(most) + " packets but sub_solvers = " + std::to_string(p.sub_solvers)));
}

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  option_spec eps;
  eps.name = "eps";
  eps.kind = option_kind::real;
  eps.fallback = 1e-5;
  eps.min = 1e-12;
  eps.doc = "added to the variance";
  layer_type row;
  row.name = "cross_batch_norm";
  row.doc = "Batch normalisation with the statistics of the whole step, across packets and workers. Ioffe and Szegedy 2015.";
  row.specs = {eps};
  row.make = [](const options& o) { return std::make_unique<cross_batch_norm>(o.real("eps")); };
  row.cases = {{"row", {}, {{4, 3}}},
               {"image", {}, {{2, 3, 4, 5}}},
               {"one_channel", {}, {{6, 1}}},
               {"tall", {}, {{3, 2, 7, 1}}},
               {"soft", {{{"eps", 0.1}}}, {{5, 4}}}};
  t.layers.add(std::move(row));
  t.stages.add("cross_batch_norm", {[](stage_config c) { return std::make_unique<cross_batch_norm_stage>(std::move(c)); }, check});
}
