// Prints the rates of every stock schedule, bare and with both kinds of warm-up. A line per case:
// "NAME bare|warm|prefix RATE_0 RATE_1 ...". schedules_torch_test.py computes the same with
// torch.optim.lr_scheduler.
//
// usage: schedule_dump
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "ops/schedule.hpp"

namespace {

using namespace troupe;

constexpr double base = 0.5, from = 0.1;
constexpr std::uint64_t steps = 60, warm_up = 10;

std::unique_ptr<schedule> made(const std::string& name, const options& given) {
  schedule_registry all;
  add_stock_schedules(all);
  const auto* entry = all.find(name);
  return entry->make(check_options(given, entry->specs));
}

void print(const std::string& name, const char* kind, const schedule& rate) {
  std::printf("%s %s", name.c_str(), kind);
  for (std::uint64_t t = 0; t < steps; ++t) std::printf(" %.17g", rate.lr(base, t));
  std::printf("\n");
}

}  // namespace

int main() {
  using whole = std::int64_t;
  const std::vector<std::pair<std::string, options>> cases{
      {"fixed", {}},
      {"plateau", {}},
      {"step", {{{"every", whole{7}}, {"factor", 0.5}}}},
      {"fixed_step", {{{"at", std::vector<whole>{5, 20, 21}}, {"factor", 0.3}}}},
      {"linear", {{{"steps", whole{30}}, {"final", 0.05}}}},
      {"exponential", {{{"every", whole{1}}, {"factor", 0.9}}}},
      {"inverse", {{{"gamma", 0.1}, {"power", 0.75}}}},
      {"inverse_t", {{{"t", 12.0}}}},
      {"poly", {{{"steps", whole{40}}, {"power", 2.0}}}},
      {"cosine", {{{"steps", whole{40}}, {"final", 0.02}}}},
      {"cosine_restarts", {{{"steps", whole{6}}, {"growth", whole{2}}, {"final", 0.02}}}},
  };
  for (const auto& [name, given] : cases) {
    print(name, "bare", *made(name, given));
    print(name, "warm", *with_warmup(made(name, given), warm_up, from));
    print(name, "prefix", *with_warmup(made(name, given), warm_up, from, true));
  }
  schedule_registry all;
  add_stock_schedules(all);
  for (const auto& name : all.names()) std::printf("%s exists\n", name.c_str());
  return 0;
}
