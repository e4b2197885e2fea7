// Exports, imports and evaluates the nets of folders, for the tests against an evaluator of ONNX
// and PyTorch.
//   onnx_dump LIST   LIST: a file with a folder on each line
// A folder has data.npz (x_test) and either job.toml, or net.onnx of another program. Written:
//   net.onnx         of job.toml, with random weights
//   imported.toml    the job of net.onnx
//   out.safetensors  "scores" of job.toml, and "again" of the imported job
//   error.txt        if a step fails: its messages
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "ops/device.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/models/model_format.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/plain/predictor.hpp"
#include "runtime/record/file_io.hpp"

namespace {

using namespace troupe;
using job = std::shared_ptr<prepared_job>;

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

// Keeps the values of deep nets near 1. Variances are positive.
named_tensors random_weights(const prepared_job& j, device& d, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  named_tensors all;
  for (const auto& [name, initial] : initial_weights(j, d)) {
    auto t = tensor::allocate(d, initial.dims(), dtype::f32);
    const auto& dims = t.dims();
    const float scale = dims.rank() > 1 ? 1.0F / std::sqrt(static_cast<float>(dims.count_from(1))) : 0.3F;
    const bool around_one = dims.rank() == 1 && name.ends_with(".weight");
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const float v = normal(random) * scale;
      t.mutable_data<float>()[i] = name.ends_with(".running_var") ? std::abs(v) + 0.5F : v + (around_one ? 1.0F : 0.0F);
    }
    all.emplace_back(name, std::move(t));
  }
  return all;
}

tensor scores_of(const job& j, const std::shared_ptr<device>& d, const std::string& folder) {
  const auto* numpy = j->all->sources.find("numpy");
  const auto x = numpy->open(check_options({{{"path", folder + "/data.npz"}, {"ids", j->data->ids()}}}, numpy->specs), 1);
  auto made = predictor::make(j, d, {});
  if (!made) throw std::runtime_error(made.error().to_string());
  std::vector<double> values;
  for (std::int64_t first = 0; first < x->size(split::test); first += (*made)->batch()) {
    const auto r = (*made)->run(*x, first);
    values.insert(values.end(), r.values.begin(), r.values.end());
  }
  auto t = tensor::allocate(*d, {static_cast<std::int64_t>(values.size())}, dtype::f32);
  for (std::size_t i = 0; i < values.size(); ++i) t.mutable_data<float>()[i] = static_cast<float>(values[i]);
  return t;
}

template <class T>
T value_of(expected<T, diagnostics> r) {
  if (!r) throw std::runtime_error(all_of(r.error()).text);
  return *std::move(r);
}

job prepared(const std::string& text, const std::string& file) {
  return value_of(prepare_text({text, file, {"data.batch=4"}}, std::make_shared<const tables>(node_tables())));
}

void dump(const std::string& folder, const std::shared_ptr<device>& d, std::uint64_t seed) {
  std::filesystem::current_path(folder);  // jobs name data.npz
  const auto& onnx = *format_of_extension(".onnx");
  named_tensors out;
  if (std::filesystem::exists(folder + "/job.toml")) {
    const auto j = prepared(content_of(folder + "/job.toml"), folder + "/job.toml");
    const auto weights = random_weights(*j, *d, seed);
    begin_at(*j, 0, weights);
    out.emplace_back("scores", scores_of(j, d, folder));
    write(folder + "/net.onnx", value_of(onnx.write(*j, weights, {})).files[0].bytes);
  }
  const auto imported = value_of(onnx.read({{folder + "/net.onnx"}, {}}));
  write(folder + "/imported.toml", imported.job);
  const auto j = prepared(imported.job, folder + "/imported.toml");
  if (const auto fits = check_weights(j->graph, imported.weights); !fits) throw std::runtime_error(fits.error().text);
  begin_at(*j, 0, imported.weights);
  out.emplace_back("again", scores_of(j, d, folder));
  if (const auto e = write_safetensors(folder + "/out.safetensors", out); !e) throw std::runtime_error(e.error().to_string());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: onnx_dump LIST\n"), 2;
  const std::shared_ptr<device> d = make_cpu_device();
  std::ifstream list(argv[1]);
  std::string folder;
  for (std::uint64_t seed = 1; std::getline(list, folder); ++seed) {
    try {
      dump(folder, d, seed);
    } catch (const std::exception& e) {
      write(folder + "/error.txt", e.what());
    }
  }
  return 0;
}
