// Element types on the edges of a graph: values where values are read, integers where labels and
// ids are read, and no id beyond the layer's table. Uses the stock layers, because they index
// memory with their input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

layer_spec stock(const std::string& name, const std::string& type, const std::vector<std::string>& inputs, options given = {}) {
  layer_registry all;
  add_stock_layers(all);
  auto s = spec(name, type, inputs);
  s.values = check_options(given, all.find(type)->specs);
  return s;
}
layer_spec table(const std::string& name, const std::string& from, std::int64_t vocabulary) {
  return stock(name, "embedding", {from}, {{{"vocabulary", vocabulary}, {"outputs", std::int64_t{3}}}});
}

struct data {
  shape example = shape{5};
  std::int64_t classes = 10;
  shape label = {};
  bool ids = false;
  std::optional<std::int64_t> vocabulary = {};  // without: as many as classes
  bool targets = false;
};

std::vector<std::string> mistakes(std::vector<layer_spec> layers, const data& d = {}) {
  layer_registry all;
  add_stock_layers(all);
  const auto j = job_of(std::move(layers));
  auto r = build_graph(j, all, {d.example, d.classes, d.label, d.ids, d.vocabulary.value_or(d.ids ? d.classes : 0), d.targets});
  return r ? std::vector<std::string>{} : texts(r.error());
}

// Layers added to a valid net of one input: a linear layer 'ip' with 10 scores and its loss.
std::vector<std::string> with_a_valid_net(const std::vector<layer_spec>& more, const data& d = {}) {
  std::vector<layer_spec> all{linear("ip", "data", 10), stock("good", "softmax_loss", {"ip", "label"})};
  all.insert(all.end(), more.begin(), more.end());
  return mistakes(all, d);
}

TEST(graph_types, fewer_scores_than_classes_are_refused) {
  for (const std::int64_t n : {1, 3, 9}) {
    const auto is = std::to_string(n);
    const auto wrong = ": its input 'ip' (2x" + is + ") has " + is + " score" + (n == 1 ? "" : "s") +
                       " an example, but the data has 10 classes; set outputs = 10 in layer 'ip' (job.toml:10:1), or correct the "
                       "data: `troupe data` shows what the data holds";
    EXPECT_THAT(mistakes({linear("ip", "data", n), stock("loss", "softmax_loss", {"ip", "label"}),
                          stock("seen", "accuracy", {"ip", "label"})}),
                ElementsAre("job.toml:22:20: layer 'loss'" + wrong, "job.toml:32:20: layer 'seen'" + wrong));
  }
  EXPECT_THAT(mistakes({linear("ip", "data", 10), stock("loss", "softmax_loss", {"ip", "label"})}), ElementsAre());
  EXPECT_THAT(mistakes({linear("ip", "data", 1), stock("loss", "softmax_loss", {"ip", "label"})}, {.classes = 1}), ElementsAre());
}

// For these two losses a single score is a yes or no for any class: they compare with the label and
// do not index with it.
TEST(graph_types, single_score_is_accepted_if_the_label_is_only_compared) {
  for (const char* type : {"hinge", "sigmoid_cross_entropy"}) {
    EXPECT_THAT(mistakes({linear("ip", "data", 1), stock("loss", type, {"ip", "label"})}), ElementsAre()) << type;
    EXPECT_THAT(
        mistakes({linear("ip", "data", 3), stock("loss", type, {"ip", "label"})}),
        ElementsAre(AllOf(
            StartsWith("job.toml:22:20: layer 'loss': its input 'ip' (2x3) has 3 scores an example, but the data has 10 classes"),
            HasSubstr("; set outputs = 10 in layer 'ip' (job.toml:"), EndsWith("`troupe data` shows what the data holds"))))
        << type;
  }
}

TEST(graph_types, top_k_beyond_the_number_of_scores_is_refused) {
  EXPECT_THAT(with_a_valid_net({stock("seen", "accuracy", {"ip", "label"}, {{{"top_k", std::int64_t{11}}}})}),
              ElementsAre("job.toml:30:1: layer 'seen': expects at least top_k = 11 classes, got 2x10, 2"));
}

TEST(graph_types, embedding_of_labels_with_too_few_rows_is_refused) {
  const auto net = [](std::int64_t vocabulary) {
    return std::vector{table("seen", "label", vocabulary), linear("ip", "seen", 10),
                       stock("loss", "softmax_loss", {"ip", "label"})};
  };
  EXPECT_THAT(mistakes(net(10)), ElementsAre());
  EXPECT_THAT(mistakes(net(9)), ElementsAre("job.toml:10:1: layer 'seen': a vocabulary of 9, but the data has 10 different ids"));
}

// The layer 'four' is trained by its own loss, so the graph has no other mistake.
TEST(graph_types, values_are_refused_as_labels_and_as_ids) {
  const auto fitted = [](std::vector<layer_spec> net) {
    net.push_back(stock("shrunk", "tanh", {"four"}));
    net.push_back(stock("fit", "euclidean", {"four", "shrunk"}));
    return net;
  };
  // One label per position, so that values with the shape of a label are easily made.
  const data text{.example = shape{4}, .classes = 10, .label = shape{4}, .ids = true};
  const auto net = [&](const char* type, const char* label) {
    return fitted({table("words", "data", 10), stock("steps", "lstm", {"words"}, {{{"units", std::int64_t{10}}}}),
                   linear("four", "steps", 4), stock("good", "softmax_loss", {"steps", "label"}),
                   stock("bad", type, {"steps", label})});
  };
  for (const char* type : {"softmax_loss", "accuracy"})
    EXPECT_THAT(mistakes(net(type, "four"), text), ElementsAre("job.toml:52:21: layer 'bad': input 1 of a " + std::string(type) +
                                                               " layer takes ids (i32), but 'four' (2x4) holds values (f32)"));
  EXPECT_THAT(mistakes(net("softmax_loss", "data"), text), ElementsAre()) << "ids are numbers too";
  EXPECT_THAT(
      with_a_valid_net(fitted({linear("four", "data", 4), table("words", "four", 10), linear("ip2", "words", 10),
                               stock("loss", "softmax_loss", {"ip2", "label"})})),
      ElementsAre(
          "job.toml:42:20: layer 'words': input 0 of a embedding layer takes ids (i32), but 'four' (2x4) holds values (f32)"));
  // Data with values in place of labels.
  EXPECT_THAT(
      mistakes({stock("bad", "softmax_loss", {"words", "data"}), table("words", "label", 10)}, {.example = shape{}, .classes = 10}),
      ElementsAre("job.toml:12:21: layer 'bad': input 1 of a softmax_loss layer takes ids (i32), but 'data' (2) of source "
                  "'synthetic' holds values (f32)"));
}

TEST(graph_types, labels_and_ids_are_refused_as_values) {
  const data text{.example = shape{4}, .classes = 10, .label = shape{4}, .ids = true};
  const auto net = [](layer_spec bad) {
    return std::vector{table("words", "data", 10), stock("steps", "lstm", {"words"}, {{{"units", std::int64_t{10}}}}),
                       stock("good", "softmax_loss", {"steps", "label"}), std::move(bad)};
  };
  EXPECT_THAT(
      mistakes(net(stock("bad", "squared_error", {"data", "label"})), text),
      ElementsAre("job.toml:42:20: layer 'bad': input 0 of a squared_error layer takes values (f32), but 'data' (2x4) of source "
                  "'synthetic' holds ids (i32): insert an embedding layer between them"));
  EXPECT_THAT(with_a_valid_net({stock("bad", "hinge", {"label", "label"})}),
              ElementsAre("job.toml:32:20: layer 'bad': input 0 of a hinge layer takes values (f32), but 'label' (2) of source "
                          "'synthetic' holds class numbers (i32)"));
  EXPECT_THAT(with_a_valid_net({stock("bad", "accuracy", {"label", "label"})}),
              ElementsAre("job.toml:32:20: layer 'bad': input 0 of a accuracy layer takes values (f32), but 'label' (2) of source "
                          "'synthetic' holds class numbers (i32)"));
  EXPECT_THAT(with_a_valid_net({stock("bad", "euclidean", {"ip", "label"})}),
              ElementsAre("job.toml:32:21: layer 'bad': input 1 of a euclidean layer takes values (f32), but 'label' (2) of source "
                          "'synthetic' holds class numbers (i32)"));
  // Labels per position are not a target with the shape of the logits.
  EXPECT_THAT(
      mistakes({table("words", "data", 10), linear("four", "words", 4), stock("bad", "sigmoid_cross_entropy", {"four", "label"})},
               text),
      ElementsAre("job.toml:32:21: layer 'bad': input 1 of a sigmoid_cross_entropy layer takes values (f32), but 'label' (2x4) "
                  "of source 'synthetic' holds class numbers (i32)"));
}

TEST(graph_types, targets_are_values_for_element_losses_and_no_labels) {
  const data wanted{.classes = 0, .label = shape{3}, .targets = true};
  for (const char* type : {"euclidean", "sigmoid_cross_entropy"})
    EXPECT_THAT(mistakes({linear("ip", "data", 3), stock("loss", type, {"ip", "label"})}, wanted), ElementsAre()) << type;
  for (const char* type : {"softmax_loss", "hinge"})
    EXPECT_THAT(mistakes({linear("ip", "data", 3), stock("loss", type, {"ip", "label"})}, wanted),
                ElementsAre("job.toml:22:21: layer 'loss': input 1 of a " + std::string(type) +
                            " layer takes ids (i32), but 'label' (2x3) of source 'synthetic' holds target values (f32)"))
        << type;
  EXPECT_THAT(mistakes({linear("ip", "data", 2), stock("loss", "euclidean", {"ip", "label"})}, wanted),
              ElementsAre("job.toml:20:1: layer 'loss': expects two inputs [N, ...] of one shape, got 2x2, 2x3"));
}

TEST(graph_types, ids_and_classes_have_numbers_of_their_own) {
  const data words{.example = shape{4}, .classes = 3, .ids = true, .vocabulary = 1000};
  const auto net = [](std::int64_t rows, std::int64_t scores) {
    return std::vector{table("words", "data", rows), linear("ip", "words", scores), stock("loss", "softmax_loss", {"ip", "label"})};
  };
  EXPECT_THAT(mistakes(net(1000, 3), words), ElementsAre());
  EXPECT_THAT(mistakes(net(999, 3), words),
              ElementsAre("job.toml:10:1: layer 'words': a vocabulary of 999, but the data has 1000 different ids"));
  EXPECT_THAT(mistakes(net(1000, 2), words),
              ElementsAre(StartsWith(
                  "job.toml:32:20: layer 'loss': its input 'ip' (2x2) has 2 scores an example, but the data has 3 classes; set")));
  layer_registry all;
  add_stock_layers(all);
  const auto job = job_of(net(1000, 3));
  const auto g = build_graph(job, all, {words.example, 3, {}, true, 1000}).value();
  EXPECT_EQ(g.label_below, 3);
  EXPECT_EQ(g.id_below, 1000);
}

// Soft targets are values and remain valid.
TEST(graph_types, element_losses_take_values_as_targets) {
  for (const char* type : {"sigmoid_cross_entropy", "euclidean", "squared_error"})
    EXPECT_THAT(with_a_valid_net({stock("five", "tanh", {"data"}), stock("target", "sigmoid", {"data"}),
                                  stock("against", type, {"five", "target"})}),
                ElementsAre())
        << type;
  EXPECT_THAT(
      with_a_valid_net({stock("soft", "softmax", {"ip"}), stock("bad", "hinge", {"ip", "soft"})}),
      ElementsAre("job.toml:42:21: layer 'bad': input 1 of a hinge layer takes ids (i32), but 'soft' (2x10) holds values (f32)"));
}

// A crop's second input only sets the size of the output.
TEST(graph_types, input_of_which_only_the_shape_is_read_may_have_any_type) {
  const data image{.example = shape{1, 4, 4}};
  EXPECT_THAT(mistakes({stock("wide", "pad", {"data"}, {{{"pad", std::int64_t{1}}}}), stock("cut", "crop", {"wide", "data"}),
                        linear("ip", "cut", 10), stock("loss", "softmax_loss", {"ip", "label"})},
                       image),
              ElementsAre());
}

}  // namespace
}  // namespace troupe
