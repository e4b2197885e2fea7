// The validation split of a source: which examples, and that they are never trained on.
#include <gtest/gtest.h>
#include "runtime/data/validation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace troupe {
namespace {

// Example i of a split has the value i, or 1000 + i in the test split, and the target 2 i.
class numbered final : public source {
 public:
  explicit numbered(std::int64_t n) : n_(n) {}
  shape example() const override { return {1}; }
  std::int64_t classes() const override { return 0; }
  bool targets() const override { return true; }
  shape label() const override { return {1}; }
  std::vector<std::string> class_names() const override { return {"one"}; }
  std::int64_t size(split s) const override { return s == split::train ? n_ : 5; }
  bool decodes() const override { return true; }
  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    for (std::size_t k = 0; k < indices.size(); ++k) {
      const auto i = indices[k];
      data.mutable_data<double>()[k] = i < 0 ? 0 : static_cast<double>(i + (s == split::train ? 0 : 1000));
      label.mutable_data<double>()[k] = i < 0 ? 0 : 2 * static_cast<double>(i);
    }
  }
  std::optional<byte_scaling> bytes() const override { return byte_scaling{{2}, {0}}; }
  void read_bytes(split, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    for (const auto i : indices) *out++ = static_cast<std::uint8_t>(i < 0 ? 255 : i);
  }

 private:
  std::int64_t n_;
};

std::vector<double> values_in(const source& s, split part) {
  std::vector<double> x(static_cast<std::size_t>(s.size(part))), y(x.size());
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < s.size(part); ++i) all.push_back(i);
  auto data = tensor::borrow(x.data(), shape{s.size(part), 1}, dtype::f64);
  auto label = tensor::borrow(y.data(), shape{s.size(part), 1}, dtype::f64);
  s.read(part, all, data, label);
  for (std::size_t k = 0; k < x.size(); ++k) EXPECT_EQ(y[k], 2 * x[k]) << "the target of another example";
  return x;
}

TEST(data_validation, takes_the_fraction_out_of_the_training_examples) {
  const auto of = std::make_shared<numbered>(200);
  for (const double fraction : {0.005, 0.1, 0.5, 0.9}) {
    const auto s = with_validation(of, fraction, 7);
    const auto train = values_in(*s, split::train), test = values_in(*s, split::test);
    EXPECT_EQ(test.size(), static_cast<std::size_t>(std::lround(200 * fraction)));
    std::set<double> all(train.begin(), train.end());
    all.insert(test.begin(), test.end());
    EXPECT_EQ(all.size(), 200u) << "no example is in both splits or lost";
    EXPECT_EQ(*all.rbegin(), 199) << "no test example of the source is used";
    EXPECT_TRUE(std::is_sorted(train.begin(), train.end()));
    EXPECT_TRUE(std::is_sorted(test.begin(), test.end()));
  }
}

TEST(data_validation, depends_on_the_seed_only) {
  const auto of = std::make_shared<numbered>(100);
  const auto of_seed = [&](std::uint64_t seed) { return values_in(*with_validation(of, 0.2, seed), split::test); };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1), of_seed(2));
}

TEST(data_validation, passes_on_the_facts_padding_and_bytes_of_the_source) {
  const auto s = with_validation(std::make_shared<numbered>(10), 0.3, 1);
  EXPECT_TRUE(s->targets() && s->decodes());
  EXPECT_EQ(s->label(), shape{1});
  EXPECT_EQ(s->class_names().size(), 1u);
  EXPECT_EQ(s->bytes()->scale, std::vector<double>{2});
  const auto test = values_in(*s, split::test);
  std::vector<std::uint8_t> bytes(3);
  s->read_bytes(split::test, {1, -1, 0}, bytes.data());
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{static_cast<std::uint8_t>(test[1]), 255, static_cast<std::uint8_t>(test[0])}));
}

}  // namespace
}  // namespace troupe
