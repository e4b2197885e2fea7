// The versions of weights that a stage keeps and that a packet uses.
#include "runtime/stage/stage_weights.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

header packet_of(std::uint64_t version, phase p = phase::train) {
  header h;
  h.step = h.version = version;
  h.phase = static_cast<std::uint8_t>(p);
  return h;
}
std::optional<std::uint64_t> met(const stage_weights& w, const header& h, std::size_t position = 0) {
  const auto* e = w.of(h, position);
  return e ? std::optional(e->first) : std::nullopt;
}

TEST(stage_weights, drain_uses_and_keeps_one_version) {
  stage_weights w({{true, 0}, {false, 0}}, weight_rule::drain, 0);
  EXPECT_FALSE(w.here_for(packet_of(0)));
  EXPECT_TRUE(w.take(0, 0, {}));
  EXPECT_TRUE(w.here_for(packet_of(0))) << "a layer without parameters needs no weights";
  EXPECT_FALSE(w.here_for(packet_of(1)));
  EXPECT_TRUE(w.take(0, 1, {}));
  EXPECT_EQ(met(w, packet_of(0)), std::nullopt);
  EXPECT_TRUE(w.beyond(0));
  EXPECT_FALSE(w.take(0, 0, {})) << "too old";
  EXPECT_EQ(w.newest(), 1u);
}

TEST(stage_weights, stash_uses_the_version_at_its_delay_and_keeps_delay_plus_one) {
  stage_weights w({{true, 2}}, weight_rule::stash, 10);
  for (std::uint64_t v = 10; v < 15; ++v) w.take(0, v, {});
  EXPECT_EQ(met(w, packet_of(10)), std::nullopt);
  EXPECT_EQ(met(w, packet_of(15)), 13u);
  EXPECT_EQ(met(w, packet_of(14)), 12u);
  EXPECT_EQ(met(w, packet_of(14, phase::test)), 14u) << "evaluation has no delay: it runs at a boundary";
  w.count({});
  EXPECT_EQ(w.most(), 3u);
  stage_weights first({{true, 2}}, weight_rule::stash, 10);
  first.take(0, 10, {});
  EXPECT_EQ(met(first, packet_of(11)), 10u) << "the first version is that of first_step";
}

TEST(stage_weights, latest_uses_the_newest_version_if_it_is_new_enough) {
  stage_weights w({{true, 1}}, weight_rule::latest, 0);
  w.take(0, 4, {});
  EXPECT_EQ(met(w, packet_of(5)), 4u);
  EXPECT_EQ(met(w, packet_of(3)), 4u);
  EXPECT_EQ(met(w, packet_of(6)), std::nullopt);
  EXPECT_EQ(met(w, packet_of(5, phase::test)), std::nullopt) << "evaluation needs exactly its version";
}

}  // namespace
}  // namespace troupe
