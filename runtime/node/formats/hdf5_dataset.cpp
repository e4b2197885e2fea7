#include "runtime/node/formats/hdf5_dataset.hpp"

#include <array>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/node/formats/hdf5_library.hpp"

namespace troupe {
namespace {

constexpr std::string_view hdf5_signature("\x89HDF\r\n\x1a\n", 8);
constexpr std::size_t most_list_bytes = 1 << 20, most_files = 4096;
constexpr int most_axes = 32;  // H5S_MAX_RANK

// An id of the library, closed at the end of its scope.
class held_id {
 public:
  held_id(hdf5::id i, int (*close)(hdf5::id)) : id_(i), close_(close) {}
  ~held_id() {
    if (id_ >= 0) close_(id_);
  }
  held_id(const held_id&) = delete;
  held_id& operator=(const held_id&) = delete;
  explicit operator bool() const { return id_ >= 0; }
  operator hdf5::id() const { return id_; }  // NOLINT: an id with an owner

 private:
  hdf5::id id_;
  int (*close_)(hdf5::id);
};

struct memory_type {
  npy_type as;
  hdf5::id native;
};

std::optional<memory_type> memory_type_of(const hdf5::library& l, hdf5::id type) {
  const auto size = l.size_of(type);
  switch (l.class_of(type)) {
    case hdf5::floats: return size <= 4 ? memory_type{npy_type::f4, l.f4} : memory_type{npy_type::f8, l.f8};
    case hdf5::integers:
      if (l.sign_of(type) == 0) {
        if (size == 1) return memory_type{npy_type::u1, l.u1};
        if (size == 2) return memory_type{npy_type::u2, l.u2};
        return size == 4 ? memory_type{npy_type::u4, l.u4} : memory_type{npy_type::i8, l.i8};
      }
      if (size == 1) return memory_type{npy_type::i1, l.i1};
      if (size == 2) return memory_type{npy_type::i2, l.i2};
      return size == 4 ? memory_type{npy_type::i4, l.i4} : memory_type{npy_type::i8, l.i8};
    default: return std::nullopt;
  }
}

// The numbers of a dataset are in the file itself, as far as the library can tell.
bool in_its_file(const hdf5::library& l, hdf5::id dataset, const std::string& path) {
  const held_id creation(l.creation_of(dataset), l.close_list);
  if (!creation || l.external_files(creation) != 0 || l.layout(creation) == hdf5::virtual_layout) return false;
  std::vector<char> name(path.size() + 2);
  const auto length = l.file_name(dataset, name.data(), name.size());
  return length == static_cast<std::ptrdiff_t>(path.size()) && path == name.data();
}

expected<std::vector<std::int64_t>> extents_of(const hdf5::library& l, hdf5::id dataset) {
  const held_id space(l.space_of(dataset), l.close_space);
  const int rank = space ? l.rank(space) : -1;
  if (rank < 1 || rank > most_axes) return unexpected(error("it is not an array of examples"));
  std::array<hdf5::extent, most_axes> now{};
  if (l.extents(space, now.data(), nullptr) < 0) return unexpected(error("its shape cannot be read"));
  std::vector<std::int64_t> extents;
  for (int k = 0; k < rank; ++k) {
    if (now[static_cast<std::size_t>(k)] > static_cast<hdf5::extent>(std::numeric_limits<std::int64_t>::max()))
      return unexpected(error("its shape is too large"));
    extents.push_back(static_cast<std::int64_t>(now[static_cast<std::size_t>(k)]));
  }
  return extents;
}

// The bytes of an array; nullopt: more than `most`.
std::optional<std::uint64_t> bytes_of_array(const std::vector<std::int64_t>& extents, npy_type type, std::uint64_t most) {
  auto bytes = static_cast<std::uint64_t>(npy_bytes(type));
  for (const auto e : extents) {
    if (e == 0) return 0;
    if (bytes > most / static_cast<std::uint64_t>(e)) return std::nullopt;
    bytes *= static_cast<std::uint64_t>(e);
  }
  return bytes;
}

// What is joined so far.
struct joined_arrays {
  npy_header header;
  std::vector<std::uint8_t> bytes;
  bool any = false;
};

expected<void> read_dataset(const hdf5::library& l, const std::string& path, const std::string& name, std::uint64_t most,
                            joined_arrays& into) {
  if (const auto regular = open_bytes(path); !regular) return unexpected(regular.error());
  const held_id file(l.open_file(path.c_str(), hdf5::read_only, hdf5::usual), l.close_file);
  if (!file) return unexpected(error("it is no HDF5 file, or it is damaged"));
  const held_id dataset(l.open_dataset(file, name.c_str(), hdf5::usual), l.close_dataset);
  if (!dataset) return unexpected(error("there is no dataset " + in_quotes(name)));
  const auto wrong = [&](const std::string& what) { return unexpected(error("dataset " + in_quotes(name) + ": " + what)); };
  if (!in_its_file(l, dataset, path)) return wrong("its numbers are in other files");
  const auto extents = extents_of(l, dataset);
  if (!extents) return wrong(extents.error().text);
  const held_id type(l.type_of(dataset), l.close_type);
  const auto as = type ? memory_type_of(l, type) : std::nullopt;
  if (!as) return wrong("it does not hold integers or floats");
  auto& h = into.header;
  if (into.any && (h.type != as->as || !std::equal(h.extents.begin() + 1, h.extents.end(), extents->begin() + 1, extents->end())))
    return wrong("its rows or the type of its numbers differ from those of the first file");
  const auto bytes = bytes_of_array(*extents, as->as, most);
  const auto before = into.bytes.size();
  if (!bytes || *bytes > most - before)
    return wrong("it takes more memory than memory_mib allows (" + std::to_string(most >> 20) + " MiB)");
  if (into.any)
    h.extents[0] += (*extents)[0];
  else
    h.type = as->as, h.extents = *extents;
  into.any = true;
  into.bytes.resize(before + static_cast<std::size_t>(*bytes));
  if (*bytes > 0 && l.read(dataset, as->native, hdf5::whole, hdf5::whole, hdf5::usual, into.bytes.data() + before) < 0)
    return wrong("it cannot be read: it is damaged, or compressed by a filter that is not installed");
  return {};
}

}  // namespace

expected<std::vector<std::string>> hdf5_files(const std::string& path) {
  auto file = open_bytes(path);
  if (!file) return unexpected(file.error().in(path));
  std::string text(static_cast<std::size_t>(std::min<std::uint64_t>((*file)->size(), most_list_bytes)), '\0');
  if (const auto fine = (*file)->read(0, text.data(), text.size()); !fine) return unexpected(fine.error().in(path));
  if (text.starts_with(hdf5_signature)) return std::vector<std::string>{path};
  const auto wrong = [&](const std::string& what) {
    return unexpected(error("it is no HDF5 file, and as a list of such files " + what).in(path));
  };
  if ((*file)->size() > most_list_bytes) return wrong("it is too long");
  if (text.find('\0') != std::string::npos) return wrong("it is no text");
  std::vector<std::string> files;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    at = end + 1;
    line.erase(0, line.find_first_not_of(" \t\r"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    if (files.size() == most_files) return wrong("it has more than " + std::to_string(most_files) + " lines");
    files.push_back(line.front() == '/' ? line : (std::filesystem::path(path).parent_path() / line).string());
  }
  if (files.empty()) return wrong("it names none");
  return files;
}

expected<numpy_array> open_hdf5(const std::vector<std::string>& files, const std::string& dataset, std::uint64_t most) {
  const auto opened = hdf5::open_library();
  if (!opened) return unexpected(opened.error());
  auto& l = **opened;
  const std::lock_guard one(l.busy);
  joined_arrays all;
  for (const auto& f : files)
    if (const auto fine = read_dataset(l, f, dataset, most, all); !fine) return unexpected(fine.error().in(f));
  numpy_array a;
  a.name = files.front() + ": " + dataset;
  a.header = std::move(all.header);
  a.bytes = bytes_in_memory(std::move(all.bytes));
  if (a.rows() == 0 || a.row_count() == 0) return unexpected(error("it has no numbers").in(a.name));
  return a;
}

}  // namespace troupe
