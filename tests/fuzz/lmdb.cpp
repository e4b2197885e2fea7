// Fuzz target: LMDB databases of Caffe's records.
#include <array>

#include "runtime/node/formats/datum.hpp"
#include "runtime/node/formats/lmdb_records.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_lmdb(input in) {
  const auto db = lmdb_records::in_bytes(bytes_of_caller(in), "db");
  if (!db) return must(!db.error().text.empty(), "refused without a reason");
  must((*db)->size() > 0 && static_cast<std::size_t>((*db)->size()) <= in.size() / 8, "more records than the file has room for");
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < (*db)->size(); ++i) {
    if (const auto fine = (*db)->read(i, bytes); !fine) {
      must(!fine.error().text.empty(), "refused without a reason");
      continue;
    }
    must(bytes.size() <= in.size(), "a record is larger than the file");
    const auto d = parse_datum(bytes);
    if (!d) continue;
    std::vector<float> floats(d->floats);
    copy_floats(bytes, floats.data());
  }
}

// Pages of 512 bytes, which LMDB itself writes on no machine, keep inputs small.
constexpr std::size_t page_size = 512;

class lmdb_pages {
 public:
  template <class T>
  void put(std::size_t page, std::size_t at, T v) {
    all_.resize(std::max(all_.size(), (page + 1) * page_size));
    for (std::size_t i = 0; i < sizeof v; ++i) all_[page * page_size + at + i] = static_cast<char>(std::uint64_t{v} >> (8 * i));
  }
  void head(std::size_t page, std::uint16_t kind) {
    put(page, 0, std::uint64_t{page});
    put(page, 10, kind);
    put(page, 12, std::uint16_t{16});
    put(page, 14, std::uint16_t{page_size});
  }
  void meta(std::size_t page, std::uint16_t depth, std::uint64_t entries, std::uint64_t root) {
    head(page, 8);
    put(page, 16, 0xbeefc0deU);
    put(page, 20, 1U);
    put(page, 40, std::uint32_t{page_size});
    put(page, 80, std::uint64_t{~0ULL});  // the tree of free pages is empty
    put(page, 94, depth);
    put(page, 120, entries);
    put(page, 128, root);
    put(page, 136, std::uint64_t{9});
    put(page, 144, std::uint64_t{page});
  }
  // `size`: of the record or, of a branch, the number of the page below.
  void node(std::size_t page, std::uint32_t size, std::uint16_t flags, const std::string& key, const std::string& value) {
    auto& top = tops_[page];
    const auto bytes = (8 + key.size() + value.size() + 1) / 2 * 2;
    if (top == 0) top = page_size;
    top -= bytes;
    put(page, top, size);
    put(page, top + 4, flags);
    put(page, top + 6, static_cast<std::uint16_t>(key.size()));
    all_.replace(page * page_size + top + 8, key.size() + value.size(), key + value);
    const auto lower = static_cast<std::uint16_t>(16 + 2 * ++nodes_[page]);
    put(page, lower - 2U, static_cast<std::uint16_t>(top));
    put(page, 12, lower);
    put(page, 14, static_cast<std::uint16_t>(top));
  }
  std::string& all() { return all_; }

 private:
  std::string all_;
  std::array<std::size_t, 10> tops_{}, nodes_{};
};

std::string datum_text(std::uint8_t bytes, char label) {
  return std::string("\x08\x01\x10\x01\x18", 5) + static_cast<char>(bytes) + "\x22" + static_cast<char>(bytes) +
         std::string(bytes, 'x') + "\x28" + label;
}

std::vector<std::string> sound_lmdb() {
  lmdb_pages p;
  p.meta(0, 0, 0, ~0ULL);
  p.meta(1, 2, 5, 2);
  p.head(2, 1);  // a branch with two leaves
  for (const std::uint32_t leaf : {3U, 4U}) p.node(2, leaf, 0, leaf == 3 ? "" : "3", "");
  p.head(3, 2);
  p.head(4, 2);
  for (const char* key : {"0", "1"}) p.node(3, static_cast<std::uint32_t>(datum_text(20, 1).size()), 0, key, datum_text(20, 1));
  const auto floats = std::string("\x08\x01\x10\x01\x18\x02\x32\x08", 8) + std::string(8, '\x3f');
  p.node(3, static_cast<std::uint32_t>(floats.size()), 0, "2", floats);
  p.node(4, static_cast<std::uint32_t>(datum_text(9, 0).size()), 0, "3", datum_text(9, 0));
  const std::string large = std::string("\x08\x01\x10\x01\x18\xd8\x04\x22\xd8\x04", 10) + std::string(600, 'y') + "\x28\x02";
  p.node(4, static_cast<std::uint32_t>(large.size()), 1, "4", std::string("\5\0\0\0\0\0\0\0", 8));
  p.head(5, 4);
  p.put(5, 12, 2U);
  p.put(6, page_size - 1, std::uint8_t{0});
  p.all().replace(5 * page_size + 16, large.size(), large);
  auto two = p.all();
  two.resize(10 * page_size);
  lmdb_pages one;
  one.meta(0, 1, 1, 2);
  one.meta(1, 0, 0, ~0ULL);
  one.put(0, 144, std::uint64_t{7});
  one.head(2, 2);
  one.node(2, 3, 0, "k", "abc");
  return {p.all(), two, one.all()};
}

const entry lmdb_entry({"lmdb", read_lmdb, sound_lmdb});

}  // namespace
}  // namespace troupe::fuzz
