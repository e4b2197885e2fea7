#include "tests/apps/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace troupe::testing_apps {

using clock = std::chrono::steady_clock;

child::child(const std::string& program, const std::vector<std::string>& words, const std::filesystem::path& where) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("cannot create pipes");
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, SIG_DFL);  // a background job of a shell, or nohup, ignores some
    setenv("TROUPE_RUNS", "off", 0);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (chdir(where.c_str()) == 0) execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

child::~child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) close(out_);
  if (err_ >= 0) close(err_);
}

bool child::blocks_on_output(std::chrono::milliseconds limit) const {
  const int nearly_full = 3 * fcntl(out_, F_GETPIPE_SZ) / 4;
  const auto until = clock::now() + limit;
  // A pipe never gets full to its last byte: it is full when nothing was added for a second.
  auto since = clock::now();
  int before = 0;
  for (int unread = 0; ioctl(out_, FIONREAD, &unread) == 0 && clock::now() < until; poll(nullptr, 0, 5)) {
    if (unread != std::exchange(before, unread)) since = clock::now();
    if (unread >= nearly_full && clock::now() - since > std::chrono::seconds(1)) return true;
  }
  return false;
}

void child::send(int signal) const { kill(pid_, signal); }

void child::read_no_more() {
  close(out_);
  out_ = -1;
}

// Reads available output, or waits for it. Returns false when both streams have ended or the
// deadline has passed.
bool child::pump(clock::time_point until) {
  pollfd fds[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if (out_ < 0 && err_ < 0) return false;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
  if (left <= 0 || poll(fds, 2, static_cast<int>(left)) <= 0) return false;
  int* ends[2] = {&out_, &err_};
  std::string* texts[2] = {&out_text_, &err_text_};
  for (int i = 0; i < 2; ++i) {
    if (*ends[i] < 0 || !(fds[i].revents & (POLLIN | POLLHUP))) continue;
    char buffer[65536];
    const auto got = read(*ends[i], buffer, sizeof buffer);
    if (got > 0) {
      texts[i]->append(buffer, static_cast<std::size_t>(got));
    } else {
      close(*ends[i]);
      *ends[i] = -1;
    }
  }
  return true;
}

bool child::read_line(std::string& line, std::chrono::milliseconds limit) {
  const auto until = clock::now() + limit;
  for (;;) {
    if (const auto end = out_text_.find('\n'); end != std::string::npos) {
      line = out_text_.substr(0, end);
      out_text_.erase(0, end + 1);
      return true;
    }
    if (!pump(until)) return false;
  }
}

outcome child::wait(std::chrono::milliseconds limit) {
  const auto until = clock::now() + limit;
  while (pump(until)) {
  }
  if (out_ >= 0 || err_ >= 0) {
    ADD_FAILURE() << "still running after " << limit.count() << " ms";
    kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out_text_, err_text_};
}

std::string troupe_program() { return std::string(TROUPE_BIN_DIR) + "/troupe"; }

command_test::command_test() {
  std::string name = (std::filesystem::temp_directory_path() / "troupe_test_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot create a temporary folder");
  folder_ = name;
}

command_test::~command_test() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string command_test::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name, std::ios::binary) << text;
  return path(name);
}

std::string command_test::file_text(const std::string& name) const {
  std::ifstream in(folder_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

outcome command_test::troupe(const std::vector<std::string>& words) const { return child(troupe_program(), words, folder_).wait(); }

std::vector<nlohmann::json> objects(const std::string& text) {
  std::vector<nlohmann::json> list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto o = nlohmann::json::parse(line, nullptr, false);
    EXPECT_TRUE(o.is_object()) << "not a JSON object: " << line;
    EXPECT_TRUE(o.is_object() && o.contains("event")) << line;
    list.push_back(std::move(o));
  }
  return list;
}

std::vector<nlohmann::json> of_kind(const std::vector<nlohmann::json>& list, const std::string& event) {
  std::vector<nlohmann::json> some;
  for (const auto& o : list)
    if (o.value("event", "") == event) some.push_back(o);
  return some;
}

std::string tiny_job(const std::string& extra) {
  return R"([job]
name = "tiny"
seed = 3
[data]
source = "synthetic"
shape = [1, 8, 8]
classes = 4
examples = 320
test_examples = 50
batch = 16
[[layer]]
name = "ip1"
type = "linear"
inputs = ["data"]
outputs = 16
[[layer]]
name = "relu1"
type = "relu"
inputs = ["ip1"]
[[layer]]
name = "ip2"
type = "linear"
inputs = ["relu1"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip2", "label"]
[[layer]]
name = "accuracy"
type = "accuracy"
inputs = ["ip2", "label"]
phase = "test"
[train]
dynamics = { rule = "momentum", lr = 0.05, momentum = 0.9 }
finish = { steps = 40 }
[eval]
every = 20
[pipeline]
packets = 2
)" + extra;
}

}  // namespace troupe::testing_apps
