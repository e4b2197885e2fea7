// Uses the SAX form of nlohmann's parser. It is iterative, so that nesting takes no stack. It sees
// duplicate keys, which a tree would hide. It reports errors by a call instead of an exception.
#include "runtime/record/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

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

}  // namespace troupe::detail
