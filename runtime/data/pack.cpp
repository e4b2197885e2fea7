// Writes a source to one packed file, block by block.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/base/write_whole.hpp"
#include "runtime/checksum/crc32c.hpp"
#include "runtime/data/file_place.hpp"
#include "runtime/data/packed.hpp"

namespace troupe {
namespace {

constexpr std::int64_t block_aim = 256 << 10;  // target size of a block in bytes; the first read in it checks all of it

class file_writer {
 public:
  explicit file_writer(int fd) : fd_(fd) {}  // takes over the descriptor
  ~file_writer() {
    if (fd_ >= 0) ::close(fd_);
  }
  file_writer(const file_writer&) = delete;
  file_writer& operator=(const file_writer&) = delete;

  void write(const void* data, std::size_t size) {
    if (status_ && write_whole(fd_, {static_cast<const char*>(data), size}) < size) fail("cannot write");
  }
  // Syncs and closes. Returns the first error.
  expected<void> finish() {
    if (status_ && ::fsync(fd_) != 0) fail("cannot sync");
    if (status_) {
      const int fd = fd_;
      fd_ = -1;
      if (::close(fd) != 0) fail("cannot close");
    }
    return status_;
  }
  const expected<void>& status() const { return status_; }

 private:
  void fail(const char* what) { status_ = unexpected(error(std::string(what) + ": " + std::strerror(errno))); }
  expected<void> status_;  // the first error
  int fd_ = -1;
};

packed_header header_of(const source& s) {
  packed_header h;
  h.example = s.example();
  h.label = s.label();
  h.classes = s.classes();
  h.vocabulary = s.ids() ? s.vocabulary() : 0;
  h.targets = s.targets();
  h.order = s.picture_order();
  h.train = s.size(split::train);
  h.test = s.size(split::test);
  h.symbols = s.symbols();
  // As everywhere, names count only if each class has one.
  if (auto names = s.class_names(); names != h.symbols && static_cast<std::int64_t>(names.size()) == h.classes)
    h.class_names = std::move(names);
  h.type = s.ids() ? dtype::i32 : dtype::f32;
  if (auto scaling = s.bytes(); scaling && !s.ids()) {
    h.type = dtype::u8;
    h.scaling = std::move(*scaling);
  }
  const auto one = h.value_bytes() + h.label_bytes();
  h.block_examples = std::clamp<std::int64_t>(block_aim / one, 1, std::clamp<std::int64_t>(std::max(h.train, h.test), 1, 65536));
  return h;
}

// Fills `out` with block `b` of a split: values, labels, checksum and padding.
void fill_block(const source& s, const packed_header& h, split part, std::int64_t b, device& dev, std::vector<std::uint8_t>& out) {
  out.assign(static_cast<std::size_t>(h.block_bytes()), 0);
  const auto first = b * h.block_examples, n = std::min(h.block_examples, h.size(part) - first);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), first);
  shape data{n}, label{n};
  for (int i = 0; i < h.example.rank(); ++i) data.push_back(h.example[i]);
  for (int i = 0; i < h.label.rank(); ++i) label.push_back(h.label[i]);
  auto values = tensor::allocate(dev, data, h.type == dtype::i32 ? dtype::i32 : dtype::f32);
  auto labels = tensor::allocate(dev, label, h.targets ? dtype::f32 : dtype::i32);
  std::memset(labels.raw_mutable(), 0, labels.bytes());  // a source without labels need not write any
  s.read(part, indices, values, labels);
  if (h.type == dtype::u8)
    s.read_bytes(part, indices, out.data());
  else
    std::memcpy(out.data(), values.raw(), values.bytes());
  std::memcpy(out.data() + h.block_examples * h.value_bytes(), labels.raw(), labels.bytes());
  const auto checked = static_cast<std::size_t>(h.checked_bytes());
  const auto sum = crc32c(0, out.data(), checked);
  std::memcpy(out.data() + checked, &sum, 4);
}

}  // namespace

expected<packed_result> pack(const source& s, const std::string& path) {
  packed_result r{header_of(s), 0};
  const auto& h = r.header;
  auto block = encode_packed_header(h);
  if (block.size() > max_packed_header_bytes)
    return unexpected(error(path + ": this source cannot be packed: the names of its classes need a header of " +
                            bytes_text(static_cast<double>(block.size())) + ", more than " + bytes_text(max_packed_header_bytes) +
                            "; give the classes shorter names"));
  r.bytes = (static_cast<std::int64_t>(block.size()) + packed_alignment - 1) / packed_alignment * packed_alignment;
  const auto whole = r.bytes + (h.blocks(split::train) + h.blocks(split::test)) * h.block_bytes();
  // A plugin's source may have shapes or sizes that the format cannot represent: the header is
  // decoded as a check before anything is written.
  if (const auto back = decode_packed_header(block, static_cast<std::uint64_t>(whole)); !back)
    return unexpected(error(path + ": this source cannot be packed: " + back.error().text));
  const auto place = place_to_write(path);
  if (!place) return unexpected(place.error().in(path));
  const auto temporary = *place + ".tmp";
  const auto fd = open_to_write(temporary);
  if (!fd) return unexpected(fd.error().in(path));
  file_writer out(*fd);
  const auto give_up = [&](const std::string& why) {
    ::unlink(temporary.c_str());
    return unexpected(error(path + ": " + why));
  };
  block.resize(static_cast<std::size_t>(r.bytes));
  out.write(block.data(), block.size());
  const auto made = make_cpu_device();
  auto& dev = made->host();  // examples are read to host memory
  try {
    for (auto part : {split::train, split::test})
      for (std::int64_t b = 0; b < h.blocks(part) && out.status(); ++b) {
        fill_block(s, h, part, b, dev, block);
        out.write(block.data(), block.size());
        r.bytes += h.block_bytes();
      }
  } catch (const std::exception& e) {
    return give_up(e.what());
  }
  if (const auto done = out.finish(); !done) return give_up(done.error().text);
  if (std::rename(temporary.c_str(), place->c_str()) != 0) return give_up(std::string("cannot rename: ") + std::strerror(errno));
  return r;
}

}  // namespace troupe
