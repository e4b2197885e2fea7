#include "runtime/node/config/toml_scan.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace troupe {
namespace {

// A token of a value: text of a string, number or word; one of "[]{},="; a comment; the end of a
// line.
struct toml_token {
  enum class kinds { word, sign, comment, line } kind = kinds::word;
  std::string text;
  bool blank_before = false;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string without_blanks_at_end(std::string s) {
  while (!s.empty() && is_blank(s.back())) s.pop_back();
  return s;
}

class toml_scanner {
 public:
  explicit toml_scanner(std::string_view text) : rest_(text) {}

  std::vector<toml_statement> all() {
    std::vector<toml_statement> list;
    while (!rest_.empty()) list.push_back(next());
    return list;
  }

 private:
  toml_statement next() {
    skip_blanks();
    toml_statement s;
    if (rest_.empty() || rest_.front() == '\n') {
      take(1);
      return s;
    }
    if (rest_.front() == '#') {
      s.kind = toml_statement::kinds::comment;
      s.comment = comment();
      take(1);
      return s;
    }
    if (rest_.front() == '[') return header();
    return assignment();
  }

  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  std::string take(std::size_t n) {
    n = std::min(n, rest_.size());
    std::string s(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return s;
  }
  std::string comment() { return without_blanks_at_end(take(rest_.find('\n'))); }
  void end_of_line(toml_statement& s) {
    skip_blanks();
    if (!rest_.empty() && rest_.front() == '#') s.comment = comment();
    take(1);
  }

  // The length of the string that `rest_` begins with.
  std::size_t string_length() const {
    const char quote = rest_.front();
    const bool many = rest_.size() >= 3 && rest_[1] == quote && rest_[2] == quote;
    std::size_t at = many ? 3 : 1;
    while (at < rest_.size()) {
      if (rest_[at] == '\\' && quote == '"') {
        at += 2;
      } else if (!many && (rest_[at] == quote || rest_[at] == '\n')) {
        return at + 1;
      } else if (many && rest_.compare(at, 3, std::string(3, quote)) == 0) {
        at += 3;
        while (at < rest_.size() && rest_[at] == quote) ++at;  // a string may end with one or two quotes
        return at;
      } else {
        ++at;
      }
    }
    return rest_.size();
  }

  // A dotted key up to one of `ends`, without the blanks between its parts.
  std::string dotted_key(std::string_view ends) {
    std::string key;
    while (!rest_.empty() && rest_.front() != '\n' && ends.find(rest_.front()) == std::string_view::npos) {
      if (is_blank(rest_.front()))
        take(1);
      else
        key += take(rest_.front() == '"' || rest_.front() == '\'' ? string_length() : 1);
    }
    return key;
  }

  toml_statement header() {
    toml_statement s;
    s.kind = toml_statement::kinds::header;
    s.list = rest_.starts_with("[[");
    take(s.list ? 2 : 1);
    s.key = dotted_key("]");
    take(s.list ? 2 : 1);
    s.text = s.list ? "[[" + s.key + "]]" : "[" + s.key + "]";
    end_of_line(s);
    return s;
  }

  toml_statement assignment() {
    toml_statement s;
    s.kind = toml_statement::kinds::key;
    s.key = dotted_key("=");
    take(1);
    auto tokens = value();
    if (!tokens.empty() && tokens.back().kind == toml_token::kinds::comment) {
      s.comment = tokens.back().text;
      tokens.pop_back();
    }
    s.text = s.key + " = " + text_of(tokens);
    return s;
  }

  // The tokens of a value, up to the end of its last line.
  std::vector<toml_token> value() {
    std::vector<toml_token> list;
    int depth = 0;
    while (!rest_.empty()) {
      toml_token t;
      t.blank_before = is_blank(rest_.front());
      skip_blanks();
      if (rest_.empty()) break;
      const char c = rest_.front();
      if (c == '\n') {
        t.kind = toml_token::kinds::line;
        take(1);
        if (depth <= 0) break;
      } else if (c == '#') {
        t.kind = toml_token::kinds::comment;
        t.text = comment();
      } else if (c == '"' || c == '\'') {
        t.text = take(string_length());
      } else if (std::string_view("[]{},=").find(c) != std::string_view::npos) {
        t.kind = toml_token::kinds::sign;
        t.text = take(1);
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
      } else {
        t.text = take(rest_.find_first_of(" \t\r\n#\"'[]{},="));
      }
      list.push_back(std::move(t));
    }
    return list;
  }

  static bool blank_between(const toml_token& a, const toml_token& b) {
    if (b.text == "," || (a.text == "{" && b.text == "}")) return false;
    if (a.text == "," || a.text == "=" || b.text == "=" || a.text == "{" || b.text == "}") return true;
    if (b.kind == toml_token::kinds::comment) return true;
    return a.kind == toml_token::kinds::word && b.kind == toml_token::kinds::word && b.blank_before;
  }

  static std::string text_of(const std::vector<toml_token>& tokens) {
    std::string out;
    std::size_t depth = 0;
    const toml_token* before = nullptr;  // null: at the begin of a line
    int lines = 0;
    for (const auto& t : tokens) {
      if (t.kind == toml_token::kinds::line) {
        before = nullptr;
        if (++lines <= 2) out += "\n";  // at most one empty line
        continue;
      }
      const bool sign = t.kind == toml_token::kinds::sign;
      if (sign && (t.text == "]" || t.text == "}") && depth > 0) --depth;
      if (!before && lines > 0)
        out += std::string(2 * depth, ' ');
      else if (before && blank_between(signed_only(*before), signed_only(t)))
        out += ' ';
      out += t.text;
      if (sign && (t.text == "[" || t.text == "{")) ++depth;
      before = &t;
      lines = 0;
    }
    return out;
  }

  // A token whose text is compared with signs: a string may be "," too.
  static toml_token signed_only(const toml_token& t) {
    return t.kind == toml_token::kinds::sign ? t : toml_token{t.kind, {}, t.blank_before};
  }

  std::string_view rest_;
};

}  // namespace

std::vector<toml_statement> toml_statements(std::string_view text) { return toml_scanner(text).all(); }

}  // namespace troupe
