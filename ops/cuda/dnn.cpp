#include "ops/cuda/dnn.hpp"

#include <algorithm>

#include "ops/cuda/order.hpp"

namespace troupe::cuda {
namespace {

void check_dnn(cudnnStatus_t s, const char* what) {
  if (s == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 256> detail{};
  cudnnGetLastErrorString(detail.data(), detail.size());
  throw dnn_error(s, std::string("cuDNN: ") + what + ": " + cudnnGetErrorString(s) + ": " + detail.data());
}

cudnnDataType_t data_type(dtype t) {
  if (t == dtype::f32) return CUDNN_DATA_FLOAT;
  if (t == dtype::f64) return CUDNN_DATA_DOUBLE;
  if (t == dtype::bf16) return CUDNN_DATA_BFLOAT16;
  throw std::logic_error("cuDNN: convolutions are planned for f32, f64 and bf16 only");
}

// What a variant pack calls the tensors.
enum id : std::int64_t { id_x = 'x', id_w = 'w', id_y = 'y' };

dnn_descriptor tensor_of(id name, cudnnDataType_t type, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * extents[i + 1];
  return dnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {name})
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {dnn::alignment})
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .finish();
}

dnn_descriptor convolution_of(const conv_geometry& g, cudnnDataType_t sums) {
  constexpr auto mode = CUDNN_CROSS_CORRELATION;
  return dnn_descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {g.pad_h, g.pad_w})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {g.pad_h, g.pad_w})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {g.dilation_h, g.dilation_w})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {g.stride_h, g.stride_w})
      .finish();
}

struct operation_names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};
const operation_names& names_of(conv_pass p) {
  static constexpr operation_names forward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  static constexpr operation_names data{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  static constexpr operation_names weights{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  return p == conv_pass::forward ? forward : p == conv_pass::backward_data ? data : weights;
}

dnn_descriptor graph_of(const conv_geometry& g, conv_pass pass, const conv_types& types) {
  const auto& n = names_of(pass);
  const bool wide = types.factors == dtype::f64;
  const auto type_in = [&](conv_pass computes) { return data_type(pass == computes ? types.result : types.factors); };
  const std::array<double, 2> factors{1, 0};
  const std::array<float, 2> factors_f32{1, 0};
  const auto factor = [&](std::size_t i) { return wide ? static_cast<const void*>(&factors[i]) : &factors_f32[i]; };
  const auto factor_type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  const auto operation =
      dnn_descriptor(n.operation)
          .set(n.x, tensor_of(id_x, type_in(conv_pass::backward_data), {g.batch, g.channels, g.height, g.width}))
          .set(n.w, tensor_of(id_w, type_in(conv_pass::backward_weights), {g.outputs, g.group_channels(), g.kernel_h, g.kernel_w}))
          .set(n.y, tensor_of(id_y, type_in(conv_pass::forward), {g.batch, g.outputs, g.out_h(), g.out_w()}))
          .set(n.convolution, convolution_of(g, wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
          .set(n.alpha, factor_type, 1, factor(0))
          .set(n.beta, factor_type, 1, factor(1))
          .finish();
  return dnn_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR).set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation).finish();
}

// Engines with their settings, those that cuDNN expects to be fast first.
std::vector<dnn_descriptor> engines_for(const dnn_descriptor& graph, const dnn_descriptor& properties,
                                        cudnnBackendHeurMode_t mode) {
  const auto heuristics = dnn_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                              .set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                              .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode)
                              .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties)
                              .finish();
  const auto get = [&](std::int64_t room, cudnnBackendDescriptor_t* to) {
    std::int64_t count = 0;
    check_dnn(
        cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, to),
        "heuristics");
    return count;
  };
  std::vector<dnn_descriptor> engines;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (auto i = get(0, nullptr); i > 0; --i) raw.push_back(engines.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  if (raw.empty()) return engines;
  const auto filled = get(static_cast<std::int64_t>(raw.size()), raw.data());  // may be fewer than announced
  engines.erase(engines.begin() + std::min(filled, static_cast<std::int64_t>(engines.size())), engines.end());
  return engines;
}

struct engine_notes {
  bool nondeterministic = false, tensor_cores = false, less_exact = false;
};
engine_notes notes_of(const dnn_descriptor& settings) {
  const dnn_descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto raw = engine.get();
  std::int64_t count = 0;
  check_dnn(cudnnBackendGetAttribute(settings.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
            "engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check_dnn(cudnnBackendGetAttribute(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &count,
                                     notes.data()),
            "numerical notes");
  engine_notes n;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    n.nondeterministic |= notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    n.tensor_cores |= notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    n.less_exact |=
        notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
  }
  return n;
}

std::size_t workspace_of(const dnn_descriptor& plan) {
  std::int64_t bytes = 0, count = 0;
  check_dnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
            "workspace");
  return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
}

}  // namespace

dnn_descriptor::dnn_descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t d = nullptr;
  check_dnn(cudnnBackendCreateDescriptor(type, &d), "descriptor");
  made_ = {d, [](void* p) { cudnnBackendDestroyDescriptor(p); }};
}
dnn_descriptor& dnn_descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                                    const void* values) {
  check_dnn(cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values), "attribute");
  return *this;
}
dnn_descriptor& dnn_descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  return set(name, CUDNN_TYPE_INT64, values.size(), values.data());
}
dnn_descriptor& dnn_descriptor::set(cudnnBackendAttributeName_t name, const dnn_descriptor& value) {
  const auto raw = value.get();
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}
dnn_descriptor& dnn_descriptor::finish() {
  check_dnn(cudnnBackendFinalize(get()), "finalize");
  return *this;
}

dnn_descriptor properties_of_device(int index) {
  const std::int32_t id = index;
  return dnn_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
      .set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id)
      .finish();
}
dnn_descriptor properties_of_text(const std::string& json) {
  return dnn_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
      .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.size(), json.data())
      .finish();
}

std::optional<conv_plan> plan_conv(const dnn_descriptor& properties, const conv_geometry& g, conv_pass pass,
                                   const conv_types& types, const conv_rules& rules) try {
  const auto graph = graph_of(g, pass, types);
  int considered = 0;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine : engines_for(graph, properties, mode)) {
      ++considered;
      const auto notes = notes_of(engine);
      if (notes.less_exact || (rules.deterministic && notes.nondeterministic) || (!rules.tensor_cores && notes.tensor_cores))
        continue;
      auto plan = dnn_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine)
                      .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
      if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;  // heuristics also name engines that refuse the graph
      const auto workspace = workspace_of(plan);
      if (workspace <= rules.workspace) return conv_plan{std::move(plan), engine, workspace, notes.tensor_cores, considered};
    }
  }
  return std::nullopt;
} catch (const dnn_error& e) {
  if (CUDNN_STATUS_CATEGORY(e.code) != CUDNN_STATUS_NOT_SUPPORTED) throw;
  return std::nullopt;
}

const conv_plan* conv_plans::find(const conv_geometry& g, conv_pass pass, const conv_types& types, const conv_rules& rules) {
  const std::lock_guard guard(lock_);
  const key k{g.extents(), pass, types, rules};
  auto i = plans_.find(k);
  if (i == plans_.end()) {
    const current_device here(device_);
    if (!properties_) properties_ = properties_of_device(device_);
    i = plans_.emplace(k, plan_conv(*properties_, g, pass, types, rules)).first;
  }
  return i->second ? &*i->second : nullptr;
}

dnn::dnn(cudaStream_t s) {
  cudnnHandle_t h = nullptr;
  check_dnn(cudnnCreate(&h), "cudnnCreate");
  handle_.reset(h);
  check_dnn(cudnnSetStream(h, s), "cudnnSetStream");
}

void dnn::run(const conv_plan& p, const void* x, const void* w, const void* y, void* workspace) {
  const std::array<const void*, 3> addresses{x, w, y};
  const auto pack = dnn_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {id_x, id_w, id_y})
                        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, addresses.data())
                        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
                        .finish();
  check_dnn(cudnnBackendExecute(handle_.get(), p.plan.get(), pack.get()), "convolution");
}

}  // namespace troupe::cuda
