#include "ops/device_descriptors.hpp"

#include <algorithm>
#include <charconv>

namespace troupe {
namespace {

std::string none() { return {}; }
// The CUDA kernels alone are not a backend: roles need streams and memory that belongs to a memory
// space.
std::string no_gpu() { return "this build has no GPU backend for jobs"; }

const device_descriptor* row_of(const std::string& kind) {
  const auto& all = device_descriptors();
  const auto at = std::find_if(all.begin(), all.end(), [&](const device_descriptor& r) { return r.kind == kind; });
  return at == all.end() ? nullptr : &*at;
}

bool one_device(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto kind = parse_device(a).kind;
  const auto* row = row_of(kind);
  return row && row->alike && kind == parse_device(b).kind;
}

// Index of the first entry that names the same device.
std::size_t first_like(const std::vector<std::string>& list, std::size_t i) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const auto& other) { return one_device(list[i], other); });
  return static_cast<std::size_t>(at - list.begin());
}

}  // namespace

const std::vector<device_descriptor>& device_descriptors() {
  static const std::vector<device_descriptor> rows = {
      {"cpu", true, none, [](int) { return std::shared_ptr<device>(make_cpu_device()); }},
      {"gpu", false, no_gpu, [](int number) { return std::shared_ptr<device>(make_cuda_device(number)); }},
  };
  return rows;
}

device_word parse_device(std::string_view word) {
  const auto colon = word.find(':');
  if (colon == std::string_view::npos) return {};
  device_word w{std::string(word.substr(0, colon)), -1};
  const auto digits = word.substr(colon + 1);
  int number = 0;
  const auto* end = digits.data() + digits.size();
  const bool short_enough = !digits.empty() && digits.size() <= 4 && digits.front() >= '0' && digits.front() <= '9';
  if (const auto read = std::from_chars(digits.data(), end, number); short_enough && read.ec == std::errc() && read.ptr == end)
    w.number = number;
  return w;
}

std::vector<std::uint32_t> different_devices(const std::vector<std::string>& list) {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (first_like(list, i) == i) found.push_back(static_cast<std::uint32_t>(i));
  return found;
}

std::vector<std::shared_ptr<device>> make_devices(const std::vector<std::string>& list) {
  std::vector<std::shared_ptr<device>> made;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto like = first_like(list, i);
    const auto word = parse_device(list[i]);
    const auto* row = row_of(word.kind);
    made.push_back(like < i ? made[like] : row && word.number >= 0 ? row->make(word.number) : nullptr);
  }
  return made;
}

std::string numerics_of(const std::vector<std::shared_ptr<device>>& list) {
  std::vector<std::string> ids;
  for (const auto& d : list)
    if (auto id = d->numerics_id(); std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(std::move(id));
  std::string all;
  for (const auto& id : ids) all += (all.empty() ? "" : ", ") + id;
  return all;
}

}  // namespace troupe
