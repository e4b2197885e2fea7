#include "runtime/data/npy_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they are in the file");

constexpr std::size_t most_extents = 16;

struct npy_type_row {
  std::string_view descr;
  npy_type type;
  std::size_t bytes;
  std::string_view name;
};
constexpr std::array<npy_type_row, 10> npy_types{{{"<f4", npy_type::f4, 4, "float32"},
                                                  {"<f8", npy_type::f8, 8, "float64"},
                                                  {"|i1", npy_type::i1, 1, "int8"},
                                                  {"<i2", npy_type::i2, 2, "int16"},
                                                  {"<i4", npy_type::i4, 4, "int32"},
                                                  {"<i8", npy_type::i8, 8, "int64"},
                                                  {"|u1", npy_type::u1, 1, "uint8"},
                                                  {"<u2", npy_type::u2, 2, "uint16"},
                                                  {"<u4", npy_type::u4, 4, "uint32"},
                                                  {"|b1", npy_type::b1, 1, "bool"}}};

const npy_type_row& row_of(npy_type t) {
  return *std::find_if(npy_types.begin(), npy_types.end(), [t](const npy_type_row& r) { return r.type == t; });
}

// Types that are not read: by the kind, the letter after the byte order, what they are and how the
// array becomes one that is read.
struct npy_other_row {
  char kind;
  std::string_view name, advice;
};
constexpr std::array<npy_other_row, 10> npy_others{
    {{'O', "object",
      "it holds Python objects, for example rows of different lengths: save numpy.stack(rows).astype(numpy.float32)"},
     {'U', "text", "save numbers: classes are numpy.unique(array, return_inverse=True)[1]"},
     {'S', "bytes", "save numbers: classes are numpy.unique(array, return_inverse=True)[1]"},
     {'u', "unsigned integers", "save array.astype(numpy.int64)"},
     {'i', "integers", "save array.astype(numpy.int64)"},
     {'f', "floats", "save array.astype(numpy.float32)"},
     {'c', "complex numbers", "save real numbers, as in array.real.astype(numpy.float32)"},
     {'M', "dates", "save array.astype(numpy.int64)"},
     {'m', "time spans", "save array.astype(numpy.int64)"},
     {'V', "raw bytes", "save array.view(numpy.uint8)"}}};

std::string not_read(std::string_view descr) {
  const auto kind = descr.size() > 1 ? descr[1] : ' ';
  const auto* at = std::find_if(npy_others.begin(), npy_others.end(), [&](const auto& o) { return o.kind == kind; });
  const std::string about = at == npy_others.end() ? "" : " (" + std::string(at->name) + ")";
  return "its dtype is " + in_quotes(std::string(descr)) + about +
         ", which is not supported: " + std::string(at == npy_others.end() ? "save array.astype(numpy.float32)" : at->advice);
}

// Reads the dictionary, as numpy writes it: keys and values without escapes, in any order.
class npy_dictionary {
 public:
  explicit npy_dictionary(std::string_view text) : rest_(text) {}

  expected<void> read(npy_header& h) {
    if (!take('{')) return damaged();
    while (!take('}')) {
      const auto key = word();
      if (!key || !take(':')) return damaged();
      auto part = *key == "descr"           ? descr(h)
                  : *key == "fortran_order" ? order()
                  : *key == "shape"         ? extents(h)
                                            : expected<void>(damaged());
      if (!part) return part;
      take(',');
    }
    blanks();
    if (!rest_.empty() || seen_ != 7) return damaged();
    return {};
  }

 private:
  static unexpected<error> damaged() { return unexpected(error("its .npy header is damaged")); }
  bool once(unsigned bit) {
    const bool first = (seen_ & bit) == 0;
    seen_ |= bit;
    return first;
  }
  void blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    blanks();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // A text in single or double quotes.
  std::optional<std::string_view> word() {
    blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const auto end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const auto text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool literal(std::string_view text) {
    blanks();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  expected<void> descr(npy_header& h) {
    blanks();
    if (!rest_.empty() && rest_[0] == '[') return unexpected(error("it is an array of records, not of numbers"));
    const auto name = word();
    if (!name || !once(1)) return damaged();
    const auto at = std::find_if(npy_types.begin(), npy_types.end(), [&](const npy_type_row& r) { return r.descr == *name; });
    if (at == npy_types.end()) return unexpected(error(not_read(*name)));
    h.type = at->type;
    return {};
  }

  expected<void> order() {
    if (literal("True")) return unexpected(error("it is in Fortran order: save numpy.ascontiguousarray(array)"));
    if (!literal("False") || !once(2)) return damaged();
    return {};
  }

  expected<void> extents(npy_header& h) {
    if (!take('(') || !once(4)) return damaged();
    while (!take(')')) {
      blanks();
      std::int64_t extent = -1;
      const auto [end, bad] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (bad != std::errc{} || extent < 0) return damaged();
      if (h.extents.size() == most_extents)
        return unexpected(error("it has more than " + std::to_string(most_extents) + " dimensions"));
      h.extents.push_back(extent);
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (!take(',') && (rest_.empty() || rest_[0] != ')')) return damaged();
    }
    return {};
  }

  std::string_view rest_;
  unsigned seen_ = 0;
};

template <class T>
void converted_numbers(const std::uint8_t* from, std::size_t n, double* to) {
  for (std::size_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<double>(v);
  }
}

}  // namespace

std::size_t npy_bytes(npy_type t) { return row_of(t).bytes; }
std::string npy_name(npy_type t) { return std::string(row_of(t).name); }

expected<npy_header> parse_npy(std::span<const std::uint8_t> beginning, std::uint64_t file_bytes) {
  constexpr std::string_view magic{"\x93NUMPY", 6};
  const std::string_view text{reinterpret_cast<const char*>(beginning.data()), beginning.size()};
  if (!text.starts_with(magic)) return unexpected(error("it is no .npy file"));
  if (text.size() < 12) return unexpected(error("it is truncated in its .npy header"));
  const auto version = beginning[6];
  if (version < 1 || version > 3) return unexpected(error("its .npy version " + std::to_string(version) + " is not supported"));
  const std::size_t from = version == 1 ? 10 : 12;
  std::size_t length = beginning[8] | std::size_t{beginning[9]} << 8;
  if (version > 1) length |= std::size_t{beginning[10]} << 16 | std::size_t{beginning[11]} << 24;
  if (length > npy_most_header - from)
    return unexpected(error("its .npy header has " + std::to_string(length) + " bytes, more than it may have"));
  if (text.size() < from + length) return unexpected(error("it is truncated in its .npy header"));
  npy_header h;
  if (auto ok = npy_dictionary(text.substr(from, length)).read(h); !ok) return unexpected(std::move(ok).error());
  h.offset = from + length;
  const auto there = (file_bytes - std::min<std::uint64_t>(file_bytes, h.offset)) / npy_bytes(h.type);
  std::uint64_t count = 1;
  for (const auto e : h.extents) {
    if (e != 0 && count > there / static_cast<std::uint64_t>(e))
      return unexpected(error("it is truncated: it has " + std::to_string(there) + " numbers, fewer than its shape says"));
    count *= static_cast<std::uint64_t>(e);
  }
  if (count > there)
    return unexpected(error("it is truncated: it has " + std::to_string(there) + " numbers, fewer than its shape says"));
  return h;
}

void npy_numbers(npy_type t, const std::uint8_t* from, std::size_t n, double* to) {
  switch (t) {
    case npy_type::f4: return converted_numbers<float>(from, n, to);
    case npy_type::f8: return converted_numbers<double>(from, n, to);
    case npy_type::i1: return converted_numbers<std::int8_t>(from, n, to);
    case npy_type::i2: return converted_numbers<std::int16_t>(from, n, to);
    case npy_type::i4: return converted_numbers<std::int32_t>(from, n, to);
    case npy_type::i8: return converted_numbers<std::int64_t>(from, n, to);
    case npy_type::u1:
    case npy_type::b1: return converted_numbers<std::uint8_t>(from, n, to);
    case npy_type::u2: return converted_numbers<std::uint16_t>(from, n, to);
    case npy_type::u4: return converted_numbers<std::uint32_t>(from, n, to);
  }
}

}  // namespace troupe
