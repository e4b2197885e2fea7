// Fixture: a cluster controller with a running job that loses nodes, without a cluster. The test
// sets the time and sends the messages of the other nodes.
#pragma once

#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"

namespace troupe::control {

using namespace std::chrono_literals;

class controller_failures : public testing::Test {
 protected:
  controller_failures() {
    for (const char* n : {"n1", "n2", "n3", "n4"}) {
      node_spec s;
      s.name = n;
      s.address = "127.0.0.1:1";
      cluster_.nodes.push_back(s);
    }
  }
  // A new controller whose nodes `up` have joined accepts a job that runs on `nodes`.
  void accept(const std::vector<std::string>& up, const std::vector<std::string>& nodes,
              std::optional<std::uint64_t> most = std::nullopt) {
    out_.clear();
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    max_ = most;
    for (const auto& n : up) joins(n);
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    for (const auto& o : out_)
      if (const auto* c = std::get_if<check_text>(&o)) id_ = c->job;
    h_->on_checked(id_, plan(nodes), now_, out_);
  }
  void begin(const std::vector<std::string>& nodes, std::optional<std::uint64_t> most = std::nullopt) {
    accept({"n1", "n2", "n3", "n4"}, nodes, most);
    for (const auto& n : nodes) h_->on(n, prepared{id_, {}}, now_, out_);
    out_.clear();
  }
  void joins(const std::string& n) { h_->on(n, join{"127.0.0.1:2", "same", protocol, abi_version, ++lives_}, now_, out_); }
  void dies(const std::string& n) { h_->on_peer_down(n, "gone", now_, out_); }
  checked plan(std::vector<std::string> nodes) const {
    checked c;
    c.name = "tiny";
    c.plan_hash = "h";
    c.nodes = std::move(nodes);
    c.max_failures = max_;
    c.costly = costly_;
    return c;
  }
  const check_move* asked() const {
    const check_move* last = nullptr;
    for (const auto& o : out_)
      if (const auto* c = std::get_if<check_move>(&o)) last = c;
    return last;
  }
  std::vector<std::string> lost_nodes() const { return std::get<lose_command>(asked()->wish.what).nodes; }
  void found(std::vector<std::string> nodes, std::uint64_t from) {
    auto changes = asked()->so_far;
    for (const auto& n : lost_nodes()) changes.without.insert(n);
    h_->on_plan_found({id_, {}, changes, plan(std::move(nodes)), {"bsp"}, asked()->plan_generation, from}, now_, out_);
  }
  // The job executor reports that the other nodes have all of the job's state.
  void found_live(std::vector<std::string> nodes) {
    auto changes = asked()->so_far;
    for (const auto& n : lost_nodes()) changes.without.insert(n);
    h_->on_plan_found({id_, {}, changes, plan(std::move(nodes)), {"bsp"}, asked()->plan_generation, 0, true}, now_, out_);
  }
  void ready(const std::vector<std::string>& nodes) {
    for (const auto& n : nodes) h_->on(n, revised{id_, plan_generation(), {}}, now_, out_);
  }
  void swap_all(const std::vector<std::string>& nodes) {
    for (const auto& n : nodes) h_->on(n, swapped{id_, plan_generation(), 0, {}}, now_, out_);
  }
  // n3 fails, and the job continues on n1 and n2 from step 40.
  void continues_without_n3() {
    dies("n3");
    found({"n1", "n2"}, 40);
    ready({"n1", "n2"});
    swap_all({"n1", "n2"});
  }
  std::uint32_t plan_generation() const { return sent<revise>().back().second.plan_generation; }
  template <class M>
  std::vector<std::pair<std::string, M>> sent() const {
    return sent_in<M>(out_);
  }
  std::vector<std::string> sent_to_job() const {
    std::vector<std::string> v;
    for (const auto& o : out_)
      if (const auto* t = std::get_if<tell_job>(&o)) v.push_back(name_of(t->what));
    return v;
  }
  template <class O>
  std::size_t ordered() const {
    return ordered_in<O>(out_).size();
  }
  std::string last_said() const {
    const auto all = sent<said>();
    return all.empty() ? "" : all.back().second.kind + ": " + all.back().second.text;
  }
  void step(std::uint64_t n) { h_->on_event({id_, {n, step_event{.loss = 1}}}, now_, out_); }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
  std::uint64_t lives_ = 0;
  std::uint32_t id_ = 0;
  std::optional<std::uint64_t> max_;
  std::set<std::string> costly_;  // nodes whose failure loses state that no other node has
};

}  // namespace troupe::control
