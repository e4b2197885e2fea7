// The tables of runs.db. Times are seconds since 1970 (UTC), `seconds` durations. A missing value
// (no test data, no loss of a skipped step) is NULL.
#pragma once

namespace troupe {

constexpr int run_schema_version = 1;  // PRAGMA user_version

constexpr const char* run_schema = R"(
CREATE TABLE IF NOT EXISTS runs (
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, folder TEXT NOT NULL, state TEXT NOT NULL, job_file TEXT, seed INTEGER, mode TEXT,
  workers INTEGER, batch INTEGER, parameters INTEGER, started TEXT, ended TEXT, seconds REAL, steps INTEGER, last_step INTEGER,
  loss REAL, accuracy REAL, best_accuracy REAL, best_step INTEGER, weights_sha256 TEXT, error TEXT, version TEXT, host TEXT,
  blas_kernel TEXT);
CREATE TABLE IF NOT EXISTS steps (
  run INTEGER NOT NULL, step INTEGER NOT NULL, epoch REAL, time REAL, loss REAL, lr REAL, examples_per_s REAL,
  PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evaluations (
  run INTEGER NOT NULL, step INTEGER NOT NULL, epoch REAL, time REAL, loss REAL, accuracy REAL, PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS node_failures (run INTEGER NOT NULL, step INTEGER NOT NULL, time REAL, text TEXT);
CREATE TABLE IF NOT EXISTS staleness (
  run INTEGER NOT NULL, step INTEGER NOT NULL, parameter TEXT NOT NULL, clocks INTEGER NOT NULL, reads INTEGER NOT NULL,
  PRIMARY KEY (run, step, parameter, clocks)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (run INTEGER NOT NULL, step INTEGER NOT NULL, time REAL, kind TEXT NOT NULL, text TEXT);
)";

}  // namespace troupe
