// A program at a terminal of its own, as a person uses it: keys in, a screen out. Everything has a
// deadline, and nothing sleeps.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::testing_apps {

inline const std::string ctrl_c = "\x03", ctrl_d = "\x04";

class terminal {
 public:
  // `words`: the program and its arguments. It runs in folder `where`, which is its HOME too.
  terminal(const std::vector<std::string>& words, const std::filesystem::path& where);
  ~terminal();  // kills what is left
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  void type(const std::string& keys) const;
  void send(int signal) const;
  // Until the screen shows `part`, behind what earlier calls have found; false: it did not come, or
  // the program ended first.
  bool shows(const std::string& part, std::chrono::milliseconds within = std::chrono::seconds(60));
  bool reads_keys(std::chrono::milliseconds within = std::chrono::seconds(60)) const;  // until keys are read one by one
  // Exit code; 128 + n when signal n ended it; -1 when it still ran.
  int wait(std::chrono::milliseconds within = std::chrono::seconds(60));
  const std::string& screen() const { return screen_; }

 private:
  bool pump(std::chrono::steady_clock::time_point until);

  pid_t pid_ = -1;
  int line_ = -1;
  std::string screen_;
  std::size_t found_ = 0;
};

}  // namespace troupe::testing_apps
