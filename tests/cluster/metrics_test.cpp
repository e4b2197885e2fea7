// /metrics of real daemons, scraped by a real Prometheus (package prometheus) while a job trains.
#include <ifaddrs.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/node/http/access.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/http_client.hpp"

namespace troupe::testing_cluster {
namespace {

using testing_http::body_of;
using testing_http::get_request;
using testing_http::http_client;
using testing_http::http_get;
using testing_http::status_of;

std::string public_address() {
  ifaddrs* all = nullptr;
  std::string found;
  if (::getifaddrs(&all) != 0) return found;
  for (const auto* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    if (!http::is_loopback(text)) found = text;
  }
  ::freeifaddrs(all);
  return found;
}

class cluster_metrics : public cluster_test {
 protected:
  // Nodes as make_cluster() makes them, each with /metrics on a port of its own.
  void make_metered_cluster(int count) {
    std::vector<node_spec> nodes;
    for (int i = 1; i <= count; ++i) {
      node_spec n;
      n.name = "n" + std::to_string(i);
      n.roles = {"worker", "server"};
      if (i == 1) n.roles = {"coordinator", "data", "worker", "server"};
      metrics_[n.name] = free_port();
      n.metrics_address = "127.0.0.1:" + std::to_string(metrics_[n.name]);
      nodes.push_back(n);
    }
    make_cluster_of(nodes);
  }
  std::string page(const std::string& node) const { return body_of(http_get(metrics_.at(node), "/metrics")); }
  // The output of a daemon that does not start.
  std::string refused(const std::string& node, bool check) {
    std::vector<std::string> words{std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", node};
    if (check) words.emplace_back("--check");
    process p(words, folder_);
    EXPECT_EQ(p.wait(20s), 2) << p.log();
    return p.log();
  }

  std::map<std::string, std::uint16_t> metrics_;
};

// A Prometheus server with its data in a folder.
class prometheus_server {
 public:
  prometheus_server(const std::filesystem::path& folder, const std::string& scrape_config) : port_(free_port()) {
    const auto file = folder / "prometheus.yml";
    std::ofstream(file) << "global:\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\nscrape_configs:\n" << scrape_config;
    process_ = std::make_unique<process>(
        std::vector<std::string>{binary, "--config.file=" + file.string(), "--storage.tsdb.path=" + (folder / "tsdb").string(),
                                 "--web.listen-address=127.0.0.1:" + std::to_string(port_)},
        folder);
    if (!process_->wait_log("Server is ready to receive web requests", 60s)) ADD_FAILURE() << process_->log();
  }
  static constexpr const char* binary = "/usr/bin/prometheus";
  static bool installed() { return ::access(binary, X_OK) == 0 && ::access("/usr/bin/promtool", X_OK) == 0; }

  nlohmann::json ask(const std::string& query) {
    process_->wait_log("\x01", 0ms);  // reads its pending output
    std::string text;
    for (unsigned char c : query) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%%%02X", unsigned{c});
      text += hex;
    }
    http_client c(port_);
    c.send("GET /api/v1/query?query=" + text + " HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    EXPECT_TRUE(c.closed());
    const auto answer = nlohmann::json::parse(body_of(c.unread()), nullptr, false);
    EXPECT_EQ(answer.value("status", ""), "success") << query << "\n" << c.unread();
    return answer;
  }
  // The value of a query with one result; nullopt: none yet.
  std::optional<double> value(const std::string& query) {
    const auto answer = ask(query);
    if (!answer.contains("data") || answer["data"]["result"].size() != 1) return std::nullopt;
    return std::stod(answer["data"]["result"][0]["value"][1].get<std::string>());
  }
  // Waits until the query has at least this value. Each round waits for a new scrape.
  bool reaches(const std::string& query, double least, millis within = 60s) {
    const auto until = clock::now() + within;
    while (clock::now() < until) {
      if (const auto v = value(query); v && *v >= least) return true;
      process_->wait_out("\x01", 100ms);  // it writes nothing there: paces the queries
    }
    ADD_FAILURE() << query << " is " << value(query).value_or(-1) << ", not " << least;
    return false;
  }

 private:
  std::uint16_t port_;
  std::unique_ptr<process> process_;
};

std::string static_targets(const std::map<std::string, std::uint16_t>& ports) {
  std::string list;
  for (const auto& [node, port] : ports) list += (list.empty() ? "" : ", ") + ("'127.0.0.1:" + std::to_string(port)) + "'";
  return "  - job_name: troupe\n    static_configs:\n      - targets: [" + list + "]\n";
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
}

// Queries of the dashboard with its variables replaced.
std::vector<std::string> dashboard_queries() {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/configs/grafana/troupe.json");
  const auto dashboard = nlohmann::json::parse(in);
  std::vector<std::string> list;
  for (const auto& panel : dashboard.at("panels"))
    for (const auto& target : panel.value("targets", nlohmann::json::array())) list.push_back(target.at("expr"));
  for (const auto& note : dashboard.at("annotations").at("list")) list.push_back(note.at("expr"));
  for (auto& q : list)
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"$__rate_interval", "10s"}, {"$job", "troupe"}, {"$node", ".*"}, {"$run", ".*"}})
      replace_all(q, name, value);
  return list;
}

TEST_F(cluster_metrics, prometheus_scrapes_three_daemons_during_a_job) {
  if (!prometheus_server::installed()) GTEST_SKIP() << "prometheus is not installed";
  make_metered_cluster(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 2)));
  ASSERT_TRUE(b->wait_event("step", 60s, 20));
  prometheus_server p(folder_, static_targets(metrics_));
  EXPECT_TRUE(p.reaches("count(up == 1)", 3));
  EXPECT_TRUE(p.reaches("troupe_job_steps_total{job_id=\"1\"}", 20));
  EXPECT_TRUE(p.reaches("sum(troupe_node_up)", 3));
  EXPECT_TRUE(p.reaches("count(sum by (instance) (troupe_role_tasks_total{kind=\"stage\"}) > 0)", 3)) << "every node has stages";
  EXPECT_TRUE(p.reaches("count(troupe_link_bytes_total{plane=\"data\", direction=\"out\"} > 0)", 4));
  EXPECT_TRUE(p.reaches("sum(troupe_gradient_bytes_total{codec=\"none\"})", 1));
  EXPECT_TRUE(p.reaches("sum(rate(troupe_job_steps_total[5s]))", 0.001));
  EXPECT_EQ(p.value("troupe_job_state{state=\"running\"}"), 1);
  EXPECT_EQ(p.value("sum(troupe_dropped_messages_total{reason=~\"misaddressed|malformed|unexpected|unreadable|wrong_source\"})"),
            0);
  EXPECT_EQ(p.value("count(troupe_job_step)"), 1) << "only the coordinator's daemon exports jobs";
  std::set<std::string> empty;
  for (const auto& q : dashboard_queries())
    if (p.ask(q)["data"]["result"].empty()) empty.insert(q);
  for (const auto& q : empty)
    for (const char* shown : {"troupe_job_step", "troupe_job_loss", "troupe_role_busy", "troupe_link_bytes", "process_resident"})
      EXPECT_EQ(q.find(shown), std::string::npos) << "no data for " << q;
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
  EXPECT_TRUE(p.reaches("troupe_job_state{state=\"stopped\"}", 1));
}

TEST_F(cluster_metrics, a_lost_node_is_seen_by_prometheus_and_counted) {
  if (!prometheus_server::installed()) GTEST_SKIP() << "prometheus is not installed";
  make_metered_cluster(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 2)));
  ASSERT_TRUE(b->wait_event("step", 60s, 20));
  prometheus_server p(folder_, static_targets(metrics_));
  EXPECT_TRUE(p.reaches("count(up == 1)", 3));
  kill_hard("n3");
  ASSERT_TRUE(b->wait_event("recovered", 60s));
  EXPECT_TRUE(p.reaches("count(up == 0)", 1));
  EXPECT_TRUE(p.reaches("troupe_node_state{node=\"n3\", state=\"lost\"}", 1));
  EXPECT_TRUE(p.reaches("troupe_node_failures_total{node=\"n3\"}", 1));
  EXPECT_TRUE(p.reaches("troupe_job_recoveries_total", 1));
  EXPECT_TRUE(p.reaches("troupe_job_plan_changes_total", 1));
  EXPECT_TRUE(p.reaches("troupe_job_recovery_seconds_total", 1e-6));
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
}

TEST_F(cluster_metrics, pages_of_daemons_pass_promtool) {
  if (!prometheus_server::installed()) GTEST_SKIP() << "promtool is not installed";
  make_metered_cluster(2);
  start_all();
  EXPECT_EQ(run(tiny_job(), workers(2, 2)).outcome.exit_code(), 0);
  for (const auto& node : names_) {
    const auto text = page(node);
    EXPECT_NE(text.find("troupe_build_info{version="), std::string::npos);
    const auto file = write("page", text);
    EXPECT_EQ(std::system(("/usr/bin/promtool check metrics < " + file + " >&2").c_str()), 0) << text;
  }
}

// Slow clients, garbage and thousands of connections cost neither the daemon nor its job anything.
TEST_F(cluster_metrics, hostile_clients_stop_neither_the_daemon_nor_its_job) {
  make_metered_cluster(2);
  start_all();
  auto b = begin(tiny_job(), endless(workers(2, 2)));
  ASSERT_TRUE(b->wait_event("step", 60s, 5));
  const auto port = metrics_.at("n1");
  std::vector<http_client> open;
  for (int i = 0; i < 500; ++i) {
    open.emplace_back(port);
    if (i % 3 == 0) open.back().send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n");  // half a request
    if (i % 3 == 1) open.back().send(std::string(5000, static_cast<char>(i)));
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(status_of(http_get(port, "/metrics", "A: " + std::string(20'000, 'a') + "\r\n")), 431);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(status_of(http_get(port, "/metrics/../../etc/passwd")), 404);
  const auto text = page("n1");
  const auto at = text.find("troupe_job_step{job_id=\"1\"} ");
  ASSERT_NE(at, std::string::npos) << text;
  const auto step = std::stoull(text.substr(at + 28));
  EXPECT_TRUE(b->wait_event("step", 60s, step + 20)) << "the job continues";
  EXPECT_LT(daemon("n1").descriptors(), 200u) << "connections are bounded";
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
}

TEST_F(cluster_metrics, a_daemon_names_its_page_and_serves_the_index) {
  make_metered_cluster(1);
  start("n1");
  const auto url = "http://127.0.0.1:" + std::to_string(metrics_.at("n1")) + "/metrics";
  EXPECT_NE(daemon("n1").out().find(" metrics " + url + "\n"), std::string::npos) << daemon("n1").out();
  EXPECT_NE(body_of(http_get(metrics_.at("n1"), "/")).find("href=\"/metrics\""), std::string::npos);
  EXPECT_NE(page("n1").find("troupe_certificate_expiry_timestamp_seconds{certificate=\"node\"} "), std::string::npos);
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(daemon("n1").wait_log("certificates are reloaded", 10s));
  EXPECT_NE(page("n1").find("troupe_certificate_expiry_timestamp_seconds{certificate=\"ca\"} "), std::string::npos);
  daemon("n1").signal(SIGTERM);
  EXPECT_EQ(daemon("n1").wait(), 0);
}

TEST_F(cluster_metrics, an_address_that_others_reach_needs_a_token_that_others_cannot_read) {
  node_spec n;
  n.name = "n1";
  n.roles = {"coordinator", "data", "worker", "server"};
  n.metrics_address = "192.0.2.77:9101";
  make_cluster_of({n});
  for (const bool check : {true, false}) {
    const auto log = refused("n1", check);
    EXPECT_NE(log.find("cluster.toml:"), std::string::npos) << log;
    EXPECT_NE(log.find("metrics_address 192.0.2.77:9101 can be reached from other machines: set metrics_token"), std::string::npos)
        << log;
  }
  write("token", "0123456789abcdef0123456789abcdef\n");
  std::ofstream(path("cluster.toml"), std::ios::app) << "metrics_token = \"token\"\n";
  ::chmod(path("token").c_str(), 0644);
  EXPECT_NE(refused("n1", true).find("other users may read the token file"), std::string::npos);
  std::filesystem::remove(path("token"));
  EXPECT_NE(refused("n1", true).find("cannot read the token file"), std::string::npos);
}

TEST_F(cluster_metrics, prometheus_scrapes_over_tls_with_the_token) {
  const auto host = public_address();
  if (host.empty()) GTEST_SKIP() << "this machine has only loopback addresses";
  if (!prometheus_server::installed()) GTEST_SKIP() << "prometheus is not installed";
  node_spec n;
  n.name = "n1";
  n.address = host;
  n.roles = {"coordinator", "data", "worker", "server"};
  n.metrics_address = host + ":0";
  n.metrics_token = "token";
  write("token", "0123456789abcdef0123456789abcdef\n");
  write("wrong", "0123456789abcdef0123456789abcdee\n");
  ::chmod(path("token").c_str(), 0600);
  make_cluster_of({n});
  start("n1");
  const auto& out = daemon("n1").out();
  const auto at = out.find(" metrics https://" + host + ":");
  ASSERT_NE(at, std::string::npos) << out;
  const auto target = out.substr(at + 17, out.find("/metrics\n") - at - 17);
  const auto scrape = [&](const std::string& job, const std::string& token) {
    return "  - job_name: " + job + "\n    scheme: https\n    tls_config: { ca_file: " + path("certs/ca.pem") +
           " }\n    authorization: { credentials_file: " + path(token) + " }\n    static_configs: [{ targets: ['" + target +
           "'] }]\n";
  };
  prometheus_server p(folder_, scrape("right", "token") + scrape("wrong", "wrong"));
  EXPECT_TRUE(p.reaches("up{job=\"right\"}", 1));
  EXPECT_TRUE(p.reaches("count(up{job=\"wrong\"} == 0)", 1));
  EXPECT_TRUE(p.reaches("troupe_metrics_requests_total{result=\"refused\"}", 1));
  EXPECT_EQ(p.value("troupe_node_up{node=\"n1\"}"), 1);
}

}  // namespace
}  // namespace troupe::testing_cluster
