// Labels and ids from a source: the task that reads them rejects values beyond the net's range,
// whatever the source is.
#include <gtest/gtest.h>

#include "runtime/loader/reading.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

// A faulty source of a plugin, whose labels exceed the number of classes that it declares.
class careless final : public source {
 public:
  shape example() const override { return {4}; }
  std::int64_t classes() const override { return 3; }
  std::int64_t size(split) const override { return 100; }
  bool ids() const override { return with_ids; }
  void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    if (with_ids)
      std::fill_n(data.mutable_data<std::int32_t>(), data.count(), id);
    else
      std::fill_n(data.mutable_data<float>(), data.count(), 1.0F);
    auto* out = label.mutable_data<std::int32_t>();
    for (auto i : indices) *out++ = i < 0 ? -1 : i == 7 ? wrong : 2;
  }
  std::int32_t wrong = 2, id = 2;
  bool with_ids = false;
};

// Returns the error of the task that reads the examples, or "read".
std::string reading(const std::shared_ptr<careless>& from, std::int64_t label_below, phase ph = phase::train,
                    std::vector<std::int64_t> indices = {5, 7, 8, -1}) {
  auto graph = std::make_shared<model_graph>();
  graph->data = {4, 4};
  graph->label = {4};
  graph->ids = from->with_ids;
  graph->classes = 3;
  graph->label_below = label_below;
  graph->id_below = from->with_ids ? 3 : 0;
  reading_config c;
  c.graph = graph;
  c.data = from;
  auto r = std::make_shared<troupe::reading>();
  r->h.phase = static_cast<std::uint8_t>(ph);
  r->indices = std::move(indices);
  effects out;
  begin_reading(r, c, 1, out);
  const auto dev = make_cpu_device();
  task_context lent{*dev};
  try {
    std::get<run_effect>(out.list().at(0)).work(lent);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "read";
}

TEST(reading, label_beyond_the_classes_fails_the_read_task) {
  const auto s = std::make_shared<careless>();
  EXPECT_EQ(reading(s, 3), "read");
  s->wrong = 60000;
  EXPECT_EQ(reading(s, 3), "the source returned training example 7 with label 60000, but declares 3 classes");
  EXPECT_EQ(reading(s, 3, phase::test), "the source returned test example 7 with label 60000, but declares 3 classes");
  EXPECT_EQ(reading(s, 0), "read") << "no layer uses the label as an index: it may be a regression target";
  s->wrong = -5;
  EXPECT_EQ(reading(s, 3), "read") << "padding";
}

TEST(reading, id_beyond_the_vocabulary_fails_the_read_task) {
  const auto s = std::make_shared<careless>();
  s->with_ids = true;
  EXPECT_EQ(reading(s, 3), "read");
  s->id = 3;
  EXPECT_EQ(reading(s, 3), "the source returned training example 5 with id 3, but declares 3 ids");
}

TEST(reading, wrong_indices_of_a_sampler_fail_the_read_task) {
  const auto s = std::make_shared<careless>();
  EXPECT_EQ(reading(s, 3, phase::train, {5, 99, 8, -1}), "read");
  EXPECT_EQ(reading(s, 3, phase::train, {5, 100, 8, -1}),
            "the sampler returned training example 100, but the source has 100, which are numbered from 0");
  EXPECT_EQ(reading(s, 3, phase::test, {5, 8, 9, 1 << 20}),
            "the sampler returned test example 1048576, but the source has 100, which are numbered from 0");
  EXPECT_EQ(reading(s, 3, phase::train, {5, 7, 8}), "the sampler returned 3 examples for a packet of 4");
  EXPECT_EQ(reading(s, 3, phase::train, {5, 7, 8, 9, 10}), "the sampler returned 5 examples for a packet of 4");
}

struct short_sampler final : eval_sampler {
  std::int64_t examples() const override { return 6; }
  std::vector<std::int64_t> indices(std::uint64_t, std::int64_t first, std::int64_t count) override {
    return std::vector<std::int64_t>(static_cast<std::size_t>(first == 0 ? count : count - 1), first);
  }
};

TEST(reading, evaluation_sampler_that_returns_too_few_examples_is_refused) {
  reading_config c;
  c.eval = std::make_shared<short_sampler>();
  c.eval_examples = 4;
  header h;
  EXPECT_EQ(eval_indices(c, h), (std::vector<std::int64_t>{0, 0, 0, 0}));
  h.packet = 1;
  try {
    eval_indices(c, h);
    ADD_FAILURE() << "it is accepted";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "the sampler returned 1 examples for a packet of 2");
  }
}

}  // namespace
}  // namespace troupe::testing
