#include "runtime/node/convolution_times.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "ops/cpu/conv_rule.hpp"
#include "ops/cpu/processor.hpp"
#include "ops/device.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr int format = 1;
constexpr double least_ms = 0, max_ms = 1e9;
constexpr std::size_t max_passes = 8192;  // of one machine
constexpr std::size_t max_machines = 64;

std::string words_of(const conv_geometry& g, conv_pass p) {
  std::string s = name_of(p);
  const auto add = [&](const char* what, std::int64_t v) { s += std::string(" ") + what + std::to_string(v); };
  add("n", g.batch), add("c", g.channels), add("h", g.height), add("w", g.width), add("o", g.outputs);
  add("kh", g.kernel_h), add("kw", g.kernel_w), add("sh", g.stride_h), add("sw", g.stride_w), add("ph", g.pad_h),
      add("pw", g.pad_w);
  add("dh", g.dilation_h), add("dw", g.dilation_w), add("g", g.groups);
  return s;
}

std::vector<conv_algorithm> candidates(const conv_geometry& g) {
  std::vector<conv_algorithm> list;
  for (const auto& name : conv_algorithm_names()) {
    const auto a = conv_algorithm_named(name);
    if (a != conv_algorithm::automatic && why_not(a, g).empty()) list.push_back(a);
  }
  return list;
}

// Empty if `o` is not a table of times by algorithm.
std::optional<conv_times> times_from(const json& o) {
  if (!o.is_object() || o.empty() || o.size() > 16) return std::nullopt;
  const auto names = conv_algorithm_names();
  conv_times t;
  for (const auto& [name, ms] : o.items()) {
    if (!ms.is_number() || std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
    const double v = ms.get<double>();
    if (!(v > least_ms && v < max_ms)) return std::nullopt;
    t[conv_algorithm_named(name)] = v;
  }
  return t;
}

using shape_times = std::map<std::string, conv_times>;     // by text of pass and shape
using machine_times = std::map<std::string, shape_times>;  // by machine_words()

json to_json(const shape_times& all) {
  json o = json::object();
  for (const auto& [shape, times] : all)
    for (const auto& [a, ms] : times) o[shape][name_of(a)] = std::max(std::round(ms * 1e5) / 1e5, 1e-5);
  return o;
}

// Reads a file and keeps only values that have been checked, so the result cannot be larger or
// deeper than a table of times. If the file cannot be used, empty, with the reason in `trouble`.
machine_times read(const std::string& file, std::string& trouble) {
  std::error_code ec;
  if (file.empty() || !fs::exists(file, ec)) return {};
  const auto useless = [&](std::string why) {
    trouble = std::move(why);
    return machine_times{};
  };
  if (fs::is_regular_file(file, ec) && fs::file_size(file, ec) > max_cache_bytes) return useless("it is larger than 4 MiB");
  const auto bytes = read_file(file);
  if (!bytes) return useless(bytes.error().text);
  const auto& b = *bytes;
  const auto* text = static_cast<const char*>(b.data.get());
  const auto all = json::parse(text, text + b.bytes, nullptr, false);
  const auto kind = all.find("format"), machines = all.find("machines");
  if (!all.is_object() || kind == all.end() || !kind->is_number_integer() || *kind != format || machines == all.end() ||
      !machines->is_object() || machines->size() > max_machines)
    return useless("it is not a table of times in a known format");
  machine_times found;
  for (const auto& [machine, part] : machines->items()) {
    if (!part.is_object() || part.size() > max_passes) return useless("the entry of a machine is not a table of times");
    for (const auto& [shape, o] : part.items()) {
      auto t = times_from(o);
      if (!t) return useless("the entry '" + shape.substr(0, 100) + "' has no valid times of algorithms");
      found[machine].emplace(shape, std::move(*t));
    }
  }
  return found;
}

}  // namespace

std::string convolution_cache_file() {
  const auto folder = [](const char* name) {
    const char* v = std::getenv(name);
    return v != nullptr && fs::path(v).is_absolute() ? fs::path(v) : fs::path();  // XDG ignores relative paths
  };
  auto base = folder("XDG_CACHE_HOME");
  if (base.empty() && !folder("HOME").empty()) base = folder("HOME") / ".cache";
  return base.empty() ? std::string() : (base / "troupe" / "convolutions.json").string();
}

std::string machine_words(const device& d) { return cpu::processor_name() + ", " + d.numerics_id() + ", compiler " + __VERSION__; }

convolution_cache::convolution_cache(std::string file, std::string machine) : file_(std::move(file)), machine_(std::move(machine)) {
  std::string trouble;
  mine_ = read(file_, trouble)[machine_];
  if (!trouble.empty()) warnings_.push_back(file_ + " is ignored: " + trouble);
}

const conv_times* convolution_cache::find(const conv_geometry& g, conv_pass p) const {
  const auto at = mine_.find(words_of(g, p));
  if (at == mine_.end()) return nullptr;
  const auto all = candidates(g);
  const bool whole = at->second.size() == all.size() &&
                     std::all_of(all.begin(), all.end(), [&](conv_algorithm a) { return at->second.contains(a); });
  return whole ? &at->second : nullptr;
}

void convolution_cache::put(const conv_geometry& g, conv_pass p, conv_times t) {
  mine_[words_of(g, p)] = std::move(t);
  changed_ = true;
}

void convolution_cache::save() {
  if (!changed_ || file_.empty()) return;
  changed_ = false;
  std::string trouble;
  auto now = read(file_, trouble);
  for (const auto& [shape, t] : mine_) now[machine_].insert_or_assign(shape, t);
  if (now.size() > max_machines || now[machine_].size() > max_passes) now = {{machine_, mine_}};
  const auto text_of = [](const machine_times& all) {
    json o{{"format", format}, {"machines", json::object()}};
    for (const auto& [machine, part] : all) o["machines"][machine] = to_json(part);
    return o.dump(1);
  };
  auto text = text_of(now);
  if (text.size() > max_cache_bytes) text = text_of({{machine_, mine_}});
  if (const auto saved = replace(text); !saved)
    warnings_.push_back("times of convolutions cannot be saved: " + saved.error().in(file_).text);
}

expected<void> convolution_cache::replace(const std::string& text) const {
  std::error_code ec;
  fs::create_directories(fs::path(file_).parent_path(), ec);
  if (ec) return unexpected(error(ec.message()));
  // Written first to a file next to it, whose name no other process uses.
  const auto fresh = file_ + "." + std::to_string(getpid());
  if (auto fine = write_file_atomically(fresh, {{text.data(), text.size()}}); !fine) return fine;
  fs::rename(fresh, file_, ec);
  if (!ec) return {};
  const error why(ec.message());
  fs::remove(fresh, ec);
  return unexpected(why);
}

namespace {

double thread_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

double operations(const conv_geometry& g) {
  return 2.0 * static_cast<double>(g.batch) * static_cast<double>(g.outputs * g.pixels()) * static_cast<double>(g.patch());
}

// Reduces the batch to the number of images that take some 20 ms per call, if `direct` computes
// them like the whole batch.
conv_geometry part_of(const conv_geometry& g) {
  constexpr double enough = 3e9;
  conv_geometry part = g;
  const auto images = static_cast<std::int64_t>(std::ceil(enough / (operations(g) / static_cast<double>(g.batch))));
  for (const auto n : {images, (images + 15) / 16 * 16}) {
    part.batch = std::clamp<std::int64_t>(n, 1, g.batch);
    if (over_images(part) == over_images(g)) return part;
  }
  return g;
}

// One pass on random values.
class trial {
 public:
  trial(device& d, const conv_geometry& g, conv_pass p) : device_(d), g_(g), pass_(p) {
    const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
    const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
    std::uint64_t key = 0;
    for (auto* t : {&x_, &y_, &w_, &bias_}) {
      *t = tensor::allocate(d, t == &x_ ? xs : t == &y_ ? ys : t == &w_ ? ws : shape{g.outputs}, dtype::f32);
      d.fill_gaussian({.key = ++key}, 0.0, 1.0, *t);
    }
  }
  double ms_once(conv_algorithm a) {
    conv_geometry g = g_;
    g.algorithm = a, g.algorithm_data = a, g.algorithm_weights = a;
    const double begin = thread_ms();
    if (pass_ == conv_pass::forward) device_.conv_forward(g, x_, w_, bias_, y_);
    if (pass_ == conv_pass::backward_data) device_.conv_backward_data(g, y_, w_, x_);
    if (pass_ == conv_pass::backward_weights) device_.conv_backward_weights(g, x_, y_, w_);
    return std::max(thread_ms() - begin, 1e-5);
  }
  // The best of several calls, since other work on the machine only adds time. The first call is
  // not counted: it also allocates what later calls reuse.
  double ms(conv_algorithm a) {
    constexpr int least_calls = 3, max_calls = 100;
    constexpr double enough = 25;
    ms_once(a);
    double best = max_ms, sum = 0;
    for (int i = 0; i < max_calls && (i < least_calls || sum < enough); ++i) {
      const double one = ms_once(a);
      best = std::min(best, one);
      sum += one;
    }
    return best;
  }

 private:
  device& device_;
  conv_geometry g_;
  conv_pass pass_;
  tensor x_, y_, w_, bias_;
};

}  // namespace

conv_times time_convolution(device& d, const conv_geometry& whole, conv_pass p) {
  constexpr double hopeless = 4;
  const conv_geometry g = part_of(whole);
  const double parts = static_cast<double>(whole.batch) / static_cast<double>(g.batch);
  conv_geometry one = g;
  one.batch = 1;
  trial all(d, g, p), single(d, one, p);
  conv_times t;
  double best = max_ms;
  // lowering2 and lowering3 may take seconds on unsuitable shapes: one image is timed first.
  const auto risky = [](conv_algorithm a) { return a == conv_algorithm::lowering2 || a == conv_algorithm::lowering3; };
  auto list = candidates(g);
  std::stable_partition(list.begin(), list.end(), [&](conv_algorithm a) { return !risky(a); });
  for (const auto a : list) {
    double ms = risky(a) ? std::min(single.ms_once(a), single.ms_once(a)) * static_cast<double>(g.batch) : 0;
    if (ms < hopeless * best) ms = all.ms(a);
    t[a] = ms * parts;
    best = std::min(best, ms);
  }
  return t;
}

expected<resolved_convolutions, diagnostics> resolve_convolutions(const std::shared_ptr<prepared_job>& j, device& d,
                                                                  const std::string& cache_file) {
  resolved_convolutions s;
  s.job = j;
  const auto open = open_conv_tasks(*j);
  if (open.empty()) return s;
  convolution_cache cache(cache_file, machine_words(d));
  const auto times = [&](const conv_geometry& g, conv_pass p) {
    if (!cache.find(g, p)) cache.put(g, p, time_convolution(d, g, p));
    return *cache.find(g, p);
  };
  for (const auto& task : open) s.times.push_back({task, times(task.geometry, task.pass)});
  s.chosen = choose_convolutions(*j, d, times);
  cache.save();
  s.warnings = cache.warnings();
  auto made = with_convolutions(*j, s.chosen);
  if (!made) return unexpected(std::move(made).error());
  s.job = *made;
  s.job->id = j->id;
  return s;
}

}  // namespace troupe
