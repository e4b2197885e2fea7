// layer::absorb: what one layer computes in place of two or three has the bits of the layers apart, forward and backward.
#include <gtest/gtest.h>

#include <random>

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
  tensors forward(const layer& l, const tensor& x, const tensors& params, pass& p, dtype t) {
    context c{*dev_};
    p.in = {x};
    p.made = l.prepare(*dev_, {x.dims()}, phase::train, t);
    tensors out;
    for (const auto& s : l.infer({x.dims()})) out.push_back(tensor::declare(s, t));
    l.forward(c, *p.made, p.in, params, out, p.kept);
    const auto needs = l.backward_needs({x.dims()});
    if (needs.inputs) p.kept.inputs = p.in;
    if (needs.outputs) p.kept.outputs = out;
    return out;
  }
  tensor backward(const layer& l, pass& p, const tensors& params, const tensor& dy, tensors& grad_params, bool wants_dx) {
    context c{*dev_};
    tensors dx(1);
    if (wants_dx) dx[0] = tensor::declare(p.in[0].dims(), dy.type());
    grad_params.clear();
    for (const auto& q : params) grad_params.push_back(tensor::declare(q.dims(), dy.type()));
    l.backward(c, *p.made, p.kept, params, {dy}, dx, grad_params, false);
    return dx[0];
  }

  void expect_same(const std::vector<link>& chain, const shape& in, dtype t, bool wants_dx = true) {
    const auto one = absorb_all(chain, {in});
    ASSERT_NE(one, nullptr);
    const tensor x = random(in, t);
    tensors params;
    for (const auto& q : one->params({in})) params.push_back(random(q.dims, t));
    const tensor dy = random(one->infer({in})[0], t);
    result apart, together;
    std::vector<std::shared_ptr<const layer>> layers;
    std::vector<pass> passes(chain.size());
    tensor at = x;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      layers.push_back(make(chain[i]));
      at = forward(*layers[i], at, i == 0 ? params : tensors{}, passes[i], t)[0];
    }
    tensor back = dy;
    tensors none;
    for (std::size_t i = chain.size(); i-- > 0;)
      back =
          backward(*layers[i], passes[i], i == 0 ? params : tensors{}, back, i == 0 ? apart.grad_params : none, i > 0 || wants_dx);
    pass p;
    const auto out = forward(*one, x, params, p, t);
    const auto dx = backward(*one, p, params, dy, together.grad_params, wants_dx);
    EXPECT_TRUE(same_bits(out[0], at)) << "forward";
    EXPECT_EQ(bool(dx), wants_dx);
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

TEST_F(absorbing, a_convolution_takes_activations_and_pooling_in_either_order) {
  for (const auto t : {dtype::f32, dtype::f64})
    for (const auto& tail :
         std::vector<std::vector<link>>{{relu}, {leaky}, {curve}, {pool2}, {pool3}, {relu, pool2}, {pool3, relu}, {pool2, curve}})
      for (const char* algorithm : {"auto", "lowering1", "lowering2", "direct", "winograd"}) {
        std::vector<link> chain{convolution(5, 3, 1, algorithm)};
        chain.insert(chain.end(), tail.begin(), tail.end());
        SCOPED_TRACE(std::string(name_of(t)) + " " + algorithm + " " + tail[0].type);
        expect_same(chain, {3, 2, 9, 7}, t);
        expect_same(chain, {3, 2, 9, 7}, t, false);
      }
}

// As nets have them: more images than one block takes, and a last block that is not full.
TEST_F(absorbing, blocks_of_images_change_no_bit) {
  expect_same({convolution(20, 5, 0), pool2}, {40, 1, 28, 28}, dtype::f32, false);
  expect_same({convolution(50, 5, 0), pool2}, {40, 20, 12, 12}, dtype::f32);
  expect_same({convolution(32, 5, 2), pool3, relu}, {7, 3, 32, 32}, dtype::f32);
  expect_same({convolution(32, 5, 2), relu}, {19, 32, 16, 16}, dtype::f32);
  expect_same({convolution(64, 5, 2), relu}, {35, 32, 8, 8}, dtype::f32);
  expect_same({convolution(24, 3, 1, "auto", 2), relu, pool3}, {9, 6, 33, 31}, dtype::f32);
}

TEST_F(absorbing, random_chains) {
  std::mt19937_64 rng(11);
  const auto draw = [&](i64 least, i64 most) { return std::uniform_int_distribution<i64>(least, most)(rng); };
  for (int n = 0; n < 200; ++n) {
    const i64 kernel = draw(1, 4), pad = draw(0, kernel - 1), stride = draw(1, 2);
    std::vector<link> chain{convolution(draw(1, 40), kernel, pad, "auto", stride)};
    const shape in{draw(1, 40), draw(1, 6), draw(kernel + 4, 16), draw(kernel + 4, 20)};
    const i64 what = draw(0, 3);
    if (what == 1 || what == 3) chain.push_back(draw(0, 1) == 0 ? pool2 : pool3);
    if (what != 1) chain.push_back(relu);
    if (what == 0) chain.push_back(pool2);
    SCOPED_TRACE("case " + std::to_string(n) + " " + in.to_string());
    expect_same(chain, in, draw(0, 3) == 0 ? dtype::f64 : dtype::f32, draw(0, 1) == 0);
  }
}

TEST_F(absorbing, a_linear_layer_takes_an_activation) {
  for (const auto t : {dtype::f32, dtype::f64})
    for (const auto& f : {relu, leaky, curve, link{"sigmoid", {}}, link{"elu", {}}})
      expect_same({{"linear", {{{"outputs", i64{33}}}}}, f}, {7, 70}, t);
}

TEST_F(absorbing, what_does_not_commute_or_needs_what_is_gone_stays_apart) {
  const shapes in{{2, 3, 8, 8}};
  const link linear{"linear", {{{"outputs", i64{4}}}}};
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), link{"gelu", {}}}, in), nullptr) << "gelu's gradient wants its input";
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), leaky, pool2}, in), nullptr) << "rounding may make a tie of what was none";
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), curve, pool2}, in), nullptr);
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), relu, relu}, in), nullptr);
  EXPECT_EQ(absorb_all({convolution(4, 3, 1), pool2, pool2}, in), nullptr);
  EXPECT_EQ(absorb_all({linear, relu, relu}, in), nullptr);
  EXPECT_EQ(absorb_all({linear, link{"dropout", {}}}, in), nullptr);
  EXPECT_EQ(absorb_all({relu, relu}, in), nullptr);
}

}  // namespace
}  // namespace troupe
