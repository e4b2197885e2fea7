#include "runtime/node/images/image_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/record/file_io.hpp"

namespace troupe::images {
namespace {

constexpr std::uintmax_t max_file_bytes = std::uintmax_t{512} << 20;  // more than decode.hpp's max_pixels at 48 bits

std::string why_too_long(const std::string& path) {
  std::error_code unreadable;  // ignored: reading the file reports the reason
  const auto bytes = std::filesystem::file_size(path, unreadable);
  return unreadable || bytes <= max_file_bytes ? std::string() : std::to_string(bytes) + " bytes are more than an image may have";
}

}  // namespace

std::variant<image_size, std::string> size_of_image_file(const std::string& path, wanted_size want) {
  if (auto wrong = why_too_long(path); !wrong.empty()) return wrong;
  constexpr std::size_t first_bytes = 1 << 15;
  std::vector<std::uint8_t> bytes(first_bytes);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  auto r = size_of_image(bytes, want);
  if (std::holds_alternative<image_size>(r) || bytes.size() < first_bytes) return r;
  auto whole = read_file(path);
  if (auto* e = std::get_if<std::string>(&whole)) return *e;
  const auto& f = std::get<file_bytes>(whole);
  return size_of_image({static_cast<const std::uint8_t*>(f.data.get()), f.bytes}, want);
}

image_result read_image(const std::string& path, int channels, wanted_size want) {
  if (auto wrong = why_too_long(path); !wrong.empty()) return wrong;
  auto file = read_file(path);
  if (auto* e = std::get_if<std::string>(&file)) return std::move(*e);
  const auto& f = std::get<file_bytes>(file);
  return decode_image({static_cast<const std::uint8_t*>(f.data.get()), f.bytes}, channels, want);
}

void append_planes(const image& m, std::vector<std::uint8_t>& out) {
  const auto channels = static_cast<std::size_t>(m.channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (auto k = c; k < m.bytes.size(); k += channels) out.push_back(m.bytes[k]);
}

}  // namespace troupe::images
