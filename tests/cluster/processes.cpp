#include "tests/cluster/processes.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/pki/certificates.hpp"
#include "tests/error_text.hpp"
#include "tests/failing_fsync.hpp"
#include "tests/valid_events.hpp"

namespace troupe::testing_cluster {

// --- process

process::process(const std::vector<std::string>& changes, const std::filesystem::path& where, bool bad_disk) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("cannot create pipes");
  std::vector<char*> argv;
  for (const auto& w : changes) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed leaves no daemon behind
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    if (bad_disk && !test::fail_fsync()) ::_exit(126);
    if (::chdir(where.c_str()) == 0) ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  ends_[0] = out[0];
  ends_[1] = err[0];
}

process::~process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (int end : ends_)
    if (end >= 0) ::close(end);
}

bool process::pump(clock::time_point until) {
  if (ends_[0] < 0 && ends_[1] < 0) return false;
  pollfd fds[2] = {{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}};
  const auto left = std::chrono::duration_cast<millis>(until - clock::now()).count();
  if (::poll(fds, 2, static_cast<int>(std::max<long long>(0, left))) <= 0) return false;
  for (int i = 0; i < 2; ++i) {
    if (ends_[i] < 0 || (fds[i].revents & (POLLIN | POLLHUP)) == 0) continue;
    char buffer[65536];
    const auto got = ::read(ends_[i], buffer, sizeof buffer);
    if (got > 0) text_[i].append(buffer, static_cast<std::size_t>(got));
    if (got <= 0) ::close(std::exchange(ends_[i], -1));
  }
  return true;
}

template <class F>
bool process::until(millis within, F done) {
  const auto end = clock::now() + within;
  while (!done())
    if (!pump(end)) return done();
  return true;
}

bool process::wait_out(const std::string& part, millis within) {
  return until(within, [&] { return text_[0].find(part) != std::string::npos; });
}
bool process::wait_log(const std::string& part, millis within) {
  return until(within, [&] { return text_[1].find(part) != std::string::npos; });
}
bool process::closed(millis within) {
  return until(within, [&] { return ends_[0] < 0 && ends_[1] < 0; });
}

int process::wait(millis within) {
  if (pid_ <= 0) return -1;
  if (!closed(within)) return -1;
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void process::signal(int number) const {
  if (pid_ <= 0) return;
  ::kill(pid_, number);
  // The process may still run after kill(): wait until it has stopped.
  siginfo_t info;
  if (number == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT);
}

std::size_t process::descriptors() const {
  std::size_t n = 0;
  std::error_code ec;
  for (std::filesystem::directory_iterator i("/proc/" + std::to_string(pid_) + "/fd", ec), end; !ec && i != end; i.increment(ec))
    ++n;
  return n;
}

std::uint16_t free_port() {
  // The socket stays bound until this process ends. Otherwise the kernel would give the port to the
  // next socket that asks for any. With SO_REUSEADDR on both sockets a daemon can listen there,
  // because this one does not listen.
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  const bool bound =
      ::bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0 && ::getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) == 0;
  if (!bound) throw std::runtime_error("no free port on the loopback interface");
  return ntohs(a.sin_port);
}

// --- clusters

cluster_test::cluster_test() {
  std::string name = (std::filesystem::temp_directory_path() / "troupe_cluster_XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot create a temporary folder");
  folder_ = name;
}

cluster_test::~cluster_test() {
  if (HasFailure())
    for (const auto& [name, d] : daemons_) {
      d->wait_log("\x01", 0ms);  // reads the pending output
      std::fprintf(stderr, "--- log of %s\n%s", name.c_str(), d->log().c_str());
    }
  daemons_.clear();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string cluster_test::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name, std::ios::binary) << text;
  return path(name);
}

void cluster_test::make_cluster(int nodes) {
  std::vector<node_spec> list;
  for (int i = 1; i <= nodes; ++i) {
    node_spec n;
    n.name = "n" + std::to_string(i);
    n.roles = {"worker", "server"};
    if (i == 1) n.roles = {"coordinator", "data", "worker", "server"};
    list.push_back(n);
  }
  make_cluster_of(list);
}

void cluster_test::make_cluster_like(const std::string& file) {
  const auto read = read_cluster_file(std::string(TROUPE_SOURCE_DIR) + "/configs/clusters/" + file);
  ASSERT_TRUE(read) << file;
  auto nodes = read->nodes;
  for (auto& n : nodes) n.address.clear();
  make_cluster_of(nodes);
}

void cluster_test::make_cluster_of(const std::vector<node_spec>& nodes) {
  const auto key = [](const char* name, const std::vector<std::string>& values) {
    std::string line;
    for (const auto& v : values) line += (line.empty() ? "\"" : ", \"") + v + "\"";
    return line.empty() ? line : std::string(name) + " = [" + line + "]\n";
  };
  for (auto& p : plugins_) p += "#sha256=" + plugin_sha256((folder_ / p).string());
  auto text = key("plugins", plugins_) + "[cluster]\nname = \"lab\"\n" + key("data", data_) +
              (machines_apart_ ? "shared_memory = false\n" : "") + "[cluster.tls]\ndir = \"certs\"\n";
  std::vector<certificate_subject> subjects;
  for (const auto& n : nodes) {
    names_.push_back(n.name);
    ports_[n.name] = free_port();
    const auto host = n.address.empty() ? "127.0.0.1" : n.address;
    subjects.push_back({n.name, {host}});
    text += "[[node]]\nname = \"" + n.name + "\"\naddress = \"" + host + ":" + std::to_string(ports_[n.name]) + "\"\nroles = [";
    for (std::size_t i = 0; i < n.roles.size(); ++i) text += (i == 0 ? "\"" : ", \"") + n.roles[i] + "\"";
    text += "]\n" + key("devices", n.devices);
    if (!n.metrics_address.empty()) text += "metrics_address = \"" + n.metrics_address + "\"\n";
    if (!n.metrics_token.empty()) text += "metrics_token = \"" + n.metrics_token + "\"\n";
  }
  write("cluster.toml", text);
  const auto made = make_cluster_certificates(folder_ / "certs", "lab", subjects);
  ASSERT_TRUE(made) << made.error().message;
}

void cluster_test::start(const std::string& node, bool bad_disk) {
  auto changes = before_;
  for (const auto& w :
       {std::string(TROUPE_BIN_DIR) + "/trouped", std::string("--cluster"), path("cluster.toml"), std::string("--node"), node})
    changes.push_back(w);
  daemons_[node] = std::make_unique<process>(changes, folder_, bad_disk);
  ASSERT_TRUE(daemons_[node]->wait_out("ready " + node, 20s)) << daemons_[node]->log();
  ++starts_[node];
}

bool cluster_test::joined(const std::string& node, millis within) {
  // Checks the node's own log: the coordinator's may have a line of an earlier incarnation.
  return daemon(node).wait_log("joined the cluster at " + names_.front(), within);
}

void cluster_test::start_all() {
  for (const auto& n : names_) start(n);
  for (const auto& n : names_) ASSERT_TRUE(joined(n)) << n;
}

void cluster_test::kill_hard(const std::string& node) {
  daemon(node).signal(SIGKILL);
  EXPECT_EQ(daemon(node).wait(), 128 + SIGKILL);
}

cluster_address cluster_test::address_of(const std::string& node) const {
  const auto read = read_cluster_file(path("cluster.toml"));
  std::string host = "127.0.0.1";
  if (read)
    for (const auto& n : read->nodes)
      if (n.name == node) host = n.address.substr(0, n.address.rfind(':'));
  return {"lab", (folder_ / "certs").string(), host + ":" + std::to_string(ports_.at(node)), node};
}
cluster_address cluster_test::coordinator() const { return address_of(names_.front()); }

std::uint16_t cluster_test::data_port(const std::string& node) const {
  const auto& out = daemons_.at(node)->out();
  const auto at = out.rfind(':');
  return static_cast<std::uint16_t>(std::stoi(out.substr(at + 1)));
}

std::string cluster_test::run_result::text(const char* name) const {
  if (!events.empty())
    for (const auto& [k, v] : flatten(events.back().event).texts)
      if (k == name) return v;
  return {};
}
double cluster_test::run_result::value(const char* name) const {
  if (!events.empty())
    for (const auto& [k, v] : flatten(events.back().event).values)
      if (k == name) return v;
  return -1;
}
std::size_t cluster_test::run_result::count(const std::string& kind) const {
  std::size_t n = 0;
  for (const auto& e : events) n += name_of(e.event).name == kind ? 1 : 0;
  return n;
}

namespace {

cluster_submission submission_of(cluster_address where, const std::string& text, const std::vector<std::string>& set) {
  cluster_submission s;
  s.where = std::move(where);
  s.file = "job.toml";
  s.text = text;
  s.overrides = set;
  return s;
}

cluster_submission beginning_with(cluster_submission s, cluster_submission::beginning from, const std::string& file) {
  s.from = from;
  s.given = file;
  return s;
}

}  // namespace

cluster_test::run_result cluster_test::run(const std::string& text, const std::vector<std::string>& set, const std::string& out) {
  auto s = submission_of(coordinator(), text, set);
  s.out = out;
  return run_all(s);
}

cluster_test::run_result cluster_test::run_with(cluster_submission::beginning from, const std::string& file,
                                                const std::string& text, const std::vector<std::string>& set) {
  return run_all(beginning_with(submission_of(coordinator(), text, set), from, file));
}

cluster_test::run_result cluster_test::run_all(const cluster_submission& s) {
  run_result r;
  const std::atomic<bool> detach{false};
  r.outcome = run_on_cluster(
      s,
      [&](const job_event& e) {
        valid_events::expect_valid(e.event);
        r.events.push_back(e);
      },
      detach);
  return r;
}

std::unique_ptr<cluster_test::background> cluster_test::begin(const std::string& text, const std::vector<std::string>& set) {
  auto s = submission_of(coordinator(), text, set);
  s.wait_for_daemon = wait_for_daemon_;
  return std::make_unique<background>(std::move(s));
}

std::unique_ptr<cluster_test::background> cluster_test::begin_with(cluster_submission::beginning from, const std::string& file,
                                                                   const std::string& text, const std::vector<std::string>& set) {
  return std::make_unique<background>(beginning_with(submission_of(coordinator(), text, set), from, file));
}

repl_reply cluster_test::ask_at(const cluster_address& where, const std::string& line, bool json) {
  const auto lines = connect_repl(where, json, 5s);
  EXPECT_EQ(test::error_text(lines), "");
  if (!lines) return {repl_reply::kind::failed, lines.error().text, {}};
  std::string all;
  const auto keep = [&](const repl_reply& r) { all += (all.empty() ? "" : "\n") + r.text; };
  auto r = run_line(*lines, line, nullptr, keep, [] { return ::poll(nullptr, 0, static_cast<int>(repl_ask_every.count())) == 0; });
  r.text = all;
  return r;
}

cluster_test::background::background(cluster_submission s) {
  thread_ = std::thread([this, s = std::move(s)] {
    const auto outcome = run_on_cluster(
        s,
        [this](const job_event& e) {
          valid_events::expect_valid(e.event);
          std::lock_guard guard(lock_);
          result_.events.push_back(e);
          changed_.notify_all();
        },
        detach_);
    std::lock_guard guard(lock_);
    result_.outcome = outcome;
    changed_.notify_all();
  });
}

cluster_test::background::~background() {
  detach_ = true;
  if (thread_.joinable()) thread_.join();
}

bool cluster_test::background::wait_event(const std::string& kind, millis within, std::uint64_t step) {
  std::unique_lock guard(lock_);
  return changed_.wait_for(guard, within, [&] {
    for (const auto& e : result_.events)
      if (name_of(e.event).name == kind && e.event.step >= step) return true;
    return false;
  });
}

cluster_test::run_result cluster_test::background::join() {
  thread_.join();
  return result_;
}

// --- jobs

std::string tiny_job() {
  return R"([job]
name = "tiny"
seed = 3
[data]
source = "synthetic"
shape = [1, 8, 8]
classes = 4
examples = 480
test_examples = 48
batch = 24
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 4
kernel = 3
[[layer]]
name = "ip1"
type = "linear"
inputs = ["conv1"]
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
packets = 4
)";
}

std::vector<std::string> workers(int n, int shards) {
  return {"topology.workers_per_group=" + std::to_string(n), "topology.servers_per_group=" + std::to_string(shards)};
}

std::vector<std::string> endless(std::vector<std::string> set) {
  set.emplace_back("train.finish.steps=100000000");
  set.emplace_back("eval.every=0");
  return set;
}

}  // namespace troupe::testing_cluster
