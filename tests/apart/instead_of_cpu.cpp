// Linked into the tests of the simulator and of the actors with --wrap: each CPU device that they
// create becomes a device of the machine. TROUPE_APART_SEED seeds the order of queued work.
#include <gtest/gtest.h>
#include <string>

#include "tests/apart/apart_device.hpp"
#include "tests/environment.hpp"

namespace troupe {

std::unique_ptr<device> make_plain(const std::string& isa) __asm__(
    "__real__ZN6troupe15make_cpu_deviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");
std::unique_ptr<device> make_apart(const std::string& isa) __asm__(
    "__wrap__ZN6troupe15make_cpu_deviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE");

std::unique_ptr<device> make_apart(const std::string& isa) {
  auto maths = make_plain(isa);
  if (!maths) return nullptr;
  apart::machine::on_finding = [](const std::string& what) { ADD_FAILURE() << "apart: " << what; };
  return apart::make_device(std::move(maths), std::make_shared<apart::machine>(from_environment("TROUPE_APART_SEED", 1)));
}

}  // namespace troupe
