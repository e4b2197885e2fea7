// CRC32C (Castagnoli, reflected 0x82f63b78), as in iSCSI and event files. SSE4.2 where the CPU has
// it, chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

// crc32c(0, data, n) starts; crc32c(previous, more, m) continues: the result is that of the
// concatenation.
std::uint32_t crc32c(std::uint32_t previous, const void* data, std::size_t bytes);

// The two implementations of crc32c(), for tests. Call `hardware` only if has_hardware_crc32c().
bool has_hardware_crc32c();
std::uint32_t crc32c_hardware(std::uint32_t previous, const void* data, std::size_t bytes);
std::uint32_t crc32c_software(std::uint32_t previous, const void* data, std::size_t bytes);

}  // namespace troupe
