// Certificates after they are made: roles, renewal, revocation and expiry. Files only, without a
// daemon.
#include "runtime/node/pki/authority.hpp"
#include "runtime/access/names.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "runtime/access/job_access.hpp"
#include "runtime/node/net/hello.hpp"
#include "tests/error_text.hpp"
#include "tests/node/net_support.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class authority : public testing::TestWithParam<bool> {  // parameter: one folder each, or all in one
 protected:
  void SetUp() override {
    certificate_options o;
    o.one_folder_each = GetParam();
    ASSERT_TRUE(make_cluster_certificates(dir_, "troop", {{"n1", {"10.0.0.1"}}, {"n2", {}}}, o));
  }
  fs::path file_of(const std::string& name, const char* ending = ".pem") const {
    return certificate_folder(dir_, name) / (name + ending);
  }
  std::string check(const std::string& name) const {
    const auto r = check_certificate(certificate_folder(dir_, name) / "ca.pem", file_of(name), file_of(name, ".key"), name);
    return r ? "" : r.error().code;
  }
  std::string check_client(const std::string& name) const {
    const auto folder = operator_folder(dir_, name);
    const auto r = check_certificate(folder / "ca.pem", folder / "client.pem", folder / "client.key", "client." + name);
    return r ? "" : r.error().code;
  }
  static mode_t mode_of(const fs::path& p) {
    struct stat s {};
    return ::stat(p.c_str(), &s) == 0 ? s.st_mode & 0777 : 0;
  }
  static std::string text_of_file(const fs::path& p) {
    std::ifstream in(p);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  net::testing::temporary_directory parent_;
  fs::path dir_ = parent_.path() / "certs";
};
INSTANTIATE_TEST_SUITE_P(either_layout, authority, testing::Bool());

TEST_P(authority, certificates_carry_the_role_that_they_are_made_for) {
  EXPECT_EQ(read_certificate(file_of("n1"))->role, certificate_role::node);
  EXPECT_EQ(read_certificate(file_of("client"))->role, certificate_role::admin);
  EXPECT_TRUE(read_certificate(file_of("ca"))->ca);
  for (const auto role : {certificate_role::submit, certificate_role::exchange, certificate_role::watch, certificate_role::admin}) {
    const std::string name = std::string("one_") + troupe::text_of(role);
    const auto made = add_operator_certificate(dir_, name, role);
    ASSERT_TRUE(made) << made.error().message;
    const auto info = read_certificate(operator_folder(dir_, name) / "client.pem");
    ASSERT_TRUE(info);
    EXPECT_EQ(info->role, role);
    EXPECT_EQ(info->name, "client." + name);
    EXPECT_EQ(check_client(name), "");
    EXPECT_EQ(mode_of(operator_folder(dir_, name)), 0700u);
    EXPECT_EQ(mode_of(operator_folder(dir_, name) / "client.key"), 0600u);
  }
}

TEST_P(authority, a_clients_name_must_be_valid_and_unique) {
  EXPECT_EQ(add_operator_certificate(dir_, "n1", certificate_role::watch).error().code, "exists");
  EXPECT_EQ(add_operator_certificate(dir_, "al.ice", certificate_role::watch).error().code, "bad_name");
  EXPECT_EQ(add_operator_certificate(dir_, "../x", certificate_role::watch).error().code, "bad_name");
  EXPECT_EQ(add_operator_certificate(dir_, std::string(33, 'a'), certificate_role::watch).error().code, "bad_name");
  EXPECT_EQ(add_operator_certificate(dir_, "alice", certificate_role::node).error().code, "bad_role");
  ASSERT_TRUE(add_operator_certificate(dir_, "alice", certificate_role::watch));
  EXPECT_EQ(add_operator_certificate(dir_, "alice", certificate_role::admin).error().code, "exists")
      << "adding a client again does not change its role";
  EXPECT_EQ(add_node_certificate(dir_, {"alice", {}}).error().code, "exists");
}

TEST_P(authority, a_renewed_pair_keeps_the_name_the_role_and_the_hosts) {
  ASSERT_TRUE(add_operator_certificate(dir_, "alice", certificate_role::submit));
  for (const std::string name : {"n1", "client", "alice"}) {
    const auto file = name == "alice" ? operator_folder(dir_, name) / "client.pem" : file_of(name);
    const auto before = read_certificate(file);
    const auto key = text_of_file(fs::path(file).replace_extension(".key"));
    const auto renewed = renew_certificate(dir_, name, false);
    ASSERT_TRUE(renewed) << renewed.error().message;
    const auto after = read_certificate(file);
    EXPECT_NE(after->serial, before->serial);
    EXPECT_NE(text_of_file(fs::path(file).replace_extension(".key")), key);
    EXPECT_EQ(after->name, before->name);
    EXPECT_EQ(after->role, before->role);
    EXPECT_EQ(after->hosts, before->hosts);
    EXPECT_EQ(mode_of(fs::path(file).replace_extension(".key")), 0600u);
  }
  EXPECT_EQ(check("n1"), "");
  EXPECT_EQ(check_client("alice"), "");
  EXPECT_FALSE(fs::exists(certificate_folder(dir_, "ca") / revoked_file)) << "the former ones are valid until they expire";
  EXPECT_EQ(renew_certificate(dir_, "n9", false).error().code, "unknown_name");
  EXPECT_EQ(renew_certificate(dir_, "ca", false).error().code, "bad_name");
}

TEST_P(authority, revocation_covers_all_certificates_of_the_name) {
  ASSERT_TRUE(renew_certificate(dir_, "n2", false));
  const auto gone = revoke_certificates(dir_, "n2");
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(gone->size(), 2u);
  EXPECT_EQ(check("n2"), "certificate_revoked");
  EXPECT_EQ(check("n1"), "") << "no other name is revoked";
  ASSERT_TRUE(revoke_certificates(dir_, "client"));
  EXPECT_EQ(check("client"), "certificate_revoked");
  EXPECT_EQ(check("n2"), "certificate_revoked") << "the list grows";
  EXPECT_TRUE(revoke_certificates(dir_, "n2")->empty()) << "already revoked";
  ASSERT_TRUE(renew_certificate(dir_, "n2", false));
  EXPECT_EQ(check("n2"), "") << "a new pair is another certificate";
  const auto all = list_certificates(dir_);
  ASSERT_TRUE(all);
  std::string text;
  for (const auto& one : *all) text += one.name + (one.revoked ? "! " : " ");
  EXPECT_EQ(text, "ca client! n1 n2 ");
}

TEST_P(authority, renewal_can_revoke_the_former_certificate) {
  const auto before = read_certificate(file_of("n1"))->serial;
  ASSERT_TRUE(renew_certificate(dir_, "n1", true));
  EXPECT_EQ(check("n1"), "");
  ASSERT_TRUE(add_node_certificate(dir_, {"n3", {}}));
  EXPECT_EQ(fs::exists(certificate_folder(dir_, "n3") / revoked_file), true) << "a node added later gets the list";
  const auto old = certificate_folder(dir_, "ca") / "replaced" / ("n1." + before + ".pem");
  ASSERT_TRUE(fs::exists(old));
  fs::copy_file(old, file_of("n1"), fs::copy_options::overwrite_existing);
  EXPECT_NE(check("n1"), "");
}

TEST_P(authority, a_list_that_the_ca_has_not_signed_is_an_error) {
  net::testing::temporary_directory other;
  ASSERT_TRUE(make_cluster_certificates(other.path() / "certs", "troop", {{"n1", {}}}));
  ASSERT_TRUE(revoke_certificates(other.path() / "certs", "n1"));
  fs::copy_file(other.path() / "certs" / revoked_file, certificate_folder(dir_, "n1") / revoked_file);
  EXPECT_EQ(check("n1"), "certificate_unreadable");
  std::ofstream(certificate_folder(dir_, "n1") / revoked_file) << "nonsense";
  EXPECT_EQ(check("n1"), "certificate_unreadable");
}

TEST(authority_time, expiry_is_reported_once_a_day_from_thirty_days_before) {
  net::testing::temporary_directory parent;
  const auto dir = parent.path() / "certs";
  ASSERT_TRUE(make_cluster_certificates(dir, "troop", {{"n1", {}}}));
  certificate_options o;
  o.overwrite = true;
  o.until = 24h * 40;
  ASSERT_TRUE(add_node_certificate(dir, {"n1", {}}, o));
  expiry_notes notes;
  notes.read(dir / "ca.pem", dir / "n1.pem", "n1");
  const auto now = std::chrono::system_clock::now();
  EXPECT_TRUE(notes.due(now).empty()) << "40 days";
  EXPECT_TRUE(notes.due(now + 24h * 10 - 1h).empty());
  const auto later = now + 24h * 12;
  const auto lines = notes.due(later);
  ASSERT_EQ(lines.size(), 1u) << "the CA's certificate is valid for years";
  EXPECT_NE(lines[0].find("the certificate of n1 expires in 27 days: `troupe certs renew n1`"), std::string::npos) << lines[0];
  EXPECT_TRUE(notes.due(later + 23h).empty()) << "once a day";
  EXPECT_EQ(notes.due(later + 25h).size(), 1u);
  EXPECT_EQ(notes.due(later - 24h * 100).size(), 0u) << "a clock that was set back: there are many days left";
  EXPECT_NE(notes.due(now + 24h * 41)[0].find("has expired"), std::string::npos);
}

TEST(roles, each_role_has_its_rights) {
  const auto everything = {right::look, right::run_jobs, right::exchange, right::all};
  const auto may_all = [&](certificate_role r) {
    std::string text;
    for (const auto what : everything) text += may(r, what) ? '1' : '0';
    return text;
  };
  EXPECT_EQ(may_all(certificate_role::node), "0000");
  EXPECT_EQ(may_all(certificate_role::admin), "1111");
  EXPECT_EQ(may_all(certificate_role::submit), "1100");
  EXPECT_EQ(may_all(certificate_role::exchange), "0010");
  EXPECT_EQ(may_all(certificate_role::watch), "1000");
}

TEST(roles, jobs_are_steered_by_their_owners_and_by_admin) {
  EXPECT_EQ(test::error_text(check_steer({"alice", certificate_role::submit}, 3, "alice", "stop")), "");
  EXPECT_EQ(test::error_text(check_steer({"client", certificate_role::admin}, 3, "alice", "stop")), "");
  EXPECT_EQ(test::error_text(check_steer({"bob", certificate_role::submit}, 3, "alice", "stop")),
            "not allowed: stop: job 3 is alice's, and bob has the role submit; its owner and admin may");
  EXPECT_EQ(test::error_text(check_steer({"alice", certificate_role::watch}, 3, "alice", "stop")),
            "not allowed: stop: the certificate of alice has the role watch; submit and admin may")
      << "alice had another role when she submitted the job";
}

TEST(roles, subjects_that_no_ca_issues_have_no_role) {
  using list = std::vector<std::string>;
  EXPECT_EQ(role_of_subject("n1", list{}), certificate_role::node) << "made before there were roles";
  EXPECT_EQ(role_of_subject("n1", list{"node"}), certificate_role::node);
  EXPECT_EQ(role_of_subject("client", list{}), certificate_role::admin) << "made before there were roles";
  EXPECT_EQ(role_of_subject("client", list{"watch"}), certificate_role::watch);
  EXPECT_EQ(role_of_subject("client.alice", list{"submit"}), certificate_role::submit);
  for (const auto& units : {list{"admin"}, list{"watch"}, list{"node", "admin"}, list{""}})
    EXPECT_EQ(role_of_subject("n1", units), std::nullopt) << "a node cannot have a client's role";
  for (const auto& units : {list{}, list{"node"}, list{"root"}, list{"watch", "admin"}})
    EXPECT_EQ(role_of_subject("client.alice", units), std::nullopt);
  EXPECT_EQ(role_of_subject("client", list{"watch", "admin"}), std::nullopt);
  EXPECT_EQ(role_of_subject("", list{"admin"}), std::nullopt);
}

TEST(roles, session_names_must_match_the_certificate) {
  using namespace net;
  EXPECT_TRUE(may_be_called("n1", "n1"));
  EXPECT_TRUE(may_be_called("client.x", "client"));
  EXPECT_TRUE(may_be_called("client.alice.x", "client.alice"));
  EXPECT_FALSE(may_be_called("client.alice.x", "client")) << "its jobs would be alice's";
  EXPECT_FALSE(may_be_called("client.alice", "client.alice")) << "it would be a session of the client without a name";
  EXPECT_FALSE(may_be_called("client.x", "client.alice"));
  EXPECT_FALSE(may_be_called("client.alicex", "client.alice"));
  EXPECT_FALSE(may_be_called("client.alice.x.y", "client.alice"));
  EXPECT_FALSE(may_be_called("client.alice.", "client.alice"));
  EXPECT_FALSE(may_be_called("client.bob.x", "client.alice"));
  EXPECT_FALSE(may_be_called("n1.x", "n1"));
  EXPECT_FALSE(may_be_called("n2", "n1"));
  EXPECT_EQ(operator_of("client.alice.x"), "alice");
  EXPECT_EQ(operator_of("client.x"), "client");
  EXPECT_EQ(operator_of("client"), "client");
  EXPECT_EQ(operator_of("n1"), "n1");
}

}  // namespace
}  // namespace troupe
