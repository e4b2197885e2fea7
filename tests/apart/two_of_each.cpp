// Linked into the simulator's tests with --wrap: every node has two devices of the machine, and
// roles are assigned to both. TROUPE_APART_FAULT=nothing_crosses plants a mistake: devices use each
// other's memory without a transfer.
#include <gtest/gtest.h>
#include <cstdlib>
#include <map>

#include "runtime/plan/plan_draft.hpp"
#include "runtime/sim/world.hpp"
#include "tests/apart/apart_device.hpp"

namespace troupe {
namespace {

// The second device of a machine, keyed by the first. Never removed: each test has its own process.
std::map<const device*, std::shared_ptr<device>>& seconds() {
  static std::map<const device*, std::shared_ptr<device>> all;
  return all;
}

}  // namespace

std::unique_ptr<device> make_one_cpu(const std::string& isa) __asm__(
    "__real__ZN6troupe15make_cpu_deviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
std::unique_ptr<device> make_two(const std::string& isa) __asm__(
    "__wrap__ZN6troupe15make_cpu_deviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");

std::unique_ptr<device> make_two(const std::string& isa) {
  const std::shared_ptr<device> maths = make_one_cpu(isa);
  if (!maths) return nullptr;
  apart::machine::on_finding = [](const std::string& what) { ADD_FAILURE() << "apart: " << what; };
  const auto m = std::make_shared<apart::machine>(1);
  if (std::getenv("TROUPE_APART_FAULT")) m->fault = apart::planted::crossing_left_out;
  auto first = apart::make_device(maths, m, 0);
  seconds()[first.get()] = apart::make_device(maths, m, 1);
  return first;
}

void deal_plain(plan_draft& draft) __asm__("__real__ZN6troupe12deal_devicesERNS_10plan_draftE");
void deal_over_two(plan_draft& draft) __asm__("__wrap__ZN6troupe12deal_devicesERNS_10plan_draftE");

void deal_over_two(plan_draft& draft) {
  for (auto& n : draft.plan.nodes) n.devices = {"apart:0", "apart:1"};
  draft.worker_devices.clear();
  assign_worker_devices(draft);
  deal_plain(draft);
}

namespace sim {

void make_plain_world(world* self, world_config c) __asm__("__real__ZN6troupe3sim5worldC1ENS0_12world_configE");
void make_world_of_two(world* self, world_config c) __asm__("__wrap__ZN6troupe3sim5worldC1ENS0_12world_configE");

void make_world_of_two(world* self, world_config c) {
  if (const auto at = seconds().find(c.dev); c.dev && at != seconds().end()) c.devices = {c.dev, at->second.get()};
  make_plain_world(self, std::move(c));
}

}  // namespace sim
}  // namespace troupe
