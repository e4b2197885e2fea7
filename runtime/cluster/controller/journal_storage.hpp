// Where a journal (journal.hpp) keeps its text: in files, or in the memory of a simulated machine.
// A storage knows nothing about the lines.
// Errors: texts without the name of the journal.  Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "runtime/base/result.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::control {

class journal_storage {
 public:
  struct content {
    std::string lines;
    std::string step;  // the last line of put_step(); empty: none
  };
  virtual ~journal_storage() = default;
  virtual std::string name() const = 0;                          // for errors
  virtual expected<content> read() = 0;                          // empty texts: there is no journal yet
  virtual expected<void> replace(const std::string& lines) = 0;  // all lines, or leaves them unchanged
  virtual expected<void> open() = 0;                             // called once, before append()
  virtual expected<void> append(const std::string& line) = 0;    // the line is kept when this returns; after an error none of it
  virtual void put_step(const std::string& line) = 0;            // best effort; overwrites the last one, of the same length
  virtual void pace(before_write) {}                             // the function is called before every write and sync to a disk
};

// FILE, and FILE.step for the step.
class file_journal final : public journal_storage {
 public:
  explicit file_journal(std::filesystem::path file) : file_(std::move(file)) {}
  ~file_journal() override;
  file_journal(const file_journal&) = delete;
  file_journal& operator=(const file_journal&) = delete;

  std::string name() const override { return file_.string(); }
  expected<content> read() override;
  expected<void> replace(const std::string& lines) override;
  expected<void> open() override;
  expected<void> append(const std::string& line) override;
  void put_step(const std::string& line) override;
  void pace(before_write before) override { before_ = std::move(before); }

 private:
  std::filesystem::path file_;
  int fd_ = -1, step_fd_ = -1;
  before_write before_;
  std::int64_t size_ = 0;
};

// Of a simulated machine. It outlives the daemon, as a disk does.
class memory_journal final : public journal_storage {
 public:
  bool full = false;  // lines cannot be written: its disk is full

  std::string name() const override { return "journal"; }
  expected<content> read() override { return kept_; }
  expected<void> replace(const std::string& lines) override {
    return written([&] { kept_.lines = lines; });
  }
  expected<void> open() override { return {}; }
  expected<void> append(const std::string& line) override {
    return written([&] { kept_.lines += line; });
  }
  void put_step(const std::string& line) override { kept_.step = line; }

 private:
  expected<void> written(auto&& write) const {
    if (full) return unexpected(error("cannot be written: No space left on device"));
    write();
    return {};
  }
  content kept_;
};

}  // namespace troupe::control
