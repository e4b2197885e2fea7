#include "runtime/node/formats/hdf5_dataset.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/node/formats/child_process.hpp"
#include "runtime/node/formats/hdf5_library.hpp"
#include "runtime/node/memory_file/memory_file.hpp"

namespace troupe {
namespace {

constexpr std::string_view hdf5_signature("\x89HDF\r\n\x1a\n", 8);
constexpr std::size_t most_list_bytes = 1 << 20, most_files = 4096;
constexpr std::size_t most_axes = 32;  // H5S_MAX_RANK

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
  if (rank < 1 || rank > static_cast<int>(most_axes)) return unexpected(error("it is not an array of examples"));
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

struct hdf5_facts {
  npy_type type = npy_type::f4;
  std::vector<std::int64_t> extents;
};

// What is joined so far. The numbers are in a memfd, into which a child process writes them.
struct joined_arrays {
  npy_header header;
  std::uint64_t bytes = 0;
  bool any = false;
};

// The bytes of a dataset that is joined next.
expected<std::uint64_t> bytes_to_join(const joined_arrays& into, const hdf5_facts& next, std::uint64_t most) {
  const auto &h = into.header.extents, &e = next.extents;
  if (into.any && (into.header.type != next.type || !std::equal(h.begin() + 1, h.end(), e.begin() + 1, e.end())))
    return unexpected(error("its rows or the type of its numbers differ from those of the first file"));
  const auto bytes = bytes_of_array(e, next.type, most);
  if (bytes == 0 && e[0] != 0) return unexpected(error("it has no numbers"));
  if (!bytes || *bytes > most - into.bytes)
    return unexpected(error("it takes more memory than memory_mib allows (" + std::to_string(most >> 20) + " MiB)"));
  return *bytes;
}

constexpr std::uint64_t open_seconds = 5, bytes_per_second = 4 << 20;  // far more time than a sound file takes

// Reads the numbers to the end of `numbers`.
expected<void> read_numbers(const hdf5::library& l, hdf5::id dataset, hdf5::id native, std::uint64_t bytes,
                            const joined_arrays& into, int numbers) {
  if (bytes == 0) return {};
  allow_cpu(open_seconds + bytes / bytes_per_second);
  const auto total = into.bytes + bytes;
  if (::ftruncate(numbers, static_cast<off_t>(total)) != 0) return unexpected(error("no memory for it"));
  void* at = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, numbers, 0);
  if (at == MAP_FAILED) return unexpected(error("no memory for it"));
  if (l.read(dataset, native, hdf5::whole, hdf5::whole, hdf5::usual, static_cast<std::uint8_t*>(at) + into.bytes) < 0)
    return unexpected(error("it cannot be read: it is damaged, or compressed by a filter that is not installed"));
  return {};
}

// Runs in a child process.
expected<hdf5_facts> read_dataset(const hdf5::library& l, const std::string& path, const std::string& name, std::uint64_t most,
                                  const joined_arrays& into, int numbers) {
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
  hdf5_facts facts{as->as, *extents};
  const auto bytes = bytes_to_join(into, facts, most);
  if (!bytes) return wrong(bytes.error().text);
  if (const auto fine = read_numbers(l, dataset, as->native, *bytes, into, numbers); !fine) return wrong(fine.error().text);
  return facts;
}

// The reply of a child: "+", the type and the extents, or "-" and an error.
std::string reply_of(const expected<hdf5_facts>& read) {
  if (!read) return "-" + read.error().text;
  auto text = "+" + std::to_string(static_cast<int>(read->type));
  for (const auto e : read->extents) text += " " + std::to_string(e);
  return text;
}

// The child may have been taken over by its file, so its reply is checked like the file.
expected<hdf5_facts> facts_in(const std::string& reply) {
  if (reply.starts_with('-')) return unexpected(error(reply.substr(1)));
  std::istringstream in(reply.substr(std::min<std::size_t>(reply.size(), 1)));
  int type = -1;
  in >> type;
  hdf5_facts f;
  for (std::int64_t e = 0; in >> e;) f.extents.push_back(e < 0 ? 0 : e);
  if (!in.eof() || type < 0 || type > static_cast<int>(npy_type::b1) || f.extents.empty() || f.extents.size() > most_axes)
    return unexpected(error("the process that read it gave a reply that is damaged"));
  f.type = static_cast<npy_type>(type);
  return f;
}

expected<void> join_dataset(const hdf5::library& l, const std::string& path, const std::string& name, std::uint64_t most,
                            joined_arrays& into, const memory_file::descriptor& numbers) {
  if (const auto regular = open_bytes(path); !regular) return unexpected(regular.error());
  const child_limits limits{2 * most + (512 << 20), open_seconds, open_seconds + most / bytes_per_second};
  const auto reply =
      in_child(limits, numbers.get(), [&](int kept) { return reply_of(read_dataset(l, path, name, most, into, kept)); });
  if (!reply) return unexpected(error(reply.error().text + ": it is damaged, or made to attack the HDF5 library"));
  const auto facts = facts_in(*reply);
  if (!facts) return unexpected(facts.error());
  const auto bytes = bytes_to_join(into, *facts, most);
  if (!bytes) return unexpected(error("dataset " + in_quotes(name) + ": " + bytes.error().text));
  auto& h = into.header;
  if (into.any)
    h.extents[0] += facts->extents[0];
  else
    h.type = facts->type, h.extents = facts->extents;
  into.any = true;
  into.bytes += *bytes;
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
  auto numbers = memory_file::make("troupe_hdf5", 0, memory_file::pages::sparse);
  if (!numbers) return unexpected(numbers.error());
  joined_arrays all;
  for (const auto& f : files)
    if (const auto fine = join_dataset(**opened, f, dataset, most, all, *numbers); !fine) return unexpected(fine.error().in(f));
  numpy_array a;
  a.name = files.front() + ": " + dataset;
  a.header = std::move(all.header);
  if (a.rows() == 0 || a.row_count() == 0) return unexpected(error("it has no numbers").in(a.name));
  auto bytes = open_bytes("/proc/self/fd/" + std::to_string(numbers->get()));  // keeps the memory
  if (!bytes) return unexpected(std::move(bytes).error().in(a.name));
  a.bytes = *std::move(bytes);
  return a;
}

}  // namespace troupe
