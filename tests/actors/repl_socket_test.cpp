// The socket of a running job: the commands through it, its protection, and hostile clients.
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "actors/repl/run_backend.hpp"
#include "actors/repl/run_socket.hpp"
#include "actors/repl/unix_socket.hpp"
#include "runtime/data/source.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/actors/repl_fake.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using kind = repl_reply::kind;
namespace fs = std::filesystem;

class repl_socket_test : public testing::Test {
 protected:
  fs::path file() const { return run_socket_file(here_.path); }
  repl_lines connect(bool json = false) const {
    auto lines = connect_run(file(), json);
    EXPECT_EQ(test::error_text(lines), "");
    return *std::move(lines);
  }
  static void write_all(int fd, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const auto n = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;  // the server has closed the connection
      at += static_cast<std::size_t>(n);
    }
  }
  static std::string read_line(int fd) {
    std::string line;
    char c = 0;
    while (::recv(fd, &c, 1, 0) == 1 && c != '\n') line += c;
    return line;
  }
  test::temp_dir here_;
  fake_backend backend_;
};

TEST_F(repl_socket_test, answers_lines_in_text_and_json) {
  const run_socket socket(file(), backend_);
  ASSERT_EQ(socket.error(), "");
  EXPECT_NE(connect()("status", nullptr).text.find("job 2 (new) running"), std::string::npos);
  EXPECT_EQ(connect(true)("jobs", nullptr).text.substr(0, 18), "{\"command\":\"jobs\",");
  EXPECT_EQ(connect()("quit", nullptr).how, kind::quit);
  EXPECT_EQ(connect()("nonsense", nullptr).how, kind::usage);
  const auto r = connect()("pause", nullptr);
  EXPECT_TRUE(r.next.starts_with("_follow pause 2 ")) << r.next;
}

TEST_F(repl_socket_test, the_file_is_for_its_user_and_is_removed_at_the_end) {
  {
    const run_socket socket(file(), backend_);
    struct stat s {};
    ASSERT_EQ(::lstat(file().c_str(), &s), 0);
    EXPECT_TRUE(S_ISSOCK(s.st_mode));
    EXPECT_EQ(s.st_mode & 0777, 0600u);
    const run_socket second(file(), backend_);
    EXPECT_NE(second.error().find("another process answers"), std::string::npos) << second.error();
  }
  EXPECT_FALSE(fs::exists(file())) << "the second one has not removed the file of the first";
  EXPECT_EQ(test::error_text(connect_run(file(), false)), "no process trains there now");
}

TEST_F(repl_socket_test, replaces_the_file_of_a_process_that_was_killed_but_no_other_file) {
  {
    sockaddr_un at{};
    ASSERT_TRUE(unix_address(file(), -1, at));
    const open_fd left(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(left.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  }
  ASSERT_TRUE(fs::exists(file()));
  {
    const run_socket socket(file(), backend_);
    EXPECT_EQ(socket.error(), "");
    EXPECT_EQ(connect()("jobs", nullptr).how, kind::ok);
  }
  std::ofstream(file()) << "mine";
  const run_socket socket(file(), backend_);
  EXPECT_NE(socket.error(), "");
  EXPECT_EQ(fs::file_size(file()), 4u);
}

TEST_F(repl_socket_test, a_path_longer_than_an_address_works) {
  auto folder = fs::path(here_.path);
  for (int i = 0; i < 5; ++i) folder /= std::string(60, 'x');
  fs::create_directories(folder);
  const run_socket socket(run_socket_file(folder), backend_);
  ASSERT_EQ(socket.error(), "");
  const auto lines = connect_run(run_socket_file(folder), false);
  ASSERT_EQ(test::error_text(lines), "");
  EXPECT_EQ((*lines)("jobs", nullptr).how, kind::ok);
}

TEST_F(repl_socket_test, a_missing_folder_is_an_error_and_no_exception) {
  const run_socket socket(fs::path(here_.path) / "none" / "repl.sock", backend_);
  EXPECT_NE(socket.error().find("No such file"), std::string::npos) << socket.error();
}

TEST_F(repl_socket_test, malformed_requests_get_an_answer_and_too_long_ones_end_the_connection) {
  const run_socket socket(file(), backend_);
  const auto fd = connect_unix(file());
  ASSERT_TRUE(fd);
  for (const char* bad : {"", "{", "[]", "{\"line\":1}", "{\"line\":\"jobs\",\"json\":3}", "{\"json\":true}", "\xff\xfe"}) {
    write_all(fd.get(), std::string(bad) + "\n");
    const auto r = read_run_reply(read_line(fd.get()));
    ASSERT_TRUE(r) << bad;
    EXPECT_EQ(r->text, "malformed request") << bad;
  }
  write_all(fd.get(), to_line(run_request{"jobs", false}));
  EXPECT_TRUE(read_run_reply(read_line(fd.get())));
  write_all(fd.get(), std::string(max_run_request + (1 << 16), 'x'));
  EXPECT_EQ(read_line(fd.get()), "") << "closed";
  EXPECT_EQ(connect()("jobs", nullptr).how, kind::ok) << "other clients are served";
}

TEST_F(repl_socket_test, further_clients_are_closed_and_the_others_served) {
  const run_socket socket(file(), backend_);
  const auto first = connect();
  EXPECT_EQ(first("jobs", nullptr).how, kind::ok);
  std::vector<open_fd> all;
  for (std::size_t i = 0; i < 2 * max_run_clients; ++i) all.push_back(connect_unix(file()));
  EXPECT_EQ(first("jobs", nullptr).how, kind::ok);
  std::size_t served = 0;
  for (const auto& fd : all) {
    write_all(fd.get(), to_line(run_request{"jobs", false}));
    served += read_line(fd.get()).empty() ? 0 : 1;
  }
  EXPECT_EQ(served, max_run_clients - 1);
}

// Random bytes, mutated requests and connections that end in the middle.
TEST_F(repl_socket_test, survives_hostile_clients) {
  const run_socket socket(file(), backend_);
  std::mt19937 random(7);
  const auto sound = to_line(run_request{"status", false}) + to_line(run_request{"watch loss", true}) +
                     to_line(run_request{"_follow pause 2 0 3 1", false});
  for (int i = 0; i < 300; ++i) {
    const auto fd = connect_unix(file());
    if (!fd) continue;
    auto bytes = sound;
    for (int k = static_cast<int>(random() % 8); k >= 0; --k) {
      const auto at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, random() % 20); break;
        case 2: bytes.insert(at, random() % 200, static_cast<char>(random())); break;
        default: bytes.insert(at, bytes.substr(random() % bytes.size(), 30)); break;
      }
      if (bytes.empty()) bytes = "\n";
    }
    write_all(fd.get(), bytes);
    if (i % 3 == 0) ::shutdown(fd.get(), SHUT_WR);
    if (i % 6 == 0) read_line(fd.get());
  }
  for (const auto deadline = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < deadline;) {
    const auto lines = connect_run(file(), false);
    if (lines && (*lines)("jobs", nullptr).how == kind::ok) return;
  }
  FAIL() << "a sound client is not served";
}

// A client that asks for much and reads nothing.
TEST_F(repl_socket_test, a_client_that_reads_no_answers_does_not_stop_the_others) {
  const run_socket socket(file(), backend_);
  const auto fd = connect_unix(file());
  std::string many;
  for (int i = 0; i < 2000; ++i) many += to_line(run_request{"help", false});
  std::thread sender([&] { write_all(fd.get(), many); });
  EXPECT_EQ(connect()("jobs", nullptr).how, kind::ok);
  ::shutdown(fd.get(), SHUT_RDWR);
  sender.join();
  EXPECT_EQ(connect()("jobs", nullptr).how, kind::ok);
}

// --- a job that runs

// A source whose reads wait while it is closed, like a network file system that does not answer.
class stuck_source final : public source {
 public:
  explicit stuck_source(std::shared_ptr<const source> inner) : inner_(std::move(inner)) {}
  void close(bool yes) {
    std::lock_guard guard(lock_);
    closed_ = yes;
    opened_.notify_all();
  }
  shape example() const override { return inner_->example(); }
  std::int64_t classes() const override { return inner_->classes(); }
  shape label() const override { return inner_->label(); }
  std::int64_t size(split s) const override { return inner_->size(s); }
  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    {
      std::unique_lock guard(lock_);
      opened_.wait(guard, [this] { return !closed_; });
    }
    inner_->read(s, indices, data, label);
  }

 private:
  std::shared_ptr<const source> inner_;
  mutable std::mutex lock_;
  mutable std::condition_variable opened_;
  bool closed_ = false;
};

class repl_of_a_run : public repl_socket_test {
 protected:
  void start(const std::vector<std::string>& set) {
    job_ = testing_embedded::job_of(testing_embedded::lenet_like(), set);
    ASSERT_TRUE(job_);
    job_->id = 1;
    data_ = std::make_shared<stuck_source>(job_->data);
    job_->data = data_;
    embedded_options o;
    o.threads = 2;
    o.on_event = [this](const event_effect& e) {
      here_backend_->handle_event(e);
      std::lock_guard guard(lock_);
      step_ = std::max(step_, e.step);
      changed_.notify_all();
    };
    run_ = std::make_unique<embedded_run>(job_, o);
    here_backend_ = std::make_unique<run_backend>(*run_, *job_, 7, "runs/7-small");
    socket_ = std::make_unique<run_socket>(file(), *here_backend_);
    trains_ = std::thread([this] { result_ = run_->run(); });
    std::unique_lock guard(lock_);
    ASSERT_TRUE(changed_.wait_for(guard, 30s, [this] { return step_ > 0; }));
  }
  repl_reply whole(const repl_lines& lines, const std::string& line) {
    std::string all;
    auto r = run_line(
        lines, line, nullptr, [&](const repl_reply& part) { all += part.text; },
        [this] {
          std::unique_lock guard(lock_);
          changed_.wait_for(guard, 100ms);
          return true;
        });
    r.text = all;
    return r;
  }
  ~repl_of_a_run() override {
    if (data_) data_->close(false);
    if (run_) run_->kill("the test has failed");
    if (trains_.joinable()) trains_.join();
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::uint64_t step_ = 0;
  std::shared_ptr<prepared_job> job_;
  std::shared_ptr<stuck_source> data_;
  std::unique_ptr<embedded_run> run_;
  std::unique_ptr<run_backend> here_backend_;
  std::unique_ptr<run_socket> socket_;
  std::thread trains_;
  embedded_result result_;
};

TEST_F(repl_of_a_run, has_the_commands_of_a_job) {
  start({"train.finish.steps=100000000", "eval.every=0"});
  const auto lines = connect();
  for (const auto& [line, answer] : {std::pair{"status", "job 7 (small) running, step "},
                                     {"status", "folder    runs/7-small"},
                                     {"roles", "worker0/conv1"},
                                     {"queues", "coordinator"},
                                     {"set train.dynamics.lr 0.001", ": 0.05 -> 0.001 from step "},
                                     {"pause", "job 7 paused at step "},
                                     {"waits", "root: coordinator is paused until `resume`"},
                                     {"resume 7", "job 7 resumed at step "},
                                     {"eval", "evaluation of step "},
                                     {"checkpoint", "checkpoint of step "},
                                     {"status", " s ago)"},
                                     {"watch loss 2", "  loss "},
                                     {"layer conv1", "conv1.weight"}}) {
    auto r = whole(lines, line);
    // The state of roles is published ten times a second.
    for (const auto deadline = std::chrono::steady_clock::now() + 20s;
         std::string(line) == "waits" && r.text.find(answer) == std::string::npos && std::chrono::steady_clock::now() < deadline;)
      r = whole(lines, line);
    EXPECT_EQ(r.how, kind::ok) << line << ": " << r.text;
    EXPECT_NE(r.text.find(answer), std::string::npos) << line << ": " << r.text;
  }
  EXPECT_NE(whole(lines, "pause 8").text.find("there is no job '8'"), std::string::npos);
  bool stopping = false;
  here_backend_->on_end = [&] { stopping = true; };
  EXPECT_NE(whole(lines, "stop").text.find("job 7 stopped at step "), std::string::npos);
  trains_.join();
  EXPECT_TRUE(stopping);
  EXPECT_TRUE(result_.ok && result_.stopped) << result_.error;
  EXPECT_EQ(whole(lines, "pause 7").text, "job 7 is over");
}

TEST_F(repl_of_a_run, kill_ends_a_paused_job_without_a_checkpoint) {
  start({"train.finish.steps=100000000", "eval.every=0"});
  const auto lines = connect();
  EXPECT_EQ(whole(lines, "pause").how, kind::ok);
  const auto r = whole(lines, "kill");
  EXPECT_EQ(r.how, kind::ok) << r.text;
  EXPECT_NE(r.text.find("job 7 killed at step "), std::string::npos) << r.text;
  trains_.join();
  EXPECT_FALSE(result_.ok);
  EXPECT_FALSE(result_.hung);
  EXPECT_EQ(result_.error, "killed by a user");
  EXPECT_NE(connect()("submit x", nullptr).how, kind::ok);
}

TEST_F(repl_of_a_run, waits_names_a_loader_that_does_not_return_and_kill_ends_its_job) {
  start({"train.finish.steps=100000000", "eval.every=0"});
  const auto lines = connect();
  data_->close(true);
  const std::string root = "root: worker0/loader reads data: load";
  std::string text;
  for (const auto deadline = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < deadline;) {
    text = lines("waits", nullptr).text;
    if (text.find(root) != std::string::npos && text.find("coordinator waits for losses of step ") != std::string::npos) break;
  }
  EXPECT_EQ(text.find(root), 0u) << text;
  const auto r = whole(lines, "kill");
  EXPECT_EQ(r.how, kind::ok) << r.text;
  trains_.join();
  EXPECT_TRUE(result_.hung) << "the loader's thread still reads";
  EXPECT_EQ(result_.error, "killed by a user");
  run_.reset();
}

}  // namespace
}  // namespace troupe
