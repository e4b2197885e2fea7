// exact_cover checks that rectangles cover a rectangle exactly once and names the first fault.
#include "runtime/plan/exact_cover.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using what = cover_fault::what;

constexpr span_of packets{0, 4}, features{0, 10};

std::optional<cover_fault> of(std::vector<claim> claims) { return exact_cover(std::move(claims), packets, features); }

void expect_fault(const std::vector<claim>& claims, what kind, span_of in_packets, span_of in_features, std::uint32_t first = 0,
                  std::uint32_t second = 0) {
  const auto f = of(claims);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->kind, kind);
  EXPECT_EQ(f->packets, in_packets);
  EXPECT_EQ(f->features, in_features);
  EXPECT_EQ(f->first, first);
  EXPECT_EQ(f->second, second);
}

TEST(exact_cover, accepts_any_pieces_in_any_order) {
  EXPECT_FALSE(of({{packets, features, 0}}));
  EXPECT_FALSE(of({{{2, 4}, {4, 10}, 0}, {{0, 2}, features, 1}, {{2, 4}, {0, 4}, 2}}));
  EXPECT_FALSE(of({{{0, 1}, {0, 5}, 0}, {{0, 1}, {5, 10}, 1}, {{1, 4}, {0, 7}, 2}, {{1, 2}, {7, 10}, 3}, {{2, 4}, {7, 10}, 4}}));
}

TEST(exact_cover, ignores_empty_claims) {
  EXPECT_FALSE(
      of({{packets, features, 0}, {{2, 2}, features, 1}, {packets, {5, 5}, 2}, {packets, {20, 10}, 3}, {{9, 9}, {7, 7}, 4}}));
  expect_fault({}, what::missing, packets, features);
}

TEST(exact_cover, names_the_first_place_without_a_claim) {
  expect_fault({{packets, {0, 9}, 1}}, what::missing, packets, {9, 10});
  expect_fault({{packets, {1, 10}, 1}}, what::missing, packets, {0, 1});
  expect_fault({{{0, 3}, features, 1}}, what::missing, {3, 4}, features);
  expect_fault({{{1, 4}, features, 1}}, what::missing, {0, 1}, features);
  expect_fault({{packets, {0, 4}, 1}, {{0, 2}, {4, 10}, 2}, {{3, 4}, {4, 10}, 3}}, what::missing, {2, 3}, {4, 10});
}

TEST(exact_cover, names_the_first_place_with_two_claims) {
  expect_fault({{packets, {0, 6}, 1}, {packets, {5, 10}, 2}}, what::twice, packets, {5, 6}, 1, 2);
  expect_fault({{{0, 3}, features, 1}, {{2, 4}, features, 2}}, what::twice, {2, 3}, features, 1, 2);
  expect_fault({{packets, features, 1}, {{1, 2}, {3, 4}, 2}}, what::twice, {1, 2}, {3, 4}, 1, 2);
}

TEST(exact_cover, names_a_claim_that_is_out_of_range) {
  expect_fault({{packets, features, 1}, {{4, 5}, features, 2}}, what::beyond, {4, 5}, features, 2);
  expect_fault({{{-1, 4}, features, 3}}, what::beyond, {-1, 4}, features, 3);
  expect_fault({{packets, {0, 5}, 1}, {packets, {5, 11}, 2}}, what::beyond, packets, {5, 11}, 2);
  expect_fault({{packets, {-1, 10}, 4}}, what::beyond, packets, {-1, 10}, 4);
}

}  // namespace
}  // namespace troupe
