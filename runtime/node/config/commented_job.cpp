#include "runtime/node/config/commented_job.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/entry_choices.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/reference.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe {
namespace {

constexpr std::size_t comment_width = 100;

std::string text_of_value(const document_value& v);

std::string text_of_table(const document_table& t) {
  std::string s;
  for (const auto& e : t) s += (s.empty() ? "{ " : ", ") + toml_key(e.key) + " = " + text_of_value(e.value);
  return s.empty() ? "{}" : s + " }";
}

std::string text_of_value(const document_value& v) {
  return std::visit(
      [](const auto& x) -> std::string {
        using type = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<type, document_array>) {
          std::string s;
          for (const auto& e : x) s += (s.empty() ? "" : ", ") + text_of_value(e);
          return "[" + s + "]";
        } else if constexpr (std::is_same_v<type, document_table>) {
          return text_of_table(x);
        } else if constexpr (std::is_same_v<type, document_other>) {
          throw std::logic_error("no key of a job file accepts a date");
        } else {
          return toml_text(x);
        }
      },
      v.value);
}

// Markdown as plain text: without backticks, and "[gpu.md](gpu.md)" as "gpu.md".
std::string plain_text(std::string s) {
  s.erase(std::remove(s.begin(), s.end(), '`'), s.end());
  for (std::size_t from = 0; (from = s.find("](", from)) != std::string::npos;) {
    const auto open = s.rfind('[', from), close = s.find(')', from);
    if (open == std::string::npos || close == std::string::npos) break;
    s = s.substr(0, open) + s.substr(open + 1, from - open - 1) + s.substr(close + 1);
  }
  std::replace(s.begin(), s.end(), '\n', ' ');
  return s;
}

std::string wrapped_comment(const std::string& text) {
  std::string out, line = "#";
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    const auto word = text.substr(at, end - at);
    if (line.size() + 1 + word.size() > comment_width && line.size() > 1) out += line + "\n", line = "#";
    line += " " + word;
    at = end + 1;
  }
  return out + line + "\n";
}

class commenter {
 public:
  explicit commenter(const tables& all) : choices_(choices_of(all)) {
    keys_["block"] = block_keys().described().entries;
    uses_ = block_use_keys().described().entries;
    for (const auto& t : job_tables()) {
      const auto from = t.name.find_first_not_of('[');
      keys_[t.name[0] == '[' ? t.name.substr(from, t.name.find(']') - from) : ""] = t.entries;
    }
  }

  std::string text(const document_table& root) {
    for (const auto& e : root) write_top(e);
    return std::move(out_);
  }

 private:
  void write_top(const document_entry& e) {
    if (const auto* t = e.value.table()) return write_table(e.key, *t);
    const auto* list = e.value.array();
    if (e.key == "block" && list) return write_blocks(*list);
    if (e.key != "layer" || !list) return line("", {}, e);
    out_ += "\n# The model: a table per layer. `troupe layers` lists the types, `troupe layers NAME` explains one.";
    write_layers("[[layer]]", *list);
  }

  void write_layers(const std::string& head, const document_array& list) {
    for (const auto& layer : list) {
      out_ += "\n" + head + "\n";
      for (const auto& entry : *layer.table()) line("layer", *layer.table(), entry);
    }
  }

  void write_blocks(const document_array& list) {
    for (const auto& block : list) {
      out_ += "\n[[block]]\n";
      for (const auto& entry : *block.table())
        if (entry.key != "layer") line("block", *block.table(), entry);
      write_layers("[[block.layer]]", *find_entry(*block.table(), "layer")->value.array());
    }
  }

  // `dynamics`, which has many keys, becomes a table of its own; shorter tables stay inline.
  void write_table(const std::string& path, const document_table& t) {
    out_ += "\n[" + path + "]\n";
    for (const auto& e : t)
      if (e.key != "dynamics") line(path, t, e);
    for (const auto& e : t)
      if (e.key == "dynamics") write_table(path + ".dynamics", *e.value.table());
  }

  void line(const std::string& table, const document_table& in, const document_entry& e) {
    const auto about = explanation(table, in, e);
    if ((table != "layer" && table != "block") || explained_.insert(about).second) out_ += wrapped_comment(about);
    out_ += toml_key(e.key) + " = " + text_of_value(e.value) + "\n";
  }

  std::string explanation(const std::string& table, const document_table& in, const document_entry& e) const {
    const auto path = table.empty() ? e.key : table + "." + e.key;
    if (table == "layer" && find_entry(in, "block")) return about_use(e.key);
    if (const auto known = keys_.find(table); known != keys_.end())
      for (const auto& k : known->second)
        if (k.name == e.key) return about_key(k, table, path);
    if (const auto* o = option_of(table, in, e.key)) return plain_text(o->doc + " (" + accepted_values(*o) + ")");
    throw std::logic_error("the example has a key " + path + " that the reader does not know");
  }

  std::string about_use(const std::string& key) const {
    for (const auto& k : uses_)
      if (k.name == key) return plain_text(k.doc + " (" + accepted_values(k) + ")");
    return "a parameter of the block";
  }

  std::string about_key(const key_descriptor& k, const std::string& table, const std::string& path) const {
    std::string values = accepted_values(k);
    if (k.kind == key_kind::entry && table != "layer") values = joined(choices_.at(table).names);
    if (k.kind == key_kind::table) values = keys_of_table(path);
    return plain_text(k.doc + " (" + values + ")");
  }

  // "kind: sequential, shuffle" for a table that names an entry; otherwise its keys.
  std::string keys_of_table(const std::string& path) const {
    std::vector<std::string> names;
    if (const auto c = choices_.find(path); c != choices_.end()) {
      if (!c->second.key.empty()) return c->second.key + ": " + joined(c->second.names);
      for (const auto& o : c->second.options.at("")) names.push_back(o.name);
    }
    if (const auto known = keys_.find(path); known != keys_.end())
      for (const auto& k : known->second) names.push_back(k.name);
    return "keys: " + joined(names);
  }

  const option_spec* option_of(const std::string& table, const document_table& in, const std::string& key) const {
    const auto c = choices_.find(table);
    if (c == choices_.end()) return nullptr;
    const auto* named = find_entry(in, c->second.key);
    const auto* name = named ? std::get_if<std::string>(&named->value.value) : nullptr;
    const auto options = c->second.options.find(name ? *name : "");
    if (options == c->second.options.end()) return nullptr;
    const auto at = std::find_if(options->second.begin(), options->second.end(), [&](const auto& o) { return o.name == key; });
    return at == options->second.end() ? nullptr : &*at;
  }

  std::map<std::string, table_choice> choices_;
  std::map<std::string, std::vector<key_descriptor>> keys_;  // by table, "" for the file
  std::vector<key_descriptor> uses_;                         // of layers with a block
  std::set<std::string> explained_;
  std::string out_;
};

document_table document_of(const std::string& text) {
  auto parsed = parse_document(text, "example");
  if (!parsed) throw std::logic_error(parsed.error().front().to_string());
  return *std::move(parsed);
}

bool has_key(const document_table& root, const std::string& path) {
  const auto dot = path.find('.');
  const auto* e = find_entry(root, path.substr(0, dot));
  if (!e || dot == std::string::npos) return e != nullptr;
  const auto* t = e->value.table();
  return t && has_key(*t, path.substr(dot + 1));
}

}  // namespace

std::string commented_job_text(const std::string& example, const std::vector<std::string>& set, const std::vector<std::string>& add,
                               const tables& all) {
  auto root = document_of(example);
  diagnostics errors;
  for (const auto& o : set) apply_override(root, o, errors);
  for (const auto& o : add)
    if (!has_key(root, o.substr(0, o.find('=')))) apply_override(root, o, errors);
  if (!errors.empty()) throw std::logic_error(errors.front().to_string());
  std::string head;  // the comment at the start of the example
  for (std::size_t at = 0; at < example.size() && example[at] == '#';) {
    const auto end = std::min(example.find('\n', at), example.size() - 1);
    head += example.substr(at, end + 1 - at);
    at = end + 1;
  }
  return head + commenter(all).text(root);
}

}  // namespace troupe
