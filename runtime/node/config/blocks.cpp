#include "runtime/node/config/blocks.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/block_tables.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_block_bytes = std::size_t{32} << 20;  // of the layers that blocks become
constexpr std::size_t many_block_errors = 200;                  // the expansion stops

// References that are resolved last, when all outputs are known: to the output of a use, by its
// path (its name below those of the uses that it is in), and to a layer even if a use has the same
// name. No name that a reader accepts has these characters.
constexpr char to_use = '\x01', to_layer = '\x02', below = '\x03';

// What the layers of a block refer to.
struct block_scope {
  const declared_block* block = nullptr;     // null: the file itself
  std::string name, path;                    // of the use
  block_values values;                       // parameters, `name` and `i`
  std::vector<std::string> inputs;           // as references
  document_table given;                      // keys of a layer that the use sets for all
  std::map<std::string, std::string> local;  // name in the block -> reference
  std::string last;                          // reference to the output of the last layer so far
  std::string origin;
  int depth = 0;
};

document_value text_value(std::string s) {
  document_value v;
  v.value = std::move(s);
  return v;
}

// "slice1.1" as "slice1" and ".1".
std::pair<std::string, std::string> split_reference(const std::string& s) {
  const auto dot = s.rfind('.');
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (dot == std::string::npos || dot + 1 == s.size() ||
      !std::all_of(s.begin() + static_cast<std::ptrdiff_t>(dot) + 1, s.end(), digit))
    return {s, {}};
  return {s.substr(0, dot), s.substr(dot)};
}

std::string text_at(const document_table& t, const char* key) {
  const auto* e = find_entry(t, key);
  const auto* s = e ? std::get_if<std::string>(&e->value.value) : nullptr;
  return s ? *s : std::string();
}

// size: one state for one walk over the file
class block_expander {
 public:
  block_expander(document_table& root, const std::string& file, diagnostics& errors) : root_(root), file_(file), errors_(errors) {}

  layer_origins run() {
    blocks_ = read_blocks(root_, errors_);
    const auto layers = std::find_if(root_.begin(), root_.end(), [](const auto& e) { return e.key == "layer"; });
    auto* list = layers == root_.end() ? nullptr : std::get_if<document_array>(&layers->value.value);
    if (list && errors_.empty()) {
      block_scope file;
      write_layers(*list, file);
      resolve_all();
      *list = std::move(out_);
    }
    std::erase_if(root_, [](const auto& e) { return e.key == "block"; });
    return std::move(origins_);
  }

 private:
  // Reports a mistake in the lines of a block, once for all its uses.
  void fail(const source_position& at, const std::string& what, const block_scope& scope) {
    if (!told_.insert(at.to_string() + what).second) return;
    errors_.push_back({at, scope.block ? what + " (" + scope.origin + ")" : what});
  }
  void put(document_value& v, const block_values& values, const block_scope& scope) {
    diagnostics found;
    put_values(v, values, room_, found);
    for (const auto& d : found) fail(d.at, d.message, scope);
  }

  bool full() {
    if (errors_.size() >= many_block_errors) return true;
    if (origins_.size() < max_block_layers && uses_written_ < max_block_layers * max_block_depth && room_ > 0) return false;
    diagnostic d;
    d.at.file = file_;
    d.message = room_ > 0 ? "blocks become more than " + std::to_string(max_block_layers) + " layers"
                          : std::string("the layers that blocks become are larger than 32 MiB");
    if (!std::exchange(told_full_, true)) errors_.push_back(std::move(d));
    return true;
  }

  static bool is_use(const document_table& layer) { return find_entry(layer, "block") != nullptr; }

  // The layers of the file or of a block, in order.
  void write_layers(const document_array& list, block_scope& scope) {
    for (const auto& v : list) {
      const auto* t = v.table();
      if (t && is_use(*t)) {
        name_use(*t, scope);
      } else if (t && scope.block) {
        const auto [written, full] = names_of(*t, scope);
        add_local(scope, written, to_layer + full, v.at);
      } else if (t) {
        plain_.try_emplace(text_at(*t, "name"), v.at);
      }
    }
    for (const auto& v : list) {
      const auto* t = v.table();
      if (full()) return;
      if (t && is_use(*t))
        write_use(*t, v.at, scope);
      else if (t && scope.block)
        write_layer(*t, v.at, scope);
      else
        out_.push_back(v);
    }
  }

  void add_local(block_scope& scope, const std::string& written, const std::string& reference, const source_position& at) {
    if (!scope.block) return;
    if (written == "in") fail(at, "a layer of a block cannot be called 'in', which is the block's input", scope);
    if (!scope.local.try_emplace(written, reference).second && !written.empty())
      fail(at, "duplicate layer name " + in_quotes(written), scope);
  }

  // The name of a layer within its block, and in the job.
  std::pair<std::string, std::string> names_of(const document_table& layer, const block_scope& scope) {
    const auto text = text_at(layer, "name");
    const auto v = with_values(text, scope.values);
    const auto* s = v ? std::get_if<std::string>(&v->value) : nullptr;
    const auto written = s ? *s : text;  // write_layer reports the mistake
    const bool whole = !scope.block || mentions(text, "name") || written.empty();
    return {written, whole ? written : scope.name + "_" + written};
  }

  static std::string path_of(const std::string& name, const block_scope& outer) { return outer.path + below + name; }

  // Makes the name of a use known to the other layers of the block; write_once those of
  // repetitions.
  void name_use(const document_table& use, block_scope& scope) {
    if (!scope.block || (mentions(text_at(use, "name"), "i") && find_entry(use, "repeat"))) return;
    const auto [written, full] = names_of(use, scope);
    add_local(scope, written, to_use + path_of(full, scope), find_entry(use, "block")->at);
  }

  void write_layer(const document_table& layer, const source_position& at, block_scope& scope) {
    const auto full_name = names_of(layer, scope).second;
    if (full_name.size() > longest_name)  // here, before every repetition copies it
      return fail(at, "bad name: " + check_name(full_name).error().text, scope);
    document_value v{layer, at};
    room_ -= std::min(room_, bytes_of(v));
    auto& t = std::get<document_table>(v.value);
    for (auto& e : t) {
      put(e.value, scope.values, scope);
      if (e.key == "name" && std::holds_alternative<std::string>(e.value.value)) e.value.value = full_name;
      if (e.key == "inputs" || e.key == "share") refer(e.value, scope);
    }
    for (const auto& e : scope.given)
      if (!find_entry(t, e.key)) t.push_back(e);
    const auto [other, fresh] = origins_.try_emplace(full_name, scope.origin);
    if (!fresh && !full_name.empty()) fail(at, "duplicate layer name " + in_quotes(full_name) + ", also " + other->second, scope);
    owners_.try_emplace(full_name, scope.path);
    scope.last = to_layer + full_name;
    out_.push_back(std::move(v));
  }

  // Replaces the names in `inputs` by references.
  void refer(document_value& v, const block_scope& scope) {
    if (auto* s = std::get_if<std::string>(&v.value)) {
      if (auto r = reference(*s, scope))
        *s = std::move(*r);
      else
        fail(v.at, r.error().text, scope);
    } else if (auto* list = std::get_if<document_array>(&v.value)) {
      for (auto& e : *list) refer(e, scope);
    }
  }
  static expected<std::string> reference(const std::string& name, const block_scope& scope) {
    if (!scope.block) return name;
    const auto [base, output] = split_reference(name);
    if (base == "in") {
      std::size_t n = 0;
      if (!output.empty()) read_number(output.substr(1), n);
      if (n < scope.inputs.size()) return scope.inputs[n];
      return unexpected(error("the block reads " + in_quotes(name) + ", but its use has " + std::to_string(scope.inputs.size()) +
                              (scope.inputs.size() == 1 ? " input" : " inputs")));
    }
    const auto dot = std::min(name.find('.'), name.size());  // of `share`: a layer and its parameter
    for (const auto& [key, rest] :
         {std::pair(name, std::string()), std::pair(base, output), std::pair(name.substr(0, dot), name.substr(dot))})
      if (const auto local = scope.local.find(key); local != scope.local.end()) return local->second + rest;
    return name;
  }

  // One [[layer]] with `block`, in all its repetitions.
  void write_use(const document_table& table, const source_position& at, block_scope& outer) {
    auto fixed = table;  // with the values of the outer block; `i` of this use is not among them
    auto values = outer.values;
    const bool repeats = find_entry(table, "repeat") != nullptr;
    for (auto& e : fixed)
      if (e.key == "repeat" || e.key == "first" || e.key == "block") put(e.value, outer.values, outer);
    const auto before = errors_.size();
    block_use use;
    const auto* block = read_use(fixed, at, use, outer);
    if (!block || errors_.size() > before) return;
    if (std::count(open_.begin(), open_.end(), use.block) > 0)
      return fail(find_entry(table, "block")->at,
                  "block " + in_quotes(use.block) + " uses itself: " + joined(open_, " uses ") + " uses " + use.block, outer);
    if (outer.depth >= max_block_depth)
      return fail(at, "blocks are nested more than " + std::to_string(max_block_depth) + " deep", outer);
    open_.push_back(use.block);
    auto& previous = outer.last;
    previous.clear();
    for (std::int64_t k = 0; k < use.repeat && !full() && errors_.size() == before; ++k) {
      document_value i;
      i.value = use.first + k;
      if (repeats || !outer.block) values["i"] = i;
      previous = write_once(table, at, *block, {outer, values, previous, repeats ? number_text(use.first + k) : std::string()});
    }
    open_.pop_back();
  }

  // Reads the keys of a use that decide what it becomes, and checks the others.
  const declared_block* read_use(const document_table& table, const source_position& at, block_use& use, const block_scope& outer) {
    diagnostics found;
    const auto* b = check_use(table, at, blocks_, use, found);
    for (const auto& d : found) fail(d.at, d.message, outer);
    return found.empty() ? b : nullptr;
  }
  struct named_use {
    std::string path;
    source_position at;
  };
  struct repetition {
    block_scope& outer;
    const block_values& values;
    const std::string& previous;  // reference to the output of the repetition before; empty: this is the first
    std::string number;           // empty: the use has no `repeat`
  };

  // Writes the layers of one repetition and returns the reference to its output.
  std::string write_once(const document_table& table, const source_position& at, const declared_block& b, const repetition& r) {
    document_value use{table, at};
    auto& t = std::get<document_table>(use.value);
    const auto text = text_at(table, "name");
    ++uses_written_;
    auto& outer = r.outer;
    put(use, r.values, outer);
    block_scope s;
    s.block = &b;
    s.depth = outer.depth + 1;
    const auto short_name = text_at(t, "name");
    const bool numbered = !r.number.empty() && !mentions(text, "i");
    const bool whole = !outer.block || mentions(text, "name");
    const auto unnumbered = whole ? short_name : outer.name + "_" + short_name;
    s.name = unnumbered + (numbered ? "_" + r.number : "");
    s.path = path_of(s.name, outer);
    s.origin = "in block " + in_quotes(b.keys.name) + ", used by " + in_quotes(s.name) + " at " + at.to_string();
    if (outer.block) s.origin += ", " + outer.origin;
    s.values = b.defaults;
    s.given = outer.given;
    take_values(t, b, s);
    s.values["name"] = text_value(s.name);
    s.values["i"] = r.values.contains("i") ? r.values.at("i") : document_value{std::int64_t{1}, {}};
    if (auto* inputs = find_entry(t, "inputs")) s.inputs = references(inputs->value, outer);
    if (!r.previous.empty()) s.inputs.empty() ? s.inputs.push_back(r.previous) : void(s.inputs[0] = r.previous);
    write_layers(*b.layers, s);
    const auto out = output_of(s);
    if (!r.number.empty()) add_local(outer, short_name + (numbered ? "_" + r.number : ""), to_use + s.path, at);
    add_use(s.name, out, at, outer);
    if (numbered) add_use(unnumbered, out, at, outer);  // the last repetition remains
    return out;
  }

  // The output is known by the path to other layers of the block, and by the name to all layers. A
  // use in a use may have the same name, which then means the outer one.
  void add_use(const std::string& name, const std::string& output, const source_position& at, const block_scope& outer) {
    const auto path = path_of(name, outer);
    uses_[path] = output;
    const auto [named, fresh] = named_uses_.try_emplace(name, named_use{path, at});
    if (fresh) return;
    auto& [other_path, other_at] = named->second;
    if (other_path == path ? other_at.to_string() != at.to_string() : !other_path.starts_with(path + below))
      fail(at, "layer " + in_quotes(name) + ": another layer with a block has this name, at " + other_at.to_string(), outer);
    named->second = {path, at};
  }

  void take_values(const document_table& use, const declared_block& b, block_scope& s) {
    const auto& required = b.keys.required;
    for (const auto& e : use) {
      if (b.defaults.contains(e.key) || std::count(required.begin(), required.end(), e.key) > 0) {
        s.values[e.key] = e.value;
      } else if (is_key_of_all_layers(e.key)) {
        std::erase_if(s.given, [&](const auto& g) { return g.key == e.key; });
        s.given.push_back(e);
      }
    }
  }

  std::vector<std::string> references(document_value v, const block_scope& scope) {
    refer(v, scope);
    std::vector<std::string> all;
    if (const auto* s = std::get_if<std::string>(&v.value)) all.push_back(*s);
    if (const auto* list = v.array())
      for (const auto& e : *list)
        if (const auto* s = std::get_if<std::string>(&e.value)) all.push_back(*s);
    return all;
  }

  // The reference to the tensor that a use stands for.
  std::string output_of(const block_scope& s) {
    const auto& b = *s.block;
    if (b.keys.output.empty()) return s.last;
    auto put = with_values(b.keys.output, s.values);
    const auto* text = put ? std::get_if<std::string>(&put->value) : nullptr;
    const auto ref = text ? reference(*text, s) : expected<std::string>(std::string());
    if (ref && !ref->empty() && ((*ref)[0] == to_use || (*ref)[0] == to_layer)) return *ref;
    fail(b.output_at, !put ? put.error().text : "output " + in_quotes(b.keys.output) + " is not a layer of the block", s);
    return {};
  }

  // The output of a use, and that output of it.
  const std::string* output_of_use(const std::string& path) const {
    const auto found = uses_.find(path);
    return found == uses_.end() ? nullptr : &found->second;
  }
  std::string path_of_named(const std::string& name) const {
    const auto found = named_uses_.find(name);
    return found == named_uses_.end() ? std::string() : found->second.path;
  }

  // The final name of what a reference means.
  std::string resolved(std::string s) const {
    for (int step = 0; step < 3 * max_block_depth && !s.empty() && s[0] != to_layer; ++step) {
      const auto [base, output] = split_reference(s);
      const bool marked = s[0] == to_use;
      const auto *exact = output_of_use(marked ? s.substr(1) : path_of_named(s)),
                 *part = output_of_use(marked ? base.substr(1) : path_of_named(base));
      if (!exact && !part) break;
      s = exact ? *exact : *part + output;
    }
    if (!s.empty() && s[0] == to_use) return s.substr(s.rfind(below) + 1);
    return !s.empty() && s[0] == to_layer ? s.substr(1) : s;
  }

  void resolve_all() {
    for (const auto& [name, use] : named_uses_) {
      if (const auto clash = plain_.find(name); clash != plain_.end())
        errors_.push_back({use.at, "layer " + in_quotes(name) + ": another layer has this name, at " + clash->second.to_string()});
      if (const auto owner = owners_.find(name); owner != owners_.end() && !(owner->second + below).starts_with(use.path + below))
        errors_.push_back({use.at, "layer " + in_quotes(name) + ": another layer has this name, " + origins_.at(name)});
    }
    for (const auto& [name, origin] : origins_)
      if (const auto clash = plain_.find(name); clash != plain_.end())
        errors_.push_back({clash->second, "layer " + in_quotes(name) + ": another layer has this name, " + origin});
    for (auto& v : out_)
      if (auto* t = std::get_if<document_table>(&v.value))
        for (auto& e : *t) {
          auto* s = std::get_if<std::string>(&e.value.value);
          const auto dot = s ? std::min(s->find('.'), s->size()) : 0;
          if (s && e.key == "share") *s = resolved(s->substr(0, dot)) + s->substr(dot);
          if (e.key != "inputs") continue;
          if (s) *s = resolved(*s);
          if (auto* list = std::get_if<document_array>(&e.value.value))
            for (auto& input : *list)
              if (auto* one = std::get_if<std::string>(&input.value)) *one = resolved(*one);
        }
  }

  document_table& root_;
  std::string file_;
  diagnostics& errors_;
  declared_blocks blocks_;
  std::map<std::string, source_position> plain_;  // layers of the file that use no block
  std::map<std::string, std::string> uses_;       // path of a use -> reference to its output
  std::map<std::string, named_use> named_uses_;
  std::vector<std::string> open_;              // names of the blocks that are being written
  std::map<std::string, std::string> owners_;  // name of a layer of a block -> path of its use
  std::set<std::string> told_;
  layer_origins origins_;
  document_array out_;
  std::size_t room_ = max_block_bytes, uses_written_ = 0;
  bool told_full_ = false;
};

}  // namespace

layer_origins write_out_blocks(document_table& root, const std::string& file, diagnostics& errors) {
  return block_expander(root, file, errors).run();
}

}  // namespace troupe
