// packed: reads a file written by `troupe pack` (packed_file.hpp). Examples are read from the file
// by offset: they take no memory of the process, the system caches pages as it sees fit, and access
// is random. The first reader of a block verifies its checksum, and again after the file was
// modified. Labels and ids are checked whenever they are read, since layers use them as indices. A
// damaged or missing block fails the job with the file's name.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <mutex>

#include "ops/option_specs.hpp"
#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/byte_tables.hpp"
#include "runtime/data/packed.hpp"
#include "runtime/data/packed_file.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

using bytes_of_one = std::vector<std::uint8_t>;

class packed_source final : public source {
 public:
  packed_source(std::shared_ptr<const random_bytes> file, packed_layout l, std::string name)
      : file_(std::move(file)),
        layout_(std::move(l)),
        name_(std::move(name)),
        tables_(layout_.header.scaling),
        version_(file_->version()),
        sound_(static_cast<std::size_t>(head().blocks(split::train) + head().blocks(split::test))) {}

  shape example() const override { return head().example; }
  shape label() const override { return head().label; }
  std::int64_t classes() const override { return head().classes; }
  bool targets() const override { return head().targets; }
  bool ids() const override { return head().type == dtype::i32; }
  std::int64_t vocabulary() const override { return head().vocabulary; }
  std::vector<std::string> symbols() const override { return head().symbols; }
  std::vector<std::string> class_names() const override { return head().class_names.empty() ? head().symbols : head().class_names; }
  channel_order picture_order() const override { return head().order; }
  std::int64_t size(split s) const override { return head().size(s); }
  std::optional<byte_scaling> bytes() const override {
    if (head().type != dtype::u8) return std::nullopt;
    return head().scaling;
  }

  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto n = static_cast<std::size_t>(head().value_bytes());
    const auto contents = look();
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n);
      else
        read_values(s, i, contents, out);
      out += n;
    }
  }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    const auto n = head().example.count();
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * n);
    auto* out = static_cast<std::uint8_t*>(data.raw_mutable());
    auto* label_out = static_cast<std::uint8_t*>(label.raw_mutable());
    const auto label_bytes = static_cast<std::size_t>(head().label.count()) * size_of(label.type());
    const auto bytes = static_cast<std::size_t>(n) * size_of(data.type());
    const bool as_it_lies = size_of(data.type()) == size_of(head().type);  // f32 to f32, ids to i32
    bytes_of_one room(as_it_lies ? 0 : static_cast<std::size_t>(head().value_bytes()));
    const auto contents = look();
    for (auto i : indices) {
      assert(i < size(s));
      if (i < 0) {
        std::memset(out, 0, bytes);
        std::memset(label_out, head().targets ? 0 : 0xff, label_bytes);  // 0, or the label -1
      } else {
        read_values(s, i, contents, as_it_lies ? out : room.data());
        if (!as_it_lies) widen(room.data(), data.type(), out);
        read_labels(s, i, label.type(), label_out);
      }
      out += bytes;
      label_out += label_bytes;
    }
  }

 private:
  const packed_header& head() const { return layout_.header; }

  void widen(const std::uint8_t* in, dtype type, std::uint8_t* out) const {
    const auto n = static_cast<std::size_t>(head().example.count());
    if (head().type == dtype::u8) {
      if (type == dtype::f64)
        tables_.fill(in, n, reinterpret_cast<double*>(out));
      else
        tables_.fill(in, n, reinterpret_cast<float*>(out));
    } else {
      auto* values = reinterpret_cast<double*>(out);
      for (std::size_t k = 0; k < n; ++k, in += 4) {
        float v = 0;
        std::memcpy(&v, in, 4);
        values[k] = v;
      }
    }
  }

  // Number of the file's present content; it increases when the file was modified.
  std::uint32_t look() const {
    const auto now = file_->version();
    const std::lock_guard hold(lock_);
    if (now != version_) {
      version_ = now;
      ++contents_;
    }
    return contents_;
  }

  // Where block `b` of a split begins.
  std::int64_t block_at(split s, std::int64_t b) const {
    return layout_.first_block + (b + (s == split::train ? 0 : head().blocks(split::train))) * head().block_bytes();
  }

  // Reads example i's values. Verifies its block first, unless that was done for the present
  // content.
  void read_values(split s, std::int64_t i, std::uint32_t contents, std::uint8_t* out) const {
    const auto b = i / head().block_examples;
    auto& seen = sound_[static_cast<std::size_t>(b + (s == split::train ? 0 : head().blocks(split::train)))];
    if (seen.load(std::memory_order_relaxed) != contents) {
      check(s, b);
      seen.store(contents, std::memory_order_relaxed);
    }
    get(block_at(s, b) + i % head().block_examples * head().value_bytes(), out, head().value_bytes());
    if (ids()) check_ids(s, b, out, head().value_bytes());
  }
  void read_labels(split s, std::int64_t i, dtype type, std::uint8_t* out) const {
    const auto b = i / head().block_examples;
    const auto at = block_at(s, b) + labels_begin() + i % head().block_examples * head().label_bytes();
    if (type != dtype::f64) {
      get(at, out, head().label_bytes());
      return check_labels(s, b, out, head().label_bytes());
    }
    std::vector<float> narrow(static_cast<std::size_t>(head().label.count()));
    get(at, narrow.data(), head().label_bytes());
    std::copy(narrow.begin(), narrow.end(), reinterpret_cast<double*>(out));
  }
  std::int64_t ids_below() const { return head().vocabulary > 0 ? head().vocabulary : std::int64_t{1} << 31; }
  std::int64_t labels_begin() const { return head().block_examples * head().value_bytes(); }

  void get(std::int64_t at, void* out, std::int64_t n) const {
    if (const auto fine = file_->read(static_cast<std::uint64_t>(at), out, static_cast<std::size_t>(n)); !fine)
      throw std::runtime_error(name_ + ": " + fine.error().text);
  }

  [[noreturn]] void damaged(split s, std::int64_t block, const char* what) const {
    const auto first = block * head().block_examples, end = std::min(first + head().block_examples, size(s));
    throw std::runtime_error(name_ + ": " + (s == split::train ? "training" : "test") + " examples " + std::to_string(first) +
                             " to " + std::to_string(end - 1) + " are damaged: " + what);
  }
  // -1 is a label that does not count, or an id of padding.
  bool in_range(const void* from, std::int64_t bytes, std::int64_t below) const {
    const auto* p = static_cast<const std::uint8_t*>(from);
    for (const auto* end = p + bytes; p != end; p += 4) {
      std::int32_t v = 0;
      std::memcpy(&v, p, 4);
      if (v < -1 || v >= below) return false;
    }
    return true;
  }
  void check_labels(split s, std::int64_t block, const void* from, std::int64_t bytes) const {
    if (head().classes > 0 && !in_range(from, bytes, head().classes)) damaged(s, block, "a label that is not a class");
  }
  void check_ids(split s, std::int64_t block, const void* from, std::int64_t bytes) const {
    if (!in_range(from, bytes, ids_below())) damaged(s, block, "an id that is not a symbol");
  }

  // Verifies a whole block, in pieces: a block with one large example can be large.
  void check(split s, std::int64_t block) const {
    constexpr std::int64_t piece = 64 << 10;  // a multiple of 4: no number is cut
    bytes_of_one room(static_cast<std::size_t>(std::min(piece, head().checked_bytes())));
    const auto at = block_at(s, block), n = std::min(head().block_examples, size(s) - block * head().block_examples);
    std::uint32_t sum = 0, wanted = 0;
    bool labels_sound = true, ids_sound = true;
    // Bytes [begin, end) of the block, numbers below `below` if it is > 0; all after the first
    // `used` of them are padding.
    const auto walk = [&](std::int64_t begin, std::int64_t end, std::int64_t used, std::int64_t below, bool& sound) {
      for (auto k = begin; k < end; k += piece) {
        const auto now = std::min(piece, end - k);
        get(at + k, room.data(), now);
        sum = crc32c(sum, room.data(), static_cast<std::size_t>(now));
        if (below > 0) sound = sound && in_range(room.data(), std::clamp<std::int64_t>(begin + used - k, 0, now), below);
      }
    };
    walk(0, labels_begin(), n * head().value_bytes(), ids() ? ids_below() : 0, ids_sound);
    walk(labels_begin(), head().checked_bytes(), n * head().label_bytes(), head().classes, labels_sound);
    get(at + head().checked_bytes(), &wanted, 4);
    if (sum != wanted) damaged(s, block, "wrong CRC32C");
    if (!labels_sound) damaged(s, block, "a label that is not a class");
    if (!ids_sound) damaged(s, block, "an id that is not a symbol");
  }

  std::shared_ptr<const random_bytes> file_;
  packed_layout layout_;
  std::string name_;
  byte_tables tables_;
  mutable std::mutex lock_;
  mutable std::uint64_t version_;  // of the file's present content
  mutable std::uint32_t contents_ = 1;
  mutable std::vector<std::atomic<std::uint32_t>> sound_;  // by block: the content number for which it was verified; 0: never
};

std::shared_ptr<const source> open_by_option(const options& o, std::uint64_t) {
  const auto& path = o.text("path");
  check_path_text("path", path);
  auto file = open_bytes(path);
  if (!file) throw option_error("path", path + ": " + file.error().text);
  auto r = open_packed(*std::move(file), path);
  if (!r) throw option_error("path", r.error().text);
  return *r;
}

}  // namespace

expected<std::shared_ptr<const source>> open_packed(std::shared_ptr<const random_bytes> file, const std::string& name) {
  // The header has its own length. No more than the allowed maximum and the file's size is read.
  bytes_of_one begin(static_cast<std::size_t>(std::min<std::uint64_t>(file->size(), 16)));
  if (const auto fine = file->read(0, begin.data(), begin.size()); !fine) return unexpected(fine.error().in(name));
  if (begin.size() == 16) {
    std::uint32_t length = 0;
    std::memcpy(&length, begin.data() + 12, 4);
    const auto n = std::min<std::uint64_t>({file->size(), std::max<std::uint32_t>(length, 16), max_packed_header_bytes});
    begin.resize(static_cast<std::size_t>(n));
    if (const auto fine = file->read(0, begin.data(), begin.size()); !fine) return unexpected(fine.error().in(name));
  }
  auto r = decode_packed_header(begin, file->size());
  if (!r) return unexpected(r.error().in(name));
  return std::make_shared<packed_source>(std::move(file), *std::move(r), name);
}

source_type packed_source_type() {
  return {"packed",
          "A file that `troupe pack` has written from any other source: random access to examples, a checksum for each block.",
          {option_of("path", option_kind::text, std::nullopt, "the file")},
          open_by_option,
          [](const options& o) {
            return std::vector<source_file>{{"path", o.text("path")}};
          }};
}

}  // namespace troupe
