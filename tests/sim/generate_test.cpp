// Text generation: characters are drawn from the net's distribution given the whole text before.
#include <cmath>

#include "ops/tensor_values.hpp"
#include "runtime/plain/generate.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

job_spec text_spec(const std::string& path, std::int64_t sequence, std::int64_t batch) {
  const auto& t = *shared_tables();
  const auto n = [](std::int64_t v) { return option_value(v); };
  shape_of_job s;
  s.packets = 1;
  auto j = small_spec(s);
  j.data.source = "text";
  j.data.values = checked(with({{"path", path}, {"sequence", n(sequence)}, {"test_fraction", 0.0}}), t.sources.find("text")->specs);
  j.data.batch = batch;
  j.data.sampler = {"lanes", checked({}, t.samplers.find("lanes")->specs), {}};
  j.train.algorithm = "bptt";
  j.layers = {layer_of("embed", "embedding", {"data"}, with({{"vocabulary", n(12)}, {"outputs", n(4)}})),
              layer_of("one", "lstm", {"embed"}, with({{"units", n(8)}})),
              layer_of("two", "gru", {"one"}, with({{"units", n(8)}})),
              layer_of("drop", "dropout", {"two"}),
              layer_of("score", "linear", {"drop"}, with({{"outputs", n(12)}, {"axis", n(2)}})),
              layer_of("loss", "softmax_loss", {"score", "label"})};
  return j;
}

class generating : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "abc\xc3\xa9";  // the same characters, always in this order
    test::write_bytes(dir.file("t.txt"), {text.begin(), text.end()});
  }
  std::shared_ptr<prepared_job> prepared(std::int64_t sequence, std::int64_t batch) {
    auto made = prepare_job(text_spec(dir.file("t.txt"), sequence, batch), shared_tables(), nodes_named(1));
    return *made;
  }
  std::unique_ptr<text_generator> made(const prepared_job& j, const std::vector<std::pair<std::string, tensor>>& weights) {
    auto g = make_generator(j, weights, dev);
    if (!g) ADD_FAILURE() << g.error().to_string();
    return *std::move(g);
  }
  test::temp_dir dir;
  const std::shared_ptr<device> dev = make_cpu_device();
};

// Reading character by character with carried state gives the scores of one long sequence.
TEST_F(generating, distribution_equals_that_of_the_net_on_the_whole_text) {
  const auto j = prepared(9, 1);
  const auto weights = initial_weights(*j, *dev);
  const auto g = made(*j, weights);
  EXPECT_EQ(g->symbols().size(), 4u);
  std::vector<tensor> out;
  std::vector<std::int32_t> ids{2, 0, 1, 3, 3, 0, 2, 1, 0};
  tensor x = tensor::allocate(*dev, {1, 9}, dtype::i32);
  dev->upload(ids.data(), x);
  for (const auto& l : j->graph.layers) {
    if (l.maths->is_loss()) break;
    tensors params, made_out{tensor::declare(l.out[0], dtype::f32)};
    for (auto p : l.params) params.push_back(weights[p].second);
    context c{.dev = *dev, .ph = phase::test};
    saved kept;
    l.maths->forward(c, *l.maths->prepare(*dev, l.in, phase::test, dtype::f32), {x}, params, made_out, kept);
    x = made_out[0];
  }
  x = at_home(*dev, x);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    g->read(ids[t]);
    const auto* scores = x.data<float>() + 12 * t;
    double sum = 0;
    for (int k = 0; k < 4; ++k) sum += std::exp(scores[k] / 0.7);  // only the vocabulary; the other scores are unused
    const auto p = g->next(0.7);
    ASSERT_EQ(p.size(), 4u);
    for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(p[k], std::exp(scores[k] / 0.7) / sum, 1e-6);
  }
}

// Causal attention over the last characters, as many as the job's sequence has.
TEST_F(generating, net_without_state_reads_the_last_characters_anew) {
  const auto n = [](std::int64_t v) { return option_value(v); };
  const auto list = [](std::vector<std::int64_t> v) { return option_value(std::move(v)); };
  const auto places = option_value(std::make_shared<options>(with({{"kind", std::string("gaussian")}, {"std", 1.0}})));
  auto spec = text_spec(dir.file("t.txt"), 5, 1);
  spec.train.algorithm = "bp";
  spec.layers = {layer_of("embed", "embedding", {"data"}, with({{"vocabulary", n(12)}, {"outputs", n(4)}})),
                 layer_of("row", "reshape", {"embed"}, with({{"shape", list({-1})}})),
                 layer_of("place", "bias", {"row"}, with({{"bias_filler", places}})),
                 layer_of("steps", "reshape", {"place"}, with({{"shape", list({5, 4})}})),
                 layer_of("scores", "matmul", {"steps", "steps"}, with({{"transpose_b", true}})),
                 layer_of("attention", "softmax", {"scores"}, with({{"axis", n(2)}, {"causal", true}})),
                 layer_of("mixed", "matmul", {"attention", "steps"}),
                 layer_of("score", "linear", {"mixed"}, with({{"outputs", n(12)}, {"axis", n(2)}})),
                 layer_of("loss", "softmax_loss", {"score", "label"})};
  const auto made_job = prepare_job(spec, shared_tables(), nodes_named(1));
  ASSERT_TRUE(made_job) << test::error_text(made_job);
  const auto& j = **made_job;
  const auto weights = initial_weights(j, *dev);
  const std::vector<std::int32_t> ids{2, 0, 1, 3, 3, 0, 2, 1};
  const auto g = made(j, weights);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    g->read(ids[t]);
    const auto fresh = made(j, weights);  // has read the window only
    for (std::size_t k = t < 5 ? 0 : t - 4; k <= t; ++k) fresh->read(ids[k]);
    EXPECT_EQ(g->next(0.7), fresh->next(0.7)) << t;
  }
  const auto whole = made(j, weights), other = made(j, weights);
  for (const auto id : {1, 2, 3}) whole->read(id);
  for (const auto id : {2, 1, 3}) other->read(id);
  EXPECT_NE(whole->next(0.7), other->next(0.7)) << "the order of the characters counts";
}

TEST_F(generating, trained_net_reproduces_the_learnt_text) {
  auto spec = text_spec(dir.file("t.txt"), 10, 4);
  spec.train.rule = {"adam", checked({}, shared_tables()->rules.find("adam")->specs), {}};
  spec.train.lr = 0.02, spec.train.decay = 0;
  spec.train.finish.steps = 120;
  const auto j = prepare_job(spec, shared_tables(), nodes_named(1)).value();
  sim::world_config c;
  c.dev = dev.get();
  const auto trained = run_in_world(j, c);
  const auto write = [&](double temperature, std::uint64_t seed) {
    const auto g = made(*j, trained.weights);
    const auto start = g->encode(
        "\xc3\xa9"
        "ab");
    EXPECT_EQ(test::error_text(start), "");
    return generate(*g, *start, 12, temperature, seed);
  };
  EXPECT_EQ(write(0, 1).text,
            "c\xc3\xa9"
            "abc\xc3\xa9"
            "abc\xc3\xa9"
            "ab");
  EXPECT_LT(write(0.5, 1).nats, 0.1);
  EXPECT_EQ(write(100, 7).text, write(100, 7).text);
  EXPECT_NE(write(100, 7).text, write(100, 8).text);
}

TEST_F(generating, reports_unknown_characters_and_sources_without_text) {
  const auto j = prepared(9, 1);
  const auto g = made(*j, initial_weights(*j, *dev));
  EXPECT_EQ(test::error_text(g->encode("abx")), "the vocabulary has no 'x' (byte 2 of the text)");
  const auto other = prepare({});
  auto none = make_generator(*other, {}, dev);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "source 'synthetic' is not text: a job generates only from a text source");
}

}  // namespace
}  // namespace troupe::testing
