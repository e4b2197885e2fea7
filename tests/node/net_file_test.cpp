// Net files and the runner of nets: what they hold, and what damaged ones give.
#include "runtime/node/predict/net_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "ops/device.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/predict/net_runner.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

constexpr const char* net_job = R"(
[job]
name = "small"
seed = 4
[data]
source = "synthetic"
shape = [2, 6, 6]
classes = 5
examples = 200
test_examples = 40
batch = 20
[[layer]]
name = "conv"
type = "convolution"
inputs = ["data"]
outputs = 7
kernel = 3
[[layer]]
name = "norm"
type = "batch_norm"
inputs = ["conv"]
[[layer]]
name = "act"
type = "relu"
inputs = ["norm"]
[[layer]]
name = "scores"
type = "linear"
inputs = ["act"]
outputs = 5
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["scores", "label"]
[train]
finish = { steps = 3 }
)";

std::shared_ptr<prepared_job> prepared(const std::string& text = net_job) {
  auto made = prepare_text({text, "net.toml", {}}, std::make_shared<const tables>(node_tables()));
  if (!made) throw std::runtime_error(made.error().front().to_string());
  return *made;
}

std::string bytes_of(const prepared_job& j, net_weights kept = net_weights::f32) {
  auto bytes = net_file_bytes(j, initial_weights(j, *make_cpu_device()), kept);
  if (!bytes) throw std::runtime_error(bytes.error().front().to_string());
  return *bytes;
}

expected<std::shared_ptr<prepared_job>, diagnostics> read_back(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return read_net_file(owner, owner->data(), owner->size(), "net.troupe");
}

std::vector<float> examples(std::int64_t n, std::size_t size, unsigned seed = 1) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n) * size);
  for (auto& v : x) v = normal(draw);
  return x;
}

std::vector<float> outputs_of(const std::shared_ptr<prepared_job>& j, const std::vector<float>& x, std::int64_t n,
                              unsigned threads = 1, const std::string& layer = {}) {
  auto net = net_runner::make(j, layer, threads);
  if (!net) throw std::runtime_error(net.error().to_string());
  std::vector<float> out(static_cast<std::size_t>(n * (*net)->positions() * (*net)->width()));
  const auto ok = (*net)->run(x.data(), n, out.data());
  if (!ok) throw std::runtime_error(ok.error().text);
  return out;
}

// What a predictor of the job itself computes, example by example of its own data.
TEST(net_file, computes_the_bits_of_the_job) {
  const auto j = prepared();
  j->continued = false;
  auto with = prepared();
  ASSERT_TRUE(begin_from_weights(*with, {{}, initial_weights(*j, *make_cpu_device())}, "w"));
  const auto direct = predictor::make(with, make_cpu_device(), {});
  ASSERT_TRUE(direct);
  const auto n = (*direct)->batch();
  const auto wanted = (*direct)->run(*with->data, 0);
  std::vector<float> x(static_cast<std::size_t>(n) * 72);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(n));
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < n; ++i) indices.push_back(i);
  auto data = tensor::borrow(x.data(), {n, 2, 6, 6}, dtype::f32), label = tensor::borrow(labels.data(), {n}, dtype::i32);
  with->data->read(split::test, indices, data, label);
  const auto back = read_back(bytes_of(*j));
  ASSERT_TRUE(back) << back.error().front().to_string();
  const auto got = outputs_of(*back, x, n);
  ASSERT_EQ(got.size(), wanted.values.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(wanted.values[i]));
}

TEST(net_file, keeps_the_facts_of_the_data) {
  const auto back = read_back(bytes_of(*prepared()));
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)->data->example(), (shape{2, 6, 6}));
  EXPECT_EQ((*back)->data->classes(), 5);
  EXPECT_EQ((*back)->spec.name, "small");
}

// Names of classes in their order, and the columns of tables, so that a table needs no options.
TEST(net_file, keeps_the_classes_and_columns_of_a_table) {
  const test::temp_dir dir;
  const std::string rows = "id,height,weight,kind\nx,1,2,oak\ny,,4,elm\nz,5,6,oak\n";
  test::write_bytes(dir.file("trees.csv"), {rows.begin(), rows.end()});
  const std::string job = R"(
[job]
name = "trees"
[data]
source = "csv"
path = ")" + dir.file("trees.csv") +
                          R"("
label = "kind"
ignore = ["id"]
missing = "mean"
batch = 1
[[layer]]
name = "scores"
type = "linear"
inputs = ["data"]
outputs = 2
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["scores", "label"]
[train]
finish = { steps = 3 }
)";
  const auto j = prepared(job);
  EXPECT_NE(resolved_job_text(*j).find("class_names = [\"elm\", \"oak\"]"), std::string::npos) << "for the run's job.toml";
  const auto back = read_back(bytes_of(*j));
  ASSERT_TRUE(back) << back.error().front().to_string();
  EXPECT_EQ((*back)->data->class_names(), (std::vector<std::string>{"elm", "oak"}));
  const auto table = (*back)->data->table();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->inputs, (std::vector<std::string>{"height", "weight"}));
  EXPECT_EQ(table->fill, (std::vector<double>{3, 4}));
  const std::string other = "weight,kind,height\n8,oak,\n";
  test::write_bytes(dir.file("more.csv"), {other.begin(), other.end()});
  const auto in =
      open_csv_input(dir.file("more.csv"), input_format_of(*(*back)->data, "synthetic", {}), csv_input_of(*(*back)->data));
  ASSERT_TRUE(in) << in.error().text;
  float x[2] = {};
  std::int32_t label = 0;
  auto data = tensor::borrow(x, {1, 2}, dtype::f32), labels = tensor::borrow(&label, {1}, dtype::i32);
  (*in)->read(split::test, {0}, data, labels);
  EXPECT_EQ(x[0], 3);
  EXPECT_EQ(x[1], 8);
}

TEST(net_file, outputs_differ_by_rounding_at_most_when_batch_or_threads_differ) {
  const auto back = read_back(bytes_of(*prepared()));
  ASSERT_TRUE(back);
  const auto x = examples(300, 72);
  const auto whole = outputs_of(*back, x, 300, 3);
  for (const std::int64_t n : {1, 2, 5, 17, 64, 299})
    for (const unsigned threads : {1U, 2U, 4U}) {
      const auto part = outputs_of(*back, x, n, threads);
      EXPECT_EQ(part, outputs_of(*back, x, n, threads)) << n << " examples, " << threads << " threads";
      for (std::size_t i = 0; i < part.size(); ++i)
        ASSERT_NEAR(part[i], whole[i], 1e-5F) << "output " << i << " of " << n << " examples, " << threads << " threads";
    }
}

TEST(net_file, several_threads_share_a_net) {
  const auto back = read_back(bytes_of(*prepared()));
  auto net = net_runner::make(*back, {}, 2);
  ASSERT_TRUE(net);
  const auto x = examples(64, 72);
  std::vector<std::vector<float>> wanted(1);  // by the number of examples
  for (std::int64_t n = 1; n <= 64; ++n) wanted.push_back(outputs_of(*back, x, n, 2));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&, t] {
      for (int k = 0; k < 50; ++k) {
        const std::int64_t n = 1 + (7 * t + k) % 64;
        std::vector<float> out(static_cast<std::size_t>(n) * 5);
        if (!(*net)->run(x.data(), n, out.data()) || out != wanted[static_cast<std::size_t>(n)]) ++wrong;
      }
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(wrong, 0);
}

TEST(net_file, smaller_weights_are_near) {
  const auto j = prepared();
  const auto x = examples(20, 72);
  const auto exact = outputs_of(*read_back(bytes_of(*j)), x, 20);
  float most = 0;
  for (const auto v : exact) most = std::max(most, std::abs(v));
  const auto error_of = [&](net_weights kept) {
    const auto got = outputs_of(*read_back(bytes_of(*j, kept)), x, 20);
    float worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - exact[i]));
    return worst / most;
  };
  EXPECT_LT(error_of(net_weights::bf16), 0.01F);
  EXPECT_GT(error_of(net_weights::bf16), 0.0F);
  EXPECT_LT(error_of(net_weights::int8), 0.02F);
  EXPECT_LT(bytes_of(*j, net_weights::int8).size(), bytes_of(*j, net_weights::bf16).size());
  EXPECT_LT(bytes_of(*j, net_weights::bf16).size(), bytes_of(*j).size());
}

// Every int8 value is within half a step of its weight, and the largest of each row is exact.
TEST(net_file, int8_rounds_to_the_nearest_of_its_row) {
  const auto j = prepared();
  const auto weights = initial_weights(*j, *make_cpu_device());
  const auto back = read_back(bytes_of(*j, net_weights::int8));
  ASSERT_TRUE(back);
  for (const auto& [name, value] : given(**back)) {
    const auto was = std::find_if(weights.begin(), weights.end(), [n = name](const auto& w) { return w.first == n; });
    ASSERT_NE(was, weights.end()) << name;
    const auto rows = value.dims()[0], n = value.count() / rows;
    for (std::int64_t r = 0; r < rows; ++r) {
      float most = 0;
      for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(was->second.data<float>()[r * n + i]));
      for (std::int64_t i = 0; i < n; ++i) {
        const auto off = std::abs(value.data<float>()[r * n + i] - was->second.data<float>()[r * n + i]);
        EXPECT_LE(off, value.dims().rank() < 2 ? 0.0F : most / 127 * 0.5001F) << name;
      }
    }
  }
}

TEST(net_file, refuses_bytes_when_the_source_does_not_scale_them) {
  const auto back = read_back(bytes_of(*prepared()));
  auto net = net_runner::make(*back, {}, 1);
  ASSERT_TRUE(net);
  std::vector<std::uint8_t> raw(72, 3);
  std::vector<float> out(5);
  const auto refused = (*net)->run(raw.data(), 1, out.data());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("does not say how bytes become values"), std::string::npos) << refused.error().text;
}

TEST(net_file, names_a_layer_that_is_not_there) {
  const auto back = read_back(bytes_of(*prepared()));
  const auto net = net_runner::make(*back, "score", 1);
  ASSERT_FALSE(net);
  EXPECT_NE(net.error().message.find("there is no layer 'score'; did you mean 'scores'?"), std::string::npos)
      << net.error().message;
}

TEST(net_file, refuses_other_files) {
  const auto weights = safetensors_bytes(initial_weights(*prepared(), *make_cpu_device()));
  ASSERT_TRUE(weights);
  const auto plain = read_back(*weights);
  ASSERT_FALSE(plain);
  EXPECT_NE(plain.error().front().to_string().find("net.troupe: is not a net file; make one with `troupe export"),
            std::string::npos);
  EXPECT_FALSE(read_back("")) << "an empty file";
  EXPECT_FALSE(open_net_file("/nowhere/net.troupe"));
}

TEST(net_file, any_cut_or_flipped_byte_is_an_error) {
  const auto bytes = bytes_of(*prepared(), net_weights::int8);
  for (std::size_t n = 0; n < bytes.size(); n += 1 + n / 8) EXPECT_FALSE(read_back(bytes.substr(0, n))) << n;
  std::mt19937 draw(7);
  for (int k = 0; k < 300; ++k) {
    auto damaged = bytes;
    damaged[draw() % damaged.size()] ^= static_cast<char>(1 << draw() % 8);
    EXPECT_FALSE(read_back(damaged));
  }
}

// Metadata whose checksum is right, but whose content is not.
TEST(net_file, wrong_facts_are_named) {
  const auto j = prepared();
  const auto weights = initial_weights(*j, *make_cpu_device());
  const auto owner = std::make_shared<std::string>(bytes_of(*j));
  const auto content = parse_safetensors(owner, owner->data(), owner->size());
  ASSERT_TRUE(content);
  const auto with = [&](const std::string& key, const std::string& value) {
    auto metadata = content->metadata;
    metadata[key] = value;
    const auto bytes = safetensors_bytes(weights, metadata);
    const auto made = read_back(*bytes);
    return made ? std::string("accepted") : made.error().front().to_string();
  };
  EXPECT_NE(with("troupe_net", "9").find("version '9', this program reads version 1"), std::string::npos);
  EXPECT_NE(with("data", "{").find("facts about the data cannot be read"), std::string::npos);
  EXPECT_NE(with("data", R"({"example":[-3],"label":[],"classes":5,"ids":false,"sizes":[9,9],"class_names":[]})")
                .find("a shape is malformed"),
            std::string::npos);
  const auto facts = [&](const std::string& classes, const std::string& more) {
    return with("data", R"({"example":[2,6,6],"label":[],"classes":)" + classes + R"(,"ids":false,"sizes":[9,9],"class_names":[])" +
                            more + "}");
  };
  EXPECT_EQ(facts("5", ""), "accepted");
  EXPECT_EQ(facts("5", R"(,"scale":[1,2],"mean":[0,0])"), "accepted");
  for (const char* number : {"1e57", "5.5", "9223372036854775808", "\"5\""})
    EXPECT_NE(facts(number, "").find("a number is no integer, or is out of range"), std::string::npos) << number;
  for (const char* scaling :
       {R"(,"scale":[],"mean":[])", R"(,"scale":[1,2],"mean":[0])", R"(,"scale":[1,1,1,1,1],"mean":[0,0,0,0,0])"})
    EXPECT_NE(facts("5", scaling).find("the scaling does not fit the examples"), std::string::npos) << scaling;
  EXPECT_NE(with("job", "[data]\nsource = 3").find("net.troupe, its job:"), std::string::npos);
  const auto other = with("data", R"({"example":[3,6,6],"label":[],"classes":5,"ids":false,"sizes":[9,9],"class_names":[]})");
  EXPECT_NE(other.find("conv.weight"), std::string::npos) << other;
}

}  // namespace
}  // namespace troupe
