// Invariants of the channel on a wire that loses, repeats and reorders frames and acknowledgements.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <variant>

#include "runtime/sim/channel.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {
namespace {

struct terrible_wire {
  double loss = 0, twice = 0;
  std::int64_t max_latency = 3'000'000;
};

struct channel_outcome {
  std::vector<std::uint64_t> delivered;  // by header.step, in order of delivery
  std::uint64_t lost = 0, repeated = 0, resent = 0, duplicates = 0, held = 0;
  unsigned highest_attempt = 0;
  std::size_t unacknowledged = 0;
  bool prefix_always = true;
};

// A sender, a receiver and the wire between them.
class talking {
 public:
  talking(const terrible_wire& wire, std::uint64_t seed) : wire_(wire), random_(seed) {}

  // Sends `n` messages over some time and continues until all are acknowledged or a minute of
  // virtual time is over.
  channel_outcome talk(std::uint64_t n) {
    std::uint64_t sent = 0;
    for (; now_ < time_point(60'000'000'000) && (sent < n || sender_.unacknowledged() > 0); now_ += duration(50'000)) {
      if (sent < n && random_.below(3) == 0) {
        envelope e;
        e.h.step = sent++;
        launch(sender_.send(std::move(e), now_));
      }
      for (auto& f : sender_.overdue(now_)) {
        seen_.highest_attempt = std::max<unsigned>(seen_.highest_attempt, f.e.h.attempt);
        launch(std::move(f));
      }
      for (auto& f : landed()) arrive(f);
    }
    seen_.resent = sender_.resent();
    seen_.duplicates = receiver_.duplicates();
    seen_.held = receiver_.held();
    seen_.unacknowledged = sender_.unacknowledged();
    return seen_;
  }

 private:
  struct flying {
    time_point at;
    std::variant<frame, acknowledgement> what;
  };

  duration latency() {
    return duration(1 + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(wire_.max_latency))));
  }

  void launch(std::variant<frame, acknowledgement> what) {
    if (random_.chance(wire_.loss)) return void(++seen_.lost);
    if (random_.chance(wire_.twice)) {
      ++seen_.repeated;
      air_.push_back({now_ + latency(), what});
    }
    air_.push_back({now_ + latency(), std::move(what)});
  }

  std::vector<flying> landed() {
    std::vector<flying> due;
    std::erase_if(air_, [&](flying& f) {
      if (f.at > now_) return false;
      due.push_back(std::move(f));
      return true;
    });
    return due;
  }

  void arrive(flying& f) {
    if (const auto* a = std::get_if<acknowledgement>(&f.what)) return sender_.acknowledged(*a, now_);
    std::vector<envelope> out;
    const auto answer = receiver_.take(std::get<frame>(std::move(f.what)), out);
    for (const auto& e : out) {
      seen_.prefix_always = seen_.prefix_always && e.h.step == seen_.delivered.size();
      seen_.delivered.push_back(e.h.step);
    }
    launch(answer);
  }

  const terrible_wire wire_;
  random random_;
  channel_sender sender_;
  channel_receiver receiver_;
  std::vector<flying> air_;
  channel_outcome seen_;
  time_point now_{};
};

channel_outcome talk(const terrible_wire& wire, std::uint64_t n, std::uint64_t seed) { return talking(wire, seed).talk(n); }

class channel_laws : public ::testing::TestWithParam<std::tuple<double, double>> {};

TEST_P(channel_laws, delivers_every_frame_once_and_in_order) {
  const auto [loss, twice] = GetParam();
  std::uint64_t lost = 0, repeated = 0, duplicates = 0, held = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto o = talk({loss, twice, 3'000'000}, 150, seed);
    ASSERT_EQ(o.delivered.size(), 150u) << "seed " << seed;
    ASSERT_TRUE(o.prefix_always) << "seed " << seed;
    ASSERT_EQ(o.unacknowledged, 0u) << "seed " << seed;
    if (loss > 0) {
      EXPECT_GT(o.highest_attempt, 0u);
      EXPECT_GT(o.resent, 0u);
    }
    lost += o.lost, repeated += o.repeated, duplicates += o.duplicates, held += o.held;
  }
  EXPECT_EQ(lost > 0, loss > 0);
  EXPECT_EQ(repeated > 0, twice > 0);
  EXPECT_GT(held, 0u) << "latencies differ, so a frame must have overtaken another";
  if (twice > 0) {
    EXPECT_GT(duplicates, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(beyond_terrible, channel_laws,
                         ::testing::Combine(::testing::Values(0.0, 0.33, 0.66), ::testing::Values(0.0, 0.5)));

TEST(channel, delivers_all_frames_after_an_outage) {
  channel_sender s;
  channel_receiver r;
  time_point now{};
  for (std::uint64_t i = 0; i < 40; ++i) {
    envelope e;
    e.h.step = i;
    s.send(std::move(e), now);  // all of them are lost
  }
  // A second without a wire: the timeout doubles, so there are few attempts.
  std::size_t tries = 0;
  for (; now < time_point(1'000'000'000); now += duration(100'000)) tries += s.overdue(now).empty() ? 0 : 1;
  EXPECT_GT(tries, 5u);
  EXPECT_LT(tries, 30u);
  std::vector<envelope> out;
  for (int i = 0; i < 100000 && s.unacknowledged() > 0; ++i, now += duration(100'000))
    for (auto& f : s.overdue(now)) s.acknowledged(r.take(std::move(f), out), now);
  ASSERT_EQ(out.size(), 40u);
  for (std::uint64_t i = 0; i < 40; ++i) EXPECT_EQ(out[i].h.step, i);
}

TEST(channel, timeout_follows_the_round_trip) {
  channel_sender s(duration(1'000'000));
  time_point now{};
  // A round trip of 20 ms: after a few acknowledgements no frame is sent again too early.
  std::size_t again = 0;
  for (int i = 0; i < 20; ++i) {
    s.send({}, now);
    for (int k = 0; k < 20; ++k) {
      now += duration(1'000'000);
      if (i > 3) again += s.overdue(now - duration(1)).size();
    }
    s.acknowledged({static_cast<std::uint64_t>(i + 1), static_cast<std::uint64_t>(i)}, now);
  }
  EXPECT_EQ(again, 0u);
}

TEST(channel, old_and_impossible_acknowledgements_are_harmless) {
  channel_sender s;
  s.send({}, {});
  s.send({}, {});
  s.acknowledged({1, 0}, {});
  s.acknowledged({0, 0}, {});
  EXPECT_EQ(s.unacknowledged(), 1u);
  s.acknowledged({99, 98}, {});
  EXPECT_EQ(s.unacknowledged(), 0u);
  EXPECT_EQ(s.send({}, {}).sequence, 2u);
  EXPECT_FALSE(channel_sender().due());
}

}  // namespace
}  // namespace troupe::sim
