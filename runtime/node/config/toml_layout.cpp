#include "runtime/node/config/toml_layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/entry_choices.hpp"
#include "runtime/node/config/job_keys.hpp"

namespace troupe {
namespace {

using names = std::vector<std::string>;

// "[train.dynamics]" as "train.dynamics"; "" for the keys outside of tables.
std::string path_of_table(const std::string& name) {
  const auto from = name.find_first_not_of('[');
  return name[0] == '[' ? name.substr(from, name.find(']') - from) : std::string();
}

struct known_order {
  std::map<std::string, table_choice> choices;
  std::map<std::string, std::vector<key_descriptor>> keys;

  names of(std::string path, const std::vector<key_text>& present) const {
    if (path == "block.layer") path = "layer";
    const auto at = keys.find(path);
    if (at == keys.end()) return {};
    names first, last;
    for (const auto& k : at->second) {
      const bool head = (k.required && k.kind != key_kind::table && k.kind != key_kind::tables) || k.kind == key_kind::entry;
      (head ? first : last).push_back(k.name);
    }
    if (path == "layer") {
      first = {"name", "block", "type", "inputs", "repeat", "first"};
      std::erase(last, "inputs");
    }
    if (const auto choice = choices.find(path); choice != choices.end())
      for (const auto& o : options_of(choice->second, present)) first.push_back(o.name);
    first.insert(first.end(), last.begin(), last.end());
    return first;
  }

 private:
  static option_specs options_of(const table_choice& c, const std::vector<key_text>& present) {
    for (const auto& [key, value] : present) {
      if (key != c.key || value.size() < 2) continue;
      const auto options = c.options.find(value.substr(1, value.size() - 2));  // without the quotes
      return options == c.options.end() ? option_specs() : options->second;
    }
    const auto own = c.options.find("");
    return own == c.options.end() ? option_specs() : own->second;
  }
};

layout_order order_by(const std::vector<key_table>& tables, std::map<std::string, table_choice> choices) {
  layout_order order;
  auto known = std::make_shared<known_order>();
  known->choices = std::move(choices);
  for (const auto& t : tables) known->keys.try_emplace(path_of_table(t.name), t.entries);
  // Tables as the keys of the file name them, each with its own tables.
  for (const auto& k : tables.front().entries)
    for (const auto& t : tables)
      if (const auto path = path_of_table(t.name); path == k.name || path.starts_with(k.name + "."))
        if (std::count(order.tables.begin(), order.tables.end(), path) == 0) order.tables.push_back(path);
  order.keys = [known](const std::string& path, const std::vector<key_text>& present) { return known->of(path, present); };
  return order;
}

}  // namespace

layout_order order_of_job_keys(const tables& all) {
  auto list = job_tables();
  for (auto& t : block_tables()) list.push_back(std::move(t));
  return order_by(list, choices_of(all));
}

layout_order order_of_cluster_keys() { return order_by(cluster_tables(), {}); }

namespace {

// The parts of a TOML text that a layout keeps: statements with their comments, and values as
// tokens. Used on texts that the parser has accepted; on others the result has no meaning, but the
// functions end.
struct toml_statement {
  enum class kinds { blank, comment, header, key } kind = kinds::blank;
  std::string key;      // of a key; the path of a header: "train.dynamics"
  std::string text;     // the statement in the layout, without the comment behind it
  std::string comment;  // with '#'; of a comment line, or behind a statement
  bool list = false;    // a header [[...]]
};

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

// The statements of a text, line by line; a value of several lines is one statement.
std::vector<toml_statement> toml_statements(std::string_view text) { return toml_scanner(text).all(); }

constexpr std::size_t widest_aligned = 100;  // columns before a comment that is aligned

// Statements without an empty line between them.
using paragraph = std::vector<toml_statement>;

// The lines of a table: the comments above its header, the header, and paragraphs.
struct table_text {
  std::vector<paragraph> above;
  std::optional<toml_statement> header;  // none: the keys before the first table
  std::vector<paragraph> body;
  bool apart = false;   // an empty line between the last comment and the header
  bool joined = false;  // no empty line between the header and the first paragraph
  bool tight = false;   // no empty line between the last comment and the next table

  std::string path() const { return header ? header->key : std::string(); }
};

bool only_comments(const paragraph& p) {
  return std::all_of(p.begin(), p.end(), [](const auto& s) { return s.kind == toml_statement::kinds::comment; });
}

class layout {
 public:
  explicit layout(const layout_order& order) : order_(order) {}

  std::string text(std::string_view from) {
    split(toml_statements(from));
    for (auto& t : tables_) sort_keys(t);
    sort_tables();
    std::string out;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const auto& t = tables_[i];
      const bool joined = out.empty() || tables_[i - 1].tight;
      out += joined ? "" : "\n";
      write(t.above, out);
      if (t.apart) out += "\n";
      if (t.header) out += with_comment(*t.header, 0) + "\n";
      write(t.body, out);
    }
    return out;
  }

 private:
  // --- from statements to tables

  void split(std::vector<toml_statement> statements) {
    tables_.emplace_back();
    paragraph open;
    bool below_header = true;
    const auto close = [&] {
      if (!open.empty() && tables_.back().body.empty()) tables_.back().joined = below_header;
      if (!open.empty()) tables_.back().body.push_back(std::exchange(open, {}));
      below_header = false;
    };
    for (auto& s : statements) {
      if (s.kind == toml_statement::kinds::blank) {
        close();
      } else if (s.kind == toml_statement::kinds::header) {
        begin_table(std::move(s), std::exchange(open, {}), below_header);
        below_header = true;
      } else {
        open.push_back(std::move(s));
      }
    }
    close();
  }

  // `open`: the lines directly above the header, of which the comments at the end belong to it.
  void begin_table(toml_statement header, paragraph open, bool below_header) {
    auto& before = tables_.back();
    table_text t;
    const auto last_key =
        std::find_if(open.rbegin(), open.rend(), [](const auto& s) { return s.kind == toml_statement::kinds::key; });
    paragraph own(last_key.base(), open.end());
    open.erase(last_key.base(), open.end());
    if (!open.empty() && before.body.empty()) before.joined = below_header;
    if (!open.empty()) before.body.push_back(std::move(open));
    if (!before.header && before.body.empty() && !own.empty()) {  // the comment at the head of the file stays there
      before.tight = true;
      before.body.push_back(std::move(own));
    } else {
      const std::size_t least = !before.header || before.joined ? 1 : 0;  // what begins the file or the table stays
      while (before.body.size() > least && only_comments(before.body.back())) {
        t.above.insert(t.above.begin(), std::move(before.body.back()));
        before.body.pop_back();
      }
      t.apart = own.empty() && !t.above.empty();
      if (!own.empty()) t.above.push_back(std::move(own));
    }
    t.header = std::move(header);
    tables_.push_back(std::move(t));
  }

  // --- order

  static std::size_t place(const std::vector<std::string>& list, const std::string& s) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), s) - list.begin());
  }

  void sort_keys(table_text& t) {
    std::vector<key_text> keys;
    for (const auto& p : t.body)
      for (const auto& s : p)
        if (s.kind == toml_statement::kinds::key)
          keys.emplace_back(s.key, s.text.substr(std::min(s.text.size(), s.key.size() + 3)));
    const auto order = order_.keys ? order_.keys(t.path(), keys) : std::vector<std::string>();
    const auto before = [&](const toml_statement& a, const toml_statement& b) {
      return place(order, a.key.substr(0, a.key.find('.'))) < place(order, b.key.substr(0, b.key.find('.')));
    };
    for (auto& p : t.body)
      if (std::none_of(p.begin(), p.end(), [](const auto& s) { return s.kind == toml_statement::kinds::comment; }))
        std::stable_sort(p.begin(), p.end(), before);
  }

  // Tables of one name at the top keep together with the lists in them; others are sorted.
  void sort_tables() {
    std::vector<std::pair<std::size_t, std::size_t>> places;  // of the group, of the table in it
    std::map<std::string, bool> has_list;
    const auto top = [](const table_text& t) { return t.path().substr(0, t.path().find('.')); };
    for (const auto& t : tables_) has_list[top(t)] = has_list[top(t)] || (t.header && t.header->list);
    std::map<std::string, std::pair<std::size_t, std::size_t>> unlisted;  // places of the first table of a name
    std::pair<std::size_t, std::size_t> last{0, 0};
    for (const auto& t : tables_) {
      const auto group = place(order_.tables, top(t)), own = place(order_.tables, t.path());
      if (!t.header)
        last = {0, 0};
      else if (group < order_.tables.size())
        last = {group + 1, has_list[top(t)] || own == order_.tables.size() ? (last.first == group + 1 ? last.second : 0) : own};
      else
        last = unlisted.try_emplace(top(t), last).first->second;
      places.push_back(last);
    }
    std::vector<std::size_t> index(tables_.size());
    for (std::size_t i = 0; i < index.size(); ++i) index[i] = i;
    std::stable_sort(index.begin(), index.end(), [&](auto a, auto b) { return places[a] < places[b]; });
    std::vector<table_text> sorted;
    for (const auto i : index) sorted.push_back(std::move(tables_[i]));
    tables_ = std::move(sorted);
  }

  // --- text

  static std::string with_comment(const toml_statement& s, std::size_t column) {
    if (s.kind == toml_statement::kinds::comment) return s.comment;
    if (s.comment.empty()) return s.text;
    const auto width = width_of(s.text);
    return s.text + std::string(column > width ? column - width : 0, ' ') + " " + s.comment;
  }

  // Characters of the last line.
  static std::size_t width_of(const std::string& s) {
    const auto line = s.substr(s.rfind('\n') + 1);
    return static_cast<std::size_t>(
        std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  }

  static bool aligns(const toml_statement& s) {
    return s.kind == toml_statement::kinds::key && !s.comment.empty() && s.text.find('\n') == std::string::npos &&
           width_of(s.text) <= widest_aligned;
  }

  static void write(const std::vector<paragraph>& list, std::string& out) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& p = list[i];
      for (std::size_t from = 0; from < p.size();) {
        auto end = from;
        std::size_t column = 0;
        for (; end < p.size() && aligns(p[end]); ++end) column = std::max(column, width_of(p[end].text));
        end = std::max(end, from + 1);
        for (; from < end; ++from) out += with_comment(p[from], column) + "\n";
      }
      if (i + 1 < list.size()) out += "\n";
    }
  }

  const layout_order& order_;
  std::vector<table_text> tables_;
};

bool same_value(const document_value& a, const document_value& b) {
  if (a.value.index() != b.value.index()) return false;
  if (const auto* t = a.table()) return same_content(*t, *b.table());
  if (const auto* list = a.array()) return std::equal(list->begin(), list->end(), b.array()->begin(), b.array()->end(), same_value);
  if (const auto* x = std::get_if<double>(&a.value)) {
    const auto y = std::get<double>(b.value);
    return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(y) || (std::isnan(*x) && std::isnan(y));
  }
  if (const auto* s = std::get_if<std::string>(&a.value)) return *s == std::get<std::string>(b.value);
  if (const auto* i = std::get_if<std::int64_t>(&a.value)) return *i == std::get<std::int64_t>(b.value);
  if (const auto* f = std::get_if<bool>(&a.value)) return *f == std::get<bool>(b.value);
  return true;  // a date, whose text is kept
}

}  // namespace

bool same_content(const document_table& a, const document_table& b) {
  std::map<std::string_view, const document_value*> of_b;
  for (const auto& e : b) of_b[e.key] = &e.value;
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const document_entry& e) {
           const auto other = of_b.find(e.key);
           return other != of_b.end() && same_value(e.value, *other->second);
         });
}

expected<std::string, diagnostics> laid_out(const std::string& text, const std::string& file, const layout_order& order) {
  const auto before = parse_document(text, file);
  if (!before) return unexpected(before.error());
  auto result = layout(order).text(text);
  const auto after = parse_document(result, file);
  if (after && same_content(*before, *after) && layout(order).text(result) == result) return result;
  diagnostic d;
  d.at.file = file;
  d.message = "the file has a form that cannot be laid out safely; it stays as it is";
  return unexpected(diagnostics(1, d));
}

}  // namespace troupe
