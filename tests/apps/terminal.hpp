// Runs a program in a pseudo-terminal: sends keys and captures the screen. All waits have a
// deadline; none sleeps.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing_apps {

inline const std::string ctrl_c = "\x03", ctrl_d = "\x04";

class terminal {
 public:
  // `words`: the program and its arguments. It runs in folder `where`, which is also its HOME, in a
  // terminal of `columns` columns with TERM=xterm. `environment`: further variables, or other
  // values.
  terminal(const std::vector<std::string>& words, const std::filesystem::path& where, unsigned short columns = 200,
           const std::vector<std::pair<std::string, std::string>>& environment = {});
  ~terminal();  // kills the process if it still runs
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  void type(const std::string& keys) const;
  void send(int signal) const;
  // Waits until the screen shows `part` after the parts that earlier calls found. Returns false if
  // the deadline passes or the program ends first.
  bool shows(const std::string& part, std::chrono::milliseconds within = std::chrono::seconds(60));
  bool reads_keys(
      std::chrono::milliseconds within = std::chrono::seconds(60)) const;  // waits until the program reads keys one by one
  // Waits for the program's end. Returns its exit code; 128 + n if signal n ended it; -1 if it
  // still runs at the deadline.
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
