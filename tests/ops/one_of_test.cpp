#include "ops/one_of.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct one_of_test_kinds {
  using variant = std::variant<bool, std::int64_t, double, std::string, std::vector<int>>;
};
template class one_of<one_of_test_kinds>;

namespace {

using value = one_of<one_of_test_kinds>;
static_assert(std::variant_size_v<value> == 5 && std::is_nothrow_move_constructible_v<value>);

TEST(one_of, is_made_and_assigned_as_a_variant) {
  value a = 3, b = "text";
  EXPECT_EQ(std::get<std::int64_t>(a), 3);
  EXPECT_EQ(std::get<std::string>(b), "text");
  a = 2.5;
  EXPECT_TRUE(std::holds_alternative<double>(a));
  std::swap(a, b);
  ASSERT_TRUE(std::get_if<std::string>(&a));
  EXPECT_EQ(std::visit([](const auto& x) { return sizeof x; }, b), sizeof(double));
  EXPECT_EQ(value(), value(false));
}

TEST(one_of, copies_lvalues_and_moves_rvalues) {
  const std::vector<int> fixed{1, 2};
  std::string text(100, 't');
  value copy = fixed, from = text;
  EXPECT_EQ(std::get<4>(copy), fixed);
  EXPECT_EQ(text.size(), 100u);
  from = std::move(text);
  EXPECT_EQ(std::get<std::string>(from).size(), 100u);
  value other = copy;
  EXPECT_EQ(other, copy);
  const value taken = std::move(other);
  EXPECT_EQ(std::get<4>(taken), fixed);
}

}  // namespace
}  // namespace troupe
