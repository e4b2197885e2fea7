// Queries of runs.db (run_database.hpp). The connection only reads: the file is opened read-only,
// and an authorizer refuses every statement but SELECT, so that a query cannot write, attach
// another file or load an extension. A run that trains may write at the same time.
//
// Errors: values.  Threads: one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/runs/lock_wait.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

class run_query {
 public:
  struct blob {
    std::string bytes;
  };
  using cell = std::variant<std::monostate, std::int64_t, double, std::string, blob>;  // monostate: NULL
  struct problem {
    std::string message;    // with a suggestion for a misspelt table or column
    int offset = -1;        // of the mistake in the statement, in bytes; -1: unknown
    bool statement = true;  // the statement is wrong; else running it failed (I/O, a locked file)
  };
  struct table {
    std::string name;
    std::vector<std::string> columns;
    std::uint64_t rows = 0;
  };

  static expected<run_query, record_error> open(const std::filesystem::path& database, const lock_patience& patience = {});
  ~run_query();
  run_query(run_query&&) noexcept;
  run_query& operator=(run_query&&) noexcept;

  // Runs one statement: on_columns once, before the first row, then on_row for each row until it
  // returns false. A problem may come after rows.
  std::optional<problem> run(const std::string& sql, const std::function<void(const std::vector<std::string>&)>& on_columns,
                             const std::function<bool(const std::vector<cell>&)>& on_row);
  std::variant<std::vector<table>, problem> tables();

 private:
  struct impl;
  explicit run_query(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

// Deletes the rows of a run from all tables. Without a database there is nothing to do.
expected<void, record_error> delete_run_rows(const std::filesystem::path& database, std::uint32_t number,
                                             const lock_patience& patience = {});

}  // namespace troupe
