// packed: reads what `troupe pack` has written (packed_file.hpp). The file is mapped, so examples cost memory only while the system
// likes to keep them, several processes share them, and any example is at hand at once. A block's checksum is compared, and its
// labels and ids are looked at, by whoever reads it first; a block that is damaged fails the job with the file's name.
// The file must not be cut short while a job reads it: the system answers that with SIGBUS.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "ops/option_specs.hpp"
#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/byte_tables.hpp"
#include "runtime/data/packed.hpp"
#include "runtime/data/packed_file.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class packed_source final : public source {
 public:
  packed_source(std::shared_ptr<const void> owner, std::span<const std::uint8_t> file, packed_layout l, std::string name)
      : owner_(std::move(owner)),
        file_(file),
        layout_(std::move(l)),
        name_(std::move(name)),
        tables_(layout_.header.scaling),
        sound_(static_cast<std::size_t>(head().blocks(split::train) + head().blocks(split::test))) {}

  shape example() const override { return head().example; }
  shape label() const override { return head().label; }
  std::int64_t classes() const override { return head().classes; }
  bool ids() const override { return head().type == dtype::i32; }
  std::vector<std::string> symbols() const override { return head().symbols; }
  std::int64_t size(split s) const override { return head().size(s); }
  std::optional<byte_scaling> bytes() const override {
    if (head().type != dtype::u8) return std::nullopt;
    return head().scaling;
  }

  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto n = static_cast<std::size_t>(head().value_bytes());
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n);
      else
        std::memcpy(out, values_of(s, i), n);
      out += n;
    }
  }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    const auto n = head().example.count(), labels = head().label.count();
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * n);
    auto* out = static_cast<std::uint8_t*>(data.raw_mutable());
    auto* classes = label.mutable_data<std::int32_t>();
    const auto bytes = static_cast<std::size_t>(n) * size_of(data.type());
    for (auto i : indices) {
      assert(i < size(s));
      if (i < 0) {
        std::memset(out, 0, bytes);
        std::fill_n(classes, labels, -1);
      } else {
        write_values(values_of(s, i), data.type(), out);
        std::memcpy(classes, labels_of(s, i), static_cast<std::size_t>(head().label_bytes()));
      }
      out += bytes;
      classes += labels;
    }
  }

 private:
  const packed_header& head() const { return layout_.header; }

  void write_values(const std::uint8_t* in, dtype type, std::uint8_t* out) const {
    const auto n = static_cast<std::size_t>(head().example.count());
    if (head().type == dtype::u8) {
      if (type == dtype::f64)
        tables_.fill(in, n, reinterpret_cast<double*>(out));
      else
        tables_.fill(in, n, reinterpret_cast<float*>(out));
    } else if (type == dtype::f64) {
      auto* values = reinterpret_cast<double*>(out);
      for (std::size_t k = 0; k < n; ++k, in += 4) {
        float v = 0;
        std::memcpy(&v, in, 4);
        values[k] = v;
      }
    } else {
      std::memcpy(out, in, n * 4);  // f32 to f32, ids to i32
    }
  }

  // The block of example i, looked at.
  const std::uint8_t* block_of(split s, std::int64_t i) const {
    const auto b = i / head().block_examples + (s == split::train ? 0 : head().blocks(split::train));
    const auto* at = file_.data() + layout_.first_block + b * head().block_bytes();
    auto& seen = sound_[static_cast<std::size_t>(b)];
    if (!seen.load(std::memory_order_relaxed)) {
      check(s, i / head().block_examples, at);
      seen.store(true, std::memory_order_relaxed);
    }
    return at;
  }
  const std::uint8_t* values_of(split s, std::int64_t i) const {
    return block_of(s, i) + i % head().block_examples * head().value_bytes();
  }
  const std::uint8_t* labels_of(split s, std::int64_t i) const {
    return block_of(s, i) + head().block_examples * head().value_bytes() + i % head().block_examples * head().label_bytes();
  }

  void check(split s, std::int64_t block, const std::uint8_t* at) const {
    const auto first = block * head().block_examples, end = std::min(first + head().block_examples, size(s));
    const auto damaged = [&](const std::string& what) {
      throw std::runtime_error(name_ + ": " + (s == split::train ? "training" : "test") + " examples " + std::to_string(first) +
                               " to " + std::to_string(end - 1) + " are damaged: " + what);
    };
    const auto n = static_cast<std::size_t>(head().checked_bytes());
    std::uint32_t sum = 0;
    std::memcpy(&sum, at + n, 4);
    if (sum != crc32c(0, at, n)) damaged("another CRC32C");
    const auto in_range = [&](const std::uint8_t* p, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k, p += 4) {
        std::int32_t v = 0;
        std::memcpy(&v, p, 4);
        if (v < 0 || v >= head().classes) return false;
      }
      return true;
    };
    const auto* labels = at + head().block_examples * head().value_bytes();
    if (head().classes > 0 && !in_range(labels, (end - first) * head().label.count())) damaged("a label that is no class");
    if (ids() && !in_range(at, (end - first) * head().example.count())) damaged("an id that is no symbol");
  }

  std::shared_ptr<const void> owner_;
  std::span<const std::uint8_t> file_;
  packed_layout layout_;
  std::string name_;
  byte_tables tables_;
  mutable std::vector<std::atomic<bool>> sound_;  // by block
};

struct mapping {
  const void* data = nullptr;
  std::size_t bytes = 0;
  ~mapping() {
    if (data) ::munmap(const_cast<void*>(data), bytes);
  }
};

// What is wrong, else empty.
std::string map_file(const std::string& path, mapping& m) {
  const auto error = [](const char* what) { return std::string(what) + ": " + std::strerror(errno); };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return error("cannot open");
  struct stat st {};
  std::string wrong;
  if (::fstat(fd, &st) != 0)
    wrong = error("cannot stat");
  else if (!S_ISREG(st.st_mode))
    wrong = "not a regular file";
  else if (st.st_size == 0)
    wrong = "an empty file";
  if (wrong.empty()) {
    auto* p = ::mmap(nullptr, static_cast<std::size_t>(st.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) wrong = error("cannot map");
    if (wrong.empty()) m.data = p, m.bytes = static_cast<std::size_t>(st.st_size);
  }
  ::close(fd);
  return wrong;
}

std::shared_ptr<const source> open_file(const options& o, std::uint64_t) {
  const auto& path = o.text("path");
  // Before any message names the file: what() ends at a NUL.
  if (path.find('\0') != std::string::npos) throw option_error("path", "option 'path' holds a NUL byte");
  const auto m = std::make_shared<mapping>();
  if (auto wrong = map_file(path, *m); !wrong.empty()) throw option_error("path", path + ": " + wrong);
  auto r = open_packed(m, {static_cast<const std::uint8_t*>(m->data), m->bytes}, path);
  if (auto* e = std::get_if<std::string>(&r)) throw option_error("path", *e);
  return std::get<std::shared_ptr<const source>>(r);
}

}  // namespace

std::variant<std::shared_ptr<const source>, std::string> open_packed(std::shared_ptr<const void> owner,
                                                                     std::span<const std::uint8_t> file, const std::string& name) {
  auto r = decode_packed_header(file, file.size());
  if (auto* e = std::get_if<std::string>(&r)) return name + ": " + *e;
  return std::make_shared<packed_source>(std::move(owner), file, std::get<packed_layout>(std::move(r)), name);
}

source_type packed_source_type() {
  return {"packed",
          "A file that `troupe pack` has written from any other source: mapped, any example at hand at once, checksums by block.",
          {option_of("path", option_kind::text, std::nullopt, "the file")},
          open_file};
}

}  // namespace troupe
