// A daemon opens no path that a client names. Clients of every role send every message with file
// names in each of its texts. The files are in one folder, and the kernel reports every file that
// is opened there (inotify). Each name contains its sender and message.
//
// TROUPE_OPENED_PATHS: the number of random messages, default 400; a long run has 100000.
#include <sys/inotify.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "actors/control/frames.hpp"
#include "runtime/cluster/controller/trust.hpp"
#include "runtime/data/random.hpp"
#include "runtime/exchange/client/frames.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/pki/authority.hpp"
#include "tests/cluster/message_samples.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/cluster/rude_operator.hpp"
#include "tests/environment.hpp"
#include "tests/node/net_support.hpp"
#include "tests/runtime/exchange/exchange_samples.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

// Records the names of files in some folders, or of some files, that any process opens.
class opened_files {
 public:
  explicit opened_files(const std::vector<std::string>& watched) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    for (const auto& w : watched)
      if (::inotify_add_watch(fd_, w.c_str(), IN_OPEN) < 0) throw std::runtime_error("cannot watch " + w);
  }
  ~opened_files() { ::close(fd_); }
  opened_files(const opened_files&) = delete;
  opened_files& operator=(const opened_files&) = delete;

  // All names since the last call.
  std::set<std::string> take() {
    std::set<std::string> names;
    alignas(inotify_event) char buffer[1 << 16];
    for (ssize_t n = 0; (n = ::read(fd_, buffer, sizeof buffer)) > 0;)
      for (ssize_t at = 0; at < n;) {
        const auto& e = *reinterpret_cast<const inotify_event*>(buffer + at);
        names.insert((e.mask & IN_Q_OVERFLOW) != 0 ? "(too many events)" : e.len > 0 ? e.name : "(the watched folder or file)");
        at += static_cast<ssize_t>(sizeof e + e.len);
      }
    return names;
  }

 private:
  int fd_;
};

// Calls f(text) for every text of a message, in the order of its fields.
template <class T, class F>
void each_text(T& x, const F& f) {
  if constexpr (std::is_same_v<T, std::string>)
    f(x);
  else if constexpr (requires { T::fields(x); })
    std::apply([&](auto&... field) { (each_text(field, f), ...); }, T::fields(x));
  else if constexpr (requires { x.first, x.second; })
    each_text(x.first, f), each_text(x.second, f);
  else if constexpr (requires { x.begin(), x.end(); })
    for (auto& one : x) each_text(one, f);
}

std::size_t texts_of(control::message m) {
  std::size_t n = 0;
  std::visit([&](auto& x) { each_text(x, [&](std::string&) { ++n; }); }, m);
  return n;
}

control::message with_text(control::message m, std::size_t which, const std::string& text) {
  std::size_t n = 0;
  const auto replace = [&](std::string& s) {
    if (n++ == which) s = text;
  };
  std::visit([&](auto& x) { each_text(x, replace); }, m);
  return m;
}

// A client that waits for the answer to every message that has one.
class talker : public rude_operator {
 public:
  talker(const std::string& tls, std::uint16_t port) : rude_operator(tls, port, 16 << 20) {}  // for the answers to all keys
  // `given`: the content of the file that a submitted job starts from.
  void say(control::message m, const std::string& given) {
    const auto id = ++said_;
    if (auto* a = std::get_if<control::ask>(&m)) a->id = id;
    if (auto* s = std::get_if<control::submit>(&m)) {
      s->ask = id;
      s->given.bytes = given.size();
    }
    ASSERT_TRUE(send(m));
    if (const auto* a = std::get_if<control::ask>(&m)) {
      EXPECT_TRUE(first_frame([&](const net::frame& f) {
        const auto* r = as<control::answer>(f);
        return r && r->id == id;
      })) << a->line;
    } else if (std::holds_alternative<control::submit>(m)) {
      std::uint32_t wanted = 0;  // the job whose file the daemon requests
      const auto answered = [&](const net::frame& f) {
        const auto* r = as<control::submitted>(f);
        return r && r->ask == id;
      };
      EXPECT_TRUE(first_frame([&](const net::frame& f) {
        const auto* r = as<control::fetch>(f);
        if (r && !sent_.contains(r->job)) wanted = r->job;
        return wanted != 0 || answered(f);
      }));
      if (wanted == 0) return;
      sent_.insert(wanted);
      send(control::piece{wanted, 0, given.size(), given, {}});
      EXPECT_TRUE(first_frame(answered));
    }
  }

 private:
  template <class M>
  const M* as(const net::frame& f) {
    read_ = control::from_frame(f);
    return read_ ? std::get_if<M>(&*read_) : nullptr;
  }
  std::optional<control::message> read_;
  std::uint64_t said_ = 0;
  std::set<std::uint32_t> sent_;
};

class cluster_opened_paths : public cluster_test {
 protected:
  void SetUp() override {
    data_ = {"sets"};
    make_cluster(2);
    for (const auto& [name, role] :
         {std::pair{"alice", certificate_role::submit}, {"eve", certificate_role::watch}, {"rex", certificate_role::exchange}})
      ASSERT_TRUE(add_operator_certificate(folder_ / "certs", name, role));
    // The names refer to a valid job, so a daemon that opened one would continue with it. One way
    // to them leads through the data folder.
    fs::create_directories(folder_ / "canary");
    fs::create_directories(folder_ / "sets");
    write("sets/rows.csv", "1,2,0\n3,4,1\n");
    write("canary/job.toml", tiny_job());
    fs::create_directory_symlink("../canary", folder_ / "sets/out");
    start_all();
    watch_ = std::make_unique<opened_files>(std::vector<std::string>{path("canary")});
  }

  // Creates a file with a unique name and returns one of four ways to write its path.
  std::string named(const std::string& who, const std::string& what) {
    const auto file = who + "-" + what + "-" + std::to_string(++files_);
    fs::create_hard_link(folder_ / "canary/job.toml", folder_ / "canary" / file);
    const std::string ways[] = {path("canary/" + file), "canary/" + file, path("sets/out/" + file), path("canary")};
    return ways[files_ % 4];
  }
  static std::vector<std::string> everybody() { return {"client", "alice", "eve", "rex"}; }
  talker& talk(const std::string& who, const std::string& node) {
    auto& t = talkers_[who + " " + node];
    if (!t) t = std::make_unique<talker>(operator_folder(folder_ / "certs", who).string(), control_port(node));
    return *t;
  }
  static std::vector<std::string> short_run() { return {"train.finish.steps=2", "eval.every=0"}; }
  // One message of every type. Those that a daemon accepts are valid.
  static std::vector<control::message> sound() {
    auto all = control::message_samples();
    control::ask a;
    a.line = "submit job.toml train.finish.steps=2 eval.every=0";
    a.text = tiny_job();
    for (auto& m : all) {
      if (auto* s = std::get_if<control::submit>(&m)) s->what = {"job.toml", tiny_job(), short_run()};
      if (std::holds_alternative<control::ask>(m)) m = a;
    }
    return all;
  }
  void say(const std::string& who, const std::string& node, const control::message& m) {
    const auto header = R"({"__metadata__":{"job":")" + named(who, "metadata") + R"("}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    talk(who, node).say(m, file + header);
  }
  void ask_line(const std::string& who, const std::string& node, const std::string& line, const std::string& text = {}) {
    control::ask a;
    a.line = line;
    a.text = text;
    say(who, node, a);
  }
  void submit_job(const std::string& text, const std::vector<std::string>& set = {}) {
    control::submit s;
    s.what = {"job.toml", text, set};
    say("alice", "n1", s);
  }

  // Expects that no file was opened, also after all submitted jobs are over.
  void expect_nothing_opened() {
    const auto goes_on = [](const std::string& jobs) {
      for (const char* state : {"queued", "running", "paused", "stopping"})
        if (jobs.find("\"" + std::string(state) + "\"") != std::string::npos) return true;
      return false;
    };
    const auto end = clock::now() + 60s;
    std::string jobs;
    do jobs = ask("n1", "jobs", true).text;
    while (goes_on(jobs) && clock::now() < end);
    EXPECT_FALSE(goes_on(jobs)) << jobs;
    for (const auto& name : watch_->take()) ADD_FAILURE() << "a daemon has opened " << name;
    for (const std::string node : {"n1", "n2"}) EXPECT_EQ(ask(node, "status").how, repl_reply::kind::ok) << node;
  }

  std::unique_ptr<opened_files> watch_;
  std::map<std::string, std::unique_ptr<talker>> talkers_;
  std::size_t files_ = 0;
};

TEST_F(cluster_opened_paths, inotify_reports_files_that_another_process_opens) {
  process reader({"/bin/cat", path("canary/job.toml")}, folder_);
  EXPECT_EQ(reader.wait(), 0);
  EXPECT_TRUE(watch_->take().contains("job.toml"));
  process lister({"/bin/ls", path("sets/out/")}, folder_);
  EXPECT_EQ(lister.wait(), 0);
  EXPECT_FALSE(watch_->take().empty());
}

TEST_F(cluster_opened_paths, no_text_of_a_control_message_is_opened) {
  for (const auto& who : everybody())
    for (const std::string node : {"n1", "n2"})
      for (const auto& m : sound())
        for (std::size_t n = 0; n < texts_of(m); ++n)
          for (int way = 0; way < 4; ++way)
            say(who, node, with_text(m, n, named(who, control::name_of(m) + std::string("-text") + std::to_string(n))));
  expect_nothing_opened();
}

TEST_F(cluster_opened_paths, no_argument_of_a_command_is_opened) {
  std::vector<std::string> commands{"_follow", "_complete"};
  for (const auto& c : repl_commands()) commands.push_back(c.name);
  for (const auto& who : everybody())
    for (const std::string node : {"n1", "n2"})
      for (const auto& c : commands)
        for (int way = 0; way < 4; ++way) {
          const auto file = [&] { return named(who, c); };
          ask_line(who, node, c + " " + file());
          ask_line(who, node, c + "\t\"" + file() + "\"");
          ask_line(who, node, c + " 1 " + file());
          ask_line(who, node, c + " word data.path=" + file());
          ask_line(who, node, c + " word " + file(), file());
        }
  expect_nothing_opened();
}

TEST_F(cluster_opened_paths, no_key_of_a_job_opens_a_file_outside_the_allowed_folders) {
  for (const auto& t : job_tables())
    for (const auto& k : t.entries)
      for (int way = 0; way < 4; ++way) {
        auto table = t.name.substr(1, t.name.find(']') - 1) + ".";
        if (t.name.front() != '[') table.clear();
        if (table == "[layer.") table = "layer.conv1.";
        const auto file = "\"" + named("alice", k.name) + "\"";
        auto set = short_run();
        set.push_back(table + k.name + "=" + (k.kind == key_kind::texts ? "[" + file + "]" : file));
        submit_job(tiny_job(), set);
      }
  for (const char* why :
       {"this node loads only plugins that its cluster file names", "[checkpoint]: 'dir' is outside the allowed folders"})
    EXPECT_TRUE(daemon("n1").wait_log(why, 10s)) << why;
  expect_nothing_opened();
}

TEST_F(cluster_opened_paths, no_data_source_opens_a_file_outside_the_allowed_folders) {
  const auto job = tiny_job();
  const auto model = job.substr(job.find("[[layer]]"));
  const auto all = node_tables();
  for (const auto& source : all.sources.names())
    for (const auto& option : all.sources.find(source)->specs) {
      if (option.kind != option_kind::text || !option.choices.empty()) continue;
      for (int way = 0; way < 4; ++way) {
        std::string data =
            "[data]\nsource = \"" + source + "\"\nbatch = 1\n" + option.name + " = \"" + named("alice", source) + "\"\n";
        for (const auto& other : all.sources.find(source)->specs)
          if (!other.fallback && other.name != option.name) data += other.name + " = \"" + path("sets/rows.csv") + "\"\n";
        submit_job(data + model, short_run());
        if (option.name == "path") {
          EXPECT_TRUE(daemon("n1").wait_log("'path' is outside the allowed folders", 10s)) << source;
        }
      }
    }
  expect_nothing_opened();
}

TEST_F(cluster_opened_paths, no_name_in_an_exchange_message_is_opened) {
  for (const std::string who : {"client", "rex"})
    for (int way = 0; way < 4; ++way) {
      rude_operator c(operator_folder(folder_ / "certs", who).string(), control_port("n1"));
      const auto file = [&](const char* what) { return named(who, what); };
      const std::vector<exchange::message> all{
          exchange::open_session{exchange::protocol, file("session"), 0, 1, exchange::averaging_method::average, 0},
          exchange::declare{1, file("buffer"), exchange::element::f32, 8}, exchange::take_lock{2, file("lock")},
          exchange::free_lock{3, file("lock")}, exchange::share{4, file("memory"), exchange::element::f32, 8}};
      for (std::size_t n = 0; n < all.size(); ++n) {
        ASSERT_TRUE(c.send_frame(exchange::to_frame(all[n])));
        EXPECT_TRUE(c.has_frames(n + 1)) << "no answer to message " << n;
      }
      c.send_frame(exchange::to_frame(exchange::shared_at{5, 5, exchange::contents::full, 1, 2, 3, file("machine")}));
      EXPECT_TRUE(c.let_go());
    }
  expect_nothing_opened();
}

TEST_F(cluster_opened_paths, no_field_of_a_clients_hello_is_opened) {
  std::string why;
  auto mine = net::shared_arena::make(std::uint64_t{1} << 20);
  ASSERT_TRUE(mine) << mine.error().message;
  const auto memory = (*mine)->where();
  opened_files shared({"/proc/self/fd/" + std::to_string(memory.where.descriptor)});
  std::size_t n = 0;
  for (const auto& who : everybody())
    for (const auto port : {control_port("n1"), data_port("n1")})
      for (int field = 0; field < 4; ++field) {
        const auto name = who == "client" ? "client.x" + std::to_string(++n) : "client." + who + ".x" + std::to_string(++n);
        net::testing::raw_client c(port);
        ASSERT_TRUE(c.handshake(operator_folder(folder_ / "certs", who) / "client"));
        ASSERT_TRUE(c.greet(field == 0 ? named(who, "node") : name, [&](net::hello& h) {
          h.cluster = field == 1 ? named(who, "cluster") : "lab";
          h.wanted = field == 2 ? named(who, "wanted") : "n1";
          h.memory = memory;
        }));
        c.read();  // the daemon's answer to the hello
        c.read();
      }
  EXPECT_TRUE(shared.take().empty()) << "a daemon has opened the shared buffer that a client announced";
  expect_nothing_opened();
}

TEST_F(cluster_opened_paths, no_file_named_in_random_messages_is_opened) {
  const auto rounds = from_environment("TROUPE_OPENED_PATHS", 400);
  counter_rng r(20261125);
  const auto messages = sound();
  const std::vector<std::string> around = {"",
                                           "submit ",
                                           "submit\t",
                                           "submit \"",
                                           "\"",
                                           "checkpoint ",
                                           "_follow ",
                                           "eval ",
                                           "file://",
                                           "data.path=\"",
                                           "plugins=[\"",
                                           "[data]\npath = \"",
                                           "/proc/self/cwd/"};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto who = everybody()[r.draw_below(4)];
    const auto node = std::string(r.draw_below(2) == 0 ? "n1" : "n2");
    auto m = messages[r.draw_below(messages.size())];
    if (r.draw_below(2) == 0) m = messages[r.draw_below(2) == 0 ? 2 : 15];  // the client messages submit and ask
    const auto texts = texts_of(m);
    for (auto changes = 1 + r.draw_below(3); changes > 0 && texts > 0; --changes) {
      const auto& before = around[r.draw_below(around.size())];
      const auto end = before.find('[') != std::string::npos ? "\"]" : before.find('"') != std::string::npos ? "\"" : "";
      m = with_text(m, r.draw_below(texts), before + named(who, control::name_of(m)) + end);
    }
    say(who, node, m);
  }
  expect_nothing_opened();
}

}  // namespace
}  // namespace troupe::testing_cluster
