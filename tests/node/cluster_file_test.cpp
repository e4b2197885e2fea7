// Cluster files: the result of a valid one, and the position of each mistake.
#include "runtime/node/config/cluster_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> sound = {
    /*  1 */ "[cluster]",
    /*  2 */ "name = \"lab\"",
    /*  3 */ "[cluster.tls]",
    /*  4 */ "dir = \"certs\"",
    /*  5 */ "[[node]]",
    /*  6 */ "name = \"n1\"",
    /*  7 */ "address = \"127.0.0.1:7701\"",
    /*  8 */ "devices = [\"cpu:0\", \"cpu:1\"]",
    /*  9 */ "roles = [\"coordinator\", \"server\"]",
    /* 10 */ "[[node]]",
    /* 11 */ "name = \"n2\"",
    /* 12 */ "address = \"[::1]:7702\"",
    /* 13 */ "roles = [\"worker\", \"server\", \"data\"]",
    /* 14 */ "memory_limit = \"2GiB\"",
};

std::string with(int line, const std::string& text) {
  std::string s;
  for (std::size_t i = 0; i < sound.size(); ++i) s += (static_cast<int>(i) + 1 == line ? text : sound[i]) + "\n";
  return s;
}

std::string first_error(const std::string& text) {
  auto r = parse_cluster(text, "conf/c.toml");
  const auto* e = r ? nullptr : &r.error();
  return e && !e->empty() ? e->front().to_string() : "no error";
}

// A cluster file is also read on machines that lack the devices.
TEST(cluster_file, accepts_gpus_of_any_node) {
  auto r = parse_cluster(with(8, "devices = [\"cpu:0\", \"gpu:7\"]"), "c.toml");
  ASSERT_TRUE(r) << first_error(with(8, "devices = [\"cpu:0\", \"gpu:7\"]"));
  EXPECT_THAT(r->nodes[0].devices, ElementsAre("cpu:0", "gpu:7"));
}

TEST(cluster_file, a_valid_file_becomes_a_spec) {
  auto r = parse_cluster(with(0, ""), "conf/c.toml");
  ASSERT_TRUE(r) << first_error(with(0, ""));
  const auto& c = *r;
  EXPECT_EQ(c.name, "lab");
  EXPECT_EQ(c.tls_dir, "conf/certs") << "relative to the file";
  ASSERT_EQ(c.nodes.size(), 2u);
  EXPECT_EQ(c.nodes[0].at.to_string(), "conf/c.toml:5:1");
  EXPECT_THAT(c.nodes[0].devices, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_THAT(c.nodes[1].devices, ElementsAre("cpu:0"));
  EXPECT_THAT(c.nodes[1].roles, ElementsAre("worker", "server", "data"));
  EXPECT_EQ(c.nodes[1].memory_limit, std::int64_t{2} << 30);
}

TEST(cluster_file, data_address_may_have_another_host_than_the_address) {
  auto r = parse_cluster(with(7, "address = \"127.0.0.1:7701\"\ndata_address = \"[::1]:0\""), "c.toml");
  ASSERT_TRUE(r) << first_error(with(7, "data_address = \"[::1]:0\""));
  EXPECT_EQ(r->nodes[0].data_address, "[::1]:0");
  EXPECT_EQ(r->nodes[1].data_address, "");
}

TEST(cluster_file, metrics_have_an_address_of_their_own_and_a_token_file) {
  const std::string address = "address = \"127.0.0.1:7701\"\n";
  auto r = parse_cluster(with(7, address + "metrics_address = \"10.0.0.1:9101\"\nmetrics_token = \"m.token\""), "conf/c.toml");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->nodes[0].metrics_address, "10.0.0.1:9101");
  EXPECT_EQ(r->nodes[0].metrics_token, "conf/m.token") << "relative to the file";
  EXPECT_EQ(r->nodes[1].metrics_address, "");
  const auto error = [&](const std::string& line) { return first_error(with(7, address + line)); };
  EXPECT_THAT(error("metrics_address = \"n1\""), HasSubstr("conf/c.toml:8:1: node 'n1': bad address 'n1'"));
  EXPECT_THAT(error("metrics_address = \"127.0.0.1:7701\""), HasSubstr("duplicate metrics_address '127.0.0.1:7701'"));
  EXPECT_THAT(error("metrics_address = \"0.0.0.0:9101\""), HasSubstr("stands for all interfaces"));
  EXPECT_THAT(error("metrics_token = \"\""), HasSubstr("the file name is empty"));
  EXPECT_THAT(error("metrics_adress = \"127.0.0.1:1\""), HasSubstr("did you mean 'metrics_address'"));
}

TEST(cluster_file, faults_may_be_injected_only_if_inject_is_true) {
  const auto allowed = [](const std::string& text) {
    cluster_rules rules;
    const auto r = parse_cluster(text, "conf/c.toml", &rules);
    return r.has_value() ? std::to_string(rules.inject) : first_error(text);
  };
  EXPECT_EQ(allowed(with(0, "")), "0");
  EXPECT_EQ(allowed(with(2, "name = \"lab\"\ninject = true")), "1");
  EXPECT_EQ(allowed(with(2, "name = \"lab\"\ninject = false")), "0");
  EXPECT_THAT(allowed(with(2, "name = \"lab\"\ninject = \"yes\"")), HasSubstr("conf/c.toml:3:1: "));
}

TEST(cluster_file, the_page_has_an_address_and_a_role) {
  cluster_rules rules;
  ASSERT_TRUE(parse_cluster(with(0, ""), "c.toml", &rules));
  EXPECT_EQ(rules.page, "");
  EXPECT_EQ(rules.page_role, "operator");
  ASSERT_TRUE(parse_cluster(with(2, "name = \"lab\"\npage = \"127.0.0.1:7800\"\npage_role = \"admin\""), "c.toml", &rules));
  EXPECT_EQ(rules.page, "127.0.0.1:7800");
  EXPECT_EQ(rules.page_role, "admin");
  const auto mistake = [](const std::string& line) { return first_error(with(2, "name = \"lab\"\n" + line)); };
  EXPECT_THAT(mistake("page = \"7800\""), HasSubstr("c.toml:3:"));
  EXPECT_THAT(mistake("page = \"0.0.0.0:7800\""), HasSubstr("stands for all interfaces"));
  EXPECT_THAT(mistake("page = \"127.0.0.1:7701\""), HasSubstr("duplicate"));
  EXPECT_THAT(mistake("page_role = \"root\""), HasSubstr("available: observer, operator, admin"));
}

TEST(cluster_file, every_mistake_names_line_and_column) {
  const struct {
    const char* what;
    int line;
    std::string text;
    const char* at;
    const char* message;
  } entries[] = {
      {"unknown key", 2, "name = \"lab\"\nheartbeat = 3", "3:1", "[cluster]: unknown key 'heartbeat'"},
      {"unknown table", 5, "[[nodes]]", "5:3", "unknown key 'nodes'; did you mean 'node'?"},
      {"no name", 2, "", "1:2", "[cluster]: it needs a name"},
      {"no tls", 3, "[other]", "1:2", "there is no [cluster.tls] table; nodes communicate over TLS only"},
      {"tls without dir", 4, "", "3:10", "[cluster.tls]: it needs dir"},
      {"duplicate node", 11, "name = \"n1\"", "11:1", "node 'n1': duplicate name 'n1'; first used at conf/c.toml:6:1"},
      {"duplicate address", 12, "address = \"127.0.0.1:7701\"", "12:1",
       "node 'n2': duplicate address '127.0.0.1:7701'; first used at conf/c.toml:7:1"},
      {"no address", 12, "", "10:1", "node 'n2': it needs an address"},
      {"address without port", 7, "address = \"127.0.0.1\"", "7:1", "bad address '127.0.0.1'"},
      {"port out of range", 7, "address = \"127.0.0.1:77010\"", "7:1", "bad address '127.0.0.1:77010'"},
      {"negative port", 7, "address = \"127.0.0.1:-1\"", "7:1", "bad address"},
      {"an invalid IPv4 address", 7, "address = \"127.0.0.256:1\"", "7:1", "bad address"},
      {"bad host", 7, "address = \"no_host!:1\"", "7:1", "bad address"},
      {"bare IPv6", 12, "address = \"::1:7702\"", "12:1", "bad address"},
      {"every interface", 7, "address = \"0.0.0.0:7701\"", "7:1", "stands for all interfaces"},
      {"bad data address", 7, "address = \"127.0.0.1:7701\"\ndata_address = \"n1\"", "8:1", "node 'n1': bad address 'n1'"},
      {"data address of all interfaces", 7, "address = \"127.0.0.1:7701\"\ndata_address = \"0.0.0.0:7801\"", "8:1",
       "stands for all interfaces"},
      {"data port is the control port", 7, "address = \"127.0.0.1:7701\"\ndata_address = \"127.0.0.1:7701\"", "8:1",
       "node 'n1': duplicate data_address '127.0.0.1:7701'; first used at conf/c.toml:7:1"},
      {"unknown role", 9, "roles = [\"coordinator\", \"wroker\"]", "9:1", "unknown role 'wroker'; did you mean 'worker'?"},
      {"no coordinator", 9, "roles = [\"server\"]", "5:3", "no node has the role 'coordinator'"},
      {"no worker", 13, "roles = [\"server\"]", "5:3", "no node has the role 'worker'"},
      {"no roles", 13, "roles = []", "5:3", "no node has the role 'worker'"},
      {"bad device", 8, "devices = [\"cpu0\"]", "8:12", "node 'n1': bad device 'cpu0'"},
      {"a device twice", 8, "devices = [\"cpu:0\", \"cpu:0\"]", "8:21", "the device 'cpu:0' is listed twice"},
      {"bad name", 6, "name = \"n 1\"", "6:1", "bad name 'n 1'"},
      {"bad limit", 14, "memory_limit = \"2 Gigs\"", "14:1", "'memory_limit' must be a size"},
      {"plugin", 1, "plugins = [\"libx.so\"]\n[cluster]", "1:12", "there is no plugin 'libx.so' (looked for 'conf/libx.so')"},
      {"digest", 1, "plugins = [\"libx.so#sha256=12\"]\n[cluster]", "1:12",
       "plugin 'libx.so#sha256=12': a sha256 has 64 digits of 0-9a-f, as printed by `sha256sum FILE`"},
      {"syntax", 6, "name = n1", "6:", "Error while parsing"},
  };
  for (const auto& r : entries) {
    SCOPED_TRACE(r.what);
    const auto e = first_error(with(r.line, r.text));
    EXPECT_EQ(e.rfind("conf/c.toml:" + std::string(r.at), 0), 0u) << e;
    EXPECT_THAT(e, HasSubstr(r.message));
  }
}

TEST(cluster_file, data_folders_are_relative_to_the_file_or_the_default) {
  const auto folders = [](const std::string& text) {
    auto r = parse_cluster(text, "conf/c.toml");
    std::vector<std::vector<std::string>> list;
    if (const auto* c = r ? &*r : nullptr)
      for (const auto& n : c->nodes) list.push_back(n.data);
    return list;
  };
  using lists = std::vector<std::vector<std::string>>;
  const std::vector<std::string> usual{"/usr/share/datasets"};
  EXPECT_EQ(folders(with(0, "")), (lists{usual, usual}));
  EXPECT_EQ(folders(with(2, "name = \"lab\"\ndata = [\"sets\", \"/srv/x\"]")), (lists(2, {"conf/sets", "/srv/x"})));
  EXPECT_EQ(folders(with(2, "name = \"lab\"\ndata = \"sets\"\n") + "data = []\n"), (lists{{"conf/sets"}, {}}))
      << "set for one node";
  EXPECT_EQ(first_error(with(7, "address = \"127.0.0.1:7701\"\ndata = [\"\"]")),
            "conf/c.toml:8:1: node 'n1': bad folder '': write a path; \".\" is the folder of this file");
}

TEST(cluster_file, checkpoint_folders_are_those_named_and_none_by_default) {
  const auto folders = [](const std::string& text) {
    auto r = parse_cluster(text, "conf/c.toml");
    std::vector<std::vector<std::string>> list;
    if (const auto* c = r ? &*r : nullptr)
      for (const auto& n : c->nodes) list.push_back(n.checkpoints);
    return list;
  };
  using lists = std::vector<std::vector<std::string>>;
  EXPECT_EQ(folders(with(0, "")), (lists{{}, {}}));
  EXPECT_EQ(folders(with(2, "name = \"lab\"\ncheckpoints = [\"kept\", \"/srv/x\"]")), (lists(2, {"conf/kept", "/srv/x"})));
  EXPECT_EQ(first_error(with(7, "address = \"127.0.0.1:7701\"\ncheckpoints = [\"\"]")),
            "conf/c.toml:8:1: node 'n1': bad folder '': write a path; \".\" is the folder of this file");
}

TEST(cluster_file, an_empty_file_is_an_error) {
  auto r = parse_cluster("", "c.toml");
  EXPECT_EQ(r.error().size(), 2u);
  EXPECT_EQ(first_error(""), "conf/c.toml:1:1: there is no [cluster] table");
}

TEST(cluster_file, port_zero_means_any_port_and_may_be_repeated) {
  auto text = with(7, "address = \"127.0.0.1:0\"");
  text.replace(text.find("[::1]:7702"), 10, "127.0.0.1:0");
  EXPECT_EQ(first_error(text), "no error");
}

}  // namespace
}  // namespace troupe
