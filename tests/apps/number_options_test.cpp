// Options of commands with numbers as values.
#include <set>
#include <sstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class number_options : public command_test {};

// Every option whose help names a number as its value.
TEST_F(number_options, refuses_every_number_that_is_out_of_range) {
  const std::set<std::string> placeholders{"N", "S", "K", "G", "T", "X"};
  std::size_t tried = 0;
  for (const std::string command : {"train", "test", "sample", "time", "init", "pack", "unroll", "plan", "sim", "check",
                                    "check-layer", "init-cluster", "certs", "layers", "modes", "reference"}) {
    std::istringstream help(troupe({command, "--help"}).out);
    for (std::string line; std::getline(help, line);) {
      std::istringstream words(line);
      std::string option, value;
      if (!(words >> option >> value) || !option.starts_with("--") || !placeholders.contains(value)) continue;
      for (const std::string number : {"99999999999999999999", "-99999999999999999999", "1e999", "nan"}) {
        const auto o = troupe({command, option, number});
        EXPECT_EQ(o.code, 2) << command << " " << option << " " << number;
        EXPECT_NE(o.err.find(number), std::string::npos) << command << " " << option << " " << number << ": " << o.err;
        ++tried;
      }
    }
  }
  EXPECT_GE(tried, 40u);
}

TEST_F(number_options, refuses_a_real_number_with_a_comma_or_a_unit) {
  for (const std::string number : {"0,5", "1.5x", "", "half"}) {
    const auto o = troupe({"sample", "none.net", "--temperature", number});
    EXPECT_EQ(o.code, 2) << number;
    EXPECT_NE(o.err.find("--temperature"), std::string::npos) << number << ": " << o.err;
  }
  for (const std::string number : {"0.5", "+.5", "5e-1"}) {
    const auto o = troupe({"sample", "none.net", "--temperature", number});
    EXPECT_EQ(o.err.find("--temperature"), std::string::npos) << number << ": " << o.err;
    EXPECT_NE(o.err.find("none.net"), std::string::npos) << number << ": " << o.err;
  }
}

}  // namespace
}  // namespace troupe
