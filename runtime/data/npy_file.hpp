// The header of .npy files (numpy.lib.format, versions 1 to 3): \x93NUMPY, the version, the length
// of the header, and a Python dictionary with descr, fortran_order and shape. Then follow the
// numbers. Supported: little-endian f4, f8, i1 to i8, u1 to u4 and b1, in C order.
// Errors: values, without the file's name. Any bytes give a header or an error, and the header
// alone never causes an allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

enum class npy_type : std::uint8_t { f4, f8, i1, i2, i4, i8, u1, u2, u4, b1 };
std::size_t npy_bytes(npy_type t);  // of one number
std::string npy_name(npy_type t);   // of NumPy's dtype: "int64"

struct npy_header {
  npy_type type = npy_type::f4;
  std::vector<std::int64_t> extents;  // every one >= 0; their product times npy_bytes() is at most the file's size
  std::size_t offset = 0;             // of the first number in the file
};

// The maximum size of a header: `beginning` of parse_npy() needs no more bytes than this.
constexpr std::size_t npy_most_header = std::size_t{1} << 16;

// `beginning`: the first bytes of a file of `file_bytes` bytes.
expected<npy_header> parse_npy(std::span<const std::uint8_t> beginning, std::uint64_t file_bytes);

// Converts `n` numbers as they are in the file.
void npy_numbers(npy_type t, const std::uint8_t* from, std::size_t n, double* to);

}  // namespace troupe
