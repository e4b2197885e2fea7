#include "ops/device_descriptors.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "ops/gpu.hpp"

namespace troupe {
namespace {

std::string why_no_cpu(int) {
  static const bool works = make_cpu_device() != nullptr;
  return works ? "" : "the kernels do not support this machine's CPU";
}

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
      {"cpu", true, why_no_cpu, [](int) { return std::shared_ptr<device>(make_cpu_device()); }},
      {"gpu", false, why_no_gpu, make_gpu},
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

std::optional<std::uint32_t> listed_device(const std::vector<std::string>& list, const std::string& name) {
  const auto at = std::find(list.begin(), list.end(), name);
  if (at == list.end()) return std::nullopt;
  return static_cast<std::uint32_t>(first_like(list, static_cast<std::size_t>(at - list.begin())));
}

std::string why_unusable(const std::vector<std::string>& list, std::size_t i) {
  const auto word = parse_device(list[i]);
  const auto* row = row_of(word.kind);
  return row && word.number >= 0 ? row->why_not(word.number) : "it is not a device";
}

device_list make_devices(const std::vector<std::string>& list) {
  device_list made;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto like = first_like(list, i);
    if (const auto why = why_unusable(list, i); !why.empty()) throw std::runtime_error(list[i] + ": " + why);
    const auto word = parse_device(list[i]);
    made.push_back(like < i ? made[like] : row_of(word.kind)->make(word.number));
  }
  return made;
}

std::string numerics_of(const device_list& list) {
  std::vector<std::string> ids;
  for (const auto& d : list)
    if (auto id = d->numerics_id(); std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(std::move(id));
  std::string all;
  for (const auto& id : ids) all += (all.empty() ? "" : ", ") + id;
  return all;
}

}  // namespace troupe
