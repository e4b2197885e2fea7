#include "runtime/node/config/block_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_expression = 200;  // bytes
constexpr int max_parentheses = 16;

using computed = expected<document_value>;

bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_word(char c) { return starts_word(c) || (c >= '0' && c <= '9'); }

document_value value_of(std::int64_t v) {
  document_value d;
  d.value = v;
  return d;
}
document_value value_of(double v) {
  document_value d;
  d.value = v;
  return d;
}

std::optional<double> number_in(const document_value& v) {
  if (const auto* i = std::get_if<std::int64_t>(&v.value)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&v.value)) return *d;
  return std::nullopt;
}

computed whole_result(std::int64_t a, char sign, std::int64_t b) {
  std::int64_t r = 0;
  if (sign == '/') {
    if (b == 0) return unexpected(error("division by 0"));
    if (b == -1) {
      sign = '*';
    } else {
      if (a % b != 0) return unexpected(error(number_text(a) + " / " + number_text(b) + " is not a whole number"));
      return value_of(a / b);
    }
  }
  const bool over = sign == '+'   ? __builtin_add_overflow(a, b, &r)
                    : sign == '-' ? __builtin_sub_overflow(a, b, &r)
                                  : __builtin_mul_overflow(a, b, &r);
  if (over) return unexpected(error("the result is beyond the range of integers"));
  return value_of(r);
}

computed result_of(const document_value& a, char sign, const document_value& b) {
  const auto *i = std::get_if<std::int64_t>(&a.value), *k = std::get_if<std::int64_t>(&b.value);
  if (i && k) return whole_result(*i, sign, *k);
  const auto x = number_in(a), y = number_in(b);
  if (!x || !y) return unexpected(error(std::string(kind_of(x ? b : a)) + " cannot be computed with"));
  const auto r = sign == '+' ? *x + *y : sign == '-' ? *x - *y : sign == '*' ? *x * *y : *x / *y;
  if (!std::isfinite(r)) return unexpected(error("the result is not finite"));
  return value_of(r);
}

// Computes one expression by recursive descent.
//   sum = product {("+" | "-") product};  product = factor {("*" | "/") factor}
//   factor = ["-"] (number | word | "(" sum ")")
class calculator {
 public:
  calculator(std::string_view text, const block_values& values) : rest_(text), values_(values) {}

  computed all() {
    auto v = sum();
    if (!v) return v;
    skip_blanks();
    if (!rest_.empty()) return unexpected(error("unexpected " + in_quotes(rest_.substr(0, 1))));
    return v;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) rest_.remove_prefix(1);
  }
  // The next character if it is one of `signs`, which is then consumed; otherwise 0.
  char one_of(std::string_view signs) {
    skip_blanks();
    if (rest_.empty() || signs.find(rest_.front()) == std::string_view::npos) return 0;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  computed sum() { return chain("+-", &calculator::product); }
  computed product() { return chain("*/", &calculator::factor); }
  computed chain(std::string_view signs, computed (calculator::*part)()) {
    auto v = (this->*part)();
    while (v) {
      const char sign = one_of(signs);
      if (!sign) return v;
      auto other = (this->*part)();
      if (!other) return other;
      v = result_of(*v, sign, *other);
    }
    return v;
  }

  computed factor() {
    const bool minus = one_of("-") != 0;
    auto v = unsigned_factor();
    return v && minus ? result_of(value_of(std::int64_t{0}), '-', *v) : v;
  }
  computed unsigned_factor() {
    skip_blanks();
    if (rest_.empty()) return unexpected(error("a name or a number is missing"));
    if (one_of("(")) {
      if (++depth_ > max_parentheses)
        return unexpected(error("more than " + std::to_string(max_parentheses) + " nested parentheses"));
      auto v = sum();
      if (!v) return v;
      --depth_;
      if (!one_of(")")) return unexpected(error("')' is missing"));
      return v;
    }
    return starts_word(rest_.front()) ? word() : number();
  }

  computed word() {
    std::size_t n = 0;
    while (n < rest_.size() && in_word(rest_[n])) ++n;
    const auto name = rest_.substr(0, n);
    const auto found = values_.find(name);
    if (found == values_.end()) {
      std::vector<std::string> known;
      for (const auto& [key, value] : values_) known.push_back(key);
      return unexpected(
          error("there is no parameter " + in_quotes(name) + did_you_mean(name, known) + " (available: " + joined(known) + ")"));
    }
    rest_.remove_prefix(n);
    return found->second;
  }

  computed number() {
    std::int64_t whole = 0;
    double real = 0;
    const auto *begin = rest_.data(), *end = begin + rest_.size();
    const auto as_whole = std::from_chars(begin, end, whole);
    const auto as_real = std::from_chars(begin, end, real);
    if (as_real.ec != std::errc() || !std::isfinite(real) || *begin == '-')
      return unexpected(error("unexpected " + in_quotes(rest_.substr(0, 1))));
    rest_.remove_prefix(static_cast<std::size_t>(as_real.ptr - begin));
    if (as_whole.ec == std::errc() && as_whole.ptr == as_real.ptr) return value_of(whole);
    return value_of(real);
  }

  std::string_view rest_;
  const block_values& values_;
  int depth_ = 0;
};

// A part of a text: characters, or the expression between two braces.
struct text_part {
  std::string text;
  bool computed = false;
};

expected<std::vector<text_part>> parts_of(std::string_view s) {
  if (s.find_first_of("{}") == std::string_view::npos) return std::vector<text_part>(1, {std::string(s), false});
  std::vector<text_part> parts;
  const auto add = [&](char c) {
    if (parts.empty() || parts.back().computed) parts.emplace_back();
    parts.back().text += c;
  };
  for (std::size_t at = 0; at < s.size(); ++at) {
    const bool brace = s[at] == '{' || s[at] == '}';
    if (brace && at + 1 < s.size() && s[at + 1] == s[at]) {
      add(s[at++]);
    } else if (s[at] == '}') {
      return unexpected(error("'}' without '{'; write }} for a brace"));
    } else if (s[at] == '{') {
      const auto end = s.find('}', at);
      if (end == std::string_view::npos) return unexpected(error("'{' without '}'; write {{ for a brace"));
      if (end - at > max_expression)
        return unexpected(error("an expression of more than " + std::to_string(max_expression) + " bytes"));
      parts.push_back({std::string(s.substr(at + 1, end - at - 1)), true});
      at = end;
    } else {
      add(s[at]);
    }
  }
  return parts;
}

expected<std::string> text_in(const document_value& v) {
  if (const auto* s = std::get_if<std::string>(&v.value)) return *s;
  if (const auto* i = std::get_if<std::int64_t>(&v.value)) return number_text(*i);
  if (const auto* d = std::get_if<double>(&v.value)) return number_text(*d);
  if (const auto* b = std::get_if<bool>(&v.value)) return std::string(*b ? "true" : "false");
  return unexpected(error(std::string(kind_of(v)) + " cannot be part of a text"));
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) {
  if (text.find('{') == std::string_view::npos) return false;
  const auto parts = parts_of(text);
  if (!parts) return false;
  for (const auto& p : *parts) {
    for (std::size_t at = 0; p.computed && at < p.text.size();) {
      const auto begin = at;
      while (at < p.text.size() && in_word(p.text[at])) ++at;
      if (std::string_view(p.text).substr(begin, at - begin) == word) return true;
      if (at == begin) ++at;
    }
  }
  return false;
}

expected<document_value> with_values(const std::string& text, const block_values& values) {
  const auto parts = parts_of(text);
  if (!parts) return unexpected(parts.error().in(in_quotes(text)));
  std::string whole;
  for (const auto& p : *parts) {
    if (!p.computed) {
      whole += p.text;
      continue;
    }
    auto v = calculator(p.text, values).all();
    if (!v) return unexpected(v.error().in(in_quotes(text)));
    if (parts->size() == 1) return v;
    const auto part = text_in(*v);
    if (!part) return unexpected(part.error().in(in_quotes(text)));
    whole += *part;
    if (whole.size() > max_block_text)
      return unexpected(error("the text would have more than " + std::to_string(max_block_text) + " bytes").in(in_quotes(text)));
  }
  document_value v;
  v.value = std::move(whole);
  return v;
}

std::size_t bytes_of(const document_value& v) {
  auto n = sizeof v;
  if (const auto* s = std::get_if<std::string>(&v.value)) n += s->size();
  if (const auto* list = v.array())
    for (const auto& e : *list) n += bytes_of(e);
  if (const auto* table = v.table())
    for (const auto& e : *table) n += sizeof e + e.key.size() + bytes_of(e.value);
  return n;
}

void put_values(document_value& v, const block_values& values, std::size_t& room, diagnostics& errors) {
  if (const auto* s = std::get_if<std::string>(&v.value); s && s->find_first_of("{}") != std::string::npos) {
    auto put = with_values(*s, values);
    if (!put) return errors.push_back({v.at, put.error().text});
    const auto bytes = bytes_of(*put);
    room -= std::min(room, bytes);
    if (room > 0) v.value = std::move(put->value);
  } else if (auto* list = std::get_if<document_array>(&v.value)) {
    for (auto& e : *list) put_values(e, values, room, errors);
  } else if (auto* table = std::get_if<document_table>(&v.value)) {
    for (auto& e : *table) put_values(e.value, values, room, errors);
  }
}

}  // namespace troupe
