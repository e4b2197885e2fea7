// Lines about jobs that another thread reports to the person at a REPL. They are printed at once,
// except while a request is answered: then they follow its reply, because a short job may end
// before the reply to its submission is printed. Threads: any.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

class job_lines {
 public:
  explicit job_lines(std::function<void(const std::string&)> print) : print_(std::move(print)) {}

  void add(const std::string& line) {
    std::lock_guard guard(lock_);
    kept_.push_back(line);
    if (!answering_) print_kept();
  }
  // For repl_options::answering.
  void answering(bool on) {
    std::lock_guard guard(lock_);
    answering_ = on;
    if (!on) print_kept();
  }

 private:
  void print_kept() {
    for (const auto& line : std::exchange(kept_, {})) print_(line);
  }

  const std::function<void(const std::string&)> print_;
  std::mutex lock_;
  bool answering_ = false;
  std::vector<std::string> kept_;
};

}  // namespace troupe
