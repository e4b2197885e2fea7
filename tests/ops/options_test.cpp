#include "ops/options.hpp"

#include <gtest/gtest.h>

#include "ops/option_specs.hpp"

namespace troupe {
namespace {

option_specs example_specs() {
  return {required_integer("outputs", "how many"),
          real_option("rate", 0.5, "a rate", 0.0, 1.0),
          choice_option("region", {"across", "within"}, "where"),
          flag_option("bias", true, "add one"),
          bounded(option_of("points", option_kind::integers, std::vector<std::int64_t>{}, "cuts"), 1),
          by_axis_option("stride", 1, "a distance", 1),
          option_of("weights", option_kind::reals, std::vector<double>{}, "weights"),
          table_option("filler", "a table")};
}

// The message of the option_error that checking `given` throws, after its key.
std::string mistake_in(std::map<std::string, option_value, std::less<>> given) {
  try {
    check_options({std::move(given)}, example_specs());
  } catch (const option_error& e) {
    return e.key + ": " + e.what();
  }
  return "none";
}
using i = std::int64_t;

TEST(options, fills_in_defaults) {
  const options o = check_options({{{"outputs", i{3}}}}, example_specs());
  EXPECT_EQ(o.integer("outputs"), 3);
  EXPECT_EQ(o.real("rate"), 0.5);
  EXPECT_EQ(o.text("region"), "across");
  EXPECT_TRUE(o.flag("bias"));
  EXPECT_TRUE(o.table("filler").values.empty());
}

TEST(options, converts_integers_to_reals_where_declared) {
  const options o = check_options({{{"outputs", i{3}}, {"rate", i{1}}, {"weights", std::vector<i>{1, 2}}}}, example_specs());
  EXPECT_EQ(o.real("rate"), 1.0);
  EXPECT_EQ(o.get<std::vector<double>>("weights"), (std::vector<double>{1, 2}));
}

TEST(options, accepts_a_word_instead_of_a_list_of_reals_where_declared) {
  auto spec = option_of("weights", option_kind::reals, std::vector<double>{}, "weights");
  spec.choices = {"balanced"};
  const auto words = check_options({{{"weights", std::string("balanced")}}}, {spec});
  EXPECT_EQ(words.text("weights"), "balanced");
  EXPECT_EQ(check_options({{{"weights", std::vector<double>{1, 2}}}}, {spec}).get<std::vector<double>>("weights").size(), 2u);
  EXPECT_THROW(check_options({{{"weights", std::string("even")}}}, {spec}), option_error);
  EXPECT_EQ(mistake_in({{"outputs", i{1}}, {"weights", std::string("balanced")}}),
            "weights: option 'weights' must be a list of numbers");
}

TEST(options, accepts_an_empty_list_of_any_kind) {
  const options o = check_options({{{"outputs", i{1}}, {"weights", std::vector<std::string>{}}, {"points", std::vector<double>{}}}},
                                  example_specs());
  EXPECT_TRUE(o.get<std::vector<double>>("weights").empty());
  EXPECT_TRUE(o.get<std::vector<i>>("points").empty());
}

TEST(options, a_pair_of_equal_numbers_becomes_one_number) {
  const auto stride = [](option_value v) {
    return check_options({{{"outputs", i{1}}, {"stride", std::move(v)}}}, example_specs());
  };
  using pair = std::array<i, 2>;
  EXPECT_EQ(check_options({{{"outputs", i{1}}}}, example_specs()).by_axis("stride"), (pair{1, 1}));
  EXPECT_EQ(stride(i{3}).by_axis("stride"), (pair{3, 3}));
  EXPECT_EQ(stride(std::vector<i>{2, 3}).by_axis("stride"), (pair{2, 3}));
  EXPECT_EQ(stride(std::vector<i>{3, 3}).integer("stride"), 3);
}

TEST(options, errors_name_what_a_pair_may_be) {
  const auto mistake = [](option_value v) { return mistake_in({{"outputs", i{1}}, {"stride", std::move(v)}}); };
  const std::string wanted = "stride: option 'stride' must be an integer or a pair [height, width]";
  EXPECT_EQ(mistake(std::vector<i>{1, 2, 3}), wanted);
  EXPECT_EQ(mistake(std::vector<i>{1}), wanted);
  EXPECT_EQ(mistake(std::vector<i>{}), wanted);
  EXPECT_EQ(mistake(std::vector<double>{1.0, 2.0}), wanted);
  EXPECT_EQ(mistake(std::string("2")), wanted);
  EXPECT_EQ(mistake(std::vector<std::string>{"1", "2"}), wanted);
  EXPECT_EQ(mistake(std::vector<i>{1, 0}), "stride: option 'stride' must be at least 1 and at most 1000000000, not 0");
  EXPECT_EQ(mistake(std::vector<i>{-1, 2}), "stride: option 'stride' must be at least 1 and at most 1000000000, not -1");
  // An option that is not by axis takes no pair.
  EXPECT_EQ(mistake_in({{"outputs", std::vector<i>{1, 2}}}), "outputs: option 'outputs' must be an integer");
}

TEST(options, errors_name_the_option_and_the_nearest_name) {
  EXPECT_EQ(mistake_in({{"outputs", i{1}}, {"ouputs", i{2}}}), "ouputs: unknown option 'ouputs'; did you mean 'outputs'?");
  EXPECT_EQ(mistake_in({{"outputs", i{1}}, {"xyzzy", i{2}}}),
            "xyzzy: unknown option 'xyzzy'; known: outputs, rate, region, bias, points, stride, weights, filler");
  EXPECT_EQ(mistake_in({}), "outputs: option 'outputs' is missing; it must be an integer");
  EXPECT_EQ(mistake_in({{"outputs", 1.5}}), "outputs: option 'outputs' must be an integer");
  EXPECT_EQ(mistake_in({{"outputs", i{0}}}), "outputs: option 'outputs' must be at least 1 and at most 1000000000, not 0");
  EXPECT_EQ(mistake_in({{"outputs", i{1}}, {"rate", 1.5}}), "rate: option 'rate' must be at least 0 and at most 1, not 1.5");
  EXPECT_EQ(mistake_in({{"outputs", i{1}}, {"region", std::string("withn")}}),
            "region: option 'region' must be one of across, within, not 'withn'; did you mean 'within'?");
  EXPECT_EQ(mistake_in({{"outputs", i{1}}, {"points", std::vector<i>{2, 0}}}), "points: option 'points' must be at least 1, not 0");
}

TEST(nearest_word, tolerates_one_typo_in_three_letters) {
  const std::vector<std::string> words{"momentum", "nesterov", "sgd"};
  EXPECT_EQ(nearest_word("momentun", words), "momentum");
  EXPECT_EQ(nearest_word("mometnum", words), "momentum");
  EXPECT_EQ(nearest_word("nestrov", words), "nesterov");
  EXPECT_EQ(nearest_word("sdg", words), "sgd");
  EXPECT_EQ(nearest_word("adam", words), "");
}

}  // namespace
}  // namespace troupe
