#include "runtime/node/config/block_tables.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/table_reader.hpp"

namespace troupe {
namespace {

bool all_tables_in(const document_array& list) {
  return std::all_of(list.begin(), list.end(), [](const document_value& v) { return v.table() != nullptr; });
}

void read_block(table_reader& r, const document_table& table, declared_blocks& into) {
  declared_block b;
  b.at = r.at();
  const auto& k = block_keys();
  if (!r.take("name")) {
    r.error("name", "it needs a name");
    return r.forgive();
  }
  if (!k.read(r, b.keys, "name")) return r.forgive();
  r.rename("block " + in_quotes(b.keys.name));
  k.read_each(r, b.keys, {"required", "output"});
  b.output_at = r.at("output");
  if (r.table("parameters", "[block.parameters]"))
    for (const auto& p : *find_entry(table, "parameters")->value.table()) b.defaults[p.key] = p.value;
  auto parameters = b.keys.required;
  for (const auto& [name, value] : b.defaults) parameters.push_back(name);
  static const std::vector<std::string> taken{"name", "block", "inputs", "repeat", "first", "i", "in"};
  for (const auto& name : parameters)
    if (std::count(taken.begin(), taken.end(), name) > 0) r.error("parameters", "a parameter cannot be called " + in_quotes(name));
  const auto* layers = r.take("layer");
  b.layers = layers ? layers->array() : nullptr;
  if (!b.layers || b.layers->empty() || !all_tables_in(*b.layers))
    r.error("layer", "it needs layers, written as [[block.layer]] tables");
  r.finish();
  const auto [first, fresh] = into.try_emplace(b.keys.name, b);
  if (!fresh) r.error("name", "duplicate block name; first used at " + first->second.at.to_string());
}

}  // namespace

declared_blocks read_blocks(const document_table& root, diagnostics& errors) {
  declared_blocks all;
  const auto* e = find_entry(root, "block");
  if (!e) return all;
  const auto* list = e->value.array();
  if (!list || !all_tables_in(*list)) {
    errors.push_back({e->at, "blocks are written as [[block]] tables"});
    return all;
  }
  for (const auto& v : *list) {
    table_reader r(*v.table(), "a block", v.at, errors);
    read_block(r, *v.table(), all);
  }
  return all;
}

bool is_key_of_all_layers(const std::string& key) {
  static const std::set<std::string> others{"name", "type", "inputs", "share", "algorithm", "loss_weight"};
  static const auto all = layer_keys().described().entries;
  return !others.contains(key) && std::any_of(all.begin(), all.end(), [&](const auto& k) { return k.name == key; });
}

const declared_block* check_use(const document_table& table, const source_position& at, const declared_blocks& blocks,
                                block_use& use, diagnostics& errors) {
  table_reader r(table, "a layer", at, errors);
  const auto& k = block_use_keys();
  if (!r.take("name"))
    r.error("name", "it needs a name");
  else if (k.read(r, use, "name"))
    r.rename("layer " + in_quotes(use.name));
  k.read_each(r, use, {"inputs", "repeat", "first"});
  if (!k.read(r, use, "block")) return nullptr;
  const auto found = blocks.find(use.block);
  if (found == blocks.end()) {
    std::vector<std::string> names;
    for (const auto& [name, b] : blocks) names.push_back(name);
    r.error("block", "unknown block " + in_quotes(use.block) + did_you_mean(use.block, names) +
                         (names.empty() ? "; the file has no [[block]]" : " (available: " + joined(names) + ")"));
    return nullptr;
  }
  const auto& b = found->second;
  for (const auto& [name, value] : b.defaults) r.take(name);
  for (const auto& name : b.keys.required)
    if (!r.take(name) && !b.defaults.contains(name))
      r.error("block", "block " + in_quotes(use.block) + " needs the parameter " + in_quotes(name));
  for (const auto& e : table)
    if (is_key_of_all_layers(e.key)) r.take(e.key);
  r.finish();
  return &b;
}

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
