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

// What is wrong with a member before it is read. NumPy stores or deflates; other methods compress
// without a bound.
expected<void> check_member(const zip_stat_t& facts) {
  constexpr auto wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if ((facts.valid & wanted) != wanted) return unexpected(error("the archive does not say how long it is"));
  if (facts.comp_method != ZIP_CM_STORE && facts.comp_method != ZIP_CM_DEFLATE)
    return unexpected(error("it is compressed by method " + std::to_string(facts.comp_method) + ", not by deflate"));
  if (facts.size / deflate_ratio > facts.comp_size)
    return unexpected(error("its " + std::to_string(facts.size) + " bytes cannot come out of " + std::to_string(facts.comp_size) +
                            " compressed bytes"));
  return {};
}

// Reads up to `n` bytes. An error if the archive is damaged.
expected<void> append(zip_file_t* file, std::size_t n, std::vector<std::uint8_t>& to) {
  const auto before = to.size();
  to.resize(before + n);
  const auto got = zip_fread(file, to.data() + before, n);
  to.resize(before + static_cast<std::size_t>(std::max<zip_int64_t>(got, 0)));
  if (got < 0) return unexpected(error(zip_file_strerror(file)));
  return {};
}

// The size in the archive may be wrong: memory is touched only as bytes arrive, and not beyond that
// size. A member that does not begin as an array of that size is refused before the rest is read.
expected<std::vector<std::uint8_t>> bytes_of(zip_file_t* file, std::uint64_t size) {
  constexpr std::size_t step = 1 << 20;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(static_cast<std::size_t>(size));
  bool checked = false;
  for (;;) {
    const auto before = bytes.size();
    const auto left = static_cast<std::size_t>(size) - before;
    if (left == 0) break;
    if (auto fine = append(file, std::min(left, step), bytes); !fine) return unexpected(std::move(fine).error());
    if (bytes.size() == before) return unexpected(error("it is truncated"));
    if (checked || (bytes.size() < npy_most_header && bytes.size() < size)) continue;
    const auto beginning = std::span(bytes).first(std::min(bytes.size(), npy_most_header));
    if (auto header = parse_npy(beginning, size); !header) return unexpected(std::move(header).error());
    checked = true;
  }
  std::uint8_t more = 0;
  if (zip_fread(file, &more, 1) != 0) return unexpected(error("it is longer than the archive says, or damaged"));
  return bytes;
}

expected<std::vector<std::uint8_t>> member_of(zip_t* archive, const std::string& name, std::uint64_t most) {
  const auto member = name + ".npy", what = "array " + in_quotes(name);
  zip_stat_t facts;
  zip_stat_init(&facts);
  if (zip_stat(archive, member.c_str(), 0, &facts) != 0)
    return unexpected(error("there is no " + what + "; the file has " + members_of(archive)));
  if (auto fine = check_member(facts); !fine) return unexpected(std::move(fine).error().in(what));
  if (facts.size > most)
    return unexpected(error(what + " takes more memory than memory_mib allows (" + std::to_string(most >> 20) +
                            " MiB): unpack the file (unzip) and give the folder as path"));
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen(archive, member.c_str(), 0), zip_fclose);
  if (!file) return unexpected(error(zip_strerror(archive)).in(what));
  auto bytes = bytes_of(file.get(), facts.size);
  if (!bytes) return unexpected(std::move(bytes).error().in(what));
  return bytes;
}

using zip_archive = std::unique_ptr<zip_t, void (*)(zip_t*)>;

expected<zip_archive> open_archive(const std::string& path) {
  if (const auto regular = open_bytes(path); !regular) return unexpected(regular.error());  // libzip would wait for a FIFO's writer
  int code = 0;
  zip_archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard);
  if (!archive) return unexpected(error("it is not a folder of .npy files, and no .npz file: " + text_of(code)));
  return expected<zip_archive>(std::move(archive));
}

expected<std::shared_ptr<const random_bytes>> open_member(const std::string& path, const std::string& name, std::uint64_t most) {
  const auto archive = open_archive(path);
  if (!archive) return unexpected(archive.error());
  auto bytes = member_of(archive->get(), name, most);
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

std::vector<double> numpy_array::numbers(std::int64_t first, std::int64_t count) const {
  const auto length = npy_bytes(header.type);
  std::vector<std::uint8_t> raw(static_cast<std::size_t>(count) * length);
  if (const auto ok = bytes->read(header.offset + static_cast<std::uint64_t>(first) * length, raw.data(), raw.size()); !ok)
    throw std::runtime_error(ok.error().in(name).text);
  std::vector<double> out(static_cast<std::size_t>(count));
  npy_numbers(header.type, raw.data(), out.size(), out.data());
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

expected<void> check_numpy_place(const std::string& path) {
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) return {};
  if (const auto archive = open_archive(path); !archive) return unexpected(archive.error().in(path));
  return {};
}

expected<numpy_array> open_numpy(const std::string& path, const std::string& name, std::uint64_t most) {
  std::error_code ec;
  const bool folder = std::filesystem::is_directory(path, ec);
  const auto file = folder ? path + "/" + name + ".npy" : path;
  auto bytes = folder ? open_bytes(file) : open_member(file, name, most);
  if (!bytes) return unexpected(std::move(bytes).error().in(file));
  auto a = numpy_array_of(folder ? file : file + ": " + name, *std::move(bytes));
  if (a && !folder) a->memory = a->bytes->size();
  return a;
}

}  // namespace troupe
