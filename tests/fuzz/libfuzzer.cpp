// Entry points of libFuzzer for the one target that is linked. `PROGRAM --sound FOLDER` writes the
// target's valid inputs to FOLDER and exits.
#include <cstring>
#include <fstream>

#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  if (*count != 3 || std::strcmp((*words)[1], "--sound") != 0) return 0;
  int n = 0;
  for (const auto& s : troupe::fuzz::targets().front().sound())
    std::ofstream((*words)[2] + std::string("/sound-") + std::to_string(n++), std::ios::binary) << s;
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  troupe::fuzz::targets().front().one({data, size});
  return 0;
}
