// Convolution with oneDNN's primitives (algorithm "onednn"). The library chooses the layouts of all
// three tensors. Tensors in other layouts (activations NCHW, weights OIHW) are reordered on input
// and output, so a pass costs its convolution and up to three passes over memory. Between two
// consecutive convolutions (conv_geometry::own_x, own_y), activations are in the blocked layout
// that the library usually prefers, and are reordered only if it does not. The primitives, and
// therefore the bits, are the same in both cases.
//
// Primitives are cached by geometry and pass, for the whole process. A primitive is immutable: its
// scratch memory belongs to the caller and comes from the device's pool. Any number of threads can
// run one at the same time, and there is no state that could change results. Each thread sets
// OpenMP's thread count to one before it creates or runs a primitive, since the library splits its
// work, and with it its sums, by that number.
#include <omp.h>

#include <array>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "ops/cpu/conv_stage.hpp"
#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

namespace {

using dnnl::memory;

// Never destroyed: threads may outlive static objects, and primitives refer to it.
dnnl::engine& the_engine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

void stay_single() {
  thread_local const bool single = (omp_set_num_threads(1), true);
  (void)single;
}

dnnl::primitive_attr with_own_scratch() {
  dnnl::primitive_attr a;
  a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return a;
}

// A tensor of a pass: its layout here, the primitive's layout, and the reorder between them.
struct operand {
  int name = 0;  // DNNL_ARG_...
  memory::desc ours, theirs;
  bool reordered = false;
  dnnl::reorder reorder;
  memory::desc reorder_scratch;
};

struct pass_plan {
  operand first, second, result;
  memory::desc bias;  // of passes with a bias: forward, and the gradient that is computed with that of the weights
  dnnl::primitive primitive;
  memory::desc scratch;
};

memory::dims pair(i64 h, i64 w) { return {h, w}; }

struct shapes_of {
  memory::dims x, w, y, stride, dilation, pad;
  memory::desc x_ours, w_ours, y_ours;
  explicit shapes_of(const conv_geometry& g)
      : x{g.batch, g.channels, g.height, g.width},
        w{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w},
        y{g.batch, g.outputs, g.out_h(), g.out_w()},
        stride(pair(g.stride_h, g.stride_w)),
        dilation(pair(g.dilation_h - 1, g.dilation_w - 1)),
        pad(pair(g.pad_h, g.pad_w)) {
    using tag = memory::format_tag;
    if (g.groups > 1) w = {g.groups, g.group_outputs(), g.group_channels(), g.kernel_h, g.kernel_w};
    const tag blocks = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core ? tag::nChw16c : tag::nChw8c;
    x_ours = {x, memory::data_type::f32, g.own_x ? blocks : tag::nchw};
    w_ours = {w, memory::data_type::f32, g.groups > 1 ? tag::goihw : tag::oihw};
    y_ours = {y, memory::data_type::f32, g.own_y ? blocks : tag::nchw};
  }
  static memory::desc any(const memory::dims& d) { return {d, memory::data_type::f32, memory::format_tag::any}; }
};

operand operand_of(int name, const memory::desc& ours, const memory::desc& theirs, bool is_result) {
  operand o{name, ours, theirs, ours != theirs, {}, {}};
  if (!o.reordered) return o;
  const auto &from = is_result ? theirs : ours, &to = is_result ? ours : theirs;
  const dnnl::reorder::primitive_desc d(the_engine(), from, the_engine(), to, with_own_scratch());
  o.reorder = dnnl::reorder(d);
  o.reorder_scratch = d.scratchpad_desc();
  return o;
}

constexpr auto algorithm = dnnl::algorithm::convolution_direct;  // plain sums; Winograd is a separate algorithm here

memory::desc bias_of(const conv_geometry& g) { return {{g.outputs}, memory::data_type::f32, memory::format_tag::x}; }

dnnl::convolution_forward::primitive_desc forward_desc(const conv_geometry& g, const shapes_of& s, bool bias) {
  using forward = dnnl::convolution_forward;
  const auto any = shapes_of::any;
  const auto kind = dnnl::prop_kind::forward_training;
  const auto d = bias ? forward::desc(kind, algorithm, any(s.x), any(s.w), bias_of(g), any(s.y), s.stride, s.dilation, s.pad, s.pad)
                      : forward::desc(kind, algorithm, any(s.x), any(s.w), any(s.y), s.stride, s.dilation, s.pad, s.pad);
  return {d, with_own_scratch(), the_engine()};
}

pass_plan make_forward(const conv_geometry& g, bool bias) {
  const shapes_of s(g);
  const auto d = forward_desc(g, s, bias);
  return {operand_of(DNNL_ARG_SRC, s.x_ours, d.src_desc(), false),
          operand_of(DNNL_ARG_WEIGHTS, s.w_ours, d.weights_desc(), false),
          operand_of(DNNL_ARG_DST, s.y_ours, d.dst_desc(), true),
          bias ? d.bias_desc() : memory::desc(),
          dnnl::convolution_forward(d),
          d.scratchpad_desc()};
}

pass_plan make_backward_data(const conv_geometry& g) {
  const shapes_of s(g);
  using backward = dnnl::convolution_backward_data;
  const auto any = shapes_of::any;
  const backward::desc wanted(algorithm, any(s.x), any(s.w), any(s.y), s.stride, s.dilation, s.pad, s.pad);
  const backward::primitive_desc d(wanted, with_own_scratch(), the_engine(), forward_desc(g, s, false));
  return {operand_of(DNNL_ARG_DIFF_DST, s.y_ours, d.diff_dst_desc(), false),
          operand_of(DNNL_ARG_WEIGHTS, s.w_ours, d.weights_desc(), false),
          operand_of(DNNL_ARG_DIFF_SRC, s.x_ours, d.diff_src_desc(), true),
          {},
          backward(d),
          d.scratchpad_desc()};
}

pass_plan make_backward_weights(const conv_geometry& g, bool bias) {
  const shapes_of s(g);
  using backward = dnnl::convolution_backward_weights;
  const auto any = shapes_of::any;
  const auto wanted = bias ? backward::desc(algorithm, any(s.x), any(s.w), bias_of(g), any(s.y), s.stride, s.dilation, s.pad, s.pad)
                           : backward::desc(algorithm, any(s.x), any(s.w), any(s.y), s.stride, s.dilation, s.pad, s.pad);
  const backward::primitive_desc d(wanted, with_own_scratch(), the_engine(), forward_desc(g, s, bias));
  return {operand_of(DNNL_ARG_SRC, s.x_ours, d.src_desc(), false),
          operand_of(DNNL_ARG_DIFF_DST, s.y_ours, d.diff_dst_desc(), false),
          operand_of(DNNL_ARG_DIFF_WEIGHTS, s.w_ours, d.diff_weights_desc(), true),
          bias ? d.diff_bias_desc() : memory::desc(),
          backward(d),
          d.scratchpad_desc()};
}

// --- the cache

using plan_key = std::array<i64, 18>;
plan_key key_of(const conv_geometry& g, conv_pass pass, bool bias) {
  return {g.batch,
          g.channels,
          g.height,
          g.width,
          g.outputs,
          g.kernel_h,
          g.kernel_w,
          g.stride_h,
          g.stride_w,
          g.pad_h,
          g.pad_w,
          g.dilation_h,
          g.dilation_w,
          g.groups,
          g.own_x,
          g.own_y,
          static_cast<i64>(pass),
          bias};
}

std::shared_ptr<const pass_plan> plan_of(const conv_geometry& g, conv_pass pass, bool bias) {
  constexpr std::size_t most = 1024;  // for all jobs of the process; the cache is cleared when it is full
  static std::mutex lock;
  static auto* const plans = new std::map<plan_key, std::shared_ptr<const pass_plan>>;
  const auto key = key_of(g, pass, bias);
  const std::lock_guard guard(lock);  // held while a primitive is created: milliseconds, once per geometry
  if (const auto at = plans->find(key); at != plans->end()) return at->second;
  if (plans->size() >= most) plans->clear();
  auto made = std::make_shared<const pass_plan>(pass == conv_pass::forward         ? make_forward(g, bias)
                                                : pass == conv_pass::backward_data ? make_backward_data(g)
                                                                                   : make_backward_weights(g, bias));
  plans->emplace(key, made);
  return made;
}

// --- one call

// Memory of one call.
class call {
 public:
  call(device& d, const pass_plan& p) : device_(d), stream_(the_engine()) { arguments_[DNNL_ARG_SCRATCHPAD] = fresh(p.scratch); }

  void give(const operand& o, const float* values) {
    memory ours(o.ours, the_engine(), const_cast<float*>(values));  // the library takes non-const pointers, but does not write
    if (o.reordered) {
      const memory theirs = fresh(o.theirs);
      reorder(o, ours, theirs);
      ours = theirs;
    }
    arguments_[o.name] = ours;
  }
  void give_bias(int name, const memory::desc& d, const float* values) {
    arguments_[name] = memory(d, the_engine(), const_cast<float*>(values));
  }
  void run(const pass_plan& p, float* result) {
    const memory ours(p.result.ours, the_engine(), result);
    const memory theirs = p.result.reordered ? fresh(p.result.theirs) : ours;
    arguments_[p.result.name] = theirs;
    p.primitive.execute(stream_, arguments_);
    if (p.result.reordered) reorder(p.result, theirs, ours);
    stream_.wait();
  }

 private:
  memory fresh(const memory::desc& d) {
    const auto bytes = d.get_size();
    if (bytes == 0) return {d, the_engine(), DNNL_MEMORY_NONE};
    held_.push_back(device_.allocate(bytes));
    return {d, the_engine(), held_.back()->data};
  }
  void reorder(const operand& o, const memory& from, const memory& to) {
    o.reorder.execute(stream_, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, fresh(o.reorder_scratch)}});
  }

  device& device_;
  dnnl::stream stream_;
  std::vector<std::shared_ptr<storage>> held_;
  std::unordered_map<int, memory> arguments_;
};

void forward(device& d, const kernels<float>&, const conv_geometry& g, const float* x, const float* w, const float* bias,
             float* y) {
  stay_single();
  const auto p = plan_of(g, conv_pass::forward, bias != nullptr);
  call c(d, *p);
  c.give(p->first, x);
  c.give(p->second, w);
  if (bias != nullptr) c.give_bias(DNNL_ARG_BIAS, p->bias, bias);
  c.run(*p, y);
}

void backward_data(device& d, const kernels<float>&, const conv_geometry& g, const float* dy, const float* w, float* dx) {
  stay_single();
  const auto p = plan_of(g, conv_pass::backward_data, false);
  call c(d, *p);
  c.give(p->first, dy);
  c.give(p->second, w);
  c.run(*p, dx);
}

// dbias: null if not needed.
void assign_parameters(device& d, const conv_geometry& g, const float* x, const float* dy, float* dw, float* dbias) {
  stay_single();
  const auto p = plan_of(g, conv_pass::backward_weights, dbias != nullptr);
  call c(d, *p);
  c.give(p->first, x);
  c.give(p->second, dy);
  if (dbias != nullptr) c.give_bias(DNNL_ARG_DIFF_BIAS, p->bias, dbias);
  c.run(*p, dw);
}

void backward_weights(device& d, const kernels<float>& k, const conv_geometry& g, const float* x, const float* dy, float* dw,
                      bool add) {
  conv_onednn_parameters(d, k, g, x, dy, dw, nullptr, add);
}

const char* name_of(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "sse41";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    default: return "other";
  }
}

}  // namespace

std::string onednn_id() {
  static const std::string id = [] {
    const auto* v = dnnl::version();
    return "onednn-" + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) + "-" +
           name_of(dnnl::get_effective_cpu_isa());
  }();
  return id;
}

conv_passes<float> conv_onednn() { return {forward, backward_data, backward_weights}; }

// The library only assigns; with `add`, gradients are computed separately.
void conv_onednn_parameters(device& d, const kernels<float>& k, const conv_geometry& g, const float* x, const float* dy, float* dw,
                            float* db, bool add) {
  if (!add) return assign_parameters(d, g, x, dy, dw, db);
  const i64 count = g.outputs * g.patch();
  const scratch<float> own(d, count), own_bias(d, g.outputs);
  assign_parameters(d, g, x, dy, own.data, db != nullptr ? own_bias.data : nullptr);
  k.axpy(count, 1.0F, own.data, dw);
  if (db != nullptr) k.axpy(g.outputs, 1.0F, own_bias.data, db);
}

}  // namespace troupe::cpu
