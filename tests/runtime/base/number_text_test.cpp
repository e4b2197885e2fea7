// Numbers as text, in a locale with decimal commas, which printf() and strtod() obey.
#include "runtime/base/number_text.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "ops/option_specs.hpp"
#include "ops/options.hpp"
#include "ops/real_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/divergence.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

std::string of_printf(const char* format, int digits, double v) {
  char text[512];
  std::snprintf(text, sizeof text, format, digits, v);
  return text;
}

TEST(number_text, gives_the_text_of_printf) {
  for (const double v : {0.0, -0.0, 1.0, -2.5, 0.125, 1e-7, 123456789.0, 1.5e300, 2.0 / 3, std::numeric_limits<double>::max(),
                         std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::infinity()})
    for (const int digits : {0, 1, 3, 6, 9, 17}) {
      EXPECT_EQ(fixed_text(v, digits), of_printf("%.*f", digits, v));
      EXPECT_EQ(general_text(v, digits), of_printf("%.*g", digits, v));
    }
}

// Sets German numbers for a test; they are made here, because a system may lack that locale.
class decimal_commas : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "troupe_locale_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    const auto make = "localedef -i de_DE -f UTF-8 " + name + "/de_DE.UTF-8 > /dev/null 2>&1";
    [[maybe_unused]] const int made = std::system(make.c_str());
    ::setenv("LOCPATH", name.c_str(), 1);
    if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) GTEST_SKIP() << "localedef cannot make de_DE.UTF-8";
    ASSERT_EQ(of_printf("%.*f", 1, 0.5), "0,5");
  }
  void TearDown() override {
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path folder_;
};

TEST_F(decimal_commas, numbers_are_written_and_read_with_points) {
  EXPECT_EQ(fixed_text(0.125, 3), "0.125");
  EXPECT_EQ(general_text(2.5e-7, 4), "2.5e-07");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  double v = 0;
  EXPECT_TRUE(read_number("0.25", v));
  EXPECT_EQ(v, 0.25);
}

TEST_F(decimal_commas, options_keep_their_values_as_text) {
  option_spec real;
  real.name = "lr";
  real.kind = option_kind::real;
  options o;
  o.values["lr"] = 0.05;
  const auto text = options_to_text(o);
  EXPECT_EQ(text.at(0).second, "0.050000000000000003");
  EXPECT_EQ(options_from_text(text, {real}).real("lr"), 0.05);
  EXPECT_EQ(options_from_text({{"lr", "+2.5e-3"}}, {real}).real("lr"), 2.5e-3);
  for (const char* wrong : {"", "0,5", "+-1", "1e999", "1e", "0.5x"})
    EXPECT_THROW(options_from_text({{"lr", wrong}}, {real}), option_error) << wrong;
}

TEST_F(decimal_commas, refusals_of_options_and_findings_in_layers_have_points) {
  try {
    check_options(options{{{"keep", 2.5}}}, {real_option("keep", 0.75, "", 0.25, 1.5)});
    ADD_FAILURE() << "it is accepted";
  } catch (const option_error& e) {
    EXPECT_NE(std::string(e.what()).find("0.25"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("1.5"), std::string::npos) << e.what();
  }
  EXPECT_EQ(real_text(2.0 / 3), "0.666667");
  EXPECT_EQ(real_text(-1e20), "-100000000000000000000.000000");
}

TEST_F(decimal_commas, advice_against_divergence_has_numbers_of_job_files) {
  job_spec s;
  s.train.rule.kind = "adam";
  s.train.lr = 0.5;
  EXPECT_NE(divergence_advice(s).find("(0.5 now, try 0.001, which is usual for adam)"), std::string::npos) << divergence_advice(s);
}

}  // namespace
}  // namespace troupe
