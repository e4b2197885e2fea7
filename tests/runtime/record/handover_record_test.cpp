// A checkpoint is a handover on disk: any handover round-trips, and malformed fields are reported.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/data/random.hpp"
#include "runtime/record/handover_record.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;

class drawn {
 public:
  explicit drawn(std::uint64_t seed) : rng_(seed) {}

  std::uint64_t below(std::uint64_t n) { return rng_.draw_below(n); }
  std::uint64_t count() { return below(3) == 0 ? ~0ull - below(3) : below(1'000'000); }
  double real() {
    switch (below(8)) {
      case 0: return std::numeric_limits<double>::denorm_min();
      case 1: return -std::numeric_limits<double>::max();
      case 2: return -0.0;
      case 3: return std::numeric_limits<double>::infinity();
      default: return (static_cast<double>(below(1ull << 53)) + 0.1) / 3e9 - 1e6;
    }
  }
  std::string word(std::uint64_t most = 12) {
    static const std::string letters = "abz.09_-@ =\"\\\n\tü";  // of a layer's name, a key, or a plugin's name
    std::string s;
    for (auto n = below(most + 1); n > 0; --n) s += letters[below(letters.size() - 2)];  // never a part of a UTF-8 character
    return below(8) == 0 ? s + "ü" : s;
  }
  tensor values() {
    const auto n = static_cast<std::int64_t>(below(5)) + 1;
    const auto v = std::make_shared<std::vector<float>>(static_cast<std::size_t>(n));
    for (auto& x : *v) x = static_cast<float>(below(1000)) - 500.0f;
    return tensor::adopt(v, v->data(), {n}, dtype::f32);
  }
  handover one() {
    handover h;
    h.step = count();
    h.evaluated = std::min(count(), h.step);
    h.rounds = count();
    h.accuracy = real();
    h.seconds = real();
    h.paused = below(2) == 1;
    if (below(2) == 1) h.best = {count(), below(2) == 1 ? std::optional(real()) : std::nullopt, real()};
    for (auto n = below(13); n > 0; --n) h.settings.push_back({"train." + word(), real(), count()});
    for (auto n = below(5); n > 0; --n) h.updates[word()] = count();
    for (auto n = below(3); n > 0; --n) h.finish[word()] = word(40);
    for (auto n = below(4); n > 0; --n) h.named.emplace_back("p" + std::to_string(n) + ".weight", values());
    return h;
  }

 private:
  counter_rng rng_;
};

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }  // NaN equals NaN

void expect_equal(const handover& a, const handover& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.evaluated, b.evaluated);
  EXPECT_EQ(a.rounds, b.rounds);
  EXPECT_EQ(bits(a.accuracy), bits(b.accuracy)) << a.accuracy << " " << b.accuracy;
  EXPECT_EQ(bits(a.seconds), bits(b.seconds)) << a.seconds << " " << b.seconds;
  EXPECT_EQ(a.paused, b.paused);
  ASSERT_EQ(a.best.has_value(), b.best.has_value());
  if (a.best) {
    EXPECT_EQ(a.best->step, b.best->step);
    EXPECT_EQ(a.best->accuracy.has_value(), b.best->accuracy.has_value());
    EXPECT_EQ(bits(a.best->accuracy.value_or(0)), bits(b.best->accuracy.value_or(0)));
    EXPECT_EQ(bits(a.best->loss), bits(b.best->loss));
  }
  EXPECT_EQ(a.updates, b.updates);
  EXPECT_EQ(a.finish, b.finish);
  ASSERT_EQ(a.settings.size(), b.settings.size());
  for (std::size_t i = 0; i < a.settings.size(); ++i) {
    EXPECT_EQ(a.settings[i].key, b.settings[i].key);
    EXPECT_EQ(a.settings[i].from, b.settings[i].from);
    EXPECT_EQ(bits(a.settings[i].value), bits(b.settings[i].value)) << a.settings[i].value;
  }
  ASSERT_EQ(a.named.size(), b.named.size());
  for (std::size_t i = 0; i < a.named.size(); ++i) {
    EXPECT_EQ(a.named[i].first, b.named[i].first);
    ASSERT_EQ(a.named[i].second.bytes(), b.named[i].second.bytes());
    EXPECT_EQ(std::memcmp(a.named[i].second.raw(), b.named[i].second.raw(), a.named[i].second.bytes()), 0);
  }
}

checkpoint checkpoint_with(const handover& h) {
  checkpoint c;
  c.job = "j";
  c.packets = 4;
  put_handover(c, h, h.named);
  return c;
}

TEST(handover_record, random_handovers_round_trip) {
  drawn d(11);
  for (int i = 0; i < 2000; ++i) {
    const auto h = d.one();
    const auto back = handover_of(checkpoint_with(h));
    ASSERT_TRUE(back) << back.error().text;
    expect_equal(*back, h);
    if (HasFailure()) FAIL() << "number " << i;
  }
}

TEST(handover_record, random_handovers_round_trip_through_files) {
  temp_dir dir;
  drawn d(12);
  for (int i = 0; i < 50; ++i) {
    const auto h = d.one();
    ASSERT_EQ(test::error_text(write_checkpoint(dir.file("c"), checkpoint_with(h))), "");
    auto read = load_checkpoint(dir.file("c"));
    ASSERT_TRUE(read) << read.error().to_string();
    const auto back = handover_of(*std::move(read));
    ASSERT_TRUE(back) << back.error().text;
    expect_equal(*back, h);
    if (HasFailure()) FAIL() << "number " << i;
  }
}

// Files of versions that did not store progress.
TEST(handover_record, reads_files_without_progress) {
  temp_dir dir;
  const metadata_map old = {{"troupe.checkpoint", "1"}, {"troupe.job", "j"},
                            {"troupe.step", "12"},      {"troupe.seed", "1"},
                            {"troupe.packets", "4"},    {"troupe.numerics", "openblas"},
                            {"extra.shard", "0/2"},     {"troupe.sampler_position", "12"}};
  ASSERT_EQ(test::error_text(write_safetensors(dir.file("old"), {{"ip.weight", drawn(1).values()}}, old)), "");
  auto read = load_checkpoint(dir.file("old"));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_TRUE(read->progress.empty());
  const auto back = handover_of(*std::move(read));
  ASSERT_TRUE(back);
  const auto& h = *back;
  EXPECT_EQ(h.step, 12u);
  EXPECT_EQ(h.evaluated, 12u) << "the next evaluation follows its step";
  EXPECT_EQ(h.accuracy, -1);
  EXPECT_FALSE(h.paused);
  EXPECT_FALSE(h.best);
  EXPECT_TRUE(h.settings.empty() && h.updates.empty() && h.finish.empty());
  EXPECT_EQ(h.named.size(), 1u);
}

TEST(handover_record, reports_the_malformed_key) {
  const std::pair<const char*, const char*> wrong[] = {{"evaluated", "-1"},
                                                       {"rounds", "1e3"},
                                                       {"accuracy", "much"},
                                                       {"seconds", ""},
                                                       {"best.step", "-1"},
                                                       {"best.accuracy", "high"},
                                                       {"best.loss", ""},
                                                       {"paused", "yes"},
                                                       {"set.0", "train.dynamics.lr"},
                                                       {"set.0", "1 train.dynamics.lr"},
                                                       {"set.0", "1 x train.dynamics.lr"},
                                                       {"set.x", "1 0.5 train.dynamics.lr"},
                                                       {"updates.ip.weight", "99999999999999999999999"}};
  for (const auto& [key, text] : wrong) {
    auto c = checkpoint_with({});
    c.progress[key] = text;
    const auto back = handover_of(std::move(c));
    ASSERT_TRUE(!back) << key << " = " << text;
    EXPECT_EQ(back.error().text, std::string("progress.") + key);
  }
  auto later = checkpoint_with({});
  later.progress["of a later Troupe"] = "?";
  EXPECT_TRUE(handover_of(std::move(later)).has_value());
}

}  // namespace
}  // namespace troupe
