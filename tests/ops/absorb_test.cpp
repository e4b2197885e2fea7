// layer::absorb: a fused layer has the bits of the two or three separate layers, forward and
// backward.
#include <gtest/gtest.h>

#include <random>

#include "ops/conv_algorithm.hpp"
#include "ops/layer_support.hpp"
#include "ops/tensor_values.hpp"

namespace troupe {
namespace {

struct link {
  std::string type;
  options given;
};

class absorbing : public testing::Test {
 protected:
  absorbing() { add_stock_layers(registry_); }

  std::shared_ptr<const layer> make(const link& l) {
    const auto* type = registry_.find(l.type);
    return type->make(check_options(l.given, type->specs));
  }
  std::shared_ptr<const layer> absorb_all(const std::vector<link>& chain, const shapes& in) {
    auto one = make(chain[0]);
    for (std::size_t i = 1; one && i < chain.size(); ++i) one = one->absorb(*make(chain[i]), in);
    return one;
  }
  tensor random(const shape& s, dtype t) {
    tensor narrow = tensor::allocate(*dev_, s, dtype::f32), x = tensor::allocate(*dev_, s, t);
    dev_->fill_gaussian({.key = 5, .a = ++drawn_}, 0.0, 1.0, narrow);
    dev_->copy(narrow, x);
    return x;
  }

  struct result {
    tensors out, grad_in, grad_params;
  };
  struct pass {
    std::unique_ptr<plan> made;
    tensors in;
    saved kept;
  };
  tensors forward(const layer& l, const tensors& x, const tensors& params, pass& p, dtype t) {
    context c{*dev_};
    const shapes dims(x.size(), x[0].dims());
    p.in = x;
    p.made = l.prepare(*dev_, dims, phase::train, t);
    tensors out;
    for (const auto& s : l.infer(dims)) out.push_back(tensor::declare(s, t));
    l.forward(c, *p.made, p.in, params, out, p.kept);
    const auto needs = l.backward_needs(dims);
    if (needs.inputs) p.kept.inputs = p.in;
    if (needs.outputs) p.kept.outputs = out;
    return out;
  }
  // Gradients of all inputs or of none, and of the trainable parameters.
  tensors backward(const layer& l, pass& p, const tensors& params, const tensor& dy, tensors& grad_params, bool wants_dx) {
    context c{*dev_};
    tensors dx(p.in.size());
    if (wants_dx)
      for (auto& d : dx) d = tensor::declare(p.in[0].dims(), dy.type());
    grad_params.clear();
    for (const auto& q : params) grad_params.push_back(tensor::declare(q.dims(), wide_of(dy.type())));
    l.backward(c, *p.made, p.kept, params, {dy}, dx, grad_params, false);
    std::erase_if(grad_params, [](const tensor& g) { return !g.backed(); });
    return dx;
  }

  void expect_same(const std::vector<link>& chain, const shape& in, dtype t, bool wants_dx = true, std::size_t inputs = 1) {
    const shapes all_in(inputs, in);
    const auto one = absorb_all(chain, all_in);
    ASSERT_NE(one, nullptr);
    tensors x;
    for (std::size_t i = 0; i < inputs; ++i) x.push_back(random(in, t));
    tensors params;
    for (const auto& q : one->params(all_in)) params.push_back(random(q.dims, wide_of(t)));
    const tensor dy = random(one->infer(all_in)[0], t);
    result apart, together;
    std::vector<std::shared_ptr<const layer>> layers;
    std::vector<pass> passes(chain.size());
    std::vector<tensors> own(chain.size());  // parameters of each layer
    tensors at = x;
    auto next = params.begin();
    for (std::size_t i = 0; i < chain.size(); ++i) {
      layers.push_back(make(chain[i]));
      const auto count = layers[i]->params(shapes(at.size(), at[0].dims())).size();
      own[i].assign(next, next + static_cast<std::ptrdiff_t>(count));
      next += static_cast<std::ptrdiff_t>(count);
      at = forward(*layers[i], at, own[i], passes[i], t);
    }
    ASSERT_EQ(next, params.end());
    tensors back = {dy};
    for (std::size_t i = chain.size(); i-- > 0;) {
      tensors gradients;
      back = backward(*layers[i], passes[i], own[i], back[0], gradients, i > 0 || wants_dx);
      apart.grad_params.insert(apart.grad_params.begin(), gradients.begin(), gradients.end());
    }
    pass p;
    const auto out = forward(*one, x, params, p, t);
    const auto dx = backward(*one, p, params, dy, together.grad_params, wants_dx);
    EXPECT_TRUE(same_bits(out[0], at[0])) << "forward";
    EXPECT_EQ(bool(dx[0]), wants_dx);
    if (wants_dx) {
      EXPECT_TRUE(same_bits(dx, back)) << "backward";
    }
    EXPECT_TRUE(same_bits(together.grad_params, apart.grad_params)) << "gradients of the parameters";
  }

  std::unique_ptr<device> dev_ = make_cpu_device();
  layer_registry registry_;
  std::uint32_t drawn_ = 0;
};

using i64 = std::int64_t;
link convolution(i64 outputs, i64 kernel, i64 pad, const char* algorithm = "auto", i64 stride = 1) {
  return {"convolution",
          {{{"outputs", outputs}, {"kernel", kernel}, {"pad", pad}, {"stride", stride}, {"algorithm", std::string(algorithm)}}}};
}
const link relu{"relu", {}}, leaky{"relu", {{{"slope", 0.1}}}}, curve{"tanh", {}},
    pool3{"max_pool", {{{"kernel", i64{3}}, {"stride", i64{2}}}}}, pool2{"max_pool", {{{"kernel", i64{2}}, {"stride", i64{2}}}}};

TEST_F(absorbing, convolution_absorbs_activations_and_pooling_in_either_order) {
  for (const auto t : {dtype::f32, dtype::f64})
    for (const auto& tail :
         std::vector<std::vector<link>>{{relu}, {leaky}, {curve}, {pool2}, {pool3}, {relu, pool2}, {pool3, relu}, {pool2, curve}})
      for (const char* algorithm : {"auto", "lowering1", "lowering2", "direct", "winograd", "winograd4"}) {
        std::vector<link> chain{convolution(5, 3, 1, algorithm)};
        chain.insert(chain.end(), tail.begin(), tail.end());
        SCOPED_TRACE(std::string(name_of(t)) + " " + algorithm + " " + tail[0].type);
        expect_same(chain, {3, 2, 9, 7}, t);
        expect_same(chain, {3, 2, 9, 7}, t, false);
      }
}

// As in common nets: more images than one block holds, and a partial last block.
TEST_F(absorbing, blocks_of_images_do_not_change_bits) {
  expect_same({convolution(20, 5, 0), pool2}, {40, 1, 28, 28}, dtype::f32, false);
  expect_same({convolution(50, 5, 0), pool2}, {40, 20, 12, 12}, dtype::f32);
  expect_same({convolution(32, 5, 2), pool3, relu}, {7, 3, 32, 32}, dtype::f32);
  expect_same({convolution(32, 5, 2), relu}, {19, 32, 16, 16}, dtype::f32);
  expect_same({convolution(64, 5, 2), relu}, {35, 32, 8, 8}, dtype::f32);
  expect_same({convolution(24, 3, 1, "auto", 2), relu, pool3}, {9, 6, 33, 31}, dtype::f32);
}

// Windows that overlap, have padding, skip pixels or end at the border, with and without vectors of
// images.
TEST_F(absorbing, every_pooling_window_gives_the_same_bits) {
  const auto pool = [](i64 kernel, i64 stride, i64 pad, const char* rounding) {
    return link{"max_pool", {{{"kernel", kernel}, {"stride", stride}, {"pad", pad}, {"rounding", std::string(rounding)}}}};
  };
  for (const auto& window :
       {pool(3, 2, 1, "ceil"), pool(3, 1, 1, "floor"), pool(2, 3, 0, "ceil"), pool(2, 2, 0, "floor"), pool(4, 4, 2, "ceil")})
    for (const i64 batch : {3, 16, 29})
      for (const i64 outputs : {5, 32}) {
        SCOPED_TRACE(std::to_string(batch) + " images, " + std::to_string(outputs) + " outputs");
        expect_same({convolution(outputs, 3, 1), window, relu}, {batch, 3, 11, 9}, dtype::f32);
      }
}

TEST_F(absorbing, random_chains_have_the_bits_of_separate_layers) {
  std::mt19937_64 rng(11);
  const auto draw = [&](i64 least, i64 most) { return std::uniform_int_distribution<i64>(least, most)(rng); };
  const auto pair = [](i64 h, i64 w) { return option_value(std::vector<i64>{h, w}); };
  const link oblong{"max_pool", {{{"kernel", pair(2, 3)}, {"stride", pair(1, 2)}, {"pad", pair(1, 0)}}}};
  for (int n = 0; n < 300; ++n) {
    const i64 kernel = draw(1, 4), pad = draw(0, kernel - 1), stride = draw(1, 2);
    std::vector<link> chain{convolution(draw(1, 40), kernel, pad, "auto", stride)};
    shape in{draw(1, 40), draw(1, 6), draw(kernel + 4, 16), draw(kernel + 4, 20)};
    const bool by_axis = n % 3 == 1;
    if (by_axis) {
      auto& given = chain[0].given.values;
      given["kernel"] = pair(kernel, draw(1, 4)), given["stride"] = pair(stride, draw(1, 2)), given["pad"] = pair(pad, draw(0, 2));
    }
    if (n % 3 == 2) in = {in[0], in[1], in[3]};
    const i64 what = draw(0, 3);
    if (what == 1 || what == 3) chain.push_back(by_axis ? oblong : draw(0, 1) == 0 ? pool2 : pool3);
    if (what != 1) chain.push_back(relu);
    if (what == 0) chain.push_back(pool2);
    SCOPED_TRACE("case " + std::to_string(n) + " " + in.to_string());
    expect_same(chain, in, draw(0, 3) == 0 ? dtype::f64 : dtype::f32, draw(0, 1) == 0);
  }
}

// If oneDNN computes both, a convolution absorbs the next one: the tensor between them stays in the
// library's blocked layout.
TEST_F(absorbing, consecutive_onednn_convolutions_are_absorbed) {
  if (const auto why = why_not(conv_algorithm::onednn, {}); !why.empty()) GTEST_SKIP() << why;
  const auto one = [](i64 outputs, i64 kernel, i64 pad, i64 stride = 1, i64 groups = 1, bool bias = true) {
    link l = convolution(outputs, kernel, pad, "onednn", stride);
    l.given.values["groups"] = groups, l.given.values["bias"] = bias;
    return l;
  };
  const auto same = [&](dtype t) {
    SCOPED_TRACE(std::string(name_of(t)) + " " + dev_->numerics_id());
    for (const bool wants_dx : {true, false}) {
      expect_same({one(16, 3, 1), one(5, 3, 1)}, {3, 4, 9, 7}, t, wants_dx);
      expect_same({one(32, 5, 2), relu, one(48, 3, 1), leaky, one(16, 1, 0), relu, pool3}, {2, 3, 12, 11}, t, wants_dx);
      expect_same({one(16, 3, 1, 2), curve, one(32, 3, 0), pool2}, {5, 16, 15, 15}, t, wants_dx);
      expect_same({one(32, 3, 1, 1, 2), relu, one(32, 3, 1, 1, 32, false), relu, one(7, 1, 0)}, {2, 8, 8, 8}, t, wants_dx);
      expect_same({one(16, 1, 0), relu, one(16, 1, 0)}, {1, 1, 1, 1}, t, wants_dx);
    }
  };
  for (const auto t : {dtype::f32, dtype::f64, dtype::bf16}) same(t);
  dev_ = make_cpu_device("baseline");  // bf16 uses the convolutions of f32
  same(dtype::bf16);
  const shapes in{{2, 3, 12, 12}};
  EXPECT_EQ(absorb_all({one(20, 3, 1), relu, one(16, 3, 1)}, in), nullptr) << "20 features leave a block partly empty";
  EXPECT_EQ(absorb_all({one(16, 3, 1), pool2, one(16, 3, 1)}, in), nullptr) << "pooling requires the standard layout";
  EXPECT_EQ(absorb_all({one(16, 3, 1), convolution(16, 3, 1, "direct")}, in), nullptr) << "direct requires the standard layout";
  EXPECT_EQ(absorb_all({convolution(16, 3, 1), convolution(16, 3, 1)}, in), nullptr);
}

TEST_F(absorbing, random_onednn_convolutions_have_the_bits_of_separate_layers) {
  if (const auto why = why_not(conv_algorithm::onednn, {}); !why.empty()) GTEST_SKIP() << why;
  std::mt19937_64 rng(17);
  const auto draw = [&](i64 least, i64 most) { return std::uniform_int_distribution<i64>(least, most)(rng); };
  for (int n = 0; n < 100; ++n) {
    std::vector<link> chain;
    const i64 convolutions = draw(2, 4);
    for (i64 c = 0; c < convolutions; ++c) {
      const i64 kernel = draw(1, 3), outputs = c + 1 < convolutions ? 16 * draw(1, 3) : draw(1, 40);
      chain.push_back(convolution(outputs, kernel, draw(0, kernel / 2), "onednn", draw(1, 2)));
      if (draw(0, 2) != 0) chain.push_back(draw(0, 1) == 0 ? relu : curve);
    }
    shape in{draw(1, 9), draw(1, 20), draw(40, 60), draw(40, 60)};
    if (n % 4 == 0) in = {in[0], in[1], in[3]};
    SCOPED_TRACE("case " + std::to_string(n) + " " + in.to_string());
    expect_same(chain, in, dtype::f32, draw(0, 1) == 0);
  }
}

TEST_F(absorbing, linear_absorbs_an_activation) {
  for (const auto t : {dtype::f32, dtype::f64})
    for (const auto& f : {relu, leaky, curve, link{"sigmoid", {}}, link{"elu", {}}})
      expect_same({{"linear", {{{"outputs", i64{33}}}}}, f}, {7, 70}, t);
}

// Small and large, since large results are written with non-temporal stores; a single pixel, where
// vectors hold channels.
TEST_F(absorbing, batch_norm_absorbs_a_relu) {
  for (const auto t : {dtype::f32, dtype::f64})
    for (const shape& in : {shape{3, 5, 7, 6}, shape{9, 40}, shape{1, 2, 1, 5}, shape{40, 8, 32, 32}})
      for (const bool affine : {true, false})
        for (const bool wants_dx : {true, false}) expect_same({{"batch_norm", {{{"affine", affine}}}}, relu}, in, t, wants_dx);
}

TEST_F(absorbing, eltwise_absorbs_a_relu) {
  const link sum{"eltwise", {}}, prod{"eltwise", {{{"operation", std::string("prod")}}}},
      difference{"eltwise", {{{"coeffs", std::vector<double>{0.5, -2.0}}}}};
  for (const auto t : {dtype::f32, dtype::f64})
    for (const shape& in : {shape{3, 5, 7, 6}, shape{40, 8, 32, 32}}) {
      for (const auto& l : {sum, prod, difference}) expect_same({l, relu}, in, t, true, 2);
      expect_same({sum, relu}, in, t, true, 3);
    }
}

TEST_F(absorbing, layers_that_cannot_be_fused_stay_separate) {
  const shapes in{{2, 3, 8, 8}};
  const link linear{"linear", {{{"outputs", i64{4}}}}};
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), link{"gelu", {}}}, in), nullptr) << "gelu's gradient needs its input";
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), leaky, pool2}, in), nullptr) << "rounding may create ties";
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), curve, pool2}, in), nullptr);
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), relu, relu}, in), nullptr);
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), pool2, pool2}, in), nullptr);
  EXPECT_EQ(absorb_all({linear, relu, relu}, in), nullptr);
  EXPECT_EQ(absorb_all({linear, link{"dropout", {}}}, in), nullptr);
  EXPECT_EQ(absorb_all({relu, relu}, in), nullptr);
  EXPECT_EQ(absorb_all({link{"batch_norm", {}}, leaky}, in), nullptr);
  EXPECT_EQ(absorb_all({link{"eltwise", {{{"operation", std::string("max")}}}}, relu}, in), nullptr)
      << "the gradient of max needs its own outputs";
}

}  // namespace
}  // namespace troupe
