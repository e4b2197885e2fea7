// image_dump FOLDER CHANNELS SIZE RESIZE(0|1) OUT: opens an `images` source on FOLDER and writes
// all training examples as 64-bit floats (value = byte) to OUT, and the shape and the labels to
// stdout. On an error in the options: text on stderr, exit code 2.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/node/images/images.hpp"

int main(int argc, char** argv) {
  using namespace troupe;
  if (argc != 6) return 1;
  options o;
  o.values["path"] = std::string(argv[1]);
  o.values["channels"] = static_cast<std::int64_t>(std::atoi(argv[2]));
  o.values["size"] = static_cast<std::int64_t>(std::atoi(argv[3]));
  o.values["resize"] = std::string(argv[4]) == "1";
  o.values["scale"] = 1.0;
  try {
    const auto type = images_source_type();
    const auto s = type.open(check_options(o, type.specs), 1);
    const auto e = s->example();
    const auto n = s->size(split::train);
    std::vector<double> data(static_cast<std::size_t>(n * e.count()));
    std::vector<std::int32_t> label(static_cast<std::size_t>(n));
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < n; ++i) indices.push_back(i);
    auto values = tensor::borrow(data.data(), shape{n, e[0], e[1], e[2]}, dtype::f64);
    auto labels = tensor::borrow(label.data(), shape{n}, dtype::i32);
    s->read(split::train, indices, values, labels);
    std::ofstream out(argv[5], std::ios::binary);
    out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size() * sizeof(double)));
    if (!out.flush()) return 1;
    std::printf("%lld %lld %lld %lld\n", static_cast<long long>(n), static_cast<long long>(e[0]), static_cast<long long>(e[1]),
                static_cast<long long>(e[2]));
    for (auto l : label) std::printf("%d ", l);
    std::printf("\n");
  } catch (const option_error& e) {
    std::fprintf(stderr, "%s: %s\n", e.key.c_str(), e.what());
    return 2;
  }
  return 0;
}
