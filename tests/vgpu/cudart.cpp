// The CUDA runtime of the virtual GPU: the functions of cuda_runtime_api.h that Troupe calls. Their
// declarations are NVIDIA's, so a wrong signature does not compile; a function that is missing here
// does not link.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/vgpu/machine.hpp"

namespace troupe::vgpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_in_use = 0;

// A call of the runtime: holds the lock and fails like the runtime of a process without a driver.
class call {
 public:
  call() : guard_(machine::lock), m(machine::now()) {}

 private:
  std::lock_guard<std::recursive_mutex> guard_;

 public:
  machine& m;
  bool absent() const { return m.chosen.driver < CUDART_VERSION; }
  cudaError_t stopped() const {
    return absent() ? cudaErrorInsufficientDriver : m.lost(device_in_use) ? cudaErrorLaunchFailure : cudaSuccess;
  }
};

cudaError_t fail(cudaError_t e) { return e == cudaSuccess ? e : last_error = e; }

std::shared_ptr<event_state> event_of(machine& m, cudaEvent_t e) {
  const auto i = m.events.find(e);
  if (i != m.events.end()) return i->second;
  found("a call with an event that does not exist");
  return nullptr;
}

// The host's memory in a copy: pageable memory is read before the call returns, and filled when it
// returns.
cudaError_t copy(machine& m, stream_state& s, void* to, const void* from, std::size_t n) {
  ++m.counted.copies;
  std::vector<access> uses;
  uses.reserve(2);
  const bool to_device = m.is_device(to), from_device = m.is_device(from);
  if (to_device) uses.push_back({to, true});
  if (from_device) uses.push_back({from, false});
  if ((to_device && m.bytes_from(to) < n) || (from_device && m.bytes_from(from) < n)) {
    found("a copy of " + std::to_string(n) + " bytes beyond the end of a block");
    return cudaErrorInvalidValue;
  }
  auto* target = to_device ? m.back_of(to) : to;
  if (to_device && !from_device && !m.is_pinned(from)) {
    const auto* first = static_cast<const std::byte*>(from);
    return m.append(s, "a copy to the device", uses, [target, staged = std::vector<std::byte>(first, first + n)] {
      std::memcpy(target, staged.data(), staged.size());
    });
  }
  const auto* source = from_device ? m.back_of(from) : from;
  const auto failed = m.append(s, from_device ? "a copy from the device" : "a copy of pinned memory", uses,
                               [=] { std::memcpy(target, source, n); });
  return failed == cudaSuccess && !to_device && !m.is_pinned(to) ? cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&s))
                                                                 : failed;
}

cudaError_t synchronize(machine& m, int device) {
  ++m.counted.host_waits;
  auto& list = m.streams();
  const auto mine = [device](const auto& s) { return s->device == device; };
  const auto failed =
      m.run_until([&] { return std::all_of(list.begin(), list.end(), [&](auto& s) { return !mine(s) || s->waiting.empty(); }); });
  for (auto& s : list)
    if (mine(s)) m.host.join(s->clock);
  return failed;
}

}  // namespace

void begin_calls() { last_error = cudaSuccess, device_in_use = 0; }
void set_last_error(cudaError_t e) { fail(e); }
int current_device() { return device_in_use; }

}  // namespace troupe::vgpu

using namespace troupe::vgpu;

extern "C" {

// --- errors
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    default: return "an error of the virtual GPU";
  }
}

// --- devices
cudaError_t cudaDriverGetVersion(int* v) {
  const call c;
  return *v = c.m.chosen.driver, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* v) { return *v = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) {
  const call c;
  if (c.absent()) return fail(cudaErrorInsufficientDriver);  // leaves *n unchanged, as the real one does
  return *n = c.m.chosen.devices, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const call c;
  if (c.absent()) return fail(cudaErrorInsufficientDriver);
  if (device < 0 || device >= c.m.chosen.devices) return fail(cudaErrorInvalidDevice);
  device_in_use = device;
  return fail(c.stopped());
}
cudaError_t cudaGetDevice(int* device) { return *device = device_in_use, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  const call c;
  if (c.absent()) return fail(cudaErrorInsufficientDriver);
  if (device < 0 || device >= c.m.chosen.devices) return fail(cudaErrorInvalidDevice);
  *p = {};
  std::strcpy(p->name, "virtual GPU");
  p->major = 9, p->minor = 0;
  p->totalGlobalMem = c.m.chosen.memory;
  p->multiProcessorCount = 132;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->sharedMemPerBlock = 48 << 10;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device) {
  const call c;
  if (device < 0 || device >= c.m.chosen.devices) return fail(cudaErrorInvalidDevice);
  if (what != cudaDevAttrClockRate) return fail(cudaErrorInvalidValue);
  return *value = 1980000, cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const call c;
  if (device < 0 || device >= c.m.chosen.devices) return fail(cudaErrorInvalidDevice);
  const int bus = c.m.chosen.reversed ? c.m.chosen.devices - device : device + 1;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(bus) & 0xff);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const call c;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  return fail(synchronize(c.m, device_in_use));
}

// --- memory
cudaError_t cudaMalloc(void** p, size_t bytes) {
  const call c;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  return fail(c.m.allocate(device_in_use, bytes, p));
}
cudaError_t cudaFree(void* p) {
  const call c;
  if (!p) return cudaSuccess;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  const auto* block = c.m.block_at(p);
  if (block)
    if (const auto failed = synchronize(c.m, block->device); failed != cudaSuccess) return fail(failed);  // as the real one
  return fail(c.m.release(p));
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  const call c;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  *total = c.m.chosen.memory;
  *available = *total - c.m.used(device_in_use);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  const call c;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  *p = std::aligned_alloc(4096, (std::max<size_t>(bytes, 1) + 4095) / 4096 * 4096);
  c.m.pinned[reinterpret_cast<std::uintptr_t>(*p)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  const call c;
  if (const auto failed = cudaDeviceSynchronize(); failed != cudaSuccess) return failed;
  if (c.m.pinned.erase(reinterpret_cast<std::uintptr_t>(p)) == 0)
    return found("cudaFreeHost of memory that is not pinned"), fail(cudaErrorInvalidValue);
  std::free(p);
  return cudaSuccess;
}

// --- copies
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind, cudaStream_t s) {
  const call c;
  auto* stream = c.m.stream_of(s);
  return fail(stream ? copy(c.m, *stream, to, from, n) : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t n, cudaStream_t s) {
  const call c;
  const auto *a = c.m.block_at(to), *b = c.m.block_at(from);
  if (!a || !b || a->device != to_device || b->device != from_device) {
    found("a copy between devices is given addresses of other devices");
    return fail(cudaErrorInvalidValue);
  }
  auto* stream = c.m.stream_of(s);
  return fail(stream ? copy(c.m, *stream, to, from, n) : cudaErrorInvalidResourceHandle);
}
cudaError_t cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t s) {
  const call c;
  auto* stream = c.m.stream_of(s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (!c.m.is_device(p) || c.m.bytes_from(p) < n) return found("a memset beyond the end of a block"), fail(cudaErrorInvalidValue);
  return fail(c.m.append(*stream, "a memset", {{p, true}}, [t = c.m.back_of(p), v, n] { std::memset(t, v, n); }));
}

// --- streams
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  const call c;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  if (flags != cudaStreamNonBlocking) found("a stream that waits for the default stream");
  *s = reinterpret_cast<cudaStream_t>(c.m.make_stream(device_in_use));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const call c;
  auto* stream = c.m.stream_of(s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  if (c.m.lost(stream->device)) return fail(cudaErrorLaunchFailure);
  ++c.m.counted.host_waits;
  const auto failed = c.m.run_until([&] { return stream->waiting.empty(); });
  if (failed == cudaSuccess) c.m.host.join(stream->clock);
  return fail(failed);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const call c;
  auto* stream = c.m.stream_of(s);
  if (!stream) return fail(cudaErrorInvalidResourceHandle);
  const auto failed = c.m.lost(stream->device) ? cudaErrorLaunchFailure : c.m.run_until([&] { return stream->waiting.empty(); });
  c.m.drop_stream(stream);
  return fail(failed);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const call c;
  auto* stream = c.m.stream_of(s);
  const auto event = event_of(c.m, e);
  if (!stream || !event) return fail(cudaErrorInvalidResourceHandle);
  stream->clock.join(event->clock);
  c.m.append_plain(*stream, {nullptr, event, event->recorded});
  return cudaSuccess;
}

// --- events
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  const call c;
  if (c.stopped() != cudaSuccess) return fail(c.stopped());
  auto made = std::make_shared<event_state>();
  made->device = device_in_use;
  *e = reinterpret_cast<cudaEvent_t>(made.get());
  c.m.events[*e] = std::move(made);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  const call c;
  if (!event_of(c.m, e)) return fail(cudaErrorInvalidResourceHandle);
  c.m.events.erase(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const call c;
  auto* stream = c.m.stream_of(s);
  const auto event = event_of(c.m, e);
  if (!stream || !event || stream->device != event->device) return fail(cudaErrorInvalidResourceHandle);
  if (c.m.lost(stream->device)) return fail(cudaErrorLaunchFailure);
  const auto number = ++event->recorded;
  stream->clock.join(c.m.host);
  stream->clock.tick(stream->number);
  event->clock = stream->clock;
  c.m.append_plain(*stream, {[event, number] { event->done = number; }, nullptr, 0});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  const call c;
  const auto event = event_of(c.m, e);
  if (!event) return fail(cudaErrorInvalidResourceHandle);
  c.m.drift();
  if (event->done < event->recorded) return c.m.lost(event->device) ? fail(cudaErrorLaunchFailure) : cudaErrorNotReady;
  c.m.host.join(event->clock);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  const call c;
  const auto event = event_of(c.m, e);
  if (!event) return fail(cudaErrorInvalidResourceHandle);
  ++c.m.counted.host_waits;
  const auto failed = c.m.run_until([&] { return event->done >= event->recorded; });
  if (failed == cudaSuccess) c.m.host.join(event->clock);
  return fail(failed);
}

}  // extern "C"
