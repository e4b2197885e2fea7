// cuDNN of the virtual GPU. NVIDIA's own library makes the plans: descriptors, heuristics, engines
// and workspace sizes are real, for the GPU of properties.hpp. This file takes the place of the few
// functions that need a GPU: handles, and the execution of a plan, which is a plain loop. What a
// plan computes is read from the plan's own JSON.
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ops/bf16.hpp"
#include "tests/vgpu/device_state.hpp"
#include "tests/vgpu/properties.hpp"
#include "tests/vgpu/tf32.hpp"

namespace {

struct dnn_handle {
  cudaStream_t stream = nullptr;
};
dnn_handle& of(cudnnHandle_t h) { return *reinterpret_cast<dnn_handle*>(h); }

// cuDNN does not give the contents of a variant pack back, so they are kept when they are set.
struct variant_pack {
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  void* workspace = nullptr;
};
std::mutex packs_lock;
std::map<cudnnBackendDescriptor_t, variant_pack> packs;

enum class element : std::uint8_t { f32, f64, bf16 };
struct image {
  std::int64_t outer, mid, height, width;
  element type;
  std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t i, std::int64_t j) const {
    return ((a * mid + b) * height + i) * width + j;
  }
};
struct window {
  std::array<std::int64_t, 2> pad, stride, dilation;
};
enum class computed : std::uint8_t { y, x, w };
struct convolution {
  computed result;
  image x, w, y;  // w: outputs, channels of a group
  window by;
  bool tf32;  // f32 factors are rounded to TF32
};

image image_of(const nlohmann::json& graph, const std::string& id) {
  for (const auto& t : graph.at("tensors"))
    if (t.at("name") == id) {
      const auto d = t.at("dim").get<std::array<std::int64_t, 4>>();
      const auto& type = t.at("dataType");
      return {d[0], d[1], d[2], d[3],
              type == "CUDNN_DATA_DOUBLE"  ? element::f64
              : type == "CUDNN_DATA_FLOAT" ? element::f32
                                           : element::bf16};
    }
  troupe::vgpu::found("a cuDNN plan without the tensor " + id);
  return {};
}

// The text of a plan, which streams share. cuDNN makes it when it is asked for, and not for several
// threads at once.
std::string text_of(cudnnBackendDescriptor_t plan) {
  static std::mutex lock;
  const std::lock_guard guard(lock);
  std::int64_t n = 0;
  cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &n, nullptr);
  std::string text(static_cast<std::size_t>(n), ' ');
  cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, &n, text.data());
  return text.substr(0, text.find('\0'));
}

// Calls f(index in x, index in w, index in y) for every product of the convolution.
template <class F>
void each_product(const convolution& c, F f) {
  const auto &x = c.x, &w = c.w, &y = c.y;
  const auto outputs = w.outer / (x.mid / w.mid);  // of a group
  for (std::int64_t n = 0; n < y.outer; ++n)
    for (std::int64_t k = 0; k < y.mid; ++k)
      for (std::int64_t channel = 0; channel < w.mid; ++channel)
        for (std::int64_t r = 0; r < w.height; ++r)
          for (std::int64_t s = 0; s < w.width; ++s)
            for (std::int64_t i = 0; i < y.height; ++i) {
              const auto row = i * c.by.stride[0] - c.by.pad[0] + r * c.by.dilation[0];
              if (row < 0 || row >= x.height) continue;
              for (std::int64_t j = 0; j < y.width; ++j) {
                const auto column = j * c.by.stride[1] - c.by.pad[1] + s * c.by.dilation[1];
                if (column < 0 || column >= x.width) continue;
                f(x.at(n, k / outputs * w.mid + channel, row, column), w.at(k, channel, r, s), y.at(n, k, i, j));
              }
            }
}

std::size_t count(const image& i) { return static_cast<std::size_t>(i.outer * i.mid * i.height * i.width); }
std::size_t bytes(const image& i) { return count(i) * (i.type == element::f64 ? 8 : i.type == element::f32 ? 4 : 2); }

// A factor, as the engine multiplies it.
std::vector<double> factor(const image& i, const void* at, bool tf32) {
  std::vector<double> v(count(i));
  for (std::size_t n = 0; n < v.size(); ++n) {
    if (i.type == element::f64) {
      v[n] = static_cast<const double*>(at)[n];
    } else if (i.type == element::bf16) {
      v[n] = double(troupe::to_float(static_cast<const troupe::bf16*>(at)[n]));
    } else {
      const float f = static_cast<const float*>(at)[n];
      v[n] = double(tf32 ? troupe::vgpu::to_tf32(f) : f);
    }
  }
  return v;
}
void store(const image& i, const std::vector<double>& sums, void* to) {
  for (std::size_t n = 0; n < sums.size(); ++n) {
    if (i.type == element::f64)
      static_cast<double*>(to)[n] = sums[n];
    else if (i.type == element::f32)
      static_cast<float*>(to)[n] = float(sums[n]);
    else
      static_cast<troupe::bf16*>(to)[n] = troupe::to_bf16(float(sums[n]));
  }
}

// Sums are f64.
void compute(const convolution& c, void* x, void* w, void* y) {
  const auto from = [&](computed which, const image& i, const void* at) {
    return c.result == which ? std::vector<double>() : factor(i, at, c.tf32);
  };
  const auto fx = from(computed::x, c.x, x), fw = from(computed::w, c.w, w), fy = from(computed::y, c.y, y);
  const image& made = c.result == computed::y ? c.y : c.result == computed::x ? c.x : c.w;
  std::vector<double> sums(count(made));
  switch (c.result) {
    case computed::y: each_product(c, [&](auto a, auto b, auto r) { sums[size_t(r)] += fx[size_t(a)] * fw[size_t(b)]; }); break;
    case computed::x: each_product(c, [&](auto r, auto b, auto a) { sums[size_t(r)] += fy[size_t(a)] * fw[size_t(b)]; }); break;
    case computed::w: each_product(c, [&](auto a, auto r, auto b) { sums[size_t(r)] += fx[size_t(a)] * fy[size_t(b)]; }); break;
  }
  store(made, sums, c.result == computed::y ? y : c.result == computed::x ? x : w);
}

// A descriptor that an attribute of `of` fills.
struct inner_descriptor {
  inner_descriptor(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) {
    std::int64_t n = 0;
    cudnnBackendCreateDescriptor(type, &it);
    if (cudnnBackendGetAttribute(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &it) != CUDNN_STATUS_SUCCESS || n != 1)
      troupe::vgpu::found("a cuDNN descriptor without an inner one");
  }
  ~inner_descriptor() { cudnnBackendDestroyDescriptor(it); }
  inner_descriptor(const inner_descriptor&) = delete;
  inner_descriptor& operator=(const inner_descriptor&) = delete;
  cudnnBackendDescriptor_t it = nullptr;
};

bool uses_tensor_cores(cudnnBackendDescriptor_t plan) {
  const inner_descriptor settings(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const inner_descriptor engine(settings.it, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t n = 0;
  cudnnBackendGetAttribute(engine.it, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), &n, notes.data());
  return std::find(notes.begin(), notes.begin() + n, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != notes.begin() + n;
}

template <class F>
F next(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t* h) { return *h = reinterpret_cast<cudnnHandle_t>(new dnn_handle), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t h) { return delete &of(h), CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s) { return of(h).stream = s, CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void* values) {
  static const auto real = next(&cudnnBackendSetAttribute, "cudnnBackendSetAttribute");
  const std::lock_guard guard(packs_lock);
  switch (name) {
    case CUDNN_ATTR_DEVICEPROP_DEVICE_ID: {
      const std::string text = troupe::vgpu::properties_h100;
      return real(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(text.size()),
                  text.data());
    }
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS: {
      const auto* v = static_cast<const std::int64_t*>(values);
      packs[d].ids.assign(v, v + n);
      break;
    }
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS: {
      const auto* v = static_cast<void* const*>(values);
      packs[d].addresses.assign(v, v + n);
      break;
    }
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE: packs[d].workspace = *static_cast<void* const*>(values); break;
    default: break;
  }
  return real(d, name, type, n, values);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  static const auto real = next(&cudnnBackendDestroyDescriptor, "cudnnBackendDestroyDescriptor");
  const std::lock_guard guard(packs_lock);
  packs.erase(d);
  return real(d);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variant) {
  const auto graph = nlohmann::json::parse(text_of(plan)).at("operationGraph");
  const auto& node = graph.at("nodes").at(0);
  const auto operation = node.at("operation").get<std::string>();
  convolution c{};
  c.result = operation.find("BACKWARD_DATA") != operation.npos     ? computed::x
             : operation.find("BACKWARD_FILTER") != operation.npos ? computed::w
                                                                   : computed::y;
  const auto id_of = [&](const char* name) {
    return (node.contains(name) ? node.at(name) : node.at(std::string("d") + name)).template get<std::string>();
  };
  const auto x = id_of("X"), w = id_of("W"), y = id_of("Y");
  c.tf32 = uses_tensor_cores(plan);
  c.x = image_of(graph, x), c.w = image_of(graph, w), c.y = image_of(graph, y);
  for (const auto& [name, to] : {std::pair{"pad", &c.by.pad}, {"stride", &c.by.stride}, {"dilation", &c.by.dilation}})
    *to = node.at(name).get<std::array<std::int64_t, 2>>();
  if (node.at("mathPrec") != (c.x.type == element::f64 ? "CUDNN_DATA_DOUBLE" : "CUDNN_DATA_FLOAT"))
    troupe::vgpu::found("a convolution adds in another type than it should");
  if (node.at("alpha") != 1.0 || node.at("beta") != 0.0) troupe::vgpu::found("a convolution whose result is scaled or added");

  variant_pack p;
  {
    const std::lock_guard guard(packs_lock);
    p = packs.at(variant);
  }
  const auto address = [&](const std::string& id) {
    for (std::size_t i = 0; i < p.ids.size(); ++i)
      if (std::to_string(p.ids[i]) == id) return p.addresses[i];
    troupe::vgpu::found("a variant pack without the tensor " + id);
    return static_cast<void*>(nullptr);
  };
  void *const at_x = address(x), *const at_w = address(w), *const at_y = address(y);
  for (auto* a : {at_x, at_w, at_y})
    if (reinterpret_cast<std::uintptr_t>(a) % 16 != 0) troupe::vgpu::found("a convolution is given an address that is not aligned");
  std::vector<troupe::vgpu::access> uses{{at_x, c.result == computed::x, bytes(c.x)},
                                         {at_w, c.result == computed::w, bytes(c.w)},
                                         {at_y, c.result == computed::y, bytes(c.y)}};
  std::int64_t n = 0, room = 0;
  cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &room);
  if (room > 0) uses.push_back({p.workspace, true, static_cast<std::size_t>(room)});
  void* const scratch = room > 0 ? troupe::vgpu::device_memory(p.workspace) : nullptr;
  void *const mx = troupe::vgpu::device_memory(at_x), *const mw = troupe::vgpu::device_memory(at_w),
              *const my = troupe::vgpu::device_memory(at_y);
  troupe::vgpu::enqueue(of(h).stream, "a convolution", std::move(uses), [=] {
    if (scratch) std::memset(scratch, 0xff, static_cast<std::size_t>(room));  // NaN: an engine may write all of it
    compute(c, mx, mw, my);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
