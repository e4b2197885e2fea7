// SINGA's stack of Boltzmann machines and its autoencoder on the command line: contrastive
// divergence, unrolling, backpropagation.
#include "runtime/record/safetensors.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class rbm_jobs : public command_test {
 protected:
  outcome train(const std::string& job, std::vector<std::string> set, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"train", std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + job + ".toml", "--json"};
    set.insert(set.end(), {"data.batch=20", "eval.every=0"});
    for (const auto& s : set) words.insert(words.end(), {"--set", s});
    words.insert(words.end(), more.begin(), more.end());
    return troupe(words);
  }
  static nlohmann::json last(const outcome& o) {
    const auto list = objects(o.out);
    return list.empty() ? nlohmann::json() : list.back();
  }
  static double error(const outcome& o, const std::string& name) { return of_kind(objects(o.out), "eval").back()[name]; }
  named_tensors read(const std::string& name) {
    auto r = read_safetensors(path(name));
    EXPECT_TRUE(r) << r.error().to_string();
    return r->named;
  }
};

TEST_F(rbm_jobs, machines_train_independently_and_initialise_an_autoencoder) {
  const std::vector<std::string> small{"layer.rbm1.units=60", "layer.rbm2.units=40", "layer.rbm3.units=20", "layer.rbm4.units=10"};
  auto first = small, all = small;
  first.insert(first.end(), {"train.finish.steps=120", "layer.rbm2.lr_scale=0", "layer.rbm3.lr_scale=0", "layer.rbm4.lr_scale=0"});
  all.emplace_back("train.finish.steps=120");
  const auto one = train("rbm_stack", first, {"--out", path("1.safetensors")});
  ASSERT_EQ(one.code, 0) << one.out << one.err;
  EXPECT_EQ(one.out.find("\"accuracy\""), std::string::npos) << "a reconstruction error is not an accuracy";
  const auto stack = train("rbm_stack", all, {"--out", path("stack.safetensors")});
  ASSERT_EQ(stack.code, 0) << stack.out << stack.err;
  EXPECT_LT(error(stack, "error1"),
            0.8 * error(train("rbm_stack", {small[0], small[1], small[2], small[3], "train.finish.steps=1"}), "error1"));

  // Training of the other machines does not change the first one; layers with rate 0 keep their
  // initial weights.
  const auto alone = read("1.safetensors"), together = read("stack.safetensors");
  ASSERT_EQ(alone.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    ASSERT_EQ(alone[i].first, together[i].first);
    const bool same = std::memcmp(alone[i].second.raw(), together[i].second.raw(), alone[i].second.bytes()) == 0;
    EXPECT_EQ(same, i < 3) << alone[i].first;
  }
  for (const char* workers : {"2", "4"}) {  // the weights do not depend on the number of workers
    auto set = all;
    set.insert(set.end(), {std::string("topology.workers_per_group=") + workers, "pipeline.packets=4"});
    auto base = all;
    base.emplace_back("pipeline.packets=4");
    EXPECT_EQ(last(train("rbm_stack", set))["weights_sha256"], last(train("rbm_stack", base))["weights_sha256"]);
  }

  const auto made = troupe({"unroll", path("stack.safetensors"), "--out", path("begin.safetensors"), "--json"});
  ASSERT_EQ(made.code, 0) << made.out << made.err;
  EXPECT_EQ(last(made)["layers"],
            nlohmann::json({"rbm1", "rbm2", "rbm3", "rbm4", "rbm4_back", "rbm3_back", "rbm2_back", "rbm1_back"}));
  std::vector<std::string> widths{"layer.rbm1.outputs=60",      "layer.rbm2.outputs=40",      "layer.rbm3.outputs=20",
                                  "layer.rbm4.outputs=10",      "layer.rbm4_back.outputs=20", "layer.rbm3_back.outputs=40",
                                  "layer.rbm2_back.outputs=60", "train.finish.steps=60"};
  const auto seeded = train("rbm_autoencoder", widths, {"--weights", path("begin.safetensors")});
  ASSERT_EQ(seeded.code, 0) << seeded.out << seeded.err;
  EXPECT_LT(error(seeded, "error"), error(train("rbm_autoencoder", widths), "error"));
}

TEST_F(rbm_jobs, have_the_parameter_counts_of_the_paper) {
  for (const auto& [job, parameters] : {std::pair{"rbm_stack", 1420814}, {"rbm_autoencoder", 2837314}}) {
    const auto o =
        troupe({"init", std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + job + ".toml", "--out", path("w"), "--json"});
    ASSERT_EQ(o.code, 0) << o.out;
    EXPECT_EQ(last(o)["parameters"], parameters);
  }
}

TEST_F(rbm_jobs, unroll_reports_invalid_weights) {
  const auto tensor_of = [](shape s) {
    auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(s.count()), 1.0f);
    const void* data = values->data();
    return tensor::adopt(values, data, s, dtype::f32);
  };
  const auto refused = [&](const named_tensors& named, const std::string& why) {
    ASSERT_TRUE(write_safetensors(path("in.safetensors"), named));
    const auto o = troupe({"unroll", path("in.safetensors"), "--out", path("out.safetensors")});
    EXPECT_EQ(o.code, 2);
    EXPECT_NE((o.out + o.err).find(why), std::string::npos) << o.out << o.err;
    EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
  };
  const auto w = tensor_of({3, 4}), c = tensor_of({3}), b = tensor_of({4});
  refused({{"ip.weight", w}, {"ip.bias", c}}, "there is no Boltzmann machine");
  refused({{"a.weight", w}, {"a.visible_bias", b}}, "'a' has a visible_bias, but no bias");
  refused({{"a.weight", w}, {"a.bias", b}, {"a.visible_bias", b}},
          "'a' is not a Boltzmann machine: weight 3x4, bias 4, visible_bias 4");
  refused({{"a.weight", w}, {"a.bias", c}, {"a.visible_bias", b}, {"b.weight", w}, {"b.bias", c}, {"b.visible_bias", b}},
          "'b' takes 4 values, but 'a' before it outputs 3");
}

}  // namespace
}  // namespace troupe
