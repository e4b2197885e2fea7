#include "runtime/node/runs/run_query.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/node/runs/sqlite_wait.hpp"

namespace troupe {

struct run_query::impl {
  sqlite_wait wait;
  sqlite3* db = nullptr;
  bool refused = false;  // by the authorizer, while a statement is prepared
  impl(const std::filesystem::path& database, lock_patience patience) : wait(database, std::move(patience)) {}
  ~impl() { sqlite3_close(db); }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;
};

namespace {

constexpr int most_value_bytes = 16 << 20, most_sql_bytes = 1 << 20;

struct finalizer {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using query_statement = std::unique_ptr<sqlite3_stmt, finalizer>;

// The first word of a statement, e.g. "DROP".
std::string first_word(const std::string& sql) {
  std::string word;
  for (const char c : sql.substr(std::min(sql.size(), sql.find_first_not_of(" \t\r\n(")))) {
    if (!std::isalpha(static_cast<unsigned char>(c)) || word.size() == 20) break;
    word += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return word;
}

// Sets `refused`, a bool, when it refuses an action.
int authorize(void* refused, int action, const char*, const char* second, const char*, const char*) {
  const bool loads = action == SQLITE_FUNCTION && second != nullptr && sqlite3_stricmp(second, "load_extension") == 0;
  if (!loads && (action == SQLITE_SELECT || action == SQLITE_READ || action == SQLITE_FUNCTION || action == SQLITE_RECURSIVE))
    return SQLITE_OK;
  *static_cast<bool*>(refused) = true;
  return SQLITE_DENY;
}

// Also sets `db` if it fails: the caller closes it.
expected<void> open_database(const std::filesystem::path& file, int flags, sqlite_wait& wait, sqlite3*& db) {
  const int code = sqlite3_open_v2(file.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) return unexpected(error(db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code)));
  wait.attach(db);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, most_value_bytes);
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, most_sql_bytes);
  return {};
}

// Runs statements; `take` gets their rows.
expected<void> execute(sqlite3* db, const sqlite_wait& wait, const char* sql, int (*take)(void*, int, char**, char**) = nullptr,
                       void* into = nullptr) {
  if (sqlite3_exec(db, sql, take, into, nullptr) != SQLITE_OK) return unexpected(error(wait.why(db).message));
  return {};
}

bool is_blank(const char* rest) { return rest == nullptr || std::strspn(rest, " \t\r\n;") == std::strlen(rest); }

run_query::cell cell_of(sqlite3_stmt* s, int column) {
  const auto bytes = [&](const void* data) {
    return std::string(data == nullptr ? "" : static_cast<const char*>(data),
                       static_cast<std::size_t>(sqlite3_column_bytes(s, column)));
  };
  switch (sqlite3_column_type(s, column)) {
    case SQLITE_INTEGER: return std::int64_t{sqlite3_column_int64(s, column)};
    case SQLITE_FLOAT: return sqlite3_column_double(s, column);
    case SQLITE_TEXT: return bytes(sqlite3_column_text(s, column));
    case SQLITE_BLOB: return run_query::blob{bytes(sqlite3_column_blob(s, column))};
    default: return std::monostate{};
  }
}

std::string text_of(const run_query::cell& c) {
  const auto* text = std::get_if<std::string>(&c);
  return text == nullptr ? std::string() : *text;
}

}  // namespace

run_query::run_query(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
run_query::~run_query() = default;
run_query::run_query(run_query&&) noexcept = default;
run_query& run_query::operator=(run_query&&) noexcept = default;

expected<run_query, record_error> run_query::open(const std::filesystem::path& database, const lock_patience& patience) {
  std::error_code ec;
  if (auto readable = check_runs_folder(database.parent_path()); !readable) return unexpected(std::move(readable).error());
  if (!std::filesystem::exists(database, ec))
    return unexpected(record_error{
        database.string(), {}, "there is no such database; `troupe train` makes it with the first run (--run-dir DIR)"});
  auto i = std::make_unique<impl>(database, patience);
  auto opened = open_database(database, SQLITE_OPEN_READONLY, i->wait, i->db);
  if (opened) opened = execute(i->db, i->wait, "PRAGMA query_only = 1; SELECT count(*) FROM sqlite_master");
  if (!opened) return unexpected(record_error{database.string(), {}, opened.error().text});
  sqlite3_set_authorizer(i->db, authorize, &i->refused);
  return run_query(std::move(i));
}

namespace {

// A suggestion for "no such column: los", from the names of the database.
std::string suggestion(run_query& q, const std::string& message) {
  const auto colon = message.rfind(": ");
  const bool column = message.starts_with("no such column: "), table = message.starts_with("no such table: ");
  if (!column && !table) return {};
  auto word = message.substr(colon + 2);
  if (const auto dot = word.rfind('.'); column && dot != std::string::npos) word = word.substr(dot + 1);
  const auto all = q.tables();
  const auto* tables = std::get_if<std::vector<run_query::table>>(&all);
  if (tables == nullptr) return {};
  std::vector<std::string> names;
  for (const auto& t : *tables) {
    if (table) names.push_back(t.name);
    if (column) names.insert(names.end(), t.columns.begin(), t.columns.end());
  }
  const auto near = did_you_mean(word, names);
  return near.empty() && table ? "; tables: " + joined(names) : near;
}

}  // namespace

std::optional<run_query::problem> run_query::run(const std::string& sql,
                                                 const std::function<void(const std::vector<std::string>&)>& on_columns,
                                                 const std::function<bool(const std::vector<cell>&)>& on_row) {
  auto* db = impl_->db;
  impl_->refused = false;
  const auto only_reads = [&] {
    const auto word = first_word(sql);
    const bool reads = word == "SELECT" || word == "WITH" || word == "EXPLAIN" || word == "VALUES" || word.empty();
    return problem{(reads ? "a part of this statement" : word) +
                       " is refused: only SELECT is allowed here; use the sqlite3 program to change a database",
                   -1, true};
  };
  sqlite3_stmt* raw = nullptr;
  const char* rest = nullptr;
  if (sql.find('\0') != std::string::npos) return problem{"the statement has a NUL byte", static_cast<int>(sql.find('\0')), true};
  const int prepared = sqlite3_prepare_v2(db, sql.c_str(), -1, &raw, &rest);
  const query_statement statement(raw);
  if (impl_->refused) return only_reads();
  if (prepared != SQLITE_OK) {
    problem p{impl_->wait.why(db).message, sqlite3_error_offset(db), prepared == SQLITE_ERROR || prepared == SQLITE_TOOBIG};
    p.message += suggestion(*this, p.message);
    return p;
  }
  if (raw == nullptr) return problem{"the statement is empty", -1, true};
  if (!is_blank(rest)) return problem{"only one statement is allowed", static_cast<int>(rest - sql.c_str()), true};
  if (sqlite3_stmt_readonly(raw) == 0 || sqlite3_column_count(raw) == 0) return only_reads();
  const int columns = sqlite3_column_count(raw);
  std::vector<std::string> names;
  for (int c = 0; c < columns; ++c) names.emplace_back(sqlite3_column_name(raw, c));
  on_columns(names);
  std::vector<cell> row(names.size());
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(raw)) == SQLITE_ROW) {
    for (int c = 0; c < columns; ++c) row[static_cast<std::size_t>(c)] = cell_of(raw, c);
    if (!on_row(row)) return std::nullopt;
  }
  if (code == SQLITE_DONE) return std::nullopt;
  return problem{impl_->wait.why(db).message, -1, code == SQLITE_ERROR || code == SQLITE_TOOBIG || code == SQLITE_MISMATCH};
}

std::variant<std::vector<run_query::table>, run_query::problem> run_query::tables() {
  std::vector<table> all;
  const auto take_name = [&all](const std::vector<cell>& row) {
    all.push_back({text_of(row[0]), {}, 0});
    return true;
  };
  constexpr const char* list =
      "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%' ORDER BY rootpage";
  if (auto p = run(
          list, [](const auto&) {}, take_name))
    return *p;
  for (auto& t : all) {
    std::string quoted = "\"";
    for (const char c : t.name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    quoted += "\"";
    const auto columns = [&t](const std::vector<std::string>& names) { t.columns = names; };
    if (auto p = run("SELECT * FROM " + quoted + " LIMIT 0", columns, [](const auto&) { return true; })) return *p;
    const auto count = [&t](const std::vector<cell>& row) {
      if (const auto* n = std::get_if<std::int64_t>(&row[0])) t.rows = static_cast<std::uint64_t>(*n);
      return true;
    };
    if (auto p = run(
            "SELECT count(*) FROM " + quoted, [](const auto&) {}, count))
      return *p;
  }
  return all;
}

expected<void, record_error> delete_run_rows(const std::filesystem::path& database, std::uint32_t number,
                                             const lock_patience& patience) {
  std::error_code ec;
  if (!std::filesystem::exists(database, ec)) return {};
  sqlite_wait wait(database, patience);
  sqlite3* db = nullptr;
  auto done = open_database(database, SQLITE_OPEN_READWRITE, wait, db);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> close(db, sqlite3_close);
  std::vector<std::string> tables;
  const auto take = [](void* into, int, char** values, char**) {
    static_cast<std::vector<std::string>*>(into)->emplace_back(values[0] == nullptr ? "" : values[0]);
    return 0;
  };
  constexpr const char* with_runs =
      "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = 'run' WHERE m.type = 'table'";
  if (done) done = execute(db, wait, with_runs, take, &tables);
  const auto n = std::to_string(number);
  std::string sql = "BEGIN IMMEDIATE; ";
  for (const auto& t : tables) sql += "DELETE FROM \"" + t + "\" WHERE run = " + n + "; ";
  sql += "DELETE FROM runs WHERE number = " + n + "; COMMIT";
  if (done) done = execute(db, wait, sql.c_str());
  return done.transform_error([&](const error& why) {
    return record_error{database.string(), {}, "the rows of run " + n + " cannot be deleted: " + why.text};
  });
}

}  // namespace troupe
