// Tests of expected and error. The names of the members are those of std::expected, so most tests
// hold for that too.
#include "runtime/base/result.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

expected<int> half_of(int n) {
  if (n % 2 != 0) return unexpected(error(std::to_string(n) + " is odd"));
  return n / 2;
}

expected<void> must_be_small(int n) {
  if (n > 9) return unexpected(error("too large"));
  return {};
}

TEST(expected, holds_a_value_or_an_error) {
  const auto good = half_of(6), bad = half_of(7);
  ASSERT_TRUE(good);
  EXPECT_TRUE(good.has_value());
  EXPECT_EQ(*good, 3);
  EXPECT_EQ(good.value(), 3);
  ASSERT_FALSE(bad);
  EXPECT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().text, "7 is odd");
}

TEST(expected, is_a_default_value_when_it_is_default_constructed) {
  EXPECT_EQ(*expected<int>(), 0);
  EXPECT_TRUE(expected<void>());
  static_assert(!std::is_default_constructible_v<expected<std::reference_wrapper<int>>>);
}

TEST(expected, converts_from_what_its_value_converts_from) {
  const auto text = []() -> expected<std::string> { return "literal"; };
  EXPECT_EQ(*text(), "literal");
  const auto base = []() -> expected<std::shared_ptr<const int>> { return std::make_shared<int>(4); };
  EXPECT_EQ(**base(), 4);
  static_assert(!std::is_constructible_v<expected<std::string>, int*>);
  static_assert(!std::is_convertible_v<error, expected<int>>, "an error needs unexpected()");
}

TEST(expected, tells_value_and_error_apart_when_both_have_one_type) {
  const expected<std::string, std::string> good = std::string("x");
  const expected<std::string, std::string> bad = unexpected(std::string("x"));
  EXPECT_TRUE(good);
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error(), "x");
}

TEST(expected, converts_the_type_of_an_error) {
  const expected<int> bad = unexpected("a literal");
  EXPECT_EQ(bad.error().text, "a literal");
}

TEST(expected, gives_access_to_members_and_allows_changes) {
  expected<std::vector<int>> v = std::vector<int>{1, 2};
  v->push_back(3);
  (*v)[0] = 5;
  v.value()[1] = 6;
  EXPECT_EQ(*v, (std::vector<int>{5, 6, 3}));
  const auto& constant = v;
  EXPECT_EQ(constant->size(), 3u);
  expected<int> e = unexpected(error("a"));
  e.error().text += "b";
  EXPECT_EQ(e.error().text, "ab");
  e = 1;
  EXPECT_EQ(*e, 1);
}

TEST(expected, moves_values_that_cannot_be_copied) {
  const auto make = [](bool good) -> expected<std::unique_ptr<int>, std::unique_ptr<std::string>> {
    if (!good) return unexpected(std::make_unique<std::string>("bad"));
    return std::make_unique<int>(8);
  };
  auto value = *make(true);
  EXPECT_EQ(*value, 8);
  auto why = make(false).error();
  EXPECT_EQ(*why, "bad");
  auto taken = make(true).transform([](std::unique_ptr<int> p) { return *p; });
  EXPECT_EQ(*taken, 8);
}

TEST(expected, violates_an_invariant_when_the_wrong_side_is_read) {
  const auto good = half_of(2), bad = half_of(1);
  EXPECT_THROW(static_cast<void>(bad.value()), std::logic_error);
  EXPECT_THROW(static_cast<void>(*bad), std::logic_error);
  EXPECT_THROW(static_cast<void>(good.error()), std::logic_error);
  EXPECT_THROW(must_be_small(10).value(), std::logic_error);
  EXPECT_NO_THROW(must_be_small(1).value());
}

TEST(expected, and_then_continues_with_a_value_and_passes_an_error_on) {
  EXPECT_EQ(*half_of(12).and_then(half_of), 3);
  EXPECT_EQ(half_of(6).and_then(half_of).error().text, "3 is odd");
  EXPECT_EQ(half_of(7).and_then(half_of).error().text, "7 is odd");
  const auto good = half_of(12);
  EXPECT_TRUE(good.and_then(must_be_small));
  EXPECT_EQ(half_of(40).and_then(must_be_small).error().text, "too large");
  EXPECT_EQ(*must_be_small(1).and_then([] { return half_of(4); }), 2);
  EXPECT_EQ(must_be_small(10).and_then([] { return half_of(4); }).error().text, "too large");
}

TEST(expected, transform_changes_a_value_and_passes_an_error_on) {
  const auto text = [](int n) { return std::to_string(n); };
  EXPECT_EQ(*half_of(4).transform(text), "2");
  EXPECT_EQ(half_of(5).transform(text).error().text, "5 is odd");
  EXPECT_EQ(*must_be_small(1).transform([] { return 7; }), 7);
  int seen = 0;
  const expected<void> nothing = half_of(8).transform([&](int n) { seen = n; });
  EXPECT_TRUE(nothing);
  EXPECT_EQ(seen, 4);
  const auto kept = half_of(8);
  EXPECT_EQ(*kept.transform(text), "4");
}

TEST(expected, transform_error_changes_an_error_and_passes_a_value_on) {
  const auto with_place = [](const error& e) { return e.in("job 3"); };
  EXPECT_EQ(*half_of(4).transform_error(with_place), 2);
  EXPECT_EQ(half_of(5).transform_error(with_place).error().text, "job 3: 5 is odd");
  const expected<void, std::size_t> length = must_be_small(10).transform_error([](const error& e) { return e.text.size(); });
  EXPECT_EQ(length.error(), 9u);
  EXPECT_TRUE(must_be_small(1).transform_error(with_place));
}

TEST(expected, has_diagnostics_as_the_error_of_a_parser) {
  const auto parse = [](bool good) -> expected<int, diagnostics> {
    if (good) return 1;
    return unexpected(diagnostics{{{"a.toml", 3, 7}, "unknown key"}, {{}, "no data"}});
  };
  EXPECT_TRUE(parse(true));
  EXPECT_EQ(parse(false).error().size(), 2u);
  EXPECT_EQ(first_of(parse(false).error(), "unreadable").text, "a.toml:3:7: unknown key");
  EXPECT_EQ(first_of({}, "unreadable").text, "unreadable");
}

TEST(error, gets_its_places_prepended_outermost_last) {
  const error e("no such file");
  EXPECT_EQ(e.in("a.toml").text, "a.toml: no such file");
  EXPECT_EQ(e.in("a.toml").in("job 3").text, "job 3: a.toml: no such file");
}

}  // namespace
}  // namespace troupe
