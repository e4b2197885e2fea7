// Random blocks against an expansion of their own: a job with blocks is the job whose layers the
// test writes out itself, from the same random plan.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>

#include "tests/node/job_fixture.hpp"
#include "tests/node/same_job.hpp"

namespace troupe {
namespace {

using names = std::vector<std::string>;
using numbers = std::map<std::string, std::int64_t>;

// An expression over parameters, as a text and as a function.
struct random_expression {
  std::string text;
  std::function<std::int64_t(const numbers&)> value;
};

struct block_plan;

// A layer of a block, or of the file: eltwise, linear, or another block.
struct layer_plan {
  std::string name;           // as written; may have {name} or {i} in it
  bool whole = false;         // the name has {name} in it
  bool counts = false;        // the name has {i} in it
  std::vector<int> inputs;    // layers of the same list; -1 and -2: the inputs of the block
  random_expression outputs;  // of a linear layer; the parameter `w` of a use
  const block_plan* block = nullptr;
  int repeat = 0, first = 1;  // 0: without `repeat`
  bool has_width = true;      // false: the default of the block
};

struct block_plan {
  std::string name;
  std::int64_t width = 1;  // default of its parameter `w`
  std::vector<layer_plan> layers;
  int output = -1;  // -1: not written
};

class random_plan {
 public:
  explicit random_plan(unsigned seed) : random_(seed) {
    for (int b = 0, count = 1 + below(4); b < count; ++b) {
      auto plan = std::make_unique<block_plan>();
      plan->name = "b" + std::to_string(b);
      plan->width = 1 + below(9);
      plan->layers = layers(true);
      if (below(2)) plan->output = below(static_cast<int>(plan->layers.size()));
      blocks.push_back(std::move(plan));
    }
    top = layers(false);
  }

  std::vector<std::unique_ptr<block_plan>> blocks;
  std::vector<layer_plan> top;

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  random_expression expression(bool inside, int depth) {
    const int kind = below(depth > 0 ? 5 : 2);
    if (kind == 0 || (kind == 1 && !inside)) {
      const std::int64_t n = below(5);
      return {std::to_string(n), [n](const numbers&) { return n; }};
    }
    if (kind == 1) {
      const std::string word = below(2) ? "w" : "i";
      return {word, [word](const numbers& v) { return v.at(word); }};
    }
    const auto a = expression(inside, depth - 1), b = expression(inside, depth - 1);
    const char sign = "+-*"[kind - 2];
    return {"(" + a.text + " " + sign + " " + b.text + ")", [=](const numbers& v) {
              const auto x = a.value(v), y = b.value(v);
              return sign == '+' ? x + y : sign == '-' ? x - y : x * y;
            }};
  }

  // A value that a layer accepts: neither negative nor too large.
  random_expression width(bool inside) {
    const auto e = expression(inside, 1);
    return {"1 + " + e.text + " * " + e.text, [e](const numbers& v) { return 1 + e.value(v) * e.value(v); }};
  }
  random_expression parameter(bool inside) {
    const auto a = expression(inside, 0), b = expression(inside, 0);
    return {a.text + " + " + b.text, [a, b](const numbers& v) { return a.value(v) + b.value(v); }};
  }

  std::vector<layer_plan> layers(bool inside) {
    std::vector<layer_plan> list;
    for (int k = 0, count = 1 + below(4); k < count; ++k) {
      layer_plan l;
      l.name = "l" + std::to_string(k);
      l.whole = inside && below(3) == 0;
      if (l.whole) l.name = "w_{name}_" + std::to_string(k);
      for (int n = 1 + below(2); n > 0; --n) l.inputs.push_back(k > 0 && below(3) ? below(k) : inside ? -1 : -1 - below(2));
      l.outputs = width(inside);
      if (!blocks.empty() && below(2)) {
        l.block = blocks[static_cast<std::size_t>(below(static_cast<int>(blocks.size())))].get();
        l.repeat = below(4);
        l.first = below(2) ? 1 : below(5);
        l.counts = l.repeat > 0 && below(2);
        if (l.counts) l.name += "_{i}";
        l.has_width = below(3) > 0;
        l.outputs = parameter(inside);
      }
      list.push_back(l);
    }
    return list;
  }

  std::mt19937 random_;
};

std::string in_marks(const std::string& s) { return "\"" + s + "\""; }

// The part of a written name that others of the list use for reference: of a counted use, the last
// one.
std::string reference_to(const layer_plan& l) {
  if (!l.counts) return l.name;
  return l.name.substr(0, l.name.size() - 3) + std::to_string(l.first + l.repeat - 1);
}

std::string text_of_list(const std::vector<layer_plan>& list, const std::string& table, bool inside) {
  std::string s;
  for (const auto& l : list) {
    s += "[[" + table + "]]\nname = " + in_marks(l.name) + "\ninputs = [";
    for (std::size_t n = 0; n < l.inputs.size(); ++n) {
      const int i = l.inputs[n];
      s += (n ? ", " : "") + in_marks(i >= 0    ? reference_to(list[static_cast<std::size_t>(i)])
                                      : inside  ? "in"
                                      : i == -1 ? "data"
                                                : "label");
    }
    s += "]\n";
    const auto value = inside || l.block ? in_marks("{" + l.outputs.text + "}") : std::to_string(l.outputs.value({}));
    if (!l.block) {
      s += "type = \"linear\"\noutputs = " + value + "\n";
      continue;
    }
    s += "block = " + in_marks(l.block->name) + "\n";
    if (l.has_width) s += "w = " + value + "\n";
    if (l.repeat > 0) s += "repeat = " + std::to_string(l.repeat) + "\n";
    if (l.first != 1) s += "first = " + std::to_string(l.first) + "\n";
  }
  return s;
}

const std::string rest = "[data]\nsource = \"synthetic\"\n[train]\nfinish = { steps = 1 }\n";

std::string with_blocks(const random_plan& p) {
  std::string s = rest;
  for (const auto& b : p.blocks) {
    s += "[[block]]\nname = " + in_marks(b->name) + "\nparameters = { w = " + std::to_string(b->width) + " }\n";
    if (b->output >= 0) s += "output = " + in_marks(reference_to(b->layers[static_cast<std::size_t>(b->output)])) + "\n";
    s += text_of_list(b->layers, "block.layer", true);
  }
  return s + text_of_list(p.top, "layer", false);
}

std::string put(std::string s, const std::string& what, const std::string& value) {
  for (auto at = s.find(what); at != std::string::npos; at = s.find(what)) s.replace(at, what.size(), value);
  return s;
}

// Writes the layers of a list out; returns the name of the tensor that each of them stands for.
class own_expansion {
 public:
  std::string text = rest;

  names write(const std::vector<layer_plan>& list, const std::string& name, const numbers& values, const names& inputs) {
    names outputs;
    for (const auto& l : list) {
      names in;
      for (const int i : l.inputs)
        in.push_back(i >= 0 ? outputs[static_cast<std::size_t>(i)] : inputs[static_cast<std::size_t>(-1 - i)]);
      const auto named = put(l.name, "{name}", name);
      const auto full = l.whole || name.empty() ? named : name + "_" + named;
      if (l.block) {
        outputs.push_back(write_use(l, full, values, in));
        continue;
      }
      text += "[[layer]]\nname = " + in_marks(full) + "\ntype = \"linear\"\noutputs = " + std::to_string(l.outputs.value(values)) +
              "\ninputs = [";
      for (std::size_t i = 0; i < in.size(); ++i) text += (i ? ", " : "") + in_marks(in[i]);
      text += "]\n";
      outputs.push_back(full);
    }
    return outputs;
  }

 private:
  std::string write_use(const layer_plan& l, const std::string& full, const numbers& values, names in) {
    for (int k = 0; k < std::max(1, l.repeat); ++k) {
      const int number = l.first + k;
      auto own = values;
      if (l.repeat > 0 || !values.contains("i")) own["i"] = number;
      const auto& b = *l.block;
      const numbers inner{{"i", own["i"]}, {"w", l.has_width ? l.outputs.value(own) : b.width}};
      auto name = put(full, "{i}", std::to_string(number));
      if (l.repeat > 0 && !l.counts) name += "_" + std::to_string(number);
      const auto outputs = write(b.layers, name, inner, in);
      in[0] = outputs[b.output < 0 ? outputs.size() - 1 : static_cast<std::size_t>(b.output)];
    }
    return in[0];
  }
};

TEST(laws_blocks, random_blocks_become_the_layers_of_another_expansion) {
  int layers = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    const random_plan plan(seed);
    own_expansion own;
    own.write(plan.top, "", {}, {"data", "label"});
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + with_blocks(plan));
    const auto a = parse_job(with_blocks(plan), "job.toml", job_test::every_table());
    const auto b = parse_job(own.text, "job.toml", job_test::every_table());
    ASSERT_TRUE(b) << job_test::shown(b.error()) << own.text;
    ASSERT_TRUE(a) << job_test::shown(a.error());
    ASSERT_EQ(job_test::differences(*a, *b), names{}) << own.text;
    layers += static_cast<int>(a->layers.size());
  }
  EXPECT_GT(layers, 5000);
}

}  // namespace
}  // namespace troupe
