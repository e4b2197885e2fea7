#include "runtime/node/models/caffe/prototxt.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::caffe {
namespace {

struct token {
  enum class kind { end, word, number, text, mark } what = kind::end;
  std::string text;
  int line = 1, column = 1;
};

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

// A mistake, thrown inside this file only.
struct text_mistake {
  int line, column;
  std::string what;
};

class token_reader {
 public:
  explicit token_reader(std::string_view text) : text_(text) {}

  token next() {
    skip_blanks();
    token t;
    t.line = line_, t.column = column_;
    if (at_end()) return t;
    const char c = now();
    if (letter(c)) {
      t.what = token::kind::word;
      while (!at_end() && (letter(now()) || digit(now()))) t.text += take();
    } else if (digit(c) || c == '.' || c == '-' || c == '+') {
      t.what = token::kind::number;
      number(t);
    } else if (c == '"' || c == '\'') {
      t.what = token::kind::text;
      string(t);
    } else {
      t.what = token::kind::mark;
      const auto bytes = std::max<std::size_t>(1, utf8_length(text_.substr(at_)));
      while (t.text.size() < bytes) t.text += take();
    }
    return t;
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char now() const { return text_[at_]; }
  char take() {
    const char c = text_[at_++];
    if (c == '\n')
      ++line_, column_ = 1;
    else
      ++column_;
    return c;
  }
  void skip_blanks() {
    while (!at_end()) {
      if (now() == '#')
        while (!at_end() && now() != '\n') take();
      else if (now() == ' ' || now() == '\t' || now() == '\n' || now() == '\r' || now() == '\v' || now() == '\f')
        take();
      else
        return;
    }
  }

  // [-] digits . digits e [+-] digits, hexadecimal and octal integers, and "-inf". The value is
  // read where it is needed; a trailing f is dropped.
  void number(token& t) {
    if (now() == '-' || now() == '+') t.text += take();
    skip_blanks();
    if (!at_end() && letter(now())) {
      while (!at_end() && letter(now())) t.text += take();
      if (t.text == "-inf" || t.text == "-infinity" || t.text == "-nan") return;
      throw text_mistake{t.line, t.column, in_quotes(t.text) + " is no number"};
    }
    const bool hex = text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X");
    while (!at_end() &&
           (digit(now()) || now() == '.' || letter(now()) || (exponent(t.text, hex) && (now() == '-' || now() == '+'))))
      t.text += take();
    if (!hex && t.text.size() > 1 && (t.text.back() == 'f' || t.text.back() == 'F')) t.text.pop_back();
    check_number(t, hex);
  }
  static bool exponent(const std::string& so_far, bool hex) {
    return !hex && !so_far.empty() && (so_far.back() == 'e' || so_far.back() == 'E');
  }
  static void check_number(const token& t, bool hex) {
    std::size_t i = t.text[0] == '-' || t.text[0] == '+' ? 1 : 0;
    const auto digits = [&] {
      const auto from = i;
      while (i < t.text.size() && digit(t.text[i])) ++i;
      return i - from;
    };
    bool good = true;
    if (hex) {
      i += 2;
      good = i < t.text.size() && t.text.find_first_not_of("0123456789abcdefABCDEF", i) == std::string::npos;
    } else {
      auto n = digits();
      if (i < t.text.size() && t.text[i] == '.') ++i, n += digits();
      good = n > 0;
      if (good && i < t.text.size() && (t.text[i] == 'e' || t.text[i] == 'E')) {
        ++i;
        if (i < t.text.size() && (t.text[i] == '-' || t.text[i] == '+')) ++i;
        good = digits() > 0;
      }
      good = good && i == t.text.size();
    }
    if (!good) throw text_mistake{t.line, t.column, in_quotes(t.text) + " is no number"};
  }

  void string(token& t) {
    const char quote = take();
    while (true) {
      if (at_end() || now() == '\n') throw text_mistake{t.line, t.column, "the string does not end on its line"};
      const char c = take();
      if (c == quote) return;
      if (c != '\\') {
        t.text += c;
        continue;
      }
      if (at_end()) throw text_mistake{t.line, t.column, "the string does not end on its line"};
      escape(t);
    }
  }
  void escape(token& t) {
    const int line = line_, column = column_;
    const char c = take();
    static constexpr std::string_view from = "abfnrtv\\'\"?", to = "\a\b\f\n\r\t\v\\'\"?";
    if (const auto i = from.find(c); i != std::string_view::npos) {
      t.text += to[i];
    } else if (c >= '0' && c <= '7') {
      int v = c - '0';
      for (int n = 1; n < 3 && !at_end() && now() >= '0' && now() <= '7'; ++n) v = v * 8 + (take() - '0');
      if (v > 255) throw text_mistake{line, column - 1, "the escape is beyond a byte"};
      t.text += static_cast<char>(v);
    } else if ((c == 'x' || c == 'X') && !at_end() && std::isxdigit(static_cast<unsigned char>(now()))) {
      int v = 0;
      for (int n = 0; n < 2 && !at_end() && std::isxdigit(static_cast<unsigned char>(now())); ++n) {
        const char d = take();
        v = v * 16 + (digit(d) ? d - '0' : (d | 0x20) - 'a' + 10);
      }
      t.text += static_cast<char>(v);
    } else {
      throw text_mistake{line, column - 1, "unknown escape " + in_quotes(std::string("\\") + c) + " in a string"};
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

class tree_reader {
 public:
  explicit tree_reader(std::string_view text) : tokens_(text) { step(); }

  proto_field read() {
    proto_field all;
    while (now_.what != token::kind::end) field(all, 1);
    return all;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const { throw text_mistake{now_.line, now_.column, what}; }
  void step() { now_ = tokens_.next(); }
  bool mark(char c) const { return now_.what == token::kind::mark && now_.text[0] == c; }
  std::string seen() const {
    return now_.what == token::kind::end    ? "the end of the file"
           : now_.what == token::kind::text ? "a string"
                                            : in_quotes(printable(now_.text));
  }

  void field(proto_field& into, int depth) {
    if (mark('[')) wrong("extensions ([name]) are not supported");
    if (now_.what != token::kind::word) wrong("expected the name of a field, not " + seen());
    proto_field f;
    f.name = now_.text, f.line = now_.line, f.column = now_.column;
    step();
    const bool colon = mark(':');
    if (colon) step();
    if (mark('[')) {
      list(into, f, depth);
    } else {
      if (!colon && !mark('{') && !mark('<')) wrong("expected ':' or '{' after " + in_quotes(f.name) + ", not " + seen());
      value(f, depth);
      add(into, std::move(f));
    }
    if (mark(',') || mark(';')) step();
  }
  void list(proto_field& into, const proto_field& of, int depth) {
    step();
    if (mark(']')) return step();
    while (true) {
      proto_field f;
      f.name = of.name, f.line = now_.line, f.column = now_.column;
      value(f, depth);
      add(into, std::move(f));
      if (mark(']')) return step();
      if (!mark(',')) wrong("expected ',' or ']' in the list of " + in_quotes(of.name) + ", not " + seen());
      step();
    }
  }
  void add(proto_field& into, proto_field f) {
    if (++count_ > max_fields) wrong("the file has more than " + std::to_string(max_fields) + " fields");
    into.fields.push_back(std::move(f));
  }
  void value(proto_field& f, int depth) {
    using enum proto_field::kind;
    if (mark('{') || mark('<')) return nested(f, depth);
    if (now_.what == token::kind::text) {
      f.what = text;
      for (; now_.what == token::kind::text; step()) f.text += now_.text;
      return;
    }
    if (now_.what != token::kind::word && now_.what != token::kind::number)
      wrong("expected a value of " + in_quotes(f.name) + ", not " + seen());
    f.what = now_.what == token::kind::word ? word : number;
    f.text = now_.text;
    step();
  }
  void nested(proto_field& f, int depth) {
    if (depth >= max_depth) wrong("messages are nested more than " + std::to_string(max_depth) + " deep");
    const char end = mark('{') ? '}' : '>';
    f.what = proto_field::kind::message;
    step();
    while (!mark(end)) {
      if (now_.what == token::kind::end)
        wrong("the message " + in_quotes(f.name) + " of line " + std::to_string(f.line) + " is not closed: expected '" + end + "'");
      field(f, depth + 1);
    }
    step();
  }

  token_reader tokens_;
  token now_;
  std::size_t count_ = 0;
};

std::string quoted_text(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\%03o", static_cast<unsigned>(byte));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

void print_fields(const proto_field& of, int depth, std::string& out) {
  using kind = proto_field::kind;
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  for (const auto& f : of.fields) {
    if (f.what == kind::blob) continue;
    out += indent + f.name;
    if (f.what == kind::message) {
      out += " {\n";
      print_fields(f, depth + 1, out);
      out += indent + "}\n";
    } else {
      out += ": " + (f.what == kind::text ? quoted_text(f.text) : f.text) + "\n";
    }
  }
}

}  // namespace

expected<proto_field, diagnostics> parse_prototxt(std::string_view text, const std::string& file) {
  try {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
      throw text_mistake{1, 1, "the text is in UTF-16: save the file as UTF-8"};
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // the mark of UTF-8 that some editors write
    return tree_reader(text).read();
  } catch (const text_mistake& m) {
    diagnostics d(1);
    d[0].at = {file, m.line, m.column};
    d[0].message = m.what;
    return unexpected(std::move(d));
  }
}

std::string prototxt_of(const proto_field& message) {
  std::string out;
  print_fields(message, 0, out);
  return out;
}

}  // namespace troupe::caffe
