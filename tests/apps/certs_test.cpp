// `troupe certs`: its output and the files that it writes.
#include <filesystem>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class certs_command : public command_test {
 protected:
  void SetUp() override {
    cluster_ =
        write("cluster.toml",
              "[cluster]\nname = \"lab\"\n[cluster.tls]\ndir = \"certs\"\n[[node]]\nname = \"n1\"\naddress = \"127.0.0.1:7701\"\n"
              "[[node]]\nname = \"n4\"\naddress = \"127.0.0.4:7701\"\n");
    ASSERT_EQ(troupe({"init-cluster", "--cluster", cluster_}).code, 0);
  }
  auto certs(std::vector<std::string> words) {
    words.insert(words.begin(), "certs");
    words.insert(words.end(), {"--cluster", cluster_});
    return troupe(words);
  }
  // "name role revoked" of each listed certificate.
  std::string listed() {
    std::string text;
    for (const auto& o : objects(certs({"list", "--json"}).out))
      text += o["name"].get<std::string>() + " " + o["role"].get<std::string>() + (o["revoked"].get<bool>() ? " revoked; " : "; ");
    return text;
  }
  bool there(const std::string& name) const { return std::filesystem::exists(folder_ / "certs" / name); }
  std::string cluster_;
};

TEST_F(certs_command, lists_adds_renews_and_revokes) {
  EXPECT_EQ(listed(), "ca ca; client admin; n1 node; n4 node; ");
  const auto added = certs({"add-client", "alice", "--role", "submit"});
  EXPECT_EQ(added.code, 0) << added.err;
  EXPECT_TRUE(there("client.alice/client.key"));
  EXPECT_TRUE(there("client.alice/ca.pem"));
  EXPECT_EQ(certs({"add-node", "n5", "--host", "127.0.0.5"}).code, 0);
  EXPECT_EQ(certs({"renew", "n1", "--days", "20"}).code, 0);
  const auto soon = certs({"list"});
  EXPECT_NE(soon.out.find("19  expires soon"), std::string::npos) << soon.out;
  const auto gone = certs({"revoke", "alice", "--json"});
  EXPECT_EQ(gone.code, 0) << gone.out;
  EXPECT_EQ(objects(gone.out).at(0)["serials"].size(), 1u);
  EXPECT_EQ(listed(), "ca ca; alice submit revoked; client admin; n1 node; n4 node; n5 node; ");
  for (const char* folder : {"ca", "client", "client.alice", "n1", "n4", "n5"})
    EXPECT_TRUE(there(std::string(folder) + "/revoked.pem")) << folder;
}

TEST_F(certs_command, says_which_folder_to_copy_where) {
  const auto certs_folder = (folder_ / "certs").string();
  const auto said = [&](std::vector<std::string> words, const std::vector<std::string>& parts) {
    const auto o = certs(std::move(words));
    EXPECT_EQ(o.code, 0) << o.err;
    for (const auto& part : parts) EXPECT_NE(o.out.find(part), std::string::npos) << o.out << "lacks: " << part;
  };
  said({"add-client", "alice", "--role", "submit"},
       {"Copy the folder " + certs_folder +
        "/client.alice to the machine of alice, as client/ in the folder that [cluster.tls] dir"});
  said({"add-node", "n5", "--host", "127.0.0.5"}, {"Add a [[node]] table for n5 to the cluster file", certs_folder + "/n5"});
  said({"renew", "n1"}, {"Copy its folder, " + certs_folder + "/n1, to its machine in place of the old one", "SIGHUP"});
  const std::string copy = "Copy it into the certificate folder of every node, next to ca.pem, and send the node's daemon SIGHUP";
  said({"renew", "alice", "--revoke"}, {"/client.alice, to its machine", copy});
  said({"revoke", "alice"}, {"certificates of alice are revoked", copy});
}

TEST_F(certs_command, reports_wrong_arguments) {
  const auto said = [&](std::vector<std::string> words, const std::string& what) {
    const auto o = certs(std::move(words));
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err.find(what), std::string::npos) << o.err;
  };
  said({"add-client", "alice", "--role", "root"}, "'root' is not a client role; roles: admin, submit, exchange, watch");
  said({"add-client", "alice"}, "is not a client role");
  said({"add-client", "n1", "--role", "watch"}, "there is a node called n1 in this cluster already");
  said({"add-client", "a.b", "--role", "watch"}, "'a.b' is not a valid client name");
  said({"add-node", "n4"}, "exists");
  said({"add-node", "n9"}, "give its address, e.g. --host 10.0.0.4");
  said({"renew", "n9"}, "has no certificate of n9");
  said({"revoke", "n9"}, "has no certificate of n9");
  said({"renew", "ca"}, "the CA cannot be replaced");
  said({"renew"}, "certs renew needs a NAME");
  said({"sell", "n1"}, "sell");
}

}  // namespace
}  // namespace troupe
