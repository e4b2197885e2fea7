// Uses the SAX form of nlohmann's parser. It is iterative, so that nesting takes no stack. It sees
// duplicate keys, which a tree would hide. It reports errors by a call instead of an exception.
#include "runtime/record/safetensors_header.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

namespace troupe::detail {
namespace {

// Accepts one fixed grammar: an object of "__metadata__" (object of strings) and tensors ({dtype,
// shape, data_offsets}).
class handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  handler(safetensors_header& out, record_error& error) : out_(out), error_(error) {}

  bool start_object(std::size_t) override {
    if (where_ == place::outside) return where_ = place::top, true;
    if (where_ != place::top) return unexpected("an object");
    if (key_ == "__metadata__") return where_ = place::metadata, true;
    out_.entries.push_back({key_, nullptr, {}, {}});
    return where_ = place::entry, true;
  }
  bool key(string_t& k) override {
    if (where_ == place::metadata) {
      if (out_.metadata.count(k)) return fail("metadata '" + k + "' is given twice");
    } else if (where_ == place::top) {
      if (!printable(k)) return fail("a tensor's name has control characters");
      if (!seen_.insert(k).second) return fail("'" + k + "' is given twice");
    }
    key_ = std::move(k);
    return true;
  }
  bool end_object() override {
    if (where_ == place::entry) {
      const auto& e = out_.entries.back();
      if (!e.type) return fail("dtype is missing");
      if (!e.dims) return fail("shape is missing");
      if (e.offsets.size() != 2) return fail("data_offsets are missing");
    }
    where_ = where_ == place::top ? place::outside : place::top;
    return true;
  }
  bool start_array(std::size_t) override {
    if (where_ != place::entry) return unexpected("a list");
    if (key_ == "shape") {
      if (out_.entries.back().dims) return fail("shape is given twice");
      out_.entries.back().dims = shape{};
      return where_ = place::extents, true;
    }
    if (key_ != "data_offsets") return unexpected("a list");
    if (!out_.entries.back().offsets.empty()) return fail("data_offsets are given twice");
    return where_ = place::offsets, true;
  }
  bool end_array() override {
    if (where_ == place::offsets && out_.entries.back().offsets.size() != 2) return fail("data_offsets are not two numbers");
    return where_ = place::entry, true;
  }
  bool string(string_t& s) override {
    if (where_ == place::metadata) {
      out_.metadata.emplace(key_, std::move(s));
      return true;
    }
    if (where_ != place::entry || key_ != "dtype") return unexpected("a string");
    if (out_.entries.back().type) return fail("dtype is given twice");
    out_.entries.back().type = find_safetensors_type(s);
    if (!out_.entries.back().type) return fail("dtype " + (printable(s) ? s.substr(0, 16) : "?") + " is none of the format");
    return true;
  }
  bool number_unsigned(number_unsigned_t n) override {
    if (where_ == place::extents) {
      auto& dims = *out_.entries.back().dims;
      if (dims.rank() == shape::max_rank) return fail("more than " + std::to_string(shape::max_rank) + " dimensions");
      if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return fail("an extent is too large");
      dims.push_back(static_cast<std::int64_t>(n));
      return true;
    }
    if (where_ != place::offsets) return unexpected("a number");
    if (out_.entries.back().offsets.size() == 2) return fail("data_offsets are more than two numbers");
    out_.entries.back().offsets.push_back(n);
    return true;
  }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction or huge number"); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return fail("the header is not JSON, at byte " + std::to_string(at));
  }

 private:
  enum class place : std::uint8_t { outside, top, metadata, entry, extents, offsets };

  bool unexpected(const char* what) {
    return fail(std::string("unexpected ") + what + (printable(key_) ? " at '" + key_ + "'" : ""));
  }
  bool fail(std::string message) {
    if (where_ == place::entry || where_ == place::extents || where_ == place::offsets) error_.tensor = out_.entries.back().name;
    error_.message = std::move(message);
    return false;
  }

  safetensors_header& out_;
  record_error& error_;
  place where_ = place::outside;
  std::string key_;
  std::set<std::string> seen_;
};

}  // namespace

bool printable(const std::string& s) {
  return std::none_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool parse_header(const char* text, std::size_t bytes, safetensors_header& out, record_error& error) {
  handler h(out, error);
  return nlohmann::json::sax_parse(text, text + bytes, &h);
}

std::optional<std::string> quoted(const std::string& s) {
  try {
    return nlohmann::json(s).dump();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

namespace {

using special = small_float::special;

constexpr safetensors_type types[] = {
    {"F64", 64, dtype::f64, {}},
    {"F32", 32, dtype::f32, {}},
    {"BF16", 16, dtype::bf16, {}},
    {"I32", 32, dtype::i32, {}},
    {"U8", 8, dtype::u8, {}},
    {"F16", 16, {}, small_float{5, 10, 15, special::ieee}},
    {"F8_E5M2", 8, {}, small_float{5, 2, 15, special::ieee}},
    {"F8_E4M3", 8, {}, small_float{4, 3, 7, special::last_nan}},
    {"F8_E5M2FNUZ", 8, {}, small_float{5, 2, 16, special::zero_nan}},
    {"F8_E4M3FNUZ", 8, {}, small_float{4, 3, 8, special::zero_nan}},
    {"F8_E8M0", 8, {}, small_float{8, 0, 127, special::power_of_2}},
    {"BOOL", 8, {}, {}},
    {"I8", 8, {}, {}},
    {"I16", 16, {}, {}},
    {"U16", 16, {}, {}},
    {"U32", 32, {}, {}},
    {"I64", 64, {}, {}},
    {"U64", 64, {}, {}},
    {"C64", 64, {}, {}},
    {"F6_E2M3", 6, {}, {}},
    {"F6_E3M2", 6, {}, {}},
    {"F4", 4, {}, {}},
};

bool is_nan(const small_float& t, std::uint32_t exponent, std::uint32_t mantissa, bool negative) {
  const std::uint32_t largest = (1U << t.exponent_bits) - 1, all_ones = (1U << t.mantissa_bits) - 1;
  switch (t.kind) {
    case special::ieee: return exponent == largest && mantissa != 0;
    case special::last_nan: return exponent == largest && mantissa == all_ones;
    case special::zero_nan: return negative && exponent == 0 && mantissa == 0;
    case special::power_of_2: return exponent == largest;
  }
  return false;
}

}  // namespace

const safetensors_type* find_safetensors_type(std::string_view name) {
  const auto* at = std::find_if(std::begin(types), std::end(types), [&](const auto& t) { return t.name == name; });
  return at == std::end(types) ? nullptr : at;
}

const safetensors_type& safetensors_type_of(dtype t) {
  return *std::find_if(std::begin(types), std::end(types), [&](const auto& e) { return e.own == t; });
}

float value_of(const small_float& t, std::uint32_t bits) {
  const auto mantissa = bits & ((1U << t.mantissa_bits) - 1);
  const auto exponent = bits >> t.mantissa_bits & ((1U << t.exponent_bits) - 1);
  const bool negative = t.kind != special::power_of_2 && (bits >> (t.mantissa_bits + t.exponent_bits) & 1U) != 0;
  if (is_nan(t, exponent, mantissa, negative)) return std::numeric_limits<float>::quiet_NaN();
  const float sign = negative ? -1.0F : 1.0F;
  if (t.kind == special::power_of_2) return std::ldexp(1.0F, static_cast<int>(exponent) - t.bias);
  if (t.kind == special::ieee && exponent == (1U << t.exponent_bits) - 1) return sign * std::numeric_limits<float>::infinity();
  const auto whole = exponent == 0 ? mantissa : mantissa | 1U << t.mantissa_bits;  // exponent 0: subnormal
  const int power = std::max(static_cast<int>(exponent), 1) - t.bias - t.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(whole), power);
}

void widen(const safetensors_type& type, const std::uint8_t* from, std::size_t count, float* out) {
  assert(type.small);
  // A table pays only for more values than it has: a file can have a million tensors of one value.
  std::vector<float> table(count < std::size_t{1} << type.bits ? 0 : std::size_t{1} << type.bits);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = value_of(*type.small, static_cast<std::uint32_t>(i));
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = type.bits == 8 ? from[i] : from[2 * i] | static_cast<std::size_t>(from[2 * i + 1]) << 8;
    out[i] = table.empty() ? value_of(*type.small, static_cast<std::uint32_t>(bits)) : table[bits];
  }
}

}  // namespace troupe::detail
