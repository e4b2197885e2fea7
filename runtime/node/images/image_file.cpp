#include "runtime/node/images/image_file.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "runtime/data/file_bytes.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::images {
namespace {

constexpr std::uintmax_t max_file_bytes = std::uintmax_t{512} << 20;  // more than decode.hpp's max_pixels at 48 bits

expected<void> check_length_of_path(const std::string& path) {
  std::error_code unreadable;  // ignored: reading the file reports the reason
  const auto bytes = std::filesystem::file_size(path, unreadable);
  if (unreadable || bytes <= max_file_bytes) return {};
  return unexpected(error(std::to_string(bytes) + " bytes are more than an image may have"));
}

}  // namespace

expected<image_size> size_of_image_file(const std::string& path, wanted_size want) {
  if (const auto fine = check_length_of_path(path); !fine) return unexpected(fine.error());
  constexpr std::size_t first_bytes = 1 << 15;
  const auto in = open_bytes(path);
  if (!in) return unexpected(in.error());
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(std::min<std::uint64_t>((*in)->size(), first_bytes)));
  if (const auto fine = (*in)->read(0, bytes.data(), bytes.size()); !fine) return unexpected(fine.error());
  auto r = size_of_image(bytes, want);
  if (r.has_value() || bytes.size() < first_bytes) return r;
  auto whole = read_file(path);
  if (!whole) return unexpected(whole.error());
  const auto& f = *whole;
  return size_of_image({static_cast<const std::uint8_t*>(f.data.get()), f.bytes}, want);
}

image_result read_image(const std::string& path, int channels, wanted_size want) {
  if (const auto fine = check_length_of_path(path); !fine) return unexpected(fine.error());
  auto file = read_file(path);
  if (!file) return unexpected(std::move(file).error());
  const auto& f = *file;
  return decode_image({static_cast<const std::uint8_t*>(f.data.get()), f.bytes}, channels, want);
}

}  // namespace troupe::images
