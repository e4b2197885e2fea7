#include "runtime/node/formats/numpy_array.hpp"

#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

std::string text_of(int code) {
  zip_error_t e;
  zip_error_init_with_code(&e, code);
  std::string text = zip_error_strerror(&e);
  zip_error_fini(&e);
  return text;
}

// The arrays that the archive has: "a, b, c".
std::string members_of(zip_t* archive) {
  std::vector<std::string> names;
  constexpr zip_int64_t most = 20;
  const auto count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < std::min(count, most); ++i)
    if (const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0)) {
      const std::string text = name;
      names.push_back(in_quotes(text.ends_with(".npy") ? text.substr(0, text.size() - 4) : text));
    }
  return joined(names) + (count > most ? ", ..." : "");
}

expected<std::vector<std::uint8_t>> member_of(zip_t* archive, const std::string& name, std::uint64_t most) {
  zip_stat_t facts;
  zip_stat_init(&facts);
  if (zip_stat(archive, (name + ".npy").c_str(), 0, &facts) != 0)
    return unexpected(error("there is no array " + in_quotes(name) + "; the file has " + members_of(archive)));
  if ((facts.valid & ZIP_STAT_SIZE) == 0 || facts.size > most)
    return unexpected(error("array " + in_quotes(name) + " takes more memory than memory_mib allows (" +
                            std::to_string(most >> 20) + " MiB): unpack the file (unzip) and give the folder as path"));
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen(archive, (name + ".npy").c_str(), 0), zip_fclose);
  if (!file) return unexpected(error("array " + in_quotes(name) + ": " + zip_strerror(archive)));
  // The size in the archive may be wrong, so memory grows with what is read.
  std::vector<std::uint8_t> bytes, part(1 << 20);
  for (;;) {
    const auto n = zip_fread(file.get(), part.data(), part.size());
    if (n < 0) return unexpected(error("array " + in_quotes(name) + ": " + zip_file_strerror(file.get())));
    if (n == 0) break;
    if (static_cast<std::uint64_t>(n) > facts.size - bytes.size())
      return unexpected(error("array " + in_quotes(name) + " is longer than the archive says"));
    bytes.insert(bytes.end(), part.begin(), part.begin() + n);
  }
  if (bytes.size() != facts.size) return unexpected(error("array " + in_quotes(name) + " is truncated"));
  return bytes;
}

expected<std::shared_ptr<const random_bytes>> open_member(const std::string& path, const std::string& name, std::uint64_t most) {
  if (const auto regular = open_bytes(path); !regular) return unexpected(regular.error());  // libzip would wait for a FIFO's writer
  int code = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard);
  if (!archive) return unexpected(error("it is not a folder of .npy files, and no .npz file: " + text_of(code)));
  auto bytes = member_of(archive.get(), name, most);
  if (!bytes) return unexpected(std::move(bytes).error());
  return bytes_in_memory(*std::move(bytes));
}

expected<npy_header> header_of(const random_bytes& bytes) {
  std::vector<std::uint8_t> beginning(std::min<std::uint64_t>(bytes.size(), npy_most_header));
  if (auto ok = bytes.read(0, beginning.data(), beginning.size()); !ok) return unexpected(std::move(ok).error());
  return parse_npy(beginning, bytes.size());
}

}  // namespace

std::int64_t numpy_array::row_count() const {
  std::int64_t n = 1;
  for (std::size_t k = 1; k < header.extents.size(); ++k) n *= header.extents[k];
  return n;
}

std::string numpy_array::row_text() const {
  std::string s;
  for (std::size_t k = 1; k < header.extents.size(); ++k) s += (k > 1 ? "x" : "") + std::to_string(header.extents[k]);
  return s.empty() ? "scalar" : s;
}

void numpy_array::read_row(std::int64_t row, std::uint8_t* out) const {
  const auto length = static_cast<std::size_t>(row_count()) * npy_bytes(header.type);
  if (const auto ok = bytes->read(header.offset + static_cast<std::uint64_t>(row) * length, out, length); !ok)
    throw std::runtime_error(ok.error().in(name).text);
}

std::vector<double> numpy_array::numbers(std::int64_t row, std::int64_t rows) const {
  const auto count = static_cast<std::size_t>(row_count() * rows), length = npy_bytes(header.type);
  std::vector<std::uint8_t> raw(count * length);
  const auto at = static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(row_count()) * length;
  if (const auto ok = bytes->read(header.offset + at, raw.data(), raw.size()); !ok)
    throw std::runtime_error(ok.error().in(name).text);
  std::vector<double> out(count);
  npy_numbers(header.type, raw.data(), count, out.data());
  return out;
}

expected<numpy_array> numpy_array_of(std::string name, std::shared_ptr<const random_bytes> bytes) {
  numpy_array a;
  a.name = std::move(name);
  a.bytes = std::move(bytes);
  auto header = header_of(*a.bytes);
  if (!header) return unexpected(std::move(header).error().in(a.name));
  a.header = *std::move(header);
  if (a.rows() == 0 || a.row_count() == 0) return unexpected(error("it has no numbers").in(a.name));
  return a;
}

expected<numpy_array> open_numpy(const std::string& path, const std::string& name, std::uint64_t most) {
  std::error_code ec;
  const bool folder = std::filesystem::is_directory(path, ec);
  const auto file = folder ? path + "/" + name + ".npy" : path;
  auto bytes = folder ? open_bytes(file) : open_member(file, name, most);
  if (!bytes) return unexpected(std::move(bytes).error().in(file));
  return numpy_array_of(folder ? file : file + ": " + name, *std::move(bytes));
}

}  // namespace troupe
