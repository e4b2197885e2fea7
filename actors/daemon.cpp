#include "actors/daemon.hpp"

#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "actors/control/host/plane.hpp"
#include "actors/daemon_pages.hpp"
#include "actors/repl/repl.hpp"
#include "actors/state_folder.hpp"
#include "actors/supervision/notify.hpp"
#include "actors/supervision/stop_signals.hpp"
#include "actors/supervision/watchdog.hpp"
#include "ops/gpu.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/memory/process_memory.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/net/listener.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/pki/authority.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
constexpr auto drain_timeout = std::chrono::seconds(25);
constexpr std::size_t longest_log_line = 64 << 10;        // bytes of a log line
constexpr auto release_every = std::chrono::seconds(10);  // how often unused memory is returned to the system

int wrong(const std::string& message) { return std::fprintf(stderr, "trouped: %s\n", printable(message).c_str()), 2; }

expected<const node_spec*> node_named(const cluster_spec& c, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& n : c.nodes) {
    if (n.name == name) return &n;
    names.push_back(n.name);
  }
  return unexpected(error(c.file + " has no node " + in_quotes(name) + did_you_mean(name, names)));
}

// There is no mode without TLS, so a daemon needs certificates.
expected<void, coded_error> check_tls(const cluster_spec& c, const std::string& node) {
  std::error_code ec;
  const auto why = c.tls_dir.empty() ? "[cluster.tls] dir is not set" : c.tls_dir + " is not a folder";
  if (!fs::is_directory(c.tls_dir, ec))
    return unexpected(coded_error{"certificate_missing",
                                  "no certificates: " + why + "; make them with `troupe init-cluster --cluster " + c.file + "`"});
  const auto dir = certificate_folder(c.tls_dir, node);
  return check_certificate(dir / "ca.pem", dir / (node + ".pem"), dir / (node + ".key"), node);
}

// Signals that would end the process by default, sent by mistake: logged once and ignored.
constexpr std::array<std::pair<int, const char*>, 3> signals_without_meaning = {
    {{SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGALRM, "SIGALRM"}}};

// Signals and the end of draining, on one poll() in the main thread.
class wakeups {
 public:
  wakeups() {
    sigset_t set;
    sigemptyset(&set);
    for (int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, s);
    for (const auto& [s, name] : signals_without_meaning) sigaddset(&set, s);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ignore_signals_of_writes();
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    drained_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  ~wakeups() {
    ::close(signals_);
    ::close(drained_);
  }
  wakeups(const wakeups&) = delete;
  wakeups& operator=(const wakeups&) = delete;

  void drained(bool whole) {
    whole_ = whole;
    look_now();
  }
  // Ends the wait in progress, and all later ones.
  void look_now() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(drained_, &one, sizeof one);
  }
  bool whole() const { return whole_; }
  // Returns a signal's number, 0 when drained or after look_now(), -1 after `within`.
  int wait(std::chrono::milliseconds within) const {
    pollfd fds[] = {{signals_, POLLIN, 0}, {drained_, POLLIN, 0}};
    const auto until = std::chrono::steady_clock::now() + within;
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      const int n = ::poll(fds, 2, static_cast<int>(std::clamp<long long>(left, 0, 3600 * 1000)));
      signalfd_siginfo info{};
      if (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) return static_cast<int>(info.ssi_signo);
      if (n > 0 && (fds[1].revents & POLLIN) != 0) return 0;
      if (n == 0 && left <= 0) return -1;
    }
  }

 private:
  int signals_ = -1, drained_ = -1;
  std::atomic<bool> whole_{true};
};

// Asynchronous log: writers never wait. A pipe that is not read must not block the network threads;
// peers declared a daemon dead whose log was not read for 3 s. When the queue is full, the oldest
// lines are dropped.
class event_log {
 public:
  explicit event_log(const std::string& node)
      : pool_(std::make_shared<spdlog::details::thread_pool>(8192, 1)),
        log_(std::make_shared<spdlog::async_logger>(node, std::make_shared<spdlog::sinks::stderr_sink_mt>(), pool_,
                                                    spdlog::async_overflow_policy::overrun_oldest)) {
    log_->set_pattern("%Y-%m-%dT%H:%M:%S.%e %n %v");
    log_->flush_on(spdlog::level::info);
  }
  // One line of printable text: it may hold what a client or another node has sent.
  void operator()(const std::string& line) const { log_->info("{}", shortened(printable(line), longest_log_line)); }

  // Writes the queued lines, for at most 1 s, so that a reader that is gone does not keep the
  // process from ending. Nothing may be logged after it.
  void drain() {
    struct waiting {
      std::mutex lock;
      std::condition_variable changed;
      bool done = false;
    };
    auto w = std::make_shared<waiting>();
    std::thread([w, log = std::move(log_), pool = std::move(pool_)]() mutable {
      log.reset();
      pool.reset();  // joins the thread that writes
      std::lock_guard guard(w->lock);
      w->done = true;
      w->changed.notify_all();
    }).detach();
    std::unique_lock guard(w->lock);
    w->changed.wait_for(guard, std::chrono::seconds(1), [&] { return w->done; });
  }

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> log_;
};

// Exits after 5 s if the control plane's destructor still waits for its actors. The checker may
// read a submission for minutes if its plan is huge; the results of jobs are written by then.
class exit_in_time {
 public:
  exit_in_time(int code, event_log& log)
      : thread_([this, code, &log] {
          std::unique_lock guard(lock_);
          if (changed_.wait_for(guard, std::chrono::seconds(5), [this] { return done_; })) return;
          log("a submission is still being read: exit");
          log.drain();
          ::_exit(code);
        }) {}
  ~exit_in_time() {
    {
      std::lock_guard guard(lock_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  exit_in_time(const exit_in_time&) = delete;
  exit_in_time& operator=(const exit_in_time&) = delete;

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

// Expiry dates of this node's own certificates, read from their files.
class own_certificates {
 public:
  own_certificates(const cluster_spec& c, const std::string& node) : node_(node), dir_(certificate_folder(c.tls_dir, node)) {
    read();
  }
  void read() { notes_.read(dir_ / "ca.pem", dir_ / (node_ + ".pem"), node_); }
  void warn(event_log& log) {
    for (const auto& line : notes_.due(std::chrono::system_clock::now())) log(line);
  }

 private:
  std::string node_;
  fs::path dir_;
  expiry_notes notes_;
};

void hang_up(control_plane& plane, daemon_pages& pages, own_certificates& own, event_log& log, service_manager& manager) {
  manager.reloading();
  log("SIGHUP: certificates are reloaded, and the running job writes a checkpoint");
  auto done = plane.reload_certificates();
  if (done) done = pages.reload_certificates();
  if (done)
    own.read();
  else
    log("certificates were not reloaded: " + done.error().message);
  plane.checkpoint();
  manager.ready("up");
}

// Logs an ignored signal once. `notified`: the signals that have been logged.
void tell_of_ignored(int signal, std::set<int>& notified, event_log& log) {
  for (const auto& [s, name] : signals_without_meaning)
    if (s == signal && notified.insert(s).second)
      log(std::string(name) + ": this signal has no meaning for the daemon and is ignored");
}

// CUDA cannot use a lost GPU again in the same process. The daemon therefore replaces its process
// by a new one: for the cluster it is a node that has failed and comes back, so jobs continue.
[[noreturn]] void start_anew(int gpu, event_log& log) {
  log(fmt::format("gpu:{} is lost, and this process cannot use it again: the daemon starts anew", gpu));
  log.drain();
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  std::vector<char*> arguments;
  for (auto& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // sockets keep their ports until they are closed
  ::execv("/proc/self/exe", arguments.data());
  ::_exit(1);
}

// Returns the signal to end.
int wait_for_the_end(control_plane& plane, daemon_pages& pages, const wakeups& wake, own_certificates& own, event_log& log,
                     service_manager& manager, watchdog& dog) {
  auto warn_at = std::chrono::steady_clock::now(), release_at = warn_at + release_every;
  std::set<int> notified;
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= release_at) {
      plane.release_unused();
      release_at = now + release_every;
    }
    if (dog.look(now)) {
      log(fmt::format("actors of this daemon have been hung for {} s beyond their limit: exit", watchdog::patience.count()));
      log.drain();
      ::_exit(1);
    }
    if (const int gpu = lost_gpu(); gpu >= 0) start_anew(gpu, log);
    if (now >= warn_at) {
      own.warn(log);
      warn_at = now + std::chrono::hours(1);
    }
    const int s = wake.wait(std::chrono::seconds(1));
    if (s == SIGHUP) {
      hang_up(plane, pages, own, log, manager);
      warn_at = now;  // for the new certificate
    }
    if (s == SIGTERM || s == SIGINT) return s;
    tell_of_ignored(s, notified, log);
  }
}

int drain(int by, control_plane& plane, const wakeups& wake, event_log& log, service_manager& manager) {
  stop_requests requests;
  requests.request(by, signal_time());
  manager.stopping();
  log("draining: jobs on this node continue without it, or stop at a boundary with a checkpoint; a second signal, after 2 s, exits "
      "at once");
  plane.drain();
  const auto until = std::chrono::steady_clock::now() + drain_timeout;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int s = wake.wait(std::max(left, std::chrono::milliseconds(0)));
    if (s == 0) break;
    const bool second = (s == SIGTERM || s == SIGINT) && requests.request(s, signal_time()) == stop_requests::answer::at_once;
    if (second || s == -1) {
      log(second ? "second signal: exit" : "not drained within 25 s: exit");
      log.drain();
      ::_exit(second ? exit_code_of_signal(s) : 1);
    }
  }
  log("drained");
  return wake.whole() ? 0 : 1;
}

expected<std::unique_ptr<control_plane>, coded_error> open_plane(const daemon_options& o, const cluster_spec& c,
                                                                 const cluster_rules& rules, const state_folder& state,
                                                                 const event_log& log, wakeups& wake, service_manager& manager,
                                                                 watchdog& dog) {
  // Remote users submit jobs that use the plugins' entries, so only plugins with a reviewed
  // checksum are loaded.
  for (const auto& p : c.plugins)
    if (const auto [path, sha256] = split_plugin(p); sha256.empty())
      return unexpected(coded_error{"plugin_unknown", "plugin " + path + ": " + c.file + " does not pin its checksum: write \"" +
                                                          fs::path(path).filename().string() + "#sha256=" + plugin_sha256(path) +
                                                          "\""});
  auto all = std::make_shared<tables>(node_tables());
  if (auto loaded = load_plugins(c.plugins, *all); !loaded) return unexpected(loaded.error());
  control_plane_options p;
  p.cluster = c;
  p.node = o.node;
  p.all = std::move(all);
  p.state = state.path();
  p.incarnation = state.next_incarnation();
  p.may_inject = rules.inject;
  p.shares_memory = rules.shared_memory;
  p.exchange_memory = static_cast<std::uint64_t>(rules.exchange_memory);
  p.answers = session_answers();
  p.log = [&log](const std::string& line) { log(line); };
  p.on_alive = [&manager, &dog] {
    manager.alive();
    dog.fed();
  };
  p.on_drained = [&wake](bool whole) { wake.drained(whole); };
  p.on_lost_gpu = [&wake] { wake.look_now(); };
  return control_plane::open(std::move(p));
}

// The first error of a daemon that is started twice: its port is taken. Empty if it is free.
std::string port_taken(const std::string& address) {
  const auto where = net::parse_address(address);
  if (!where) return {};
  boost::asio::io_context io;
  const auto bound = net::listener::bind(io, *where);
  return bound ? std::string() : bound.error().message + "; ";
}

}  // namespace

int run_daemon(const daemon_options& o) {
  cluster_rules rules;
  auto read = read_cluster_file(o.cluster_file, &rules);
  if (!read) {
    for (const auto& d : read.error()) std::fprintf(stderr, "%s\n", printable(d.to_string()).c_str());
    return 2;
  }
  const auto& cluster = *read;
  const auto known = node_named(cluster, o.node);
  if (!known) return wrong(known.error().text);
  const auto* me = *known;
  if (const auto tls = check_tls(cluster, o.node); !tls) return wrong(tls.error().message);
  auto pages = daemon_pages::wanted(cluster, rules, *me);
  if (!pages) return wrong(pages.error().message);
  if (o.check) return 0;
  auto state = state_folder::open(o.state.empty() ? fs::absolute(o.cluster_file).parent_path() / "state" / o.node : o.state);
  if (!state) return wrong(port_taken(me->address) + state.error().message);
  share_memory_alike();
  wakeups wake;
  event_log log(o.node);
  service_manager manager;
  watchdog dog;
  auto plane = open_plane(o, cluster, rules, *state, log, wake, manager, dog);
  if (!plane) return wrong(plane.error().message);
  const auto opened = pages->open(**plane, state->path(), [&log](const std::string& line) { log(line); });
  if (!opened) return wrong(opened.error().message);
  const auto ports = (*plane)->ports();
  const auto host = me->address.substr(0, me->address.rfind(':'));
  const auto data_host = me->data_address.empty() ? host : me->data_address.substr(0, me->data_address.rfind(':'));
  std::printf("ready %s control %s:%u data %s:%u%s\n", o.node.c_str(), host.c_str(), unsigned{ports.control}, data_host.c_str(),
              unsigned{ports.data}, pages->ready_text().c_str());
  std::fflush(stdout);
  log(fmt::format("listening on {}:{} (control) and {}:{} (data)", host, ports.control, data_host, ports.data));
  own_certificates own(cluster, o.node);
  manager.ready(fmt::format("listening on {}:{}", host, ports.control));
  const int by = wait_for_the_end(**plane, *pages, wake, own, log, manager, dog);
  const int code = drain(by, **plane, wake, log, manager);
  {
    const exit_in_time limit(code, log);
    pages->close();  // their threads ask the plane
    *plane = nullptr;
  }
  log.drain();
  return code;
}

}  // namespace troupe
