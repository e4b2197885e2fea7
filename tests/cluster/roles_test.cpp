// Rights of the certificate roles on live daemons, at the coordinator's node and at a member: with
// the programs, and with messages that the programs do not send.
#include "actors/control/frames.hpp"
#include "runtime/exchange/client/frames.hpp"
#include "runtime/exchange/hub/message.hpp"
#include "runtime/exchange/troupe_exchange.h"
#include "runtime/node/pki/authority.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/cluster/rude_operator.hpp"
#include "tests/error_text.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_roles : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(2);
    for (const auto& [name, role] : {std::pair{"alice", certificate_role::submit},
                                     {"bob", certificate_role::submit},
                                     {"eve", certificate_role::watch},
                                     {"rex", certificate_role::exchange}})
      ASSERT_TRUE(add_operator_certificate(folder_ / "certs", name, role));
    start_all();
  }
  std::string folder_of(const std::string& who) const { return operator_folder(folder_ / "certs", who).string(); }
  cluster_address as(const std::string& who, const std::string& node = "n1") const {
    auto where = address_of(node);
    where.tls_dir = folder_of(who);
    return where;
  }
  repl_reply ask_as(const std::string& who, const std::string& node, const std::string& line) {
    return ask_at(as(who, node), line);
  }
  std::unique_ptr<background> begin_as(const std::string& who) {
    cluster_submission s;
    s.where = as(who);
    s.file = "job.toml";
    s.text = tiny_job();
    s.overrides = endless(workers(2, 1));
    return std::make_unique<background>(std::move(s));
  }
  // Sends the message as this client and returns the first answer of type M.
  template <class M>
  M answer_to(const std::string& who, const control::message& m, const std::string& node = "n1") {
    rude_operator c(folder_of(who), control_port(node));
    EXPECT_TRUE(c.send(m));
    const auto found = c.first<M>();
    EXPECT_TRUE(found);
    return found ? *found : M{};
  }
};

TEST_F(cluster_roles, only_its_owner_and_admin_may_control_a_job) {
  auto b = begin_as("alice");
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  EXPECT_NE(ask_as("eve", "n1", "jobs").text.find("[alice]"), std::string::npos) << "the owner is shown";
  for (const std::string node : {"n1", "n2"})  // n2 forwards lines with the client's name
    for (const std::string line : {"stop", "stop 1", "pause", "set train.dynamics.lr 0.5", "mode ssp staleness=2", "checkpoint",
                                   "eval", "move ip1 n2", "drain n2"}) {
      const auto no = ask_as("bob", node, line);
      EXPECT_EQ(no.how, repl_reply::kind::failed) << node << " " << line;
      EXPECT_NE(no.text.find("job 1 is alice's, and bob has the role submit; its owner and admin may"), std::string::npos)
          << node << " " << line << ": " << no.text;
    }
  for (const std::string node : {"n1", "n2"}) {
    EXPECT_EQ(ask_as("bob", node, "staleness").how, repl_reply::kind::ok) << "a query";
    EXPECT_EQ(ask_as("alice", node, "checkpoint").how, repl_reply::kind::ok);
    EXPECT_EQ(ask(node, "eval").how, repl_reply::kind::ok) << "admin";
  }
  EXPECT_EQ(ask_as("alice", "n2", "stop").how, repl_reply::kind::ok);
  const auto r = b->join();
  ASSERT_FALSE(r.events.empty());
  EXPECT_EQ(message_of(r.events.back().event), "stopped");
}

TEST_F(cluster_roles, the_watch_role_may_only_look) {
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  const auto job = write("job.toml", tiny_job());
  for (const std::string node : {"n1", "n2"}) {
    for (const std::string line :
         {"status", "nodes", "roles", "queues", "waits", "jobs", "layer", "watch loss 1", "staleness", "help"})
      EXPECT_EQ(ask_as("eve", node, line).how, repl_reply::kind::ok) << node << " " << line;
    for (const std::string line : {"stop", "pause", "resume", "set train.dynamics.lr 0.5", "mode ssp", "checkpoint", "eval",
                                   "move ip1 n2", "drain n2", "add-node n2"}) {
      const auto no = ask_as("eve", node, line);
      EXPECT_EQ(no.how, repl_reply::kind::failed) << node << " " << line;
      EXPECT_NE(no.text.find("the certificate of eve has the role watch; submit and admin may"), std::string::npos)
          << node << " " << line << ": " << no.text;
    }
    const auto no = ask_as("eve", node, "submit " + job);
    EXPECT_NE(no.text.find("not allowed: submit: the certificate of eve has the role watch"), std::string::npos) << no.text;
  }
  cluster_submission s;
  s.where = as("eve");
  s.file = "job.toml";
  s.text = tiny_job();
  const auto r = run_all(s);
  EXPECT_EQ(r.outcome.exit_code(), 2);
  ASSERT_FALSE(r.outcome.messages.empty());
  EXPECT_NE(r.outcome.messages.front().find("not allowed: submit a job: the certificate of eve has the role watch"),
            std::string::npos);
  EXPECT_NE(answer_to<control::piece>("eve", control::fetch{1, 0}).error.find("not allowed: fetch weights"), std::string::npos);
  EXPECT_NE(answer_to<control::submitted>("eve", control::follow{1}).job, 0u) << "the watch role may follow a job";
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
}

TEST_F(cluster_roles, the_exchange_role_is_refused_outside_the_exchange) {
  for (const std::string line : {"status", "jobs", "stop", "help", "_complete st", "_follow stop 1 0 5"}) {
    const auto no = ask_as("rex", "n1", line);
    EXPECT_EQ(no.how, repl_reply::kind::failed) << line;
    EXPECT_NE(no.text.find("the certificate of rex has the role exchange"), std::string::npos) << line << ": " << no.text;
  }
  const auto refused = answer_to<control::submitted>("rex", control::submit{{"job.toml", tiny_job(), {}}, true, 7});
  EXPECT_EQ(refused.ask, 7u);
  EXPECT_EQ(refused.job, 0u);
  EXPECT_EQ(answer_to<control::submitted>("rex", control::follow{1}).job, 0u);
}

// With frames of the exchange; exchange_test.cpp uses the library.
TEST_F(cluster_roles, only_the_exchange_and_admin_roles_may_open_exchange_sessions) {
  const auto opened = [&](const std::string& who) {
    rude_operator c(folder_of(who), control_port("n1"));
    exchange::open_session o;
    o.session = "room of " + who;
    o.size = 1;
    EXPECT_TRUE(c.send_frame(exchange::to_frame(o)));
    std::optional<exchange::answer> said;
    c.first_frame([&](const net::frame& f) {
      if (!exchange::is_exchange_type(f.type)) return false;
      if (const auto m = exchange::from_frame(f))
        if (const auto* a = std::get_if<exchange::answer>(&*m)) said = *a;
      return said.has_value();
    });
    EXPECT_TRUE(said) << who;
    return said ? said->text : "no answer";
  };
  EXPECT_EQ(opened("rex"), "");
  EXPECT_EQ(opened("client"), "");
  EXPECT_NE(opened("alice").find("the certificate of alice has the role submit; exchange and admin may"), std::string::npos);
  EXPECT_NE(opened("eve").find("the certificate of eve has the role watch"), std::string::npos);
}

TEST_F(cluster_roles, exchange_open_without_the_right_fails_with_not_allowed) {
  const auto address = "127.0.0.1:" + std::to_string(control_port("n1"));
  for (const auto& [who, code] : {std::pair{"rex", TROUPE_EXCHANGE_OK}, std::pair{"alice", TROUPE_EXCHANGE_NOT_ALLOWED}}) {
    const auto tls = folder_of(who);
    const troupe_exchange_options o{sizeof o, address.c_str(), tls.c_str(), who, 0, 1, TROUPE_EXCHANGE_AVERAGE, 0, 20000};
    troupe_exchange* x = nullptr;
    EXPECT_EQ(troupe_exchange_open(&o, &x), code) << troupe_exchange_error_text();
    troupe_exchange_close(x);
  }
  EXPECT_EQ(std::string(troupe_exchange_error_text())
                .rfind("[troupe_exchange] not_allowed: not allowed: enter a room of the exchange: the certificate of alice", 0),
            0u)
      << troupe_exchange_error_text();
}

TEST_F(cluster_roles, only_the_jobs_owner_and_admin_may_fetch_weights) {
  cluster_submission s;
  s.where = as("alice");
  s.file = "job.toml";
  s.text = tiny_job();
  s.out = path("alice.safetensors");
  const auto r = run_all(s);
  EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  EXPECT_TRUE(std::filesystem::exists(s.out));
  const auto id = r.events.back().job;
  EXPECT_FALSE(answer_to<control::piece>("client", control::fetch{id, 0}).bytes.empty());
  const auto no = answer_to<control::piece>("bob", control::fetch{id, 0});
  EXPECT_TRUE(no.bytes.empty());
  EXPECT_NE(no.error.find("job 1 is alice's"), std::string::npos) << no.error;
}

// The client name in an `ask` message is ignored unless a node sent the message.
TEST_F(cluster_roles, a_client_cannot_ask_in_the_name_of_another) {
  auto b = begin_as("alice");
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  for (const std::string node : {"n1", "n2"}) {
    const auto no = answer_to<control::answer>("bob", control::ask{1, false, "stop", {}, "alice", 2}, node);
    EXPECT_NE(no.text.find("job 1 is alice's, and bob"), std::string::npos) << no.text;
    const auto neither = answer_to<control::answer>("eve", control::ask{1, false, "stop", {}, "client", 1}, node);
    EXPECT_NE(neither.text.find("has the role watch"), std::string::npos) << neither.text;
  }
  EXPECT_EQ(ask_as("alice", "n1", "stop").how, repl_reply::kind::ok);
  b->join();
}

TEST_F(cluster_roles, a_jobs_owner_is_kept_when_the_coordinator_is_killed) {
  auto b = begin_as("alice");
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  kill_hard("n1");
  start("n1");
  ASSERT_TRUE(daemon("n1").wait_log(" runs", 40s));
  EXPECT_NE(ask_as("bob", "n1", "stop 1").text.find("job 1 is alice's"), std::string::npos);
  EXPECT_EQ(ask_as("alice", "n1", "stop 1").how, repl_reply::kind::ok);
  b->detach();
  b->join();
}

// --- certificates that change while daemons run

TEST_F(cluster_roles, a_revoked_client_is_disconnected_at_once_and_no_other) {
  const auto before = daemon("n1").log().size();
  rude_operator alice(folder_of("alice"), control_port("n1"));
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  ASSERT_TRUE(revoke_certificates(folder_ / "certs", "alice"));
  daemon("n1").signal(SIGHUP);
  EXPECT_TRUE(alice.let_go());
  EXPECT_TRUE(b->wait_event("checkpoint", 20s)) << "SIGHUP still writes a checkpoint";
  const auto error = test::error_text(connect_repl(as("alice"), false, 8s));
  EXPECT_NE(error.find("has been revoked"), std::string::npos) << "alice's own revocation list: " << error;
  std::filesystem::remove(folder_ / "certs/client.alice/revoked.pem");
  EXPECT_FALSE(connect_repl(as("alice"), false, 2s)) << "the daemon's revocation list";
  EXPECT_TRUE(daemon("n1").wait_log("the peer's certificate: certificate revoked", 5s));
  EXPECT_EQ(ask_as("bob", "n1", "status").how, repl_reply::kind::ok);
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok) << "the job and its client continue";
  EXPECT_EQ(message_of(b->join().events.back().event), "stopped");
  EXPECT_EQ(daemon("n1").log().find("is lost", before), std::string::npos);
}

TEST_F(cluster_roles, a_daemon_reloads_a_renewed_certificate_while_a_job_runs) {
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  for (const std::string node : {"n1", "n2"}) ASSERT_TRUE(renew_certificate(folder_ / "certs", node, true));
  for (const std::string node : {"n1", "n2"}) {
    daemon(node).signal(SIGHUP);
    EXPECT_TRUE(daemon(node).wait_log("SIGHUP: certificates are reloaded", 10s));
  }
  EXPECT_TRUE(b->wait_event("checkpoint", 20s));
  EXPECT_EQ(ask("n1", "status").how, repl_reply::kind::ok) << "a connection with the new certificate";
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  EXPECT_EQ(message_of(b->join().events.back().event), "stopped");
  EXPECT_EQ(daemon("n1").log().find("certificates were not reloaded"), std::string::npos);
}

TEST_F(cluster_roles, a_certificate_that_expires_soon_is_reported_at_start_and_reload) {
  certificate_options o;
  o.until = 24h * 20;
  ASSERT_TRUE(renew_certificate(folder_ / "certs", "n2", false, o));
  daemon("n2").signal(SIGHUP);
  EXPECT_TRUE(daemon("n2").wait_log("the certificate of n2 expires in 19 days", 10s));
  kill_hard("n2");
  start("n2");
  EXPECT_TRUE(daemon("n2").wait_log("the certificate of n2 expires in 19 days", 10s));
}

TEST_F(cluster_roles, files_of_a_daemon_are_not_accessible_to_other_users) {
  ASSERT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
  std::size_t files = 0;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder_ / "state")) {
    std::error_code gone;  // the daemon may replace a file meanwhile
    const auto mode = e.status(gone);
    if (gone || !std::filesystem::exists(mode)) continue;
    const auto open = mode.permissions() & (std::filesystem::perms::others_all | std::filesystem::perms::group_all);
    EXPECT_EQ(open, std::filesystem::perms::none) << e.path();
    ++files;
  }
  EXPECT_GT(files, 3u);
}

}  // namespace
}  // namespace troupe::testing_cluster
