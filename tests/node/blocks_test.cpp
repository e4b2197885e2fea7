// Blocks of job files: what they become, the messages about them, and limits.
#include "runtime/node/config/blocks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/device.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/node/same_job.hpp"

namespace troupe {
namespace {

using namespace job_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using names = std::vector<std::string>;

const std::string head =
    "[data]\nsource = \"synthetic\"\nshape = [4, 8, 8]\nbatch = 8\nexamples = 16\ntest_examples = 8\n"
    "[train]\ndynamics = { rule = \"momentum\", lr = 0.01, momentum = 0.9 }\nfinish = { steps = 2 }\n";
const std::string tail =
    "[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = [\"body\"]\noutputs = 10\n"
    "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n";

const std::string residual_block = R"([[block]]
name = "residual"
required = ["width"]
parameters = { kernel = 3, pad = 1 }
[[block.layer]]
name = "conv"
type = "convolution"
inputs = ["in"]
outputs = "{width}"
kernel = "{kernel}"
pad = "{pad}"
weight_filler = { kind = "gaussian", std = "{0.1 / width}" }
[[block.layer]]
name = "sum"
type = "eltwise"
inputs = ["in", "conv"]
[[block.layer]]
name = "relu"
type = "relu"
inputs = "sum"
)";

std::string written_out(const std::string& name, const std::string& input, int width) {
  const auto w = std::to_string(width);
  return "[[layer]]\nname = \"" + name + "_conv\"\ntype = \"convolution\"\ninputs = [\"" + input + "\"]\noutputs = " + w +
         "\nkernel = 3\npad = 1\nweight_filler = { kind = \"gaussian\", std = " + std::to_string(0.1 / width) + " }\n" +
         "[[layer]]\nname = \"" + name + "_sum\"\ntype = \"eltwise\"\ninputs = [\"" + input + "\", \"" + name + "_conv\"]\n" +
         "[[layer]]\nname = \"" + name + "_relu\"\ntype = \"relu\"\ninputs = [\"" + name + "_sum\"]\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

const std::string use = "[[layer]]\nname = \"body\"\nblock = \"residual\"\ninputs = [\"data\"]\nwidth = 4\nrepeat = 2\n";
const std::string job = head + residual_block + use + tail;
const std::string same_by_hand = head + written_out("body_1", "data", 4) + written_out("body_2", "body_1_relu", 4) +
                                 replaced(tail, "\"body\"", "\"body_2_relu\"");

names layer_names(const std::string& text, const names& set = {}) {
  names all;
  for (const auto& l : parsed(text, set).layers) all.push_back(l.name);
  return all;
}

const layer_spec& layer_of(const job_spec& s, const std::string& name) {
  const auto at = std::find_if(s.layers.begin(), s.layers.end(), [&](const auto& l) { return l.name == name; });
  if (at == s.layers.end()) throw std::runtime_error("no layer " + name);
  return *at;
}

// All mistakes, one a line.
std::string wrong(const std::string& text, const names& set = {}) { return shown(mistakes_of(text, set)); }

TEST(blocks, become_the_layers_written_by_hand) {
  EXPECT_EQ(differences(parsed(job), parsed(same_by_hand)), names{});
  EXPECT_THAT(layer_names(job),
              ElementsAre("body_1_conv", "body_1_sum", "body_1_relu", "body_2_conv", "body_2_sum", "body_2_relu", "ip", "loss"));
}

TEST(blocks, train_to_the_weights_of_the_job_written_by_hand) {
  const auto trained = [](const std::string& text) {
    auto made = prepare_text({text, "job.toml", {}}, all_tables());
    if (!made) throw std::runtime_error(shown(made.error()));
    plain_loop loop(*made, make_cpu_device());
    while (loop.steps() < 2) loop.step();
    return std::pair(plan_hash((*made)->plan), weights_sha256(loop.weights()));
  };
  EXPECT_EQ(trained(job), trained(same_by_hand));
}

TEST(blocks, share_names_a_layer_of_the_block_or_of_the_job) {
  const auto second = [](const std::string& share) {
    return replaced(job, "[[block.layer]]\nname = \"sum\"",
                    "[[block.layer]]\nname = \"twin\"\ntype = \"convolution\"\ninputs = \"conv\"\noutputs = 4\nkernel = 3\npad = "
                    "1\nshare = \"" +
                        share + "\"\n[[block.layer]]\nname = \"sum\"");
  };
  EXPECT_EQ(layer_of(parsed(second("conv")), "body_2_twin").share, "body_2_conv");
  EXPECT_EQ(layer_of(parsed(second("conv.weight")), "body_2_twin").share, "body_2_conv.weight");
  EXPECT_EQ(layer_of(parsed(second("body_1_conv.bias")), "body_2_twin").share, "body_1_conv.bias");
  EXPECT_EQ(layer_of(parsed(second("in")), "body_2_twin").share, "body_1_relu") << "the layer that the block reads";
}

TEST(blocks, have_no_number_in_names_without_repeat) {
  EXPECT_THAT(layer_names(replaced(job, "repeat = 2\n", "")), ElementsAre("body_conv", "body_sum", "body_relu", "ip", "loss"));
  EXPECT_THAT(layer_names(replaced(job, "repeat = 2", "repeat = 1")),
              ElementsAre("body_1_conv", "body_1_sum", "body_1_relu", "ip", "loss"));
}

TEST(blocks, name_layers_by_the_texts_with_name_and_number) {
  auto text = replaced(job, "name = \"body\"\n", "name = \"s{i}\"\nfirst = 3\n");
  text = replaced(text, "name = \"relu\"", "name = \"out_{name}\"");
  text = replaced(text, "inputs = [\"body\"]", "inputs = [\"s4\"]");
  EXPECT_THAT(layer_names(text), ElementsAre("s3_conv", "s3_sum", "out_s3", "s4_conv", "s4_sum", "out_s4", "ip", "loss"));
  EXPECT_THAT(layer_of(parsed(text), "ip").inputs, ElementsAre("out_s4"));
  EXPECT_THAT(layer_of(parsed(text), "s4_conv").inputs, ElementsAre("out_s3"));
}

TEST(blocks, may_give_another_layer_than_the_last_and_read_several_inputs) {
  const auto text = replaced(replaced(job, "required = ", "output = \"conv\"\nrequired = "), "inputs = [\"in\", \"conv\"]",
                             "inputs = [\"in.1\", \"conv\"]");
  const auto s = parsed(replaced(text, "inputs = [\"data\"]\nwidth", "inputs = [\"data\", \"label\"]\nwidth"));
  EXPECT_THAT(layer_of(s, "ip").inputs, ElementsAre("body_2_conv"));
  EXPECT_THAT(layer_of(s, "body_2_conv").inputs, ElementsAre("body_1_conv"));
  EXPECT_THAT(layer_of(s, "body_2_sum").inputs, ElementsAre("label", "body_2_conv")) << "the second input stays";
  EXPECT_THAT(wrong(text), HasSubstr("job.toml:26:11: the block reads 'in.1', but its use has 1 input (in block 'residual', used "
                                     "by 'body_1' at job.toml:31:1)"));
}

TEST(blocks, give_keys_of_all_layers_to_layers_without_them) {
  auto text = replaced(job, "width = 4\n", "width = 4\nlr_scale = 0.5\nwire = \"bf16\"\n");
  text = replaced(text, "type = \"relu\"\n", "type = \"relu\"\nwire = \"int8\"\n");
  const auto s = parsed(text);
  EXPECT_EQ(layer_of(s, "body_1_conv").lr_scale, 0.5);
  EXPECT_EQ(layer_of(s, "body_2_sum").wire, "bf16");
  EXPECT_EQ(layer_of(s, "body_2_relu").wire, "int8");
  EXPECT_EQ(layer_of(s, "ip").lr_scale, 1);
}

TEST(blocks, may_use_blocks_that_have_the_name_of_the_outer_one) {
  const std::string outer =
      "[[block]]\nname = \"two\"\nrequired = [\"w\"]\n"
      "layer = [ { name = \"{name}\", block = \"residual\", inputs = \"in\", width = \"{2 * w}\" },\n"
      "  { name = \"b\", block = \"residual\", inputs = \"{name}\", width = \"{w + 2}\", repeat = \"{w}\" },\n"
      "  { name = \"{name}_end\", type = \"eltwise\", inputs = [\"{name}\", \"b_1\", \"b\"] } ]\n";
  auto text = head + residual_block + outer + replaced(use, "block = \"residual\"", "block = \"two\"") + tail;
  text = replaced(replaced(text, "width = 4\nrepeat", "w = 2\nrepeat"), "repeat = 2\n", "");
  const auto s = parsed(text);
  EXPECT_THAT(layer_names(text), ElementsAre("body_conv", "body_sum", "body_relu", "body_b_1_conv", "body_b_1_sum", "body_b_1_relu",
                                             "body_b_2_conv", "body_b_2_sum", "body_b_2_relu", "body_end", "ip", "loss"));
  EXPECT_THAT(layer_of(s, "body_end").inputs, ElementsAre("body_relu", "body_b_1_relu", "body_b_2_relu"));
  EXPECT_THAT(layer_of(s, "body_b_1_conv").inputs, ElementsAre("body_relu"));
  EXPECT_THAT(layer_of(s, "ip").inputs, ElementsAre("body_end"));
  EXPECT_EQ(layer_of(s, "body_b_2_conv").values.integer("outputs"), 4);
}

TEST(blocks, outputs_of_a_slice_are_read_by_number) {
  const std::string block =
      "[[block]]\nname = \"halves\"\nlayer = [ { name = \"cut\", type = \"slice\", inputs = \"in\", points = [2] },\n"
      "  { name = \"r\", type = \"relu\", inputs = \"cut.1\" }, { name = \"c\", type = \"concat\", inputs = [\"cut.0\", \"r\"] } "
      "]\n"
      "output = \"cut\"\n";
  const std::string text = head + block + "[[layer]]\nname = \"body\"\nblock = \"halves\"\ninputs = \"data\"\n" +
                           replaced(tail, "\"body\"", "\"body.1\"");
  EXPECT_THAT(layer_of(parsed(text), "body_r").inputs, ElementsAre("body_cut.1"));
  EXPECT_THAT(layer_of(parsed(text), "ip").inputs, ElementsAre("body_cut.1"));
}

TEST(blocks, are_overridden_before_and_after_they_are_written_out) {
  EXPECT_EQ(layer_names(job, {"layer.body.repeat=1"}).size(), 5u);
  EXPECT_EQ(layer_of(parsed(job, {"layer.body.width=6"}), "body_2_conv").values.integer("outputs"), 6);
  EXPECT_EQ(layer_of(parsed(job, {"block.residual.parameters.kernel=1"}), "body_1_conv").values.integer("kernel"), 1);
  const auto s = parsed(job, {"block.residual.layer.relu.slope=0.5", "layer.body_2_conv.outputs=9"});
  EXPECT_EQ(layer_of(s, "body_1_relu").values.real("slope"), 0.5);
  EXPECT_EQ(layer_of(s, "body_1_conv").values.integer("outputs"), 4);
  EXPECT_EQ(layer_of(s, "body_2_conv").values.integer("outputs"), 9);
  EXPECT_THAT(wrong(job, {"layer.body_2_con.outputs=9"}),
              HasSubstr("--set layer.body_2_con.outputs=9: there is no layer called 'body_2_con'; did you mean 'body_2_conv'?"));
}

TEST(blocks, mistakes_name_the_line_of_the_block_and_the_use) {
  const std::string used = " (in block 'residual', used by 'body_1' at job.toml:30:1)";
  const auto in_block = [&](const std::string& from, const std::string& to) { return wrong(replaced(job, from, to)); };
  EXPECT_EQ(in_block("kernel = \"{kernel}\"", "kernell = 3"),
            "job.toml:19:1: layer 'body_1_conv': unknown key 'kernell'; did you mean 'kernel'?" + used + "\n")
      << "once, not for each repetition";
  EXPECT_THAT(in_block("{width}", "{widht}"), HasSubstr("job.toml:18:11: '{widht}': there is no parameter 'widht'; did you mean "
                                                        "'width'? (available: i, kernel, name, pad, width)" +
                                                        used + "\n"));
  EXPECT_THAT(in_block("{width}", "{width / 3}"), HasSubstr("'{width / 3}': 4 / 3 is not a whole number" + used));
  EXPECT_THAT(in_block("{width}", "{width * }"), HasSubstr("'{width * }': a name or a number is missing" + used));
  EXPECT_THAT(in_block("{width}", "{width / 0}"), HasSubstr("division by 0"));
  EXPECT_THAT(in_block("{width}", "{width * 9223372036854775807}"), HasSubstr("beyond the range of integers"));
  EXPECT_THAT(in_block("{width}", "{name + 1}"), HasSubstr("a string cannot be computed with"));
  EXPECT_THAT(in_block("{width}", "{width"), HasSubstr("'{width': '{' without '}'; write {{ for a brace"));
  EXPECT_THAT(in_block("{width}", "width}"), HasSubstr("'}' without '{'"));
  EXPECT_THAT(in_block("{width}", "{0 - width}"),
              HasSubstr("job.toml:18:1: layer 'body_1_conv': option 'outputs' must be at least 1"));
  EXPECT_THAT(in_block("inputs = \"sum\"", "inputs = \"sun\""), HasSubstr("unknown input 'sun'"));
  EXPECT_THAT(in_block("name = \"sum\"", "name = \"conv\""), HasSubstr("duplicate layer name 'conv'" + used));
  EXPECT_THAT(in_block("name = \"sum\"", "name = \"in\""), HasSubstr("a layer of a block cannot be called 'in'"));
  EXPECT_THAT(in_block("required", "output = \"end\"\nrequired"), HasSubstr("output 'end' is not a layer of the block"));
}

TEST(blocks, mistakes_in_declarations_and_uses_are_reported) {
  const auto other = [&](const std::string& from, const std::string& to) { return wrong(replaced(job, from, to)); };
  EXPECT_THAT(other("block = \"residual\"", "block = \"residul\""),
              HasSubstr("job.toml:32:1: layer 'body': unknown block 'residul'; did you mean 'residual'? (available: residual)"));
  EXPECT_THAT(other("width = 4", "widht = 4"),
              HasSubstr("job.toml:34:1: layer 'body': unknown key 'widht'; did you mean 'width'?"));
  EXPECT_THAT(other("width = 4\n", ""), HasSubstr("layer 'body': block 'residual' needs the parameter 'width'"));
  EXPECT_THAT(other("repeat = 2", "repeat = 0"), HasSubstr("'repeat' must be between 1 and 10000, not 0"));
  EXPECT_THAT(other("repeat = 2", "repeat = \"2\""), HasSubstr("'repeat' must be an integer, not a string"));
  EXPECT_THAT(other("required", "requires"), HasSubstr("block 'residual': unknown key 'requires'; did you mean 'required'?"));
  EXPECT_THAT(other("{ kernel = 3", "{ name = 3, kernel = 3"), HasSubstr("a parameter cannot be called 'name'"));
  EXPECT_THAT(wrong(head + residual_block + residual_block + use + tail),
              HasSubstr("duplicate block name; first used at job.toml:10:1"));
  EXPECT_THAT(wrong(head + "[[block]]\nname = \"b\"\n" + use + tail),
              HasSubstr("it needs layers, written as [[block.layer]] tables"));
  EXPECT_THAT(wrong("block = 1\n" + head + use + tail), HasSubstr("blocks are written as [[block]] tables"));
  EXPECT_THAT(wrong(head + use + tail), HasSubstr("unknown block 'residual'; the file has no [[block]]"));
}

TEST(blocks, that_use_themselves_are_refused) {
  const auto block = [](const std::string& name, const std::string& used) {
    return "[[block]]\nname = \"" + name + "\"\nlayer = [ { name = \"x\", block = \"" + used + "\", inputs = \"in\" } ]\n";
  };
  const auto text =
      head + block("a", "b") + block("b", "a") + "[[layer]]\nname = \"body\"\nblock = \"a\"\ninputs = \"data\"\n" + tail;
  EXPECT_THAT(wrong(text), HasSubstr("block 'a' uses itself: a uses b uses a"));
  std::string deep = head;
  for (int i = 0; i < 9; ++i) deep += block("b" + std::to_string(i), "b" + std::to_string(i + 1));
  deep += "[[block]]\nname = \"b9\"\nlayer = [ { name = \"x\", type = \"relu\", inputs = \"in\" } ]\n";
  const auto from = [&](int i) {
    return wrong(deep + "[[layer]]\nname = \"body\"\nblock = \"b" + std::to_string(i) + "\"\ninputs = \"data\"\n" + tail);
  };
  EXPECT_THAT(from(0), HasSubstr("blocks are nested more than 8 deep"));
  EXPECT_EQ(from(2), "");
}

TEST(blocks, that_clash_with_other_layers_are_refused) {
  const auto with = [&](const std::string& name) {
    return wrong(job + "[[layer]]\nname = \"" + name + "\"\ntype = \"relu\"\ninputs = [\"ip\"]\n");
  };
  EXPECT_THAT(with("body"), HasSubstr("job.toml:30:1: layer 'body': another layer has this name, at job.toml:"));
  EXPECT_THAT(with("body_2"), HasSubstr("layer 'body_2': another layer has this name"));
  EXPECT_THAT(with("body_2_conv"), HasSubstr("layer 'body_2_conv': another layer has this name, in block 'residual'"));
  EXPECT_THAT(wrong(job + use), HasSubstr("another layer with a block has this name, at job.toml:30:1"));
  EXPECT_THAT(wrong(job + replaced(replaced(use, "\"body\"", "\"body_1\""), "repeat = 2\n", "")),
              HasSubstr("layer 'body_1': another layer with a block has this name"));
}

TEST(blocks, stop_at_a_number_of_layers_and_of_bytes) {
  EXPECT_THAT(wrong(replaced(job, "repeat = 2", "repeat = 10000")), HasSubstr("blocks become more than 10000 layers"));
  const auto large = replaced(replaced(job, "pad = 1 }", "pad = 1, k = \"" + std::string(3000, 'x') + "\" }"), "{pad}", "{k}{k}");
  EXPECT_THAT(wrong(large), HasSubstr("the text would have more than 4096 bytes"));
  const auto list =
      replaced(replaced(job, "pad = 1 }", "pad = 1, k = \"" + std::string(400'000, 'x') + "\" }"), "repeat = 2", "repeat = 3000");
  EXPECT_THAT(wrong(replaced(list, "\"{pad}\"", "\"{k}\"")), HasSubstr("the layers that blocks become are larger than 32 MiB"));
  // Each block uses the one before a thousand times, and none has a layer that can be written.
  std::string none = head;
  for (int i = 1; i < 7; ++i)
    none += "[[block]]\nname = \"b" + std::to_string(i) + "\"\nlayer = [ { name = \"x\", block = \"b" + std::to_string(i - 1) +
            "\", repeat = 10000 }, { name = \"y\", block = \"b" + std::to_string(i - 1) + "\", repeat = 10000 } ]\n";
  none += "[[layer]]\nname = \"body\"\nblock = \"b6\"\n";
  EXPECT_THAT(wrong(none + tail), HasSubstr("unknown block 'b0'"));
}

TEST(blocks, braces_are_written_twice) {
  EXPECT_THAT(wrong(replaced(job, "inputs = \"sum\"", "inputs = \"{{{name}}}\"")), HasSubstr("unknown input '{body_1}'"));
}

}  // namespace
}  // namespace troupe
