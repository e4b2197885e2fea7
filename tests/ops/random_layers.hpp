// Random options and input shapes of the stock layers: groups, axes of extent 1, odd borders.
// Seeded. Used by the check of gradients (layers_random_test.cpp) and the comparison with PyTorch
// (tests/interop/layer_dump.cpp), so that both use the same cases.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "ops/layer_support.hpp"

namespace troupe::test {

class random_layers {
 public:
  using i = std::int64_t;
  explicit random_layers(std::uint64_t seed) : rng_(seed) {}

  // The supported layer types; others are tested only with their own cases.
  static std::vector<std::string> types() {
    std::vector<std::string> all;
    for (const auto& [name, make] : makers()) all.push_back(name);
    return all;
  }
  layer_case draw(const std::string& type, int number) {
    layer_case c = makers().at(type)(*this);
    c.name = "random " + std::to_string(number);
    return c;
  }

 private:
  using maker = std::function<layer_case(random_layers&)>;

  i in(i least, i most) { return std::uniform_int_distribution<i>(least, most)(rng_); }
  // Often 1, rarely large.
  i extent(i most = 9) { return in(0, 3) == 0 ? 1 : in(1, most); }
  bool chance() { return in(0, 1) == 1; }
  shape any(int least_rank = 1, int max_rank = 5) {
    shape s;
    for (auto rank = in(least_rank, max_rank); rank > 0; --rank)
      s.push_back(s.rank() == 0 && in(0, 9) == 0 ? in(20, 70) : extent(6));
    return s;
  }
  shape image(i least = 1) { return {extent(3), extent(6), std::max(least, extent()), std::max(least, extent())}; }
  static options with(std::map<std::string, option_value, std::less<>> values) { return {std::move(values)}; }
  static std::string word(bool first, const char* a, const char* b) { return first ? a : b; }

  layer_case plain(shapes in_, options o = {}) { return example("", std::move(o), std::move(in_)); }

  layer_case embedding() {
    const i v = in(1, 20);
    return labelled("", with({{"vocabulary", v}, {"outputs", in(1, 20)}}), {any(1, 4)}, v);
  }
  layer_case crop() {
    const shape x = any(2, 5);
    const i axis = in(1, x.rank() - 1);
    std::vector<i> size, offsets;
    shape like = x;
    for (int a = static_cast<int>(axis); a < x.rank(); ++a) {
      size.push_back(in(1, x[a]));
      offsets.push_back(in(0, x[a] - size.back()));
      like.set(a, size.back());
    }
    if (chance()) return plain({x}, with({{"axis", axis}, {"size", size}, {"offsets", offsets}}));
    return plain({x, like}, with({{"axis", axis}, {"offsets", offsets}}));
  }
  layer_case pad() {
    const shape x = image();
    static const char* modes[] = {"zero", "edge", "reflect"};
    const std::string mode = modes[in(0, 2)];
    const auto side = [&](int axis) { return in(0, mode == "reflect" ? std::min<i>(x[axis] - 1, 4) : 4); };
    if (in(0, 3) == 0) return plain({{x[0], x[1], x[3]}}, with({{"mode", mode}, {"left", side(3)}, {"right", side(3)}}));
    return plain({x}, with({{"mode", mode}, {"top", side(2)}, {"bottom", side(2)}, {"left", side(3)}, {"right", side(3)}}));
  }
  layer_case upsample() {
    const bool bilinear = chance();
    options o = with({{"mode", word(bilinear, "bilinear", "nearest")}, {"align_corners", bilinear && chance()}});
    if (chance() || !bilinear)  // with nearest, PyTorch computes the pixel in floating point and sometimes picks another one
      o.values["factor"] = in(1, 4);
    else
      o.values["height"] = in(1, 12), o.values["width"] = in(1, 12);
    return plain({image()}, o);
  }
  // A pair, half of the time of two equal numbers.
  option_value by_axis(i h, i w) { return h == w && chance() ? option_value(h) : option_value(std::vector<i>{h, w}); }
  std::pair<i, i> two(i least, i most) {
    const i h = in(least, most);
    return {h, chance() ? h : in(least, most)};
  }
  // A third of the cases have one axis, [N, C, L].
  layer_case on_images(options o, const shape& x) {
    const auto square = [](const auto& v) {
      const auto* pair = std::get_if<std::vector<i>>(&v.second);
      return pair == nullptr || (*pair)[0] == (*pair)[1];
    };
    if (in(0, 2) != 0 || !std::all_of(o.values.begin(), o.values.end(), square)) return plain({x}, std::move(o));
    return plain({{x[0], x[1], x[3]}}, std::move(o));
  }
  layer_case deconvolution() {
    const i groups = in(1, 3);
    const auto [stride_h, stride_w] = two(1, 3);
    const auto [dilation_h, dilation_w] = two(1, 2);
    const auto [kernel_h, kernel_w] = two(1, 4);
    const shape x{extent(3), groups * in(1, 3), extent(6), extent(6)};
    const auto pad = [&](i n, i stride, i dilation, i kernel) {
      return in(0, std::min<i>(3, ((n - 1) * stride + dilation * (kernel - 1)) / 2));
    };
    const i pad_h = pad(x[2], stride_h, dilation_h, kernel_h), pad_w = pad(x[3], stride_w, dilation_w, kernel_w);
    const i extra_h = in(0, stride_h - 1), extra_w = in(0, stride_w - 1);
    return on_images(with({{"outputs", groups * in(1, 3)},
                           {"groups", groups},
                           {"kernel", by_axis(kernel_h, kernel_w)},
                           {"stride", by_axis(stride_h, stride_w)},
                           {"dilation", by_axis(dilation_h, dilation_w)},
                           {"output_pad", by_axis(extra_h, extra_w)},
                           {"pad", by_axis(pad_h, pad_w)},
                           {"bias", chance()}}),
                     x);
  }
  layer_case convolution() {
    const i groups = in(1, 3);
    const auto [stride_h, stride_w] = two(1, 3);
    const auto [dilation_h, dilation_w] = two(1, 2);
    const auto [kernel_h, kernel_w] = two(1, 4);
    const auto [pad_h, pad_w] = two(0, 3);
    const auto least = [](i kernel, i dilation, i pad) { return std::max<i>(1, dilation * (kernel - 1) + 1 - 2 * pad); };
    const shape x{extent(3), groups * in(1, 3), least(kernel_h, dilation_h, pad_h) + extent(6) - 1,
                  least(kernel_w, dilation_w, pad_w) + extent(6) - 1};
    return on_images(with({{"outputs", groups * in(1, 4)},
                           {"groups", groups},
                           {"kernel", by_axis(kernel_h, kernel_w)},
                           {"stride", by_axis(stride_h, stride_w)},
                           {"dilation", by_axis(dilation_h, dilation_w)},
                           {"pad", by_axis(pad_h, pad_w)},
                           {"bias", chance()}}),
                     x);
  }
  layer_case pooling() {
    const auto [kernel_h, kernel_w] = two(1, 4);
    const auto [stride_h, stride_w] = two(1, 3);
    const i pad_h = in(0, kernel_h - 1), pad_w = in(0, kernel_w - 1);
    const auto least = [](i kernel, i pad) { return std::max<i>(1, kernel - 2 * pad); };
    const shape x{extent(3), extent(3), least(kernel_h, pad_h) + extent() - 1, least(kernel_w, pad_w) + extent(20) - 1};
    return on_images(with({{"kernel", by_axis(kernel_h, kernel_w)},
                           {"stride", by_axis(stride_h, stride_w)},
                           {"pad", by_axis(pad_h, pad_w)},
                           {"rounding", word(chance(), "ceil", "floor")}}),
                     x);
  }
  // The values have the shape of the max_pool.
  layer_case unpool() {
    layer_case c = pooling();
    layer_registry stock;
    add_stock_layers(stock);
    const auto& pool = *stock.find("max_pool");
    c.in.insert(c.in.begin(), pool.make(check_options(c.given, pool.specs))->infer(c.in)[0]);
    return c;
  }
  layer_case avg_pool() {
    layer_case c = pooling();
    c.given.values["count_padding"] = chance();
    return c;
  }
  layer_case sequence_convolution() {
    const i groups = in(1, 2), kernel = in(1, 5), dilation = in(1, 3);
    static const char* words[] = {"same", "causal"};
    const bool number = chance();
    const i pad = in(0, 3), reach = dilation * (kernel - 1) + 1;
    const shape x{extent(3), number ? std::max<i>(1, reach - 2 * pad) + extent() - 1 : extent(12), groups * in(1, 4)};
    return plain({x}, with({{"outputs", groups * in(1, 4)},
                            {"groups", groups},
                            {"kernel", kernel},
                            {"stride", in(1, 3)},
                            {"dilation", dilation},
                            {"pad", number ? option_value(pad) : option_value(std::string(words[in(0, 1)]))},
                            {"bias", chance()}}));
  }
  layer_case element_loss(bool targets) {
    const shape x = any(2, 4);
    if (targets && chance()) return plain({x, x});
    const i classes = x.count_from(1);
    return labelled("", {}, {x, {x[0]}}, classes == 1 ? 2 : classes);
  }
  // At least two elements per mean; with one element only rounding errors remain.
  layer_case layer_norm() {
    shape x = any(2, 5);
    const i axis = in(1, x.rank() - 1);
    if (x.count_from(static_cast<int>(axis)) < 3) x.set(x.rank() - 1, in(3, 30));
    return plain({x}, with({{"axis", axis}, {"affine", chance()}, {"epsilon", chance() ? 0.1 : 0.01}}));
  }
  layer_case batch_norm() {
    shape x = any(2, 5);
    if (x[0] * x.count_from(2) < 3) x.set(0, in(3, 10));
    return plain({x}, with({{"affine", chance()},
                            {"stats", word(chance(), "packet", "batch")},
                            {"momentum", chance() ? 0.1 : 0.75},
                            {"epsilon", chance() ? 0.1 : 0.01}}));
  }

  layer_case group_norm() {
    const i groups = extent(3);
    shape x = any(2, 5);
    x.set(1, groups * extent(3));
    if (x.count_from(1) < 3 * groups) x.push_back(in(3, 9)), x = {x[0], x[1], x.count_from(2)};
    return plain({x}, with({{"groups", groups}, {"affine", chance()}, {"epsilon", chance() ? 0.1 : 0.01}}));
  }
  layer_case instance_norm() {
    shape x = any(3, 5);
    if (x.count_from(2) < 3) x.set(2, in(3, 9));
    return plain({x}, with({{"affine", chance()}, {"epsilon", chance() ? 0.1 : 0.01}}));
  }
  layer_case reshape() {
    const shape x = any(1, 5);
    std::vector<i> to;  // the factors of the values, in random places
    for (i left = x.count_from(1); std::ssize(to) < 4 && left > 1;) {
      i f = in(1, 6);
      while (left % f != 0) --f;
      to.push_back(f), left /= f;
    }
    const i known = std::accumulate(to.begin(), to.end(), i{1}, std::multiplies<>());
    to.push_back(chance() ? -1 : x.count_from(1) / known);
    std::shuffle(to.begin(), to.end(), rng_);
    return plain({x}, with({{"shape", to}}));
  }
  layer_case permute() {
    const shape x = any(2, 6);
    std::vector<i> order;
    for (i a = 1; a < x.rank(); ++a) order.push_back(a);
    std::shuffle(order.begin(), order.end(), rng_);
    return plain({x}, with({{"order", order}}));
  }
  layer_case matmul() {
    shape a = any(1, 4), b = a;
    const i m = extent(), k = extent(), p = extent();
    const bool first = chance(), second = chance();
    for (const i e : {first ? k : m, first ? m : k}) a.push_back(e);
    for (const i e : {second ? p : k, second ? k : p}) b.push_back(e);
    return plain({a, b}, with({{"transpose_a", first}, {"transpose_b", second}, {"scale", chance() ? 1.0 : 0.375}}));
  }
  layer_case softmax() {
    shape x = any(2, 5);
    i axis = in(1, x.rank() - 1);
    const bool causal = x.rank() > 2 && chance();
    if (causal) axis = x.rank() - 1, x.set(x.rank() - 2, x[x.rank() - 1]);
    return plain({x}, with({{"axis", axis}, {"causal", causal}}));
  }

  // size: one entry for each layer type
  static const std::map<std::string, maker>& makers() {
    using self = random_layers;
    const auto any_shape = [](self& r) { return r.plain({r.any()}); };
    const auto channels = [](self& r) { return r.plain({r.any(2)}); };
    static const std::map<std::string, maker> all{
        {"sigmoid", any_shape},
        {"tanh", any_shape},
        {"elu",
         [](self& r) {
           return r.plain({r.any()}, with({{"alpha", 0.25 * static_cast<double>(r.in(0, 8))}}));
         }},
        {"gelu",
         [](self& r) {
           return r.plain({r.any()}, with({{"approximate", word(r.chance(), "none", "tanh")}}));
         }},
        {"relu6",
         [](self& r) {
           return r.plain({r.any()}, with({{"max", 0.25 * static_cast<double>(r.in(1, 24))}}));
         }},
        {"silu", any_shape},
        {"hard_swish", any_shape},
        {"hard_sigmoid",
         [](self& r) {
           return r.plain({r.any()}, with({{"slope", 0.125 * static_cast<double>(r.in(1, 8))}}));
         }},
        {"channel_scale",
         [](self& r) {
           const shape x = r.any(2);
           return r.plain({x, shape{x[0], x[1]}});
         }},
        {"prelu",
         [](self& r) {
           return r.plain({r.any(2)}, with({{"shared", r.chance()}}));
         }},
        {"softmax", [](self& r) { return r.softmax(); }},
        {"group_norm", [](self& r) { return r.group_norm(); }},
        {"instance_norm", [](self& r) { return r.instance_norm(); }},
        {"reshape", [](self& r) { return r.reshape(); }},
        {"permute", [](self& r) { return r.permute(); }},
        {"matmul", [](self& r) { return r.matmul(); }},
        {"rbm",
         [](self& r) {
           return r.plain({r.any(2)}, with({{"units", r.extent(12)}, {"steps", r.in(1, 3)}, {"visible", std::string("sample")}}));
         }},
        {"scale",
         [](self& r) {
           return r.plain({r.any(2)}, with({{"bias", r.chance()}}));
         }},
        {"bias", channels},
        {"split",
         [](self& r) {
           return r.plain({r.any()}, with({{"copies", r.in(1, 4)}}));
         }},
        {"crop", [](self& r) { return r.crop(); }},
        {"pad", [](self& r) { return r.pad(); }},
        {"upsample", [](self& r) { return r.upsample(); }},
        {"deconvolution", [](self& r) { return r.deconvolution(); }},
        {"convolution", [](self& r) { return r.convolution(); }},
        {"max_pool", [](self& r) { return r.pooling(); }},
        {"avg_pool", [](self& r) { return r.avg_pool(); }},
        {"unpool", [](self& r) { return r.unpool(); }},
        {"sequence_convolution", [](self& r) { return r.sequence_convolution(); }},
        {"embedding", [](self& r) { return r.embedding(); }},
        {"layer_norm", [](self& r) { return r.layer_norm(); }},
        {"batch_norm", [](self& r) { return r.batch_norm(); }},
        {"sigmoid_cross_entropy", [](self& r) { return r.element_loss(true); }},
        {"hinge",
         [](self& r) {
           auto c = r.element_loss(false);
           c.given = with({{"norm", word(r.chance(), "l1", "l2")}});
           return c;
         }},
        {"euclidean",
         [](self& r) {
           const shape x = r.any();
           return r.plain({x, x});
         }},
    };
    return all;
  }

  std::mt19937_64 rng_;
};

}  // namespace troupe::test
