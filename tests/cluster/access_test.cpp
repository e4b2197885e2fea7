// Who reads what of a job on live daemons: two clients that submit, one that watches, and an admin
// try every route to the weights of each other's jobs.
#include <gmock/gmock.h>

#include <fstream>

#include "runtime/node/pki/authority.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/job_owner.hpp"
#include "runtime/record/safetensors.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/cluster/rude_operator.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using strings = std::vector<std::string>;

class cluster_access : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(2);
    fs::create_directories(path("shared"));
    std::ifstream in(path("cluster.toml"));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    text.insert(text.find("[cluster.tls]"), "checkpoints = [\"" + path("shared") + "\"]\n");
    write("cluster.toml", text);
    for (const auto& [name, role] :
         {std::pair{"alice", certificate_role::submit}, {"bob", certificate_role::submit}, {"eve", certificate_role::watch}})
      ASSERT_TRUE(add_operator_certificate(folder_ / "certs", name, role));
    start_all();
  }
  std::string folder_of(const std::string& who) const { return operator_folder(folder_ / "certs", who).string(); }
  cluster_address as(const std::string& who, const std::string& node = "n1") const {
    auto where = address_of(node);
    where.tls_dir = folder_of(who);
    return where;
  }
  cluster_submission job_of(const std::string& who, const strings& set) const {
    cluster_submission s;
    s.where = as(who);
    s.file = "job.toml";
    s.text = tiny_job();
    s.overrides = workers(2, 1);
    s.overrides.insert(s.overrides.end(), set.begin(), set.end());
    return s;
  }
  // Sends the message as this client and returns the answer.
  template <class M>
  M answer_to(const std::string& who, const control::message& m, const std::string& node) {
    rude_operator c(folder_of(who), control_port(node));
    EXPECT_TRUE(c.send(m));
    const auto found = c.first<M>();
    EXPECT_TRUE(found) << who << " " << node;
    return found ? *found : M{};
  }
  control::looked look_at(const std::string& who, const std::string& node, std::uint32_t job, const std::string& file = {}) {
    control::look l;
    l.recording_of = job;
    l.file = file;
    return answer_to<control::looked>(who, l, node);
  }
  // Runs `troupe WORDS...` as this client.
  int troupe_as(const std::string& who, strings words) {
    const auto home = path("home." + who);
    if (!fs::exists(home)) {
      fs::create_directories(home + "/certs");
      fs::copy_file(path("cluster.toml"), home + "/cluster.toml");
      fs::copy(folder_of(who), home + "/certs/client", fs::copy_options::recursive);
    }
    words.insert(words.begin(), std::string(TROUPE_BIN_DIR) + "/troupe");
    words.insert(words.end(), {"--cluster", home + "/cluster.toml"});
    process p(words, folder_);
    const auto code = p.wait(60s);
    said_ = p.out() + p.log();
    return code;
  }
  // Trains until the job is stopped after step `after`. Returns its checkpoint.
  std::string stopped(const std::string& who, const strings& set, std::uint64_t after = 20) {
    auto s = job_of(who, set);
    s.overrides = endless(s.overrides);
    background b(std::move(s));
    EXPECT_TRUE(b.wait_event("step", 20s, after));
    EXPECT_EQ(ask_at(as(who), "stop").how, repl_reply::kind::ok);
    std::string file;
    for (const auto& e : b.join().events)
      if (const auto* c = e.event.as<checkpoint_event>()) file = c->file;
    EXPECT_NE(file, "");
    return file;
  }
  // The step at which a short job of this client begins; nullopt: it was refused.
  std::optional<std::uint64_t> begins_at(const std::string& who, const strings& set) {
    auto s = job_of(who, set);
    std::uint64_t first = 0;
    s.on_accepted = [&](const accepted_job& j) { first = j.first_step; };
    s.overrides.insert(s.overrides.end(), {"train.finish.steps=100000", "eval.every=0"});
    s.follow = false;
    const auto r = run_all(s);
    said_ = r.outcome.messages.empty() ? "" : r.outcome.messages.front();
    if (r.outcome.exit_code() != 0) return std::nullopt;
    EXPECT_EQ(ask_at(as(who), "kill " + std::to_string(r.outcome.number)).how, repl_reply::kind::ok);
    return first;
  }
  std::string said_;
};

TEST_F(cluster_access, weights_and_recordings_are_read_by_the_owner_and_admin_on_every_route) {
  auto first = job_of("alice", {});
  first.out = path("alice.safetensors");
  ASSERT_EQ(run_all(first).outcome.exit_code(), 0);
  auto second = job_of("alice", {"job.record=true"});  // its recording has the weights that it begins with
  second.from = cluster_submission::beginning::weights;
  second.given = first.out;
  const auto done = run_all(second);
  ASSERT_EQ(done.outcome.exit_code(), 0) << (done.outcome.messages.empty() ? "" : done.outcome.messages.front());
  const auto job = done.outcome.number;
  const auto word = std::to_string(job);

  const auto check_recording = [&](const std::string& who, bool may) {
    for (const std::string node : {"n1", "n2"}) {
      const auto list = look_at(who, node, job);
      EXPECT_EQ(list.files.size(), may ? (node == "n1" ? 4u : 3u) : 0u) << who << " " << node;
      EXPECT_EQ(list.refusal.empty(), may) << who << " " << list.refusal;
      for (const auto& f : look_at("client", node, job).files) {  // the names can be guessed
        const auto got = look_at(who, node, job, f.name);
        EXPECT_EQ(got.bytes.empty(), !may) << who << " " << node << " " << f.name;
        EXPECT_EQ(got.refusal.empty(), may) << who << " " << node << " " << f.name;
      }
    }
  };
  const auto begins_with = look_at("alice", "n1", job).files;
  ASSERT_EQ(begins_with.size(), 4u);
  EXPECT_THAT(begins_with.back().name, EndsWith("begins-with.safetensors"));

  for (const std::string who : {"alice", "client", "bob", "eve"}) {
    const bool may = who == "alice" || who == "client";
    EXPECT_EQ(answer_to<control::piece>(who, control::fetch{done.outcome.job, 0}, "n1").error.empty(), may) << who;
    check_recording(who, may);
    EXPECT_EQ(troupe_as(who, {"replay", word, "--json"}), may ? 0 : 2) << said_;
    if (!may) {
      EXPECT_THAT(said_, HasSubstr("not allowed: read a recording"));
    }
    const auto out = path(who + ".out.safetensors");
    EXPECT_EQ(troupe_as(who, {"fetch", word, "--out", out}) == 0, may) << said_;
    EXPECT_EQ(troupe_as(who, {"attach", word, "--out", out + ".attached"}) == 0, may) << said_;
    EXPECT_EQ(fs::exists(out), may) << who;
    EXPECT_EQ(fs::exists(out + ".attached"), may) << who;
    EXPECT_NE(answer_to<control::submitted>(who, control::follow{job}, "n1").job, 0u) << who << " may follow it";
  }
  EXPECT_EQ(look_at("bob", "n2", job).refusal,
            "not allowed: read a recording: job " + word + " is alice's, and bob has the role submit; its owner and admin may");

  for (const std::string node : {"n1", "n2"}) kill_hard(node);
  start_all();
  for (const std::string who : {"alice", "client", "bob", "eve"}) check_recording(who, who == "alice" || who == "client");

  // A folder without an owner, as of an older version, is read by admins only.
  std::error_code none;
  for (const std::string node : {"n1", "n2"})
    for (const auto& f : fs::directory_iterator(folder_ / "state" / node)) fs::remove(f.path() / job_owner_file, none);
  for (const std::string who : {"alice", "bob", "eve"}) check_recording(who, false);
  check_recording("client", true);
}

TEST_F(cluster_access, histograms_of_weights_are_shown_to_the_owner_and_admin) {
  auto s = job_of("alice", {});
  s.overrides = endless(s.overrides);
  background b(std::move(s));
  ASSERT_TRUE(b.wait_event("step", 20s, 5));
  for (const std::string node : {"n1", "n2"})
    for (const std::string who : {"alice", "client", "bob", "eve"}) {
      const auto r = ask_at(as(who, node), "layer ip1", true);
      EXPECT_EQ(r.how, repl_reply::kind::ok) << who << " " << r.text;
      EXPECT_EQ(r.text.find("buckets") != std::string::npos, who == "alice" || who == "client") << who << " " << r.text;
      // The REPL's own word, by which it polls for the outcome of a command.
      if (who == "bob" || who == "eve") {
        EXPECT_EQ(ask_at(as(who, node), "_follow layer 1 0 5 1 ip1", true).text.find("buckets"), std::string::npos) << who;
      }
    }
  EXPECT_EQ(ask_at(as("alice"), "stop").how, repl_reply::kind::ok);
  b.join();
}

TEST_F(cluster_access, resume_auto_takes_no_checkpoint_of_another_owner_of_the_same_job_name) {
  for (const strings& where : {strings{}, strings{"checkpoint.dir=\"" + path("shared") + "\""}}) {
    auto automatic = where;
    automatic.emplace_back("checkpoint.resume=auto");
    const auto hers = stopped("alice", automatic);
    const auto read = load_checkpoint(hers);
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(owner_of_folder(fs::path(hers).parent_path()), "alice");
    EXPECT_EQ(begins_at("bob", automatic), 0u) << said_;
    EXPECT_EQ(begins_at("client", automatic), 0u) << "an admin's job is another owner's too: " << said_;
    EXPECT_EQ(begins_at("alice", automatic), read->step) << said_;
    const auto his = stopped("bob", automatic);
    EXPECT_EQ(begins_at("alice", automatic), read->step) << "bob's is newer: " << said_;
    EXPECT_NE(fs::path(hers).parent_path(), fs::path(his).parent_path());

    // Folders of an older version have no owner.
    for (const auto& file : {hers, his}) fs::remove(fs::path(file).parent_path() / job_owner_file);
    EXPECT_EQ(begins_at("alice", automatic), std::nullopt);
    EXPECT_THAT(said_, HasSubstr("[checkpoint]: 'resume': the owner of the checkpoints in "));
    EXPECT_THAT(said_, HasSubstr("(yours is alice) to the file job-owner there"));
    ASSERT_TRUE(set_owner(fs::path(hers).parent_path(), "alice"));  // as the message says
    EXPECT_EQ(begins_at("alice", automatic), read->step) << said_;
    for (const auto& file : {hers, his}) fs::remove_all(fs::path(file).parent_path());
  }
}

TEST_F(cluster_access, checkpoints_of_a_client_of_another_cluster_are_not_taken) {
  const strings automatic{"checkpoint.dir=\"" + path("shared") + "\"", "checkpoint.resume=auto"};
  const fs::path hers = stopped("alice", automatic);
  fs::rename(hers.parent_path(), fs::path(path("shared")) / "tiny" / "lab-2-1-17");  // alice of the cluster lab-2
  EXPECT_EQ(begins_at("alice", automatic), 0u) << said_;
  fs::rename(fs::path(path("shared")) / "tiny" / "lab-2-1-17", fs::path(path("shared")) / "tiny" / "lab-9-17");
  EXPECT_GT(begins_at("alice", automatic).value_or(0), 0u) << said_;
}

// A client cannot send a file for a job that another client submits, whose number it guesses.
TEST_F(cluster_access, a_client_cannot_upload_the_file_of_another_clients_job) {
  auto s = job_of("alice", {});
  s.out = path("w.safetensors");
  ASSERT_EQ(run_all(s).outcome.exit_code(), 0);
  rude_operator alice(folder_of("alice"), control_port("n1")), bob(folder_of("bob"), control_port("n1"));
  std::ifstream in(s.out, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  ASSERT_TRUE(alice.send(
      control::submit{{"job.toml", tiny_job(), s.overrides}, true, 5, {control::given_file::weights, "w", bytes.size()}}));
  const auto wanted = alice.first<control::fetch>();
  ASSERT_TRUE(wanted);
  ASSERT_TRUE(bob.send(control::piece{wanted->job, 0, bytes.size(), std::string(bytes.size(), 'x'), {}}));
  ASSERT_TRUE(bob.send(control::follow{1}));
  ASSERT_TRUE(bob.first<control::submitted>()) << "the daemon has handled the piece";
  ASSERT_TRUE(alice.send(control::piece{wanted->job, 0, bytes.size(), bytes, {}}));
  const auto accepted = alice.first<control::submitted>();
  ASSERT_TRUE(accepted);
  EXPECT_EQ(accepted->job, wanted->job) << (accepted->messages.empty() ? "" : accepted->messages.front());
}

}  // namespace
}  // namespace troupe::testing_cluster
