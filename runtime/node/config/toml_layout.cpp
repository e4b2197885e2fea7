#include "runtime/node/config/toml_layout.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "runtime/node/config/toml_scan.hpp"

namespace troupe {
namespace {

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
