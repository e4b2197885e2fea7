// `troupe sql`: queries the database of the runs (runs.db), which it only reads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "apps/commands/commands.hpp"
#include "apps/commands/look/runs.hpp"
#include "apps/commands/named_run.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/runs/run_query.hpp"

namespace troupe {
namespace {

using sql_row = std::vector<run_query::cell>;

struct sql_arguments {
  std::optional<std::string> statement;
  run_dir_argument dir;
  bool csv = false;
};

std::string hexadecimal(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// The exact value, except that tables show seven digits of a number.
std::string cell_text(const run_query::cell& c, bool exact) {
  if (const auto* n = std::get_if<std::int64_t>(&c)) return std::to_string(*n);
  if (const auto* s = std::get_if<std::string>(&c)) return exact ? *s : printable(*s);
  if (const auto* b = std::get_if<run_query::blob>(&c)) return hexadecimal(b->bytes);
  const auto* d = std::get_if<double>(&c);
  if (d == nullptr || exact) return d == nullptr ? "" : number_text(*d);
  return general_text(*d, 7);
}

nlohmann::ordered_json cell_object(const run_query::cell& c) {
  if (const auto* n = std::get_if<std::int64_t>(&c)) return *n;
  if (const auto* d = std::get_if<double>(&c))
    return std::isfinite(*d) ? nlohmann::ordered_json(*d) : nlohmann::ordered_json(nullptr);
  if (std::holds_alternative<std::monostate>(c)) return nullptr;
  return cell_text(c, true);
}

std::string csv_field(const std::string& s) {
  if (s.find_first_of(",\"\r\n") == std::string::npos) return s;
  std::string text = "\"";
  for (const char c : s) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

// Writes rows as they come. A table aligns its columns by the first rows, so that the result may
// have any length.
class sql_printer {
 public:
  sql_printer(const output& out, bool csv) : out_(out), csv_(csv) {}

  void columns(const std::vector<std::string>& names) {
    head_ = names_ = names;
    std::set<std::string> taken{"event"};  // an object has each key once
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (int n = 2; !taken.insert(names_[i]).second; ++n) names_[i] = names[i] + "_" + std::to_string(n);
    if (csv_) print_csv(names);
    for (const auto& name : names) widths_.push_back(shown_width(printable(name)));
    right_.resize(names.size(), true);
  }

  bool row(const sql_row& r) {
    ++rows_;
    if (csv_) {
      std::vector<std::string> fields;
      for (const auto& c : r) fields.push_back(cell_text(c, true));
      print_csv(fields);
    } else if (out_.json()) {
      nlohmann::ordered_json o{{"event", "row"}};
      for (std::size_t i = 0; i < r.size(); ++i) o[names_[i]] = cell_object(r[i]);
      out_.object(o);
    } else {
      take_for_table(r);
    }
    return std::ferror(stdout) == 0;
  }

  void finish() {
    if (csv_ || out_.json()) return;
    print_waiting();
    out_.text("(" + with_commas(rows_) + (rows_ == 1 ? " row)\n" : " rows)\n"));
  }

 private:
  static constexpr std::size_t measured = 500;

  void print_csv(const std::vector<std::string>& fields) {
    std::string line;
    for (const auto& f : fields) line += (&f == &fields[0] ? "" : ",") + csv_field(f);
    out_.formatted(line + "\n");
  }

  void take_for_table(const sql_row& r) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < r.size(); ++i) {
      texts.push_back(cell_text(r[i], false));
      if (head_printed_) continue;
      widths_[i] = std::max(widths_[i], shown_width(texts[i]));
      right_[i] = right_[i] && !std::holds_alternative<std::string>(r[i]);
    }
    waiting_.push_back(std::move(texts));
    if (head_printed_ || waiting_.size() == measured) print_waiting();
  }

  void print_waiting() {
    if (!head_printed_) {
      std::vector<std::string> names, lines;
      for (std::size_t i = 0; i < widths_.size(); ++i) names.push_back(printable(head_[i])), lines.emplace_back(widths_[i], '-');
      out_.text(aligned(names) + aligned(lines));
      head_printed_ = true;
    }
    std::string text;
    for (const auto& r : waiting_) text += aligned(r);
    waiting_.clear();
    out_.text(text);
  }

  std::string aligned(const std::vector<std::string>& r) const {
    std::string line;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const std::string space(widths_[i] - std::min(widths_[i], shown_width(r[i])), ' ');
      line += (i > 0 ? "  " : "") + (right_[i] ? space + r[i] : r[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  const output& out_;
  bool csv_, head_printed_ = false;
  std::uint64_t rows_ = 0;
  std::vector<std::string> head_, names_;  // columns, and the keys of objects
  std::vector<std::size_t> widths_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> waiting_;
};

// "sql:1:8" of an offset in the statement, and with it the line with a mark below.
int wrong_statement(const std::string& sql, const run_query::problem& p, const output& out) {
  if (!p.statement) return out.failed("runs.db", p.message);
  if (p.offset < 0 || static_cast<std::size_t>(p.offset) > sql.size()) return out.wrong("sql", p.message);
  const auto at = static_cast<std::size_t>(p.offset);
  const auto begin = at == 0 ? 0 : sql.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  const auto line = std::count(sql.begin(), sql.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  const auto where = "sql:" + std::to_string(line) + ":" + std::to_string(at - begin + 1);
  if (out.json()) return out.wrong(where, p.message);
  const auto shown = printable(sql.substr(begin, sql.find('\n', begin) - begin));
  return out.wrong(where, p.message + "\n  " + shown + "\n  " + std::string(shown_width(shown.substr(0, at - begin)), ' ') + "^");
}

int print_tables(run_query& q, const std::string& file, const output& out) {
  const auto read = q.tables();
  if (const auto* p = std::get_if<run_query::problem>(&read)) return out.failed(file, p->message);
  text_table table({"table", "rows", "columns"});
  table.right(1);
  for (const auto& t : std::get<std::vector<run_query::table>>(read)) {
    if (out.json()) out.object({{"event", "table"}, {"table", t.name}, {"rows", t.rows}, {"columns", t.columns}});
    table.add({printable(t.name), with_commas(t.rows), printable(joined(t.columns))});
  }
  out.text(file + "\n\n" + table.text() + "\n");
  return exit_done;
}

int run_sql(const sql_arguments& a, const output& out) {
  const auto file = run_database_file(a.dir.folder());
  auto opened = run_query::open(file, noticed_on(out));
  if (!opened) return out.wrong(opened.error().file, opened.error().message);
  auto& q = *opened;
  if (!a.statement) return print_tables(q, file.string(), out);
  sql_printer printer(out, a.csv);
  const auto problem = q.run(
      *a.statement, [&](const auto& names) { printer.columns(names); }, [&](const auto& row) { return printer.row(row); });
  if (problem) return wrong_statement(*a.statement, *problem, out);
  printer.finish();
  return exit_done;
}

void add_options(CLI::App& c, sql_arguments& a) {
  c.add_option("STATEMENT", a.statement, "A SELECT (default: list the tables)")->option_text("[SELECT ...]");
  run_dir_option(c, a.dir);
  auto* csv = c.add_flag("--csv", a.csv, "Print CSV with a header line");
  json_option(c);
  csv->excludes(c.get_option("--json"));
}

}  // namespace

cli_command sql_command() {
  return make_command<sql_arguments>(
      "sql", "Query the database of the runs (SQLite, read-only)",
      "  troupe sql\n  troupe sql \"select number, name, best_accuracy from runs order by best_accuracy desc limit 5\"\n"
      "  troupe sql \"select step, loss from steps where run = 7\" --csv > loss.csv",
      add_options, run_sql);
}

}  // namespace troupe
