// How connections to runs.db wait for another process that has locked it.
// Threads: that of the connection.
#pragma once

#include <sqlite3.h>

#include <filesystem>

#include "runtime/node/runs/lock_wait.hpp"

namespace troupe {

class sqlite_wait {
 public:
  sqlite_wait(const std::filesystem::path& database, lock_patience patience)
      : wait_({database, database.string() + "-shm", database.string() + "-wal"}, std::move(patience.notice)),
        most_(patience.database) {}
  sqlite_wait(const sqlite_wait&) = delete;
  sqlite_wait& operator=(const sqlite_wait&) = delete;

  // The object must outlive the connection.
  void attach(sqlite3* db) { sqlite3_busy_handler(db, busy, this); }
  // Why the last statement of the connection failed: names the process if the file is locked.
  record_error why(sqlite3* db) const {
    const int code = sqlite3_errcode(db);
    auto e = wait_.given_up();
    if (code != SQLITE_BUSY && code != SQLITE_LOCKED) e.message = sqlite3_errmsg(db);
    return e;
  }

 private:
  static int busy(void* self, int tries) {
    auto& w = *static_cast<sqlite_wait*>(self);
    if (tries == 0) w.wait_.begin();
    if (w.wait_.waited() >= w.most_) return 0;
    w.wait_.pause();
    return 1;
  }

  lock_wait wait_;
  const std::chrono::milliseconds most_;
};

}  // namespace troupe
