#include "runtime/node/pki/certificates.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/node/net_support.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using net::testing::temporary_directory;

mode_t mode_of(const fs::path& p) {
  struct stat s {};
  return ::stat(p.c_str(), &s) == 0 ? s.st_mode & 07777 : 0;
}
std::string file_text(const fs::path& p) {
  std::ifstream in(p);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct certificates_test : ::testing::Test {
  temporary_directory parent;
  fs::path dir = parent.path() / "sub" / "certs";
  expected<void, coded_error> make(const certificate_options& o = {}) {
    return make_cluster_certificates(dir, "troop", {{"n1", {"10.0.0.1", "fe80::1", "host.example"}}, {"n2", {}}}, o);
  }
  std::string check(const std::string& name) {
    const auto r = check_certificate(dir / "ca.pem", dir / (name + ".pem"), dir / (name + ".key"), name);
    return r ? "" : r.error().code;
  }
};

TEST_F(certificates_test, a_cluster_gets_its_files_with_closed_modes) {
  const mode_t before = ::umask(0);
  const auto done = make();
  ::umask(before);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(mode_of(dir), 0700U);
  for (const char* name : {"ca", "n1", "n2", "client"}) {
    EXPECT_EQ(mode_of(dir / (std::string(name) + ".key")), 0600U);
    EXPECT_EQ(mode_of(dir / (std::string(name) + ".pem")), 0644U);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 8) << "no temporary file is left";
  for (const char* name : {"n1", "n2", "client"}) EXPECT_EQ(check(name), "");

  const auto info = read_certificate(dir / "n1.pem");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->name, "n1");
  EXPECT_EQ(info->cluster, "troop");
  EXPECT_EQ(info->hosts, (std::vector<std::string>{"n1", "10.0.0.1", "fe80::1", "host.example"}));
  EXPECT_FALSE(info->ca);
  const auto now = std::chrono::system_clock::now();
  EXPECT_LT(info->from, now - 1h) << "clocks may differ by an hour";
  EXPECT_GT(info->until, now + 24h * 365);
  EXPECT_TRUE(read_certificate(dir / "ca.pem")->ca);
}

TEST_F(certificates_test, each_folder_has_its_machines_files_and_no_key_of_another) {
  certificate_options o;
  o.one_folder_each = true;
  ASSERT_TRUE(make(o));
  for (const std::string name : {"ca", "n1", "n2", "client"}) {
    const auto own = dir / name;
    EXPECT_EQ(certificate_folder(dir, name), own);
    EXPECT_EQ(mode_of(own), 0700U);
    EXPECT_EQ(mode_of(own / (name + ".key")), 0600U);
    EXPECT_EQ(std::distance(fs::directory_iterator(own), {}), name == "ca" ? 2 : 3);
    if (name == "ca") continue;
    EXPECT_EQ(file_text(own / "ca.pem"), file_text(dir / "ca/ca.pem"));
    const auto fine = check_certificate(own / "ca.pem", own / (name + ".pem"), own / (name + ".key"), name);
    EXPECT_TRUE(fine) << fine.error().message;
  }
  EXPECT_EQ(make(o).error().code, "exists");
  ASSERT_TRUE(add_node_certificate(dir, {"n3", {}}));
  EXPECT_TRUE(check_certificate(dir / "n3/ca.pem", dir / "n3/n3.pem", dir / "n3/n3.key", "n3"));
  // A copied folder works alone: when it is given itself, or as a folder below the given one.
  fs::rename(dir / "n1", parent.path() / "n1");
  EXPECT_EQ(certificate_folder(parent.path() / "n1", "n1"), parent.path() / "n1");
  EXPECT_EQ(certificate_folder(parent.path(), "n1"), parent.path() / "n1");
}

TEST_F(certificates_test, folders_are_not_mixed_with_a_cluster_that_has_all_in_one) {
  ASSERT_TRUE(make());
  EXPECT_EQ(certificate_folder(dir, "n1"), dir);
  certificate_options o;
  o.one_folder_each = true;
  EXPECT_EQ(make(o).error().code, "exists");
  EXPECT_FALSE(fs::exists(dir / "n1"));
  o.overwrite = true;
  ASSERT_TRUE(make(o));
  EXPECT_EQ(certificate_folder(dir, "n1"), dir / "n1") << "the new folders";
}

TEST_F(certificates_test, nothing_is_overwritten_without_the_option) {
  ASSERT_TRUE(make());
  const std::string key = file_text(dir / "n1.key");
  fs::remove(dir / "ca.pem");
  EXPECT_EQ(make().error().code, "exists");
  EXPECT_EQ(file_text(dir / "n1.key"), key);
  EXPECT_FALSE(fs::exists(dir / "ca.pem"));
  certificate_options again;
  again.overwrite = true;
  ASSERT_TRUE(make(again));
  EXPECT_NE(file_text(dir / "n1.key"), key);
  EXPECT_EQ(check("n1"), "");
}

TEST_F(certificates_test, a_node_can_join_later) {
  ASSERT_TRUE(make());
  ASSERT_TRUE(add_node_certificate(dir, {"n3", {"10.0.0.3"}}));
  EXPECT_EQ(check("n3"), "");
  EXPECT_EQ(read_certificate(dir / "n3.pem")->cluster, "troop");
  EXPECT_EQ(add_node_certificate(dir, {"n3", {}}).error().code, "exists");
  fs::remove(dir / "ca.key");
  EXPECT_EQ(add_node_certificate(dir, {"n4", {}}).error().code, "certificate_missing");
}

TEST_F(certificates_test, names_are_checked) {
  for (const char* bad : {"", "a/b", "../x", "a b", "ca", "client", "-x", ".x", "n\n"})
    EXPECT_EQ(make_cluster_certificates(dir, "troop", {{bad, {}}}).error().code, "bad_name") << bad;
  EXPECT_EQ(make_cluster_certificates(dir, "troop", {{"a", {}}, {"a", {}}}).error().code, "bad_name");
  EXPECT_EQ(make_cluster_certificates(dir, "", {}).error().code, "bad_name");
  EXPECT_EQ(make_cluster_certificates(dir, "troop", {{"a", {"x,DNS:evil"}}}).error().code, "bad_name");
  EXPECT_EQ(make_cluster_certificates(dir, "troop", {{"a", {""}}}).error().code, "bad_name");
  EXPECT_FALSE(fs::exists(dir));
}

TEST_F(certificates_test, a_directory_open_to_others_is_closed_if_empty_and_refused_if_not) {
  fs::create_directories(dir);
  ::chmod(dir.c_str(), 0755);
  ASSERT_TRUE(make());
  EXPECT_EQ(mode_of(dir), 0700U);
  dir = parent.path() / "used";
  fs::create_directory(dir);
  ::chmod(dir.c_str(), 0755);
  std::ofstream(dir / "notes") << "x";
  EXPECT_EQ(make().error().code, "directory_open");
  EXPECT_EQ(mode_of(dir), 0755U);
  dir = dir / "notes";
  EXPECT_EQ(make().error().code, "cannot_write");
}

TEST_F(certificates_test, each_error_of_a_certificate_has_a_code) {
  ASSERT_TRUE(make());
  certificate_options o;
  o.from = -48h;
  o.until = -24h;
  ASSERT_TRUE(add_node_certificate(dir, {"old", {}}, o));
  EXPECT_EQ(check("old"), "certificate_expired");
  o.from = 24h;
  o.until = 48h;
  ASSERT_TRUE(add_node_certificate(dir, {"young", {}}, o));
  EXPECT_EQ(check("young"), "certificate_not_yet_valid");
  EXPECT_EQ(check("absent"), "certificate_missing");
  ::chmod((dir / "n2.key").c_str(), 0644);
  EXPECT_EQ(check("n2"), "key_exposed");
  std::ofstream(dir / "n1.pem", std::ios::trunc) << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_EQ(check("n1"), "certificate_unreadable");
}

}  // namespace
}  // namespace troupe
