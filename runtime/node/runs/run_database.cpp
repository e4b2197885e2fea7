#include "runtime/node/runs/run_database.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <initializer_list>
#include <utility>

#include "runtime/node/runs/sqlite_wait.hpp"

namespace troupe {
namespace {

// A value of a row. NaN and infinity become NULL.
struct cell {
  enum class kind { whole, real, text } is;
  std::int64_t whole = 0;
  double real = 0;
  std::string text = {};

  cell(std::uint64_t v) : is(kind::whole), whole(static_cast<std::int64_t>(v)) {}  // NOLINT(google-explicit-constructor)
  cell(double v) : is(kind::real), real(v) {}                                      // NOLINT(google-explicit-constructor)
  cell(std::string v) : is(kind::text), text(std::move(v)) {}                      // NOLINT(google-explicit-constructor)
};

}  // namespace

struct run_database::impl {
  struct close_database {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  struct end_statement {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };
  using statement = std::unique_ptr<sqlite3_stmt, end_statement>;

  impl(const std::filesystem::path& database, lock_patience patience)
      : file(database.string()), wait(database, std::move(patience)) {}

  const std::string file;
  sqlite_wait wait;
  std::unique_ptr<sqlite3, close_database> db;
  statement step, evaluation, event;
  std::uint64_t number = 0;
  expected<void, record_error> status;

  void fail() {
    if (status) status = unexpected(wait.why(db.get()));
  }
  void execute(const char* sql) {
    if (status && sqlite3_exec(db.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  statement prepared(const char* sql) {
    sqlite3_stmt* s = nullptr;
    if (status && sqlite3_prepare_v2(db.get(), sql, -1, &s, nullptr) != SQLITE_OK) fail();
    return statement(s);
  }
  void insert(const statement& s, std::initializer_list<cell> row) {
    if (!status) return;
    int column = 0;
    for (const auto& c : row) {
      ++column;
      if (c.is == cell::kind::whole)
        sqlite3_bind_int64(s.get(), column, c.whole);
      else if (c.is == cell::kind::text)
        sqlite3_bind_text(s.get(), column, c.text.data(), static_cast<int>(c.text.size()), SQLITE_TRANSIENT);
      else if (std::isfinite(c.real))
        sqlite3_bind_double(s.get(), column, c.real);
      else
        sqlite3_bind_null(s.get(), column);
    }
    if (sqlite3_step(s.get()) != SQLITE_DONE) fail();
    sqlite3_reset(s.get());
  }
};

run_database::run_database(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
run_database::~run_database() = default;

expected<std::unique_ptr<run_database>, record_error> run_database::open(const std::filesystem::path& runs,
                                                                         const lock_patience& patience) {
  auto made = std::make_unique<impl>(run_database_file(runs), patience);
  // SQLite would make the file readable for all users. Its further files get the rights of this
  // one.
  if (const int fd = ::open(made->file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); fd >= 0) ::close(fd);
  sqlite3* db = nullptr;
  const int opened = sqlite3_open_v2(made->file.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  made->db.reset(db);
  if (!db) return unexpected(record_error{made->file, {}, "cannot open: out of memory"});
  if (opened != SQLITE_OK) return unexpected(record_error{made->file, {}, std::string("cannot open: ") + sqlite3_errmsg(db)});
  made->wait.attach(db);
  made->execute("PRAGMA journal_mode = WAL");
  made->execute("PRAGMA synchronous = NORMAL");
  made->execute("BEGIN IMMEDIATE");
  made->execute(run_schema);
  made->execute(("PRAGMA user_version = " + std::to_string(run_schema_version)).c_str());
  made->execute("COMMIT");
  made->step = made->prepared("INSERT OR REPLACE INTO steps VALUES (?,?,?,?,?,?,?)");
  made->evaluation = made->prepared("INSERT OR REPLACE INTO evaluations VALUES (?,?,?,?,?,?)");
  made->event = made->prepared("INSERT INTO events VALUES (?,?,?,?,?)");
  if (!made->status) return unexpected(made->status.error());
  return std::unique_ptr<run_database>(new run_database(std::move(made)));
}

void run_database::begin() { impl_->execute("BEGIN IMMEDIATE"); }
void run_database::commit() { impl_->execute("COMMIT"); }
void run_database::of_run(std::uint32_t number) { impl_->number = number; }
const expected<void, record_error>& run_database::status() const { return impl_->status; }

void run_database::run(const run_info& r, const std::string& folder) {
  const auto known = [](double v) { return v >= 0 ? v : std::nan(""); };
  const auto add = impl_->prepared("INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  impl_->insert(add, {std::uint64_t{r.number},
                      r.name,
                      folder,
                      r.state,
                      r.job_file,
                      r.seed,
                      r.mode,
                      r.workers,
                      r.batch,
                      r.parameters,
                      r.started,
                      r.ended,
                      r.seconds,
                      r.steps,
                      r.last_step,
                      r.loss,
                      known(r.accuracy),
                      known(r.best_accuracy),
                      r.best_step,
                      r.weights_sha256,
                      r.error,
                      r.version,
                      r.host,
                      r.blas_kernel});
}

void run_database::step(std::uint64_t step, double epoch, double time, double loss, double lr, double examples_per_s) {
  impl_->insert(impl_->step, {impl_->number, step, epoch, time, loss, lr, examples_per_s});
}

void run_database::evaluation(std::uint64_t step, double epoch, double time, double loss, double accuracy) {
  impl_->insert(impl_->evaluation, {impl_->number, step, epoch, time, loss, accuracy});
}

void run_database::node_failure(std::uint64_t step, double time, const std::string& text) {
  impl_->insert(impl_->prepared("INSERT INTO node_failures VALUES (?,?,?,?)"), {impl_->number, step, time, text});
}

void run_database::staleness(std::uint64_t step, const std::string& parameter, std::uint64_t clocks, std::uint64_t reads) {
  impl_->insert(impl_->prepared("INSERT OR REPLACE INTO staleness VALUES (?,?,?,?,?)"),
                {impl_->number, step, parameter, clocks, reads});
}

void run_database::event(std::uint64_t step, double time, const std::string& kind, const std::string& text) {
  impl_->insert(impl_->event, {impl_->number, step, time, kind, text});
}

void run_database::forget_after(std::uint64_t step) {
  for (const char* table : {"steps", "evaluations", "node_failures", "staleness", "events"})
    impl_->insert(impl_->prepared(("DELETE FROM " + std::string(table) + " WHERE run = ? AND step > ?").c_str()),
                  {impl_->number, step});
}

}  // namespace troupe
