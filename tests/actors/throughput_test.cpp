// Measures the cost of one hop: one on(), one send and one delivery by CAF. Printed and not
// asserted, since the machine may be busy.
#include <atomic>
#include <iostream>

#include "tests/actors/helpers.hpp"

namespace troupe::testing_actors {
namespace {

// Sends `balls` messages around a ring of `roles` until `hops` hops are done. Returns microseconds
// per hop.
double ring(unsigned threads, std::uint32_t roles, std::uint32_t balls, std::uint64_t hops, bool with_jobs,
            std::size_t log = host_config{}.message_log) {
  gate done(static_cast<int>(balls));
  node_host h({threads, {}, {}, log});
  std::vector<seat> all;
  for (std::uint32_t r = 0; r < roles; ++r) {
    all.push_back(make_seat(r, [&, r](const envelope& e, time_point, effects& out) {
      if (const auto* f = std::get_if<finished>(&e.body)) {
        out.send(make_envelope(1, (r + 1) % roles, credit{1}, f->token + 1));
      } else if (e.h.step >= hops / balls) {
        done.arrive();
      } else if (with_jobs) {
        out.run([](task_context&) {}, {}, e.h.step);
      } else {
        out.send(make_envelope(1, (r + 1) % roles, credit{1}, e.h.step + 1));
      }
    }));
  }
  h.spawn(1, std::move(all), std::vector<std::uint32_t>(roles, 0), 0);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t b = 0; b < balls; ++b) h.deliver(make_envelope(1, b % roles, start{}));
  EXPECT_TRUE(done.wait(120s));
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / static_cast<double>(hops);
}

TEST(throughput, prints_microseconds_per_hop) {
  for (const bool with_jobs : {false, true}) {
    for (const unsigned threads : {1u, 2u}) {
      for (const std::uint32_t balls : {1u, 8u, 64u}) {
        const double us = ring(threads, 8, balls, 200'000, with_jobs);
        std::cout << (with_jobs ? "send + inline job" : "send only") << ", 8 roles, " << threads << " threads, " << balls
                  << " in flight: " << us << " us a hop, " << 1.0 / us << " M/s\n";
      }
    }
  }
}

// The message log (job_log.hpp) is always on: its cost in a hop that does nothing else.
TEST(throughput, prints_microseconds_per_hop_with_and_without_the_message_log) {
  double with = 1e9, without = 1e9;
  for (int turn = 0; turn < 5; ++turn) {
    without = std::min(without, ring(2, 8, 8, 200'000, false, 0));
    with = std::min(with, ring(2, 8, 8, 200'000, false));
  }
  std::cout << "send only, 8 roles, 2 threads, 8 in flight, best of 5: " << without << " us a hop without the log, " << with
            << " with it\n";
}

}  // namespace
}  // namespace troupe::testing_actors
