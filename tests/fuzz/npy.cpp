// Fuzz target: .npy files.
#include "runtime/data/npy_file.hpp"

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_npy(input in) {
  const auto r = parse_npy(in, in.size());
  if (!r) return must(!r.error().text.empty(), "refused without a reason");
  const auto& h = *r;
  std::uint64_t count = 1;
  for (const auto e : h.extents) count *= static_cast<std::uint64_t>(e);
  must(h.offset + count * npy_bytes(h.type) <= in.size(), "the array is larger than the file");
  std::vector<double> numbers(count);
  npy_numbers(h.type, in.data() + h.offset, numbers.size(), numbers.data());
}

std::string npy(const std::string& dictionary, std::size_t bytes, bool second = false) {
  const auto n = dictionary.size();
  std::string s = std::string("\x93NUMPY") + (second ? '\2' : '\1') + '\0';
  s += static_cast<char>(n & 0xff);
  s += static_cast<char>(n >> 8);
  if (second) s += std::string(2, '\0');
  return s + dictionary + std::string(bytes, '\x3f');
}

std::vector<std::string> sound_npy() {
  return {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", 24),
          npy("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n", 5, true),
          npy("{'shape': (), 'fortran_order': False, 'descr': '<f8'}", 8),
          npy("{\"descr\": \"<i8\", 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}", 0)};
}

const entry npy_entry({"npy", read_npy, sound_npy});

}  // namespace
}  // namespace troupe::fuzz
