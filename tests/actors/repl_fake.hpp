// A fake backend for the REPL: this is node n1 of two nodes; job 1 is over, job 2 runs, with two
// layers and three modes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/repl/repl.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/injection.hpp"

namespace troupe {

struct fake_backend final : repl_backend {
  repl_view v;
  std::vector<std::pair<std::uint32_t, command>> announced;
  std::vector<repl_submission> submitted;
  std::vector<injection> injected;
  std::string refusal;
  std::optional<job_route> unreadable;  // of all jobs
  std::uint32_t next_job = 5;
  repl_events said;
  std::function<void(const command&)> on_command = [](const command&) {};

  fake_backend() {
    v.cluster = "lab";
    v.node = v.coordinator = "n1";
    v.up_seconds = 3;
    v.nodes = {{"n1", "127.0.0.1:1", "127.0.0.1:2", "up", 1, 10, 20, 3}, {"n2", "127.0.0.1:3", "", "absent", 0, 0, 0, 0}};
    repl_job over{1, "old", job_state::done, 10, 10, 0.5, 0.75, 100, "", "abc"};
    repl_job runs{2, "new", job_state::running, 4, 100, 1.5, -1, 200, "", ""};
    v.jobs = {over, runs};
    repl_role r;
    r.node = "n1";
    r.what = {2, role_id{3}, "worker0/conv1", {4, 5, 6, 7, 8, "weights of version 6", wait_kind::weights, {}}, 9, 0.5, 0.01};
    v.roles = {r};
    auto about = std::make_shared<repl_about>();
    about->layers = {{"conv1",
                      "convolution",
                      {"data"},
                      {"16x1x28x28"},
                      {"16x20x24x24"},
                      {{"conv1.weight", "20x1x5x5", 500, 1, 1, true}, {"conv1.bias", "20", 20, 2, 0, true}},
                      true,
                      true},
                     {"relu1", "relu", {"conv1"}, {"16x20x24x24"}, {"16x20x24x24"}, {}, true, true}};
    about->modes = {{"bsp", {}}, {"ssp", {"staleness"}}, {"mine", {"pull"}}};
    about->mode = "bsp";
    about->workers = 3;
    about->batch = 64;
    about->steps_per_epoch = 50;
    about->lr = 0.01;
    about->decay = 0.0005;
    v.jobs[1].about = about;
    v.jobs[1].lr = 0.01;
    v.jobs[1].folder = "runs/7-new";
    v.memory = 3 << 20;
  }
  repl_view view() const override { return v; }
  const repl_events& events() const override { return said; }
  expected<command_id> tell(std::uint32_t job, command c) override {
    c.id = said.next_command();
    announced.emplace_back(job, c);
    on_command(c);
    return answer().transform([&] { return c.id; });
  }
  // The event is the outcome of the command.
  void answers(const command& c, event_effect e) {
    e.answers = {c.id};
    said.put(2, e);
  }
  expected<void> check_read(job_route by, std::uint32_t job) const override {
    if (by != unreadable) return {};
    return unexpected(error("job " + std::to_string(job) + " is not yours"));
  }
  expected<void> inject(const injection& i) override {
    if (v.cluster.empty()) return repl_backend::inject(i);
    injected.push_back(i);
    return answer();
  }
  expected<std::uint32_t> submit(const repl_submission& s) override {
    submitted.push_back(s);
    return answer().transform([this] { return next_job; });
  }
  expected<void> answer() const {
    if (!refusal.empty()) return unexpected(error(refusal));
    return {};
  }
};

}  // namespace troupe
