#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/data/random.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using bytes = std::vector<std::uint8_t>;
using namespace std::string_literals;
using testing::HasSubstr;

template <class T>
tensor made(shape s, T first) {
  auto v = std::make_shared<std::vector<T>>(static_cast<std::size_t>(s.count()));
  for (auto& x : *v) x = first, first = static_cast<T>(first + T{1});
  return tensor::adopt(v, v->data(), s, dtype_of<T>);
}
tensor bf16(shape s) {
  auto v = std::make_shared<std::vector<std::uint16_t>>(static_cast<std::size_t>(s.count()), std::uint16_t{0x3f80});
  return tensor::adopt(v, v->data(), s, dtype::bf16);
}

named_tensors one_of_each() {
  return {{"ip1.bias", made<float>({3}, 0.5f)},
          {"conv1.weight", made<float>({2, 1, 5, 5}, -1)},
          {"mask \"quoted\" \xc3\xa9", made<std::uint8_t>({5}, 1)},
          {"steps", made<std::int32_t>({2, 2}, -2)},
          {"check", made<double>({3}, 1e-3)},
          {"half", bf16({3})},
          {"scalar", made<float>(shape{}, 7)},
          {"none", made<float>({0, 4}, 0)}};
}

safetensors_content content_of(expected<safetensors_content, record_error> r) {
  if (!r) {
    ADD_FAILURE() << r.error().to_string();
    return {};
  }
  return *std::move(r);
}
record_error parse_error_of(const bytes& b, integrity check = integrity::when_present) {
  const auto owner = std::make_shared<bytes>(b);
  auto r = parse_safetensors(owner, owner->data(), owner->size(), check);
  return r ? record_error{"", "", "no error"} : r.error();
}

void expect_equal(const named_tensors& a, const named_tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    ASSERT_EQ(a[i].second.dims(), b[i].second.dims()) << a[i].first;
    ASSERT_EQ(a[i].second.type(), b[i].second.type()) << a[i].first;
    if (a[i].second.bytes() == 0) continue;
    EXPECT_EQ(std::memcmp(a[i].second.raw(), b[i].second.raw(), a[i].second.bytes()), 0) << a[i].first;
  }
}

// A file of another tool: this header (padded or not) and `data_bytes` of data.
bytes foreign(const std::string& header, std::size_t data_bytes) {
  bytes b(8 + header.size() + data_bytes);
  for (std::size_t i = 0, n = header.size(); i < 8; ++i, n >>= 8) b[i] = static_cast<std::uint8_t>(n);
  std::copy(header.begin(), header.end(), b.begin() + 8);
  std::iota(b.end() - static_cast<std::ptrdiff_t>(data_bytes), b.end(), std::uint8_t{0});
  return b;
}

TEST(record_safetensors, reads_what_was_written_in_the_same_order) {
  temp_dir dir;
  const auto named = one_of_each();
  const metadata_map meta = {{"format", "pt"}, {"note", std::string("a \"b\"\n\xe2\x82\xac\0", 10)}};
  ASSERT_EQ(test::error_text(write_safetensors(dir.file("w.safetensors"), named, meta)), "");
  const auto back = content_of(read_safetensors(dir.file("w.safetensors"), integrity::required));
  EXPECT_EQ(back.metadata, meta);
  expect_equal(back.named, named);
  for (const auto& [name, t] : back.named) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.raw()) % size_of(t.type()), 0u) << name;
    EXPECT_TRUE(t.frozen());
  }
  EXPECT_FALSE(std::filesystem::exists(dir.file("w.safetensors.tmp")));
}

TEST(record_safetensors, golden_bytes_follow_the_format) {
  temp_dir dir;
  ASSERT_EQ(test::error_text(
                write_safetensors(dir.file("w"), {{"b", made<float>({2}, 1)}, {"d", made<double>({1}, 2)}}, {{"format", "pt"}})),
            "");
  const auto b = test::read_bytes(dir.file("w"));
  std::uint64_t n = 0;
  std::memcpy(&n, b.data(), 8);
  ASSERT_EQ((8 + n) % 64, 0u);
  ASSERT_EQ(b.size(), 8 + n + 16);
  std::string text(b.begin() + 8, b.begin() + 8 + static_cast<std::ptrdiff_t>(n));
  text.erase(text.find_last_not_of(' ') + 1);
  const std::size_t seal = std::strlen("{\"__metadata__\":{\"sha256\":\"");
  auto sealed = std::string(b.begin() + 8, b.begin() + 8 + static_cast<std::ptrdiff_t>(n));
  sealed.replace(seal, 64, 64, '0');
  EXPECT_EQ(text.substr(seal, 64), sha256_hex(sealed.data(), sealed.size()));
  text.replace(seal, 64, "-");
  EXPECT_EQ(text, R"({"__metadata__":{"sha256":"-","format":"pt",)"
                  R"("sha256/b":"b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37",)"
                  R"("sha256/d":"3f710ac088db33363087de2b9a657541fe5447821debaa9fe5cbd538eb1a5f29"},)"
                  R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})");
  const bytes data(b.end() - 16, b.end());
  EXPECT_EQ(data, (bytes{0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}));
}

TEST(record_safetensors, reads_files_of_other_tools) {
  // As Python's safetensors writes them: no checksums, padded to 8.
  auto b = foreign(
      R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}}   )", 11);
  const auto owner = std::make_shared<bytes>(b);
  const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
  ASSERT_EQ(c.named.size(), 2u);
  EXPECT_EQ(c.named[0].first, "b");
  EXPECT_EQ(c.named[1].second.data<std::uint8_t>()[2], 10);
  EXPECT_EQ(parse_error_of(b, integrity::required).message, "the header has no checksum");
  // A tensor whose offset is no multiple of its element size is copied.
  b = foreign(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"d":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}})", 17);
  const auto odd = std::make_shared<bytes>(b);
  const auto d = content_of(parse_safetensors(odd, odd->data(), odd->size())).named[1].second;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(d.raw()) % 8, 0u);
  EXPECT_EQ(std::memcmp(d.raw(), b.data() + b.size() - 16, 16), 0);
  EXPECT_EQ(parse_error_of(foreign("{}", 0)).message, "no error");
}

// PyTorch's num_batches_tracked is I64, which Troupe does not have. The other tensors of such files
// must be readable.
TEST(record_safetensors, checks_i64_tensors_and_leaves_them_out) {
  const auto b = foreign(
      R"({"bn.num":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"bn.w":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12);
  const auto owner = std::make_shared<bytes>(b);
  const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
  ASSERT_EQ(c.named.size(), 1u);
  EXPECT_EQ(c.named[0].first, "bn.w");
  EXPECT_EQ(std::memcmp(c.named[0].second.raw(), b.data() + b.size() - 4, 4), 0);
  const auto bad = parse_error_of(foreign(R"({"n":{"dtype":"I64","shape":[2],"data_offsets":[0,8]}})", 8));
  EXPECT_EQ(bad.tensor, "n");
  EXPECT_EQ(bad.message, "data_offsets span 8 bytes, its shape needs 16");
  EXPECT_EQ(parse_error_of(foreign(R"({"n":{"dtype":"I64","dtype":"I64","shape":[],"data_offsets":[0,8]}})", 8)).message,
            "dtype is given twice");
}

TEST(record_safetensors, rejects_every_malformed_header_with_its_reason) {
  struct row {
    std::string header;
    std::size_t data;
    const char *tensor, *message;
  };
  const auto w = [](const std::string& fields) { return R"({"w":{)" + fields + "}}"; };
  const std::string ok = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  const std::vector<row> rows = {
      {"", 0, "", "the header is not JSON, at byte"},
      {"{", 0, "", "the header is not JSON"},
      {"{}x", 0, "", "the header is not JSON"},
      {"{\"\xff\":1}", 0, "", "the header is not JSON"},
      {"[]", 0, "", "unexpected a list"},
      {std::string(100000, '['), 0, "", "unexpected a list"},
      {"7", 0, "", "unexpected a number"},
      {R"({"w":7})", 0, "", "unexpected a number at 'w'"},
      {R"({"w":{"a":{}}})", 0, "w", "unexpected an object at 'a'"},
      {R"({"__metadata__":{"a":1}})", 0, "", "unexpected a number at 'a'"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "", "metadata 'a' is given twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "", "'__metadata__' is given twice"},
      {"{\"w\":{" + ok + "},\"w\":{" + ok + "}}", 8, "", "'w' is given twice"},
      {R"({"w\n":{}})", 0, "", "a tensor's name has control characters"},
      {w(""), 0, "w", "dtype is missing"},
      {w(R"("dtype":"F32")"), 0, "w", "shape is missing"},
      {w(R"("dtype":"F32","shape":[2])"), 0, "w", "data_offsets are missing"},
      {w(R"("dtype":"F16","shape":[2],"data_offsets":[0,4])"), 4, "w", "dtype F16 is not supported"},
      {w(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), 8, "w", "dtype is given twice"},
      {w(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"), 8, "w", "shape is given twice"},
      {w(ok + R"(,"data_offsets":[0,8])"), 8, "w", "data_offsets are given twice"},
      {w(ok + R"(,"colour":"red")"), 8, "w", "unexpected a string at 'colour'"},
      {w(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), 8, "w", "unexpected a negative number"},
      {w(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), 8, "w", "unexpected a fraction"},
      {w(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"), 8, "w", "unexpected a list"},
      {w(R"("dtype":"F32","shape":[1,1,1,1,1,1,2],"data_offsets":[0,8])"), 8, "w", "more than 6 dimensions"},
      {w(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"), 8, "w", "an extent is too large"},
      {w(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "w", "its size overflows"},
      {w(R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), 0, "w", "its size overflows"},
      {w(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), 8, "w", "data_offsets are not two numbers"},
      {w(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), 8, "w", "data_offsets are more than two numbers"},
      {w(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), 8, "w", "data_offsets end before they begin"},
      {w(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8, "w", "data_offsets span 8 bytes, its shape needs 12"},
      {w(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), 12, "w", "4 unused bytes before it"},
      {w(ok), 7, "w", "truncated: its data ends at byte 8, the file's at 7"},
      {w(ok), 9, "", "1 bytes after the last tensor"},
      {"{\"v\":{" + ok + R"(},"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "w", "overlaps the tensor before it"},
      {"{\"v\":{" + ok + R"(},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "w", "overlaps the tensor before it"},
  };
  for (const auto& r : rows) {
    const auto e = parse_error_of(foreign(r.header, r.data));
    EXPECT_EQ(e.tensor, r.tensor) << r.header.substr(0, 200);
    EXPECT_THAT(e.message, HasSubstr(r.message)) << r.header.substr(0, 200);
  }
  EXPECT_THAT(parse_error_of({1, 2, 3}).message, HasSubstr("truncated: 3 bytes"));
  EXPECT_THAT(parse_error_of({0, 1, 0, 0, 0, 0, 0, 0}).message, HasSubstr("truncated: the header takes 256 bytes, the file has 0"));
  EXPECT_THAT(parse_error_of({0, 0, 0, 0, 0, 0, 0, 0x80}).message, HasSubstr("the limit is 100,000,000"));
}

TEST(record_safetensors, rejects_invalid_content_before_touching_the_file) {
  temp_dir dir;
  const auto path = dir.file("w");
  const auto t = made<float>({2}, 1);
  const auto refused = [&](const named_tensors& named, const metadata_map& meta) {
    return test::error_text(write_safetensors(path, named, meta));
  };
  EXPECT_EQ(refused({{"w", tensor::declare({2}, dtype::f32)}}, {}), path + ": tensor 'w': has no data");
  EXPECT_EQ(refused({{"w", t}, {"w", t}}, {}), path + ": tensor 'w': the name is given twice");
  EXPECT_EQ(refused({{"__metadata__", t}}, {}), path + ": tensor '__metadata__': the name is reserved");
  EXPECT_EQ(refused({{"a\nb", t}}, {}), path + ": a tensor's name has control characters");
  EXPECT_THAT(refused({{"\xff", t}}, {}), HasSubstr("the name is not UTF-8"));
  EXPECT_EQ(refused({}, {{"a", "\xff"}}), path + ": a key or value of the metadata is not UTF-8");
  EXPECT_EQ(refused({}, {{"sha256/w", ""}}), path + ": metadata 'sha256/w' is reserved");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT(write_safetensors(dir.file("no/such/folder"), {}).error().message, HasSubstr("cannot create: No such file"));
}

TEST(record_safetensors, a_write_that_fails_leaves_the_old_file) {
  temp_dir dir;
  const auto path = dir.file("w");
  ASSERT_EQ(test::error_text(write_safetensors(path, {{"w", made<float>({8}, 1)}})), "");
  const auto before = test::read_bytes(path);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{20000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto e = write_safetensors(path, {{"w", made<float>({10000}, 1)}});
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(test::error_text(e), path + ": cannot write: File too large");
  EXPECT_EQ(test::read_bytes(path), before);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(record_safetensors, reports_missing_and_irregular_files) {
  temp_dir dir;
  const auto message = [](const std::string& path) { return read_safetensors(path).error().to_string(); };
  EXPECT_EQ(message(dir.file("none")), dir.file("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(message(dir.path), dir.path + ": not a regular file");
  EXPECT_EQ(message("/dev/zero"), "/dev/zero: not a regular file");
}

// Promise 20 (docs/promises.md).
TEST(record_safetensors, fuzzed_files_are_read_or_rejected) {
  temp_dir dir;
  ASSERT_EQ(test::error_text(write_safetensors(dir.file("w"), one_of_each(), {{"format", "pt"}})), "");
  const std::vector<bytes> seeds = {
      test::read_bytes(dir.file("w")),
      foreign(R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
              11),
      foreign(R"({"__metadata__":{"a":"\u00e9"},"w":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})", 2)};
  const auto alphabet = "{}[]:,\"0123456789-.eE\\u \xff\x00"s;
  counter_rng rng(20);
  std::uint64_t accepted = 0;
  const auto inputs = test::fuzz_inputs(100000);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    auto b = seeds[rng.draw_below(seeds.size())];
    for (auto n = rng.draw_below(3) + 1; n > 0; --n) {
      const auto at = b.empty() ? 0 : rng.draw_below(b.size());
      switch (rng.draw_below(6)) {
        case 0: b.resize(at); break;
        case 1:
          b.insert(b.begin() + static_cast<std::ptrdiff_t>(at),
                   static_cast<std::uint8_t>(alphabet[rng.draw_below(alphabet.size())]));
          break;
        case 2: b.push_back(0); break;
        default:
          if (!b.empty())
            b[at] = rng.draw_below(2) ? static_cast<std::uint8_t>(rng.next())
                                      : static_cast<std::uint8_t>(alphabet[rng.draw_below(alphabet.size())]);
      }
    }
    const auto owner = std::make_shared<bytes>(std::move(b));
    const auto r = parse_safetensors(owner, owner->data(), owner->size());
    if (r)
      ++accepted;
    else
      ASSERT_FALSE(r.error().message.empty()) << "input " << i;
  }
  EXPECT_GT(accepted, 0u);  // foreign data may hold any bytes
  EXPECT_LT(accepted, inputs);
}

}  // namespace
}  // namespace troupe
