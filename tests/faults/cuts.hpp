// Clusters whose daemons run in network namespaces, with cuts between them.
#pragma once

#include <cstdio>

#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/faults/network.hpp"

namespace troupe::testing_cluster {

enum class plane { control, data, both };
enum class direction { away, back, both };  // packets that `node` sends; that it receives

inline const char* name_of(plane p) { return p == plane::control ? "control" : p == plane::data ? "data" : "both planes"; }
inline const char* name_of(direction d) { return d == direction::away ? "from it" : d == direction::back ? "to it" : "both ways"; }

class cut_test : public cluster_test {
 protected:
  explicit cut_test(std::string programs) : programs_(std::move(programs)) {}  // folder of the programs
  // Creates the namespaces and the cluster and starts its daemons. Skips the test where namespaces
  // cannot be created.
  void make_nodes(int n) {
    net_ = std::make_unique<network>(folder_);
    if (!net_->why_not().empty()) GTEST_SKIP() << net_->why_not();
    std::vector<node_spec> nodes(static_cast<std::size_t>(n));
    for (auto& one : nodes) {
      one.name = "n" + std::to_string(&one - nodes.data() + 1);
      one.roles = {"worker", "server"};
      net_->add(one.name);
      one.address = net_->address(one.name);
    }
    nodes.front().roles = {"coordinator", "data", "worker", "server"};
    machines_apart_ = true;
    make_cluster_of(nodes);
    for (const auto& name : names_) begin_in(name);
    for (const auto& name : names_) ASSERT_TRUE(joined(name)) << name;
  }
  void begin_in(const std::string& node) {
    auto words = net_->inside(node);
    words.insert(words.end(), {programs_ + "/trouped", "--cluster", path("cluster.toml"), "--node", node});
    daemons_[node] = std::make_unique<process>(words, folder_);
    ASSERT_TRUE(daemons_[node]->wait_out("ready " + node, 20s)) << daemons_[node]->log();
  }
  // Cuts one plane between a node and others, by the ports at which the daemons listen.
  void cut(const std::string& node, const std::vector<std::string>& others, plane p, direction d) {
    const auto add = [&](const network::way& w) { cut_.push_back(w); };
    const auto one_way = [&](const std::string& from, const std::string& to) {
      if (p == plane::both) return add({from, to, 0, 0});
      const auto port = [&](const std::string& n) { return p == plane::control ? control_port(n) : data_port(n); };
      add({from, to, port(to), 0});
      add({from, to, 0, port(from)});
    };
    for (const auto& o : others) {
      if (d != direction::back) one_way(node, o);
      if (d != direction::away) one_way(o, node);
    }
    cut_at_ = clock::now();
    net_->cut(cut_);
  }
  // Ends the cut. Returns how long it lasted.
  millis heal() {
    net_->heal(cut_);
    cut_.clear();
    return since(cut_at_);
  }
  // Returns when the cut has lasted this long.
  void until(millis after_the_cut) {
    while (since(cut_at_) < after_the_cut) daemon("n1").wait_log("\x01", after_the_cut - since(cut_at_));
  }
  std::uint64_t steps_now() {
    const auto text = ask("n1", "status", true).text;
    const auto at = text.find("\"step\":");
    return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 7, nullptr, 10);
  }

  // Stops the job, runs an undisturbed one with as many steps, and expects the same weights.
  run_result expect_same_weights(background& b, const std::string& text, std::vector<std::string> set) {
    EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    auto r = b.join();
    EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    if (r.events.empty()) return r;
    const auto steps = r.events.back().event.step;
    set.push_back("train.finish.steps=" + std::to_string(steps));
    const auto unbroken = run(text, set);
    EXPECT_EQ(unbroken.outcome.exit_code(), 0);
    EXPECT_EQ(r.text("weights_sha256").size(), 64u);
    EXPECT_EQ(r.text("weights_sha256"), unbroken.text("weights_sha256")) << "after " << steps << " steps";
    return r;
  }

  std::unique_ptr<network> net_;
  clock::time_point cut_at_;

 private:
  const std::string programs_;
  std::vector<network::way> cut_;
};

}  // namespace troupe::testing_cluster
