#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
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

// Returns the error of the header alone, which names no file.
record_error header_error_of(const bytes& b, integrity check = integrity::when_present) {
  const temp_dir dir;
  test::write_bytes(dir.file("w"), b);
  auto r = read_safetensors_metadata(dir.file("w"), check);
  if (r) return {"", "", "no error"};
  EXPECT_EQ(r.error().file, dir.file("w"));
  r.error().file.clear();
  return r.error();
}

TEST(record_safetensors, metadata_alone_is_that_of_the_whole_file) {
  temp_dir dir;
  // The second header is longer than what is read first.
  for (const metadata_map& meta :
       {metadata_map{{"format", "pt"}, {"step", "7"}}, metadata_map{{"long", std::string(200'000, 'x')}}, metadata_map{}}) {
    ASSERT_EQ(test::error_text(write_safetensors(dir.file("w"), one_of_each(), meta)), "");
    for (const auto check : {integrity::when_present, integrity::required}) {
      const auto alone = read_safetensors_metadata(dir.file("w"), check);
      ASSERT_TRUE(alone) << alone.error().to_string();
      EXPECT_EQ(*alone, meta);
    }
  }
  EXPECT_EQ(read_safetensors_metadata(dir.file("none")).error().to_string(),
            dir.file("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(read_safetensors_metadata(dir.path).error().to_string(), dir.path + ": not a regular file");
}

// The bytes of the tensors are not read: a large file with a hole needs neither memory nor time.
TEST(record_safetensors, metadata_alone_is_read_without_the_tensors) {
  temp_dir dir;
  const std::uint64_t values = std::uint64_t{1} << 40;
  const auto text = R"({"__metadata__":{"step":"3"},"w":{"dtype":"U8","shape":[)" + std::to_string(values) +
                    R"(],"data_offsets":[0,)" + std::to_string(values) + "]}}";
  test::write_bytes(dir.file("w"), foreign(text, 0));
  EXPECT_EQ(read_safetensors_metadata(dir.file("w")).error().to_string(),
            dir.file("w") + ": tensor 'w': truncated: its data ends at byte 1099511627776, the file's at 0");
  std::error_code ec;
  std::filesystem::resize_file(dir.file("w"), 8 + text.size() + values, ec);
  if (ec) GTEST_SKIP() << "the file system has no files of a terabyte: " << ec.message();
  const auto alone = read_safetensors_metadata(dir.file("w"));
  ASSERT_TRUE(alone) << alone.error().to_string();
  EXPECT_EQ(*alone, (metadata_map{{"step", "3"}}));
}

TEST(record_safetensors, metadata_alone_is_refused_like_a_whole_file_that_is_cut_or_changed) {
  const auto whole = [] {
    const auto text = *safetensors_bytes({{"w", made<float>({4}, 1)}}, {{"step", "7"}});
    return bytes(text.begin(), text.end());
  }();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    const auto wanted = parse_error_of(cut, integrity::required), got = header_error_of(cut, integrity::required);
    ASSERT_EQ(got.message, wanted.message) << n;
    ASSERT_EQ(got.tensor, wanted.tensor) << n;
  }
  const std::size_t data = whole.size() - 16;
  for (std::size_t n = 0; n < whole.size(); n += 3) {
    auto changed = whole;
    changed[n] ^= 1;
    const auto got = header_error_of(changed, integrity::required).message;
    if (n < data)
      EXPECT_EQ(got, parse_error_of(changed, integrity::required).message) << n;
    else
      EXPECT_EQ(got, "no error") << "only the header is checked";
  }
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
  ASSERT_EQ(c.left_out.size(), 1u);
  EXPECT_EQ(c.left_out[0], (std::pair<std::string, std::string>("bn.num", "I64")));
  EXPECT_EQ(std::memcmp(c.named[0].second.raw(), b.data() + b.size() - 4, 4), 0);
  const auto bad = parse_error_of(foreign(R"({"n":{"dtype":"I64","shape":[2],"data_offsets":[0,8]}})", 8));
  EXPECT_EQ(bad.tensor, "n");
  EXPECT_EQ(bad.message, "data_offsets span 8 bytes, its shape needs 16");
  EXPECT_EQ(parse_error_of(foreign(R"({"n":{"dtype":"I64","dtype":"I64","shape":[],"data_offsets":[0,8]}})", 8)).message,
            "dtype is given twice");
}

// The bytes of one tensor of a type that Troupe lacks, and its values.
TEST(record_safetensors, widens_floats_of_16_and_8_bits) {
  struct row {
    const char* dtype;
    bytes data;
    std::vector<float> values;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<row> rows = {
      {"F16", {0x00, 0x3c, 0xff, 0x7b, 0x01, 0x00, 0x00, 0xfc, 0x00, 0x80}, {1, 65504, 0x1p-24F, -inf, -0.0F}},
      {"F8_E5M2", {0x3c, 0x7b, 0x01, 0xfc}, {1, 57344, 0x1p-16F, -inf}},
      {"F8_E4M3", {0x38, 0x7e, 0x01, 0xb8}, {1, 448, 0x1p-9F, -1}},
      {"F8_E5M2FNUZ", {0x40, 0x7f, 0x01, 0xc0}, {1, 57344, 0x1p-17F, -1}},
      {"F8_E4M3FNUZ", {0x40, 0x7f, 0x01, 0xc0}, {1, 240, 0x1p-10F, -1}},
      {"F8_E8M0", {127, 0, 254}, {1, 0x1p-127F, 0x1p127F}},
  };
  for (const auto& r : rows) {
    auto file = foreign(R"({"w":{"dtype":")" + std::string(r.dtype) + R"(","shape":[)" + std::to_string(r.values.size()) +
                            R"(],"data_offsets":[0,)" + std::to_string(r.data.size()) + "]}}",
                        r.data.size());
    std::copy(r.data.begin(), r.data.end(), file.end() - static_cast<std::ptrdiff_t>(r.data.size()));
    const auto owner = std::make_shared<bytes>(std::move(file));
    const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
    ASSERT_EQ(c.named.size(), 1u) << r.dtype;
    const auto& t = c.named[0].second;
    ASSERT_EQ(t.type(), dtype::f32) << r.dtype;
    for (std::size_t i = 0; i < r.values.size(); ++i) {
      EXPECT_EQ(t.data<float>()[i], r.values[i]) << r.dtype << " " << i;
      EXPECT_EQ(std::signbit(t.data<float>()[i]), std::signbit(r.values[i])) << r.dtype << " " << i;
    }
  }
}

// A table of all values for each tensor would take minutes.
TEST(record_safetensors, widens_many_tensors_of_one_value) {
  constexpr std::size_t tensors = 100'000;
  std::string header;
  for (std::size_t k = 0; k < tensors; ++k)
    header += (k == 0 ? "{\"" : ",\"") + std::to_string(k) + R"(":{"dtype":"F16","shape":[1],"data_offsets":[)" +
              std::to_string(2 * k) + "," + std::to_string(2 * k + 2) + "]}";
  auto file = foreign(header + "}", 2 * tensors);
  for (std::size_t k = 0; k < tensors; ++k)
    file[file.size() - 2 * tensors + 2 * k] = 0, file[file.size() - 2 * tensors + 2 * k + 1] = 0x3c;
  const auto owner = std::make_shared<bytes>(std::move(file));
  const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
  ASSERT_EQ(c.named.size(), tensors);
  EXPECT_EQ(c.named.back().second.data<float>()[0], 1);
}

TEST(record_safetensors, widens_as_many_values_as_a_type_has_and_fewer_alike) {
  constexpr std::size_t values = 65'536;
  for (const auto count : {values, values - 1}) {
    auto file = foreign(
        R"({"w":{"dtype":"F16","shape":[)" + std::to_string(count) + R"(],"data_offsets":[0,)" + std::to_string(2 * count) + "]}}",
        2 * count);
    for (std::size_t k = 0; k < count; ++k)
      file[file.size() - 2 * count + 2 * k] = static_cast<std::uint8_t>(k & 255),
                                         file[file.size() - 2 * count + 2 * k + 1] = static_cast<std::uint8_t>(k >> 8);
    const auto owner = std::make_shared<bytes>(std::move(file));
    const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
    ASSERT_EQ(c.named.size(), 1u);
    EXPECT_EQ(c.named[0].second.data<float>()[0x3c00], 1);
    EXPECT_EQ(c.named[0].second.data<float>()[0xfbff], -65504);
  }
}

TEST(record_safetensors, has_a_value_or_nan_for_every_bit_pattern_of_8_bits) {
  const std::map<std::string, int> nans = {{"F8_E5M2", 6}, {"F8_E4M3", 2}, {"F8_E5M2FNUZ", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, wanted] : nans) {
    auto file = foreign(R"({"w":{"dtype":")" + name + R"(","shape":[256],"data_offsets":[0,256]}})", 256);
    for (std::size_t i = 0; i < 256; ++i) file[file.size() - 256 + i] = static_cast<std::uint8_t>(i);
    const auto owner = std::make_shared<bytes>(std::move(file));
    const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
    const auto* values = c.named[0].second.data<float>();
    EXPECT_EQ(std::count_if(values, values + 256, [](float v) { return std::isnan(v); }), wanted) << name;
  }
}

TEST(record_safetensors, leaves_out_every_type_that_no_weights_have) {
  const std::map<std::string, int> bytes_of_8 = {{"BOOL", 8}, {"I8", 8},   {"I16", 16}, {"U16", 16},    {"U32", 32},   {"I64", 64},
                                                 {"U64", 64}, {"C64", 64}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [name, size] : bytes_of_8) {
    const auto file = foreign(R"({"w":{"dtype":")" + name + R"(","shape":[8],"data_offsets":[0,)" + std::to_string(size) + "]}}",
                              static_cast<std::size_t>(size));
    const auto owner = std::make_shared<bytes>(file);
    const auto c = content_of(parse_safetensors(owner, owner->data(), owner->size()));
    EXPECT_TRUE(c.named.empty());
    ASSERT_EQ(c.left_out.size(), 1u);
    EXPECT_EQ(c.left_out[0], (std::pair<std::string, std::string>("w", name)));
  }
  EXPECT_EQ(parse_error_of({}).message, "it is an empty file");
}

// A law of the pair: what is written can be read. Draws shapes, names and metadata at the limits.
TEST(record_safetensors, writes_nothing_that_it_does_not_read) {
  counter_rng draw(5);
  const auto below = [&](std::uint64_t n) { return draw.next() % n; };
  const std::int64_t extents[] = {0, 0, 1, 1, 2, 3, 1 << 20, std::int64_t{1} << 32, std::int64_t{1} << 40, INT64_MAX};
  const std::string texts[] = {
      "", " ", "w", "\"\\", "\xc3\xa9", "\xff", "\n", "__metadata__", "sha256", "sha256/w", std::string(2'000, 'n')};
  const float value = 1;
  const auto owner = std::make_shared<float>(value);
  int written = 0, refused = 0;
  for (int n = 0; n < 2000; ++n) {
    named_tensors named;
    for (auto k = below(4); k > 0; --k) {
      shape s;
      std::int64_t count = 1;
      for (auto r = below(shape::max_rank + 1); r > 0; --r) {
        const auto e = extents[below(std::size(extents))];
        if (e > 3 && count != 0) continue;  // large ones only behind a 0: count() does not check for overflow
        s.push_back(e);
        count *= e;
      }
      if (count > 1) continue;  // no memory is behind it
      named.emplace_back(texts[below(std::size(texts))], tensor::adopt(owner, owner.get(), s, dtype::f32));
    }
    metadata_map metadata;
    for (auto k = below(3); k > 0; --k) metadata[texts[below(std::size(texts))]] = texts[below(std::size(texts))];
    const auto made = safetensors_bytes(named, metadata);
    ++(made ? written : refused);
    if (!made) continue;
    const auto file = std::make_shared<std::string>(*made);
    const auto back = parse_safetensors(file, file->data(), file->size(), integrity::required);
    ASSERT_EQ(test::error_text(back), "") << n;
    EXPECT_EQ(back->metadata, metadata);
    ASSERT_EQ(back->named.size(), named.size());
    for (std::size_t k = 0; k < named.size(); ++k) EXPECT_EQ(back->named[k].first, named[k].first);
  }
  EXPECT_GT(written, 100);
  EXPECT_GT(refused, 100);
}

TEST(record_safetensors, has_as_many_tensors_as_its_header_holds) {
  const auto value = made<float>({1}, 3);
  for (const std::size_t n : {65'536, 65'537}) {
    named_tensors named;
    for (std::size_t k = 0; k < n; ++k) named.emplace_back("t" + std::to_string(k), value);
    const auto file = std::make_shared<std::string>(*safetensors_bytes(named));
    EXPECT_EQ(content_of(parse_safetensors(file, file->data(), file->size(), integrity::required)).named.size(), n);
  }
}

// size: a table of headers
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
      {w(R"("dtype":"F16","shape":[1],"data_offsets":[0,4])"), 4, "w", "data_offsets span 4 bytes, its shape needs 2"},
      {w(R"("dtype":"F17","shape":[2],"data_offsets":[0,4])"), 4, "w", "dtype F17 is none of the format"},
      {w(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1, "w", "data_offsets span 1 bytes, its shape needs 2"},
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
    const auto alone = header_error_of(foreign(r.header, r.data));
    EXPECT_EQ(alone.tensor, e.tensor) << r.header.substr(0, 200);
    EXPECT_EQ(alone.message, e.message) << r.header.substr(0, 200);
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
