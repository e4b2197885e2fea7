// Helpers for tests of files: a folder that is removed after the test, whole files as bytes, and
// the number of fuzz inputs.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/environment.hpp"

namespace troupe::test {

struct temp_dir {
  temp_dir() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe_test_XXXXXX").string();
    path = ::mkdtemp(name.data()) ? name : "";
  }
  ~temp_dir() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  temp_dir(const temp_dir&) = delete;
  temp_dir& operator=(const temp_dir&) = delete;
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

inline std::vector<std::uint8_t> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::string& path, const std::vector<std::uint8_t>& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// `usual` by default; TROUPE_FUZZ_INPUTS sets another number, e.g. 10000000 for a long run.
inline std::uint64_t fuzz_inputs(std::uint64_t usual) { return from_environment("TROUPE_FUZZ_INPUTS", usual); }

}  // namespace troupe::test
