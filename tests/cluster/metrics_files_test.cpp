// The files for Prometheus and Grafana: they are valid, and use only metrics and labels that are
// exported.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "actors/metrics/exposition.hpp"

namespace troupe::testing_cluster {
namespace {

const std::string configs = std::string(TROUPE_SOURCE_DIR) + "/configs/";

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Labels by name of a series; histograms have three series.
std::map<std::string, std::set<std::string>> exported() {
  std::map<std::string, std::set<std::string>> all;
  for (const auto& m : metric_table()) {
    const std::string words = m.labels;
    const std::regex word("[a-z_]+");
    std::set<std::string> labels(std::sregex_token_iterator(words.begin(), words.end(), word), {});
    labels.insert({"job", "instance"});
    if (m.kind != metric_kind::histogram) {
      all[m.name] = labels;
      continue;
    }
    for (const char* end : {"_sum", "_count"}) all[std::string(m.name) + end] = labels;
    labels.insert("le");
    all[std::string(m.name) + "_bucket"] = labels;
  }
  return all;
}

// Checks the names of series in a text, and the labels in the braces behind them.
void check_series(const std::string& text, const std::string& where) {
  static const auto known = exported();
  const std::regex series(R"(\b((?:troupe|process)_[a-z0-9_]+)(\{([^}]*)\})?)"), matcher(R"(([a-z_]+)\s*(?:=~|!=|!~|=)\s*")");
  std::size_t count = 0;
  for (std::sregex_iterator i(text.begin(), text.end(), series), end; i != end; ++i, ++count) {
    const auto found = known.find((*i)[1]);
    if (found == known.end()) {
      ADD_FAILURE() << where << ": " << (*i)[1] << " is not exported";
      continue;
    }
    const std::string braces = (*i)[3];
    for (std::sregex_iterator l(braces.begin(), braces.end(), matcher); l != end; ++l)
      EXPECT_TRUE(found->second.contains((*l)[1])) << where << ": " << (*i)[1] << " has no label " << (*l)[1];
  }
  EXPECT_GT(count, 0u) << where << " names no metric: " << text;
}

TEST(metrics_files, the_dashboard_uses_only_exported_metrics_and_known_variables) {
  const auto dashboard = nlohmann::json::parse(text_of(configs + "grafana/troupe.json"));
  std::set<std::string> variables{"__rate_interval"};
  for (const auto& v : dashboard.at("templating").at("list")) variables.insert(v.at("name").get<std::string>());
  EXPECT_TRUE(variables.contains("datasource") && variables.contains("run") && variables.contains("node"));
  std::set<int> ids;
  std::size_t queries = 0;
  const std::regex variable(R"(\$\{?([a-z_]+))");
  for (const auto& panel : dashboard.at("panels")) {
    EXPECT_TRUE(ids.insert(panel.at("id").get<int>()).second);
    for (const auto& target : panel.value("targets", nlohmann::json::array())) {
      const std::string q = target.at("expr");
      check_series(q, panel.at("title"));
      EXPECT_EQ(target.at("datasource").at("uid"), "${datasource}");
      for (std::sregex_iterator i(q.begin(), q.end(), variable), end; i != end; ++i) EXPECT_TRUE(variables.contains((*i)[1])) << q;
      ++queries;
    }
  }
  EXPECT_GT(queries, 50u);
  for (const auto& note : dashboard.at("annotations").at("list")) check_series(note.at("expr"), note.at("name"));
}

TEST(metrics_files, the_alert_rules_use_only_exported_metrics) {
  const auto rules = text_of(configs + "prometheus/alerts.yml");
  check_series(rules, "alerts.yml");
  const auto tests = text_of(configs + "prometheus/alerts_test.yml");
  const std::regex alert("- alert: ([A-Za-z]+)");
  for (std::sregex_iterator i(rules.begin(), rules.end(), alert), end; i != end; ++i)
    EXPECT_NE(tests.find("alertname: " + (*i)[1].str() + "\n        exp_alerts:"), std::string::npos) << (*i)[1] << " has no test";
}

TEST(metrics_files, the_page_names_every_metric) {
  const auto page = text_of(std::string(TROUPE_SOURCE_DIR) + "/docs/ecosystem.md");
  for (const auto& m : metric_table()) EXPECT_NE(page.find('`' + std::string(m.name) + '`'), std::string::npos) << m.name;
}

TEST(metrics_files, promtool_accepts_the_configuration_and_the_rules) {
  if (::access("/usr/bin/promtool", X_OK) != 0) GTEST_SKIP() << "promtool (package prometheus) is not installed";
  const auto run = [](const std::string& what) { return std::system(("/usr/bin/promtool " + what + " >&2").c_str()); };
  EXPECT_EQ(run("check config " + configs + "prometheus/prometheus.yml"), 0);
  EXPECT_EQ(run("check rules " + configs + "prometheus/alerts.yml"), 0);
  EXPECT_EQ(run("test rules " + configs + "prometheus/alerts_test.yml"), 0);
}

}  // namespace
}  // namespace troupe::testing_cluster
