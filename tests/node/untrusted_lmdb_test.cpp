// The reader of LMDB's files against the LMDB library, on databases with large, deleted and
// replaced records and deep trees; and on files whose pages are damaged.
#include "runtime/node/formats/lmdb_records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using testing::HasSubstr;

// A database that the library writes and reads.
class lmdb_oracle {
 public:
  explicit lmdb_oracle(const std::string& folder, unsigned flags = 0) {
    std::filesystem::create_directory(folder);
    EXPECT_EQ(mdb_env_create(&env_), 0);
    EXPECT_EQ(mdb_env_set_mapsize(env_, 256 << 20), 0);
    EXPECT_EQ(mdb_env_set_maxdbs(env_, 4), 0);
    EXPECT_EQ(mdb_env_open(env_, folder.c_str(), flags | MDB_NOSYNC, 0644), 0);
  }
  ~lmdb_oracle() { mdb_env_close(env_); }
  lmdb_oracle(const lmdb_oracle&) = delete;
  lmdb_oracle& operator=(const lmdb_oracle&) = delete;

  using change = std::function<void(MDB_txn*, MDB_dbi)>;
  void write(const change& f, const char* name = nullptr, unsigned flags = MDB_CREATE) {
    MDB_txn* txn = nullptr;
    MDB_dbi db = 0;
    EXPECT_EQ(mdb_txn_begin(env_, nullptr, 0, &txn), 0);
    EXPECT_EQ(mdb_dbi_open(txn, name, flags, &db), 0);
    f(txn, db);
    EXPECT_EQ(mdb_txn_commit(txn), 0);
  }
  static void put(MDB_txn* txn, MDB_dbi db, std::string key, std::string value) {
    MDB_val k{key.size(), key.data()}, v{value.size(), value.data()};
    EXPECT_EQ(mdb_put(txn, db, &k, &v, 0), 0);
  }
  std::vector<std::string> values() {
    std::vector<std::string> all;
    MDB_txn* txn = nullptr;
    MDB_dbi db = 0;
    MDB_cursor* at = nullptr;
    EXPECT_EQ(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn), 0);
    EXPECT_EQ(mdb_dbi_open(txn, nullptr, 0, &db), 0);
    EXPECT_EQ(mdb_cursor_open(txn, db, &at), 0);
    for (MDB_val k, v; mdb_cursor_get(at, &k, &v, MDB_NEXT) == 0;) all.emplace_back(static_cast<char*>(v.mv_data), v.mv_size);
    mdb_cursor_close(at);
    mdb_txn_abort(txn);
    return all;
  }
  unsigned depth() {
    MDB_stat facts{};
    EXPECT_EQ(mdb_env_stat(env_, &facts), 0);
    return facts.ms_depth;
  }
  void copy(const std::string& folder, unsigned flags) {
    std::filesystem::create_directory(folder);
    EXPECT_EQ(mdb_env_copy2(env_, folder.c_str(), flags), 0);
  }

 private:
  MDB_env* env_ = nullptr;
};

std::vector<std::string> values_of(const lmdb_records& db) {
  std::vector<std::string> all;
  std::vector<std::uint8_t> bytes;
  for (std::int64_t i = 0; i < db.size(); ++i) {
    EXPECT_EQ(test::error_text(db.read(i, bytes)), "");
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

std::vector<std::string> values_in(const std::string& path) {
  const auto db = lmdb_records::open(path);
  EXPECT_EQ(test::error_text(db), "");
  return db ? values_of(**db) : std::vector<std::string>();
}

// Fills a database in several transactions, which replace and remove records of those before.
void fill(lmdb_oracle& db, std::mt19937_64& draw, std::size_t records, std::size_t key_bytes, std::size_t most_bytes) {
  for (int transaction = 0; transaction < 5; ++transaction)
    db.write([&](MDB_txn* txn, MDB_dbi into) {
      for (std::size_t n = 0; n < records; ++n) {
        auto key = std::to_string(draw() % (2 * records));
        key.insert(0, draw() % 2 ? key_bytes - key.size() : 0, '0');
        MDB_val k{key.size(), key.data()};
        if (draw() % 4 == 0) {
          mdb_del(txn, into, &k, nullptr);
        } else {
          const auto bytes = draw() % 3 ? draw() % 100 : draw() % most_bytes;
          lmdb_oracle::put(txn, into, key, std::string(bytes, static_cast<char>(draw())));
        }
      }
    });
}

class lmdb_records_of : public testing::Test {
 protected:
  // The bytes of a database with two levels and a large record, and the number of its root.
  std::vector<std::uint8_t> two_levels() {
    {
      lmdb_oracle db(dir_.file("two"));
      db.write([&](MDB_txn* txn, MDB_dbi into) {
        for (int i = 0; i < 40; ++i) lmdb_oracle::put(txn, into, std::to_string(1000 + i), std::string(i == 7 ? 9000 : 300, 'x'));
      });
      EXPECT_EQ(db.depth(), 2U);
    }
    return test::read_bytes(dir_.file("two") + "/data.mdb");
  }
  // Byte offsets in its last meta page: of the depth, the number of records and the root.
  static constexpr std::size_t depth_at = 4096 + 94, entries_at = 4096 + 120, root_at = 4096 + 128;

  static std::string why(const std::vector<std::uint8_t>& bytes) {
    return test::error_text(lmdb_records::in_bytes(bytes_of_caller(bytes), "db"));
  }
  // As above, with `n` bytes of a number at an offset.
  static std::string why(std::vector<std::uint8_t> bytes, std::size_t at, std::uint64_t v, std::size_t n) {
    std::memcpy(bytes.data() + at, &v, n);
    return why(bytes);
  }
  static std::uint64_t number(const std::vector<std::uint8_t>& bytes, std::size_t at, std::size_t n) {
    std::uint64_t v = 0;
    std::memcpy(&v, bytes.data() + at, n);
    return v;
  }
  test::temp_dir dir_;
};

TEST_F(lmdb_records_of, large_replaced_and_removed_records_are_those_of_the_library) {
  std::mt19937_64 draw(5);
  for (int n = 0; n < 6; ++n) {
    const auto folder = dir_.file("db" + std::to_string(n));
    lmdb_oracle db(folder, n % 2 ? MDB_WRITEMAP : 0U);
    fill(db, draw, n < 2 ? 30 : 1500, 10, n < 4 ? 20000 : 2000);
    EXPECT_EQ(values_in(folder), db.values());
    EXPECT_EQ(values_in(folder + "/data.mdb"), db.values());
    const auto copy = folder + "c";
    db.copy(copy, n % 2 ? MDB_CP_COMPACT : 0U);
    EXPECT_EQ(values_in(copy), db.values());
  }
}

TEST_F(lmdb_records_of, a_deep_tree_are_those_of_the_library) {
  std::mt19937_64 draw(6);
  lmdb_oracle db(dir_.file("db"));
  fill(db, draw, 3000, 500, 600);
  EXPECT_GE(db.depth(), 5U);
  EXPECT_EQ(values_in(dir_.file("db")), db.values());
}

TEST_F(lmdb_records_of, databases_of_other_kinds_are_refused) {
  {
    lmdb_oracle db(dir_.file("named"));
    db.write([](MDB_txn* txn, MDB_dbi into) { lmdb_oracle::put(txn, into, "a", "b"); }, "name");
    lmdb_oracle many(dir_.file("many"));
    many.write([](MDB_txn* txn, MDB_dbi into) { lmdb_oracle::put(txn, into, "a", "b"); }, nullptr, MDB_CREATE | MDB_DUPSORT);
  }
  EXPECT_THAT(test::error_text(lmdb_records::open(dir_.file("named"))), HasSubstr("named: it has named databases"));
  EXPECT_THAT(test::error_text(lmdb_records::open(dir_.file("many"))), HasSubstr("several values for a key"));
  EXPECT_THAT(test::error_text(lmdb_records::open(dir_.path)), HasSubstr(": cannot open: No such file"));
}

TEST_F(lmdb_records_of, a_damaged_tree_are_an_error) {
  const auto sound = two_levels();
  EXPECT_EQ(why(sound), "");
  const auto root = number(sound, root_at, 8), at = root * 4096;
  EXPECT_THAT(why(sound, root_at, 1 << 20, 8), HasSubstr("names page 1048576, but the file has"));
  EXPECT_THAT(why(sound, root_at, 1, 8), HasSubstr("names page 1,"));
  EXPECT_THAT(why(sound, depth_at, 1, 2), HasSubstr("is not the page that its tree has there"));
  EXPECT_THAT(why(sound, depth_at, 40, 2), HasSubstr("a depth of 40"));
  EXPECT_THAT(why(sound, entries_at, 41, 8), HasSubstr("it has 40 records instead of 41"));
  EXPECT_THAT(why(sound, entries_at, 39, 8), HasSubstr("it has more than 39 records"));
  EXPECT_THAT(why(sound, at + 12, 65534, 2), HasSubstr("has a wrong size"));
  const auto node = at + number(sound, at + 18, 2);
  EXPECT_THAT(why(sound, at + 18, 4095, 2), HasSubstr("has a node outside of it"));
  EXPECT_THAT(why(sound, node + 6, 4000, 2), HasSubstr("has a key that is too long"));
  EXPECT_THAT(why(sound, node, root, 2), HasSubstr("is not the page that its tree has there")) << "a cycle";
  auto cut = sound;
  cut.resize(cut.size() - 4096);
  EXPECT_THAT(why(cut), HasSubstr("but the file"));
}

// A tree of branches in which every node names the same page below has 2^32 ways to its leaf.
TEST_F(lmdb_records_of, a_page_that_is_in_the_tree_many_times_are_an_error) {
  const auto sound = two_levels();
  auto bytes = sound;
  const auto root = number(sound, root_at, 8) * 4096;
  const std::uint64_t pages = bytes.size() / 4096, levels = 31;
  bytes.resize(bytes.size() + levels * 4096);
  for (std::uint64_t k = 0; k < levels; ++k) {
    const auto page = (pages + k) * 4096, self = pages + k,
               below = k + 1 < levels ? self + 1 : number(sound, root + number(sound, root + 16, 2), 2);
    std::memcpy(bytes.data() + page, bytes.data() + root, 4096);
    std::memcpy(bytes.data() + page, &self, 8);
    for (auto i = std::size_t{16}; i < number(sound, root + 12, 2); i += 2)
      std::memcpy(bytes.data() + page + number(sound, root + i, 2), &below, 2);
  }
  const std::uint64_t last = pages + levels, depth = levels + 1, entries = ~std::uint64_t{0} >> 1;
  std::memcpy(bytes.data() + root_at, &pages, 8);
  std::memcpy(bytes.data() + root_at + 8, &last, 8);
  std::memcpy(bytes.data() + depth_at, &depth, 2);
  std::memcpy(bytes.data() + entries_at, &entries, 8);
  EXPECT_THAT(why(bytes), HasSubstr("is in its tree more than once"));
}

TEST_F(lmdb_records_of, mutated_files_are_records_or_an_error) {
  const auto sound = two_levels();
  std::mt19937_64 draw(7);
  std::vector<std::uint8_t> record;
  int good = 0;
  for (int i = 0; i < 20000; ++i) {
    auto bytes = sound;
    for (auto n = 1 + draw() % 3; n > 0; --n) {
      const auto page = draw() % (sound.size() / 4096) * 4096;
      const auto at = draw() % 3 ? draw() % 200 : draw() % 4096;
      bytes[page + at] = static_cast<std::uint8_t>(draw() % 2 ? draw() % 8 : draw());
    }
    const std::vector<std::uint8_t> exact(bytes.begin(),
                                          bytes.end() - static_cast<std::ptrdiff_t>(i % 5 ? 0 : draw() % bytes.size()));
    const auto db = lmdb_records::in_bytes(bytes_of_caller(exact), "db");
    if (!db) continue;
    ++good;
    for (std::int64_t r = 0; r < (*db)->size(); ++r) {
      const bool fine = (*db)->read(r, record).has_value();
      ASSERT_TRUE(!fine || record.size() <= exact.size());
    }
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace troupe
