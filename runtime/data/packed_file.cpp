#include "runtime/data/packed_file.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/checksum/crc32c.hpp"

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char magic[8] = {'T', 'R', 'O', 'U', 'P', 'E', 'P', 'K'};
constexpr std::uint32_t first_version = 1, version_of_targets = 2, version_of_order = 3, last_version = 4;
constexpr std::int64_t max_block_examples = 65536;
constexpr std::uint32_t max_symbols = 65536, max_class_names = 1 << 20;
constexpr std::int64_t max_values = std::int64_t{1} << 31;  // of one example
constexpr std::int64_t max_examples = std::int64_t{1} << 40;
constexpr std::int64_t max_packed_classes = std::int64_t{1} << 31;
constexpr int max_axes = shape::max_rank - 1;

std::int64_t up_to(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

class writer {
 public:
  template <class T>
  void put(T v) {
    const auto* p = reinterpret_cast<const std::uint8_t*>(&v);
    bytes.insert(bytes.end(), p, p + sizeof v);
  }
  void put(const std::vector<std::string>& texts) {
    put(static_cast<std::uint32_t>(texts.size()));
    for (const auto& s : texts) {
      put(static_cast<std::uint32_t>(s.size()));
      bytes.insert(bytes.end(), s.begin(), s.end());
    }
  }
  std::vector<std::uint8_t> bytes;
};

// Reads consecutive numbers. Past the end they are 0, and sound() becomes false.
class reader {
 public:
  explicit reader(std::span<const std::uint8_t> b) : bytes_(b) {}
  template <class T>
  T take() {
    T v{};
    if (bytes_.size() - at_ < sizeof v) {
      sound_ = false;
      return v;
    }
    std::memcpy(&v, bytes_.data() + at_, sizeof v);
    at_ += sizeof v;
    return v;
  }
  std::string text(std::size_t n) {
    if (bytes_.size() - at_ < n) {
      sound_ = false;
      return {};
    }
    std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), n);
    at_ += n;
    return s;
  }
  std::size_t left() const { return bytes_.size() - at_; }
  bool sound() const { return sound_; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool sound_ = true;
};

const char* read_shape(reader& r, std::uint32_t rank, shape& into) {
  std::int64_t count = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto extent = r.take<std::int64_t>();
    if (extent < 1 || extent > max_values / count) return "an invalid extent";
    count *= extent;
    into.push_back(extent);
  }
  return nullptr;
}

const char* read_scaling(reader& r, packed_header& h) {
  const auto pairs = r.take<std::uint32_t>();
  const bool wanted = h.type == dtype::u8 ? pairs == 1 || pairs == h.example[0] : pairs == 0;
  if (!wanted || pairs > r.left() / 16) return "an invalid number of scales";
  for (std::uint32_t i = 0; i < pairs; ++i) {
    h.scaling.scale.push_back(r.take<double>());
    h.scaling.mean.push_back(r.take<double>());
    if (!std::isfinite(h.scaling.scale.back()) || !std::isfinite(h.scaling.mean.back())) return "a scale that is not finite";
  }
  return nullptr;
}

// A text for each class, or none. Returns false if there is another number of them.
bool read_texts(reader& r, std::int64_t classes, std::uint32_t most, std::vector<std::string>& into) {
  const auto n = r.take<std::uint32_t>();
  if (n > most || n > r.left() / 4 || (n > 0 && n != classes)) return false;
  for (std::uint32_t i = 0; i < n && r.sound(); ++i) into.push_back(r.text(r.take<std::uint32_t>()));
  return true;
}

const char* read_names(reader& r, std::uint32_t version, packed_header& h) {
  if (!read_texts(r, h.classes, max_symbols, h.symbols)) return "an invalid number of symbols";
  if (version >= last_version && !read_texts(r, h.classes, max_class_names, h.class_names))
    return "an invalid number of names of classes";
  return nullptr;
}

const char* read_fields(reader& r, std::uint32_t version, packed_header& h) {
  constexpr dtype types[] = {dtype::u8, dtype::f32, dtype::i32};
  const auto type = r.take<std::uint32_t>(), rank = r.take<std::uint32_t>(), label_rank = r.take<std::uint32_t>();
  h.block_examples = r.take<std::uint32_t>();
  h.classes = r.take<std::int64_t>();
  h.train = r.take<std::int64_t>();
  h.test = r.take<std::int64_t>();
  if (type >= std::size(types)) return "values of an unknown type";
  h.type = types[type];
  h.vocabulary = h.type == dtype::i32 ? h.classes : 0;
  if (version >= version_of_targets) {
    h.vocabulary = r.take<std::int64_t>();
    const auto labels = r.take<std::uint32_t>();
    if (labels > 1 || (labels == 1 && h.classes != 0)) return "labels of an unknown type";
    h.targets = labels == 1;
    if (h.vocabulary < 0 || h.vocabulary > max_packed_classes) return "an invalid number of ids";
  }
  if (version >= version_of_order) {
    const auto order = r.take<std::uint32_t>();
    if (order > 1) return "an unknown order of channels";
    h.order = order == 1 ? channel_order::bgr : channel_order::rgb;
  }
  if (rank < 1 || rank > max_axes || label_rank > max_axes) return "an invalid rank";
  if (h.block_examples < 1 || h.block_examples > max_block_examples) return "an invalid number of examples per block";
  if (h.classes < 0 || h.classes > max_packed_classes) return "an invalid number of classes";
  if (h.train < 0 || h.train > max_examples || h.test < 0 || h.test > max_examples) return "an invalid number of examples";
  if (const auto* e = read_shape(r, rank, h.example)) return e;
  if (const auto* e = read_shape(r, label_rank, h.label)) return e;
  if (const auto* e = read_scaling(r, h)) return e;
  return read_names(r, version, h);
}

// The first version that can describe the data.
std::uint32_t version_of(const packed_header& h) {
  if (!h.class_names.empty()) return last_version;
  if (h.order != channel_order::rgb) return version_of_order;
  if (h.targets || h.vocabulary != (h.type == dtype::i32 ? h.classes : 0)) return version_of_targets;
  return first_version;
}

}  // namespace

std::int64_t packed_header::value_bytes() const { return example.count() * static_cast<std::int64_t>(size_of(type)); }
std::int64_t packed_header::label_bytes() const { return label.count() * 4; }
std::int64_t packed_header::block_bytes() const { return up_to(checked_bytes() + 4, 64); }

std::vector<std::uint8_t> encode_packed_header(const packed_header& h) {
  writer w;
  for (char c : magic) w.put(c);
  const auto version = version_of(h);
  w.put(version);
  w.put(std::uint32_t{0});  // length, below
  w.put(h.type == dtype::u8 ? std::uint32_t{0} : h.type == dtype::f32 ? std::uint32_t{1} : std::uint32_t{2});
  w.put(static_cast<std::uint32_t>(h.example.rank()));
  w.put(static_cast<std::uint32_t>(h.label.rank()));
  w.put(static_cast<std::uint32_t>(h.block_examples));
  w.put(h.classes);
  w.put(h.train);
  w.put(h.test);
  if (version >= version_of_targets) {
    w.put(h.vocabulary);
    w.put(std::uint32_t{h.targets ? 1u : 0u});
  }
  if (version >= version_of_order) w.put(std::uint32_t{h.order == channel_order::bgr ? 1u : 0u});
  for (int i = 0; i < h.example.rank(); ++i) w.put(h.example[i]);
  for (int i = 0; i < h.label.rank(); ++i) w.put(h.label[i]);
  w.put(static_cast<std::uint32_t>(h.scaling.scale.size()));
  for (std::size_t i = 0; i < h.scaling.scale.size(); ++i) w.put(h.scaling.scale[i]), w.put(h.scaling.mean[i]);
  w.put(h.symbols);
  if (version >= last_version) w.put(h.class_names);
  const auto length = static_cast<std::uint32_t>(w.bytes.size() + 4);
  std::memcpy(w.bytes.data() + 12, &length, 4);
  w.put(crc32c(0, w.bytes.data(), w.bytes.size()));
  return std::move(w.bytes);
}

expected<packed_layout> decode_packed_header(std::span<const std::uint8_t> begin, std::uint64_t file_bytes) {
  if (begin.size() < 16 || std::memcmp(begin.data(), magic, sizeof magic) != 0)
    return unexpected(error("not packed data: it does not begin with TROUPEPK"));
  reader first(begin.subspan(8));
  const auto is = first.take<std::uint32_t>(), length = first.take<std::uint32_t>();
  if (is < first_version || is > last_version)
    return unexpected(error("packed data of version " + std::to_string(is) + ", this program reads versions " +
                            std::to_string(first_version) + " to " + std::to_string(last_version)));
  if (length < 20 || length > max_packed_header_bytes || length > begin.size()) return unexpected(error("truncated in its header"));
  std::uint32_t sum = 0;
  std::memcpy(&sum, begin.data() + length - 4, 4);
  if (sum != crc32c(0, begin.data(), length - 4)) return unexpected(error("its header is damaged (CRC32C)"));
  reader r(begin.subspan(16, length - 20));
  packed_layout out;
  auto& h = out.header;
  if (const auto* e = read_fields(r, is, h)) return unexpected(error(std::string("its header has ") + e));
  if (!r.sound() || r.left() != 0) return unexpected(error("its header's length differs from its fields"));
  out.first_block = up_to(length, packed_alignment);
  // In 128 bits: each factor is limited, but their product may exceed 64 bits.
  __extension__ using wide = unsigned __int128;
  const auto bytes = static_cast<wide>(h.value_bytes() + h.label_bytes()) * static_cast<wide>(h.block_examples) + 4;
  const auto block = (bytes + 63) / 64 * 64;
  const auto count = static_cast<wide>(h.blocks(split::train)) + static_cast<wide>(h.blocks(split::test));
  if (block > file_bytes && count > 0) return unexpected(error("truncated: it has no complete block"));
  const auto wanted = static_cast<wide>(out.first_block) + count * block;
  if (wanted != file_bytes)
    return unexpected(error("its header declares " + std::to_string(h.train) + " + " + std::to_string(h.test) +
                            " examples, for which " + std::to_string(file_bytes) + " bytes are " +
                            (wanted > file_bytes ? "too few" : "too many")));
  return out;
}

}  // namespace troupe
