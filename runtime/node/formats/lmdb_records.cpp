// Layout of the file (lmdb.h and mdb.c of LMDB 0.9), little-endian. It consists of pages of one
// size:
//
//   page    u64 its number, u16 unused, u16 kind (flags), u16 lower, u16 upper; in pages of a large
//           record: u32 number of pages, not lower and upper. Then 16-bit offsets of nodes, up
//           to `lower`; the nodes are from `upper` on.
//   meta    pages 0 and 1, of which the one with the larger transaction number counts; at byte 16:
//           u32 magic, u32 version, u64 address, u64 map bytes, two trees (free pages, records),
//           u64 last page, u64 transaction
//   tree    u32 unused (of the first tree: page bytes), u16 flags, u16 depth, u64 branch pages,
//           u64 leaf pages, u64 pages of large records, u64 entries, u64 root
//   node    u16 low, u16 high, u16 flags, u16 key bytes, key; of a leaf: low and high are the
//           record's bytes, and the record follows, or the u64 number of its first page. Of a
//           branch: low, high and flags are the number of a page.
#include "runtime/node/formats/lmdb_records.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they are in the file");

constexpr std::uint32_t page_head = 16, node_head = 8, tree_bytes = 48;
constexpr std::uint16_t is_branch = 1, is_leaf = 2, is_large = 4, is_meta = 8, kinds = 0x6f;  // flags of pages
constexpr std::uint16_t large_record = 1, named_database = 2, several_values = 4;             // flags of nodes
constexpr std::uint16_t duplicates = 4;                                                       // flag of a tree
constexpr std::uint32_t least_page = 256, most_page = 1 << 15, most_depth = 32, first_free_page = 2;
constexpr std::uint64_t no_page = ~std::uint64_t{0};

template <class T>
T number_at(std::span<const std::uint8_t> from, std::size_t at) {
  T v;
  std::memcpy(&v, from.data() + at, sizeof v);
  return v;
}

unexpected<error> damaged_lmdb(const std::string& what) {
  return unexpected(error("the database is damaged: " + what + ". Write it again, or take a copy of it"));
}
unexpected<error> damaged_page(std::uint64_t page, const std::string& what) {
  return damaged_lmdb("page " + std::to_string(page) + " " + what);
}

struct lmdb_meta {
  std::uint32_t page_bytes = 0;
  std::uint16_t flags = 0, depth = 0;
  std::uint64_t entries = 0, root = no_page, last_page = 0, transaction = 0;
};

// Reads meta page `page`, 0 or 1.
expected<lmdb_meta> meta_of(const random_bytes& file, std::uint64_t page, std::uint32_t page_bytes) {
  std::array<std::uint8_t, page_head + 24 + 2 * tree_bytes + 16> b{};
  if (auto fine = file.read(page * page_bytes, b.data(), b.size()); !fine) return unexpected(std::move(fine).error());
  const std::span<const std::uint8_t> all(b);
  if ((number_at<std::uint16_t>(all, 10) & kinds) != is_meta || number_at<std::uint32_t>(all, 16) != 0xbeefc0de)
    return unexpected(error("it is no LMDB database (of a 64-bit machine), or it is damaged: page " + std::to_string(page) +
                            " does not say that it is one"));
  if (const auto version = number_at<std::uint32_t>(all, 20); version != 1)
    return unexpected(error("its LMDB version " + std::to_string(version) + " is not supported, only 1"));
  constexpr std::size_t tree = page_head + 24 + tree_bytes, end = tree + tree_bytes;
  lmdb_meta m;
  m.page_bytes = number_at<std::uint32_t>(all, page_head + 24);
  m.flags = number_at<std::uint16_t>(all, tree + 4), m.depth = number_at<std::uint16_t>(all, tree + 6);
  m.entries = number_at<std::uint64_t>(all, tree + 32), m.root = number_at<std::uint64_t>(all, tree + 40);
  m.last_page = number_at<std::uint64_t>(all, end), m.transaction = number_at<std::uint64_t>(all, end + 8);
  if (!std::has_single_bit(m.page_bytes) || m.page_bytes < least_page || m.page_bytes > most_page)
    return damaged_page(page, "says that pages have " + std::to_string(m.page_bytes) + " bytes");
  return m;
}

// The state of the last transaction.
expected<lmdb_meta> last_meta(const random_bytes& file) {
  auto first = meta_of(file, 0, 0);
  if (!first) return first;
  auto second = meta_of(file, 1, first->page_bytes);
  if (!second) return second;
  if (second->page_bytes != first->page_bytes) return damaged_page(1, "has another size of pages than page 0");
  return second->transaction > first->transaction ? second : first;
}

// Finds the records of a tree. Its pages are used once at most, and records do not overlap in a
// page, so that time and memory are proportional to the file.
class lmdb_tree {
 public:
  lmdb_tree(const random_bytes& file, const lmdb_meta& m)
      : file_(file), meta_(m), pages_(std::min(file.size() / m.page_bytes, m.last_page + 1)) {}

  expected<std::vector<lmdb_records::place>> places() {
    if (meta_.flags & duplicates)
      return unexpected(error("the database has several values for a key (MDB_DUPSORT), which is not supported"));
    if (meta_.root != no_page)
      if (auto fine = page(meta_.root, 1); !fine) return unexpected(std::move(fine).error());
    if (places_.size() != meta_.entries)
      return damaged_lmdb("it has " + std::to_string(places_.size()) + " records instead of " + std::to_string(meta_.entries));
    return std::move(places_);
  }

 private:
  struct node {
    std::size_t at = 0;  // offset in its page
    std::uint16_t low = 0, high = 0, flags = 0;
    std::size_t value = 0;  // offset of what follows the key
  };

  expected<void> page(std::uint64_t number, std::uint32_t depth) {
    if (number < first_free_page || number >= pages_)
      return damaged_lmdb("its tree names page " + std::to_string(number) + ", but the file has " + std::to_string(pages_) +
                          " pages");
    if (++used_ > pages_) return damaged_page(number, "is in its tree more than once");
    std::vector<std::uint8_t> bytes(meta_.page_bytes);
    if (auto fine = file_.read(number * meta_.page_bytes, bytes.data(), bytes.size()); !fine) return fine;
    const std::span<const std::uint8_t> all(bytes);
    const auto kind = number_at<std::uint16_t>(all, 10) & kinds;
    if (number_at<std::uint64_t>(all, 0) != number || kind != (depth < meta_.depth ? is_branch : is_leaf))
      return damaged_page(number, "is not the page that its tree has there");
    const auto lower = number_at<std::uint16_t>(all, 12), upper = number_at<std::uint16_t>(all, 14);
    if (lower < page_head || lower > upper || upper > meta_.page_bytes) return damaged_page(number, "has a wrong size");
    std::size_t room = meta_.page_bytes - upper;
    for (std::size_t k = page_head; k + 2 <= lower; k += 2) {
      node n;
      n.at = number_at<std::uint16_t>(all, k);
      if (n.at < upper || n.at + node_head > all.size()) return damaged_page(number, "has a node outside of it");
      n.low = number_at<std::uint16_t>(all, n.at), n.high = number_at<std::uint16_t>(all, n.at + 2);
      n.flags = number_at<std::uint16_t>(all, n.at + 4);
      n.value = n.at + node_head + number_at<std::uint16_t>(all, n.at + 6);
      if (n.value > all.size()) return damaged_page(number, "has a key that is too long");
      auto fine = kind == is_branch ? branch(n, depth, room) : leaf(all, number, n, room);
      if (!fine) return fine;
    }
    return {};
  }

  // Subtracts the bytes of a node from those that its page has for nodes.
  static bool fits(std::size_t bytes, std::size_t& room) {
    if (bytes > room) return false;
    room -= bytes;
    return true;
  }

  expected<void> branch(const node& n, std::uint32_t depth, std::size_t& room) {
    const auto child = n.low | std::uint64_t{n.high} << 16 | std::uint64_t{n.flags} << 32;
    if (!fits(n.value - n.at, room)) return damaged_lmdb("nodes of a branch overlap, before page " + std::to_string(child));
    return page(child, depth + 1);
  }

  expected<void> leaf(std::span<const std::uint8_t> all, std::uint64_t number, const node& n, std::size_t& room) {
    if (n.flags & (named_database | several_values))
      return unexpected(error("it has named databases, which are not supported: write the records to the unnamed one"));
    const bool large = (n.flags & large_record) != 0;
    lmdb_records::place p{0, n.low | std::uint32_t{n.high} << 16, large};
    const std::size_t here = large ? sizeof(std::uint64_t) : p.bytes;
    if (here > all.size() - n.value || !fits(n.value - n.at + here, room))
      return damaged_page(number, "has a record that is longer than the page");
    p.at = number * meta_.page_bytes + n.value;
    if (large) {
      const auto first = number_at<std::uint64_t>(all, n.value);
      const auto count = (std::uint64_t{page_head} + p.bytes + meta_.page_bytes - 1) / meta_.page_bytes;
      if (first < first_free_page || first >= pages_ || count > pages_ - first)
        return damaged_page(number, "has a record in pages that the file does not have");
      p.at = first * meta_.page_bytes;
    }
    if (places_.size() == meta_.entries) return damaged_lmdb("it has more than " + std::to_string(meta_.entries) + " records");
    places_.push_back(p);
    return {};
  }

  const random_bytes& file_;
  const lmdb_meta meta_;
  const std::uint64_t pages_;  // complete ones
  std::uint64_t used_ = 0;
  std::vector<lmdb_records::place> places_;
};

unexpected<error> modified_meanwhile() {
  return unexpected(error("it was modified while it was read: no process may write to it meanwhile"));
}

}  // namespace

expected<std::shared_ptr<const lmdb_records>> lmdb_records::in_bytes(std::shared_ptr<const random_bytes> file,
                                                                     const std::string& path) {
  std::shared_ptr<lmdb_records> all(new lmdb_records());
  all->path_ = path;
  all->file_ = std::move(file);
  all->version_ = all->file_->version();
  const auto meta = last_meta(*all->file_);
  if (!meta) return unexpected(meta.error().in(path));
  if (meta->depth > most_depth || (meta->depth == 0) != (meta->root == no_page))
    return unexpected(damaged_lmdb("its tree has a depth of " + std::to_string(meta->depth)).error().in(path));
  all->page_bytes_ = meta->page_bytes;
  auto places = lmdb_tree(*all->file_, *meta).places();
  if (all->file_->version() != all->version_) return unexpected(modified_meanwhile().error().in(path));
  if (!places) return unexpected(std::move(places).error().in(path));
  if (places->empty()) return unexpected(error("the database has no records").in(path));
  all->places_ = *std::move(places);
  return all;
}

expected<std::shared_ptr<const lmdb_records>> lmdb_records::open(const std::string& path) {
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  if (!std::filesystem::exists(status)) return unexpected(error("there is no such folder or file").in(path));
  auto file = open_bytes(std::filesystem::is_directory(status) ? path + "/data.mdb" : path);
  if (!file) return unexpected(std::move(file).error().in(path));
  return in_bytes(*std::move(file), path);
}

expected<void> lmdb_records::read(std::int64_t i, std::vector<std::uint8_t>& out) const {
  auto [at, bytes, own_pages] = places_[static_cast<std::size_t>(i)];
  if (own_pages) {
    std::array<std::uint8_t, page_head> head{};
    if (auto fine = file_->read(at, head.data(), head.size()); !fine) return fine;
    const std::span<const std::uint8_t> all(head);
    const auto room = std::uint64_t{number_at<std::uint32_t>(all, 12)} * page_bytes_;
    if (number_at<std::uint64_t>(all, 0) != at / page_bytes_ || (number_at<std::uint16_t>(all, 10) & kinds) != is_large ||
        room < std::uint64_t{page_head} + bytes)
      return damaged_page(at / page_bytes_, "does not hold the record that its tree has there");
    at += page_head;
  }
  out.resize(bytes);
  if (auto fine = file_->read(at, out.data(), out.size()); !fine) return fine;
  if (file_->version() != version_) return modified_meanwhile();
  return {};
}

}  // namespace troupe
