#include "runtime/node/config/reference.hpp"

#include <cmath>

#include "ops/filler.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/job_keys.hpp"

namespace troupe {
namespace {

std::string code(const std::string& s) { return s.empty() ? s : "`" + s + "`"; }

std::string code_list(const std::vector<std::string>& words) {
  std::string s;
  for (const auto& w : words) s += (s.empty() ? "" : ", ") + code("\"" + w + "\"");
  return s;
}

std::string bound_text(double v) {
  const auto whole = static_cast<std::int64_t>(std::abs(v) < beyond_integers ? v : 0);
  return static_cast<double>(whole) == v ? written(whole) : written(v);
}

std::string range(double min, double max, bool bounded_above) {
  if (min <= -unlimited && !bounded_above) return {};
  if (!bounded_above) return ", at least " + bound_text(min);
  return min <= -unlimited ? ", at most " + bound_text(max) : ", " + bound_text(min) + " to " + bound_text(max);
}

}  // namespace

std::string accepted_values(const key_descriptor& k) {
  switch (k.kind) {
    case key_kind::text: return "string";
    case key_kind::name: return "string of 1 to 200 bytes of printable characters";
    case key_kind::texts: return "string, or a list of strings";
    case key_kind::whole: return "integer" + range(k.min, k.max, k.max < beyond_integers);
    case key_kind::real: return "number" + range(k.min, k.max, k.max < unlimited);
    case key_kind::reals: return "number, or a list of numbers" + range(k.min, k.max, k.max < unlimited);
    case key_kind::flag: return "true or false";
    case key_kind::word: return code_list(k.words);
    case key_kind::steps_or_time: return "number of steps, `500`, or time, `\"5min\"`";
    case key_kind::time: return "time, `\"10min\"` (ns, us, ms, s, min, h, d)";
    case key_kind::bytes: return "size, `\"512MiB\"`, or number of bytes";
    case key_kind::table: return "table";
    case key_kind::tables: return "list of tables";
    case key_kind::entry: return "name";
  }
  return {};
}

std::string accepted_values(const option_spec& s) {
  const auto above = s.max < unlimited;
  switch (s.kind) {
    case option_kind::boolean: return "true or false";
    case option_kind::integer:
      return "integer" + range(s.min, s.max, above) + (s.by_axis ? ", or a pair `[height, width]`" : "") +
             (s.choices.empty() ? "" : ", or " + code_list(s.choices));
    case option_kind::real:
      return "number" + range(s.min, s.max, above) + (s.choices.empty() ? "" : ", or " + code_list(s.choices));
    case option_kind::text: return s.choices.empty() ? "string" : code_list(s.choices);
    case option_kind::integers: return "list of integers" + range(s.min, s.max, above);
    case option_kind::reals:
      return "list of numbers" + range(s.min, s.max, above) + (s.choices.empty() ? "" : ", or " + code_list(s.choices));
    case option_kind::texts: return "list of strings";
    case option_kind::table: return "table";
  }
  return {};
}

namespace {

std::string written_option(const option_value& v) {
  return std::visit(
      [](const auto& x) -> std::string {
        using type = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<type, std::shared_ptr<options>>) {
          std::string s;
          if (x)
            for (const auto& [key, inner] : x->values) s += (s.empty() ? "{ " : ", ") + key + " = " + written_option(inner);
          return s.empty() ? s : s + " }";
        } else if constexpr (std::is_same_v<type, std::vector<std::int64_t>> || std::is_same_v<type, std::vector<double>>) {
          std::string s;
          for (const auto e : x) s += (s.empty() ? "[" : ", ") + written(e);
          return s.empty() ? "[]" : s + "]";
        } else if constexpr (std::is_same_v<type, std::string>) {
          return x.empty() ? "\"\"" : written(x);
        } else if constexpr (std::is_same_v<type, std::vector<std::string>>) {
          return x.empty() ? "[]" : written(x);
        } else {
          return written(x);
        }
      },
      v);
}

// Turns "docs/data.md" into a link to that page from a page in the same folder.
std::string linked(std::string s) {
  const std::string folder = "docs/", ending = ".md";
  for (std::size_t at = 0; (at = s.find(folder, at)) != std::string::npos;) {
    const auto end = s.find(ending, at);
    const auto name =
        end == std::string::npos ? std::string() : s.substr(at + folder.size(), end + ending.size() - at - folder.size());
    if (name.empty() || name.find(' ') != std::string::npos) break;
    const auto link = "[" + name + "](" + name + ")";
    s.replace(at, folder.size() + name.size(), link);
    at += link.size();
  }
  return s;
}

// Escapes text for a table cell: no bar, no newline.
std::string cell(const std::string& text) {
  const auto s = linked(text);
  std::string out;
  for (const char c : s) out += c == '\n' ? std::string(" ") : c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string line(const std::string& name, const std::string& what, const std::string& fallback, const std::string& doc) {
  return "| `" + name + "` | " + cell(what) + " | " + cell(fallback) + " | " + cell(doc) + " |\n";
}
constexpr const char* head = "| key | value | default | description |\n|---|---|---|---|\n";

std::string page_of(const key_table& t) {
  std::string s = "\n## " + t.name + "\n\n" + (t.doc.empty() ? "" : t.doc + "\n\n") + head;
  for (const auto& k : t.entries) {
    // A default in words is printed as it is, a value as it would be written in the file.
    const bool value = !k.fallback.empty() && (std::string("\"{[0123456789").find(k.fallback[0]) != std::string::npos ||
                                               k.fallback == "true" || k.fallback == "false");
    s += line(k.name, accepted_values(k), k.required ? "required" : value ? code(k.fallback) : k.fallback, k.doc);
  }
  return s;
}

std::string options_page(const option_specs& specs) {
  if (specs.empty()) return {};
  std::string s = std::string("\n") + head;
  for (const auto& o : specs)
    s += line(o.name, accepted_values(o), o.fallback ? code(written_option(*o.fallback)) : "required", o.doc);
  return s;
}

template <class Registry>
std::string rows_page(const std::string& title, const std::string& doc, const Registry& entries) {
  std::string s = "\n# " + title + "\n\n" + linked(doc) + "\n";
  for (const auto& name : entries.names()) {
    const auto& entry = *entries.find(name);
    s += "\n### " + name + "\n\n```\n" + entry.doc + (entry.doc.ends_with('\n') ? "" : "\n") + "```\n" + options_page(entry.specs);
  }
  return s;
}

std::string fillers_page() {
  std::string s =
      "\n# Fillers\n\nInitial values of parameters: the table `weight_filler` (or another key ending with `filler`) of a layer, "
      "with `kind` and "
      "the options of that kind, for example\n"
      "`weight_filler = { kind = \"gaussian\", std = 0.01 }`.\n";
  for (const auto& kind : filler_kinds()) s += "\n### " + kind + "\n" + options_page(filler_options(kind));
  return s;
}

}  // namespace

std::string job_reference(const tables& all) {
  std::string s =
      "# The job file\n\n"
      "All keys of a job file. This page is the output of `troupe reference job`; a test "
      "keeps it up to date.\n"
      "A job is one TOML file; `configs/jobs/` has examples. `troupe check FILE` reports all mistakes in a file by line "
      "and column.\n"
      "`--set key.path=value` overrides any key: `--set train.finish.epochs=1`, `--set layer.conv1.outputs=10`. Unknown keys are "
      "errors.\n"
      "";
  for (const auto& t : job_tables()) {
    s += page_of(t);
    if (t.name == "[[layer]]")
      for (const auto& more : block_tables()) s += page_of(more);
  }
  s += "\n## [data.augment]\n" + options_page(augmentation::specs());
  s += rows_page("Sources", "`source` of `[data]`; the options of a source belong to the same table.", all.sources);
  s += rows_page("Samplers", "`kind` of `[train.sampler]`.", all.samplers);
  s += rows_page("Evaluation samplers", "`kind` of `[eval.sampler]`.", all.eval_samplers);
  s += rows_page("Layers",
                 "`type` of a `[[layer]]`; the options of a type belong to the same table. `troupe layers NAME` also shows shapes.",
                 all.layers);
  s += fillers_page();
  s += rows_page("Update rules", "`rule` of `[train.dynamics]`; the options of a rule belong to the same table.", all.rules);
  s += rows_page("Schedules", "`kind` of `[train.dynamics.schedule]`.", all.schedules);
  s += rows_page("Synchronisation modes",
                 "`mode` of `[train.sync]`; the options of a mode belong to the same table. See docs/protocols.md.", all.modes);
  s += rows_page("Sync conditions", "`kind` of `[train.sync.when]`.", all.conditions);
  s += rows_page("Reducers", "`reducer` of `[train.exchange]`; the options of a reducer belong to the same table.", all.reducers);
  s += rows_page("Finish conditions",
                 "`kind` of `[train.finish.custom]`; the keys of `[train.finish]` are the built-in conditions.", all.finishes);
  return s;
}

std::string cluster_reference() {
  std::string s =
      "# The cluster file\n\n"
      "All keys of a cluster file. This page is the output of `troupe reference cluster`; "
      "a test keeps it\n"
      "up to date. Daemons (`trouped --cluster FILE --node NAME`), `troupe train --cluster FILE` and `troupe plan --cluster FILE` "
      "read it;\n"
      "`configs/clusters/` has examples. `troupe check FILE` reports all mistakes in a file by line and column.\n";
  for (const auto& t : cluster_tables()) s += page_of(t);
  return s;
}

}  // namespace troupe
