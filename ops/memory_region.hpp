// A piece of memory with a name of its own: what others can be told "(region, offset, length)" of
// instead of being sent the bytes. An arena's slabs lie in one; so does what processes of a machine
// share, and what a device or a network card has been shown.
//
// Invariant: base and bytes never change, and the memory is there as long as the region is. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

// heap: of this process alone; shared: processes of this machine may map it by `id`; device: the
// host cannot look into it.
enum class memory_kind : std::uint8_t { heap, shared, device };

struct memory_region {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  memory_kind kind = memory_kind::heap;
  std::string id;  // names it on this machine; empty: nobody else can reach it

  memory_region() = default;
  memory_region(const memory_region&) = delete;  // it is one place, not a value
  memory_region& operator=(const memory_region&) = delete;
  virtual ~memory_region() = default;

  bool readable() const { return kind != memory_kind::device; }
  bool holds(std::size_t offset, std::size_t length) const { return offset <= bytes && length <= bytes - offset; }
};

}  // namespace troupe
