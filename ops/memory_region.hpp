// A named piece of memory. Frames can refer to its contents as (region, offset, length) instead of
// carrying the bytes. Regions contain the slabs of an arena, memory shared between processes of a
// machine, and memory registered with a device or a network card.
//
// Invariant: base and bytes never change, and the memory lives as long as the region. Safe from any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

// heap: private to this process. shared: other processes of the machine can map it by `id`. device:
// not readable by the host.
enum class memory_kind : std::uint8_t { heap, shared, device };

struct memory_region {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  memory_kind kind = memory_kind::heap;
  std::string id;  // name on this machine; empty: not accessible to other processes

  memory_region() = default;
  memory_region(const memory_region&) = delete;  // identifies one piece of memory, so it is not copied
  memory_region& operator=(const memory_region&) = delete;
  virtual ~memory_region() = default;

  bool readable() const { return kind != memory_kind::device; }
  bool holds(std::size_t offset, std::size_t length) const { return offset <= bytes && length <= bytes - offset; }
};

}  // namespace troupe
