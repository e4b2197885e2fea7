// embedding: y = table[id] for each id. ids [N] -> [N, outputs]; ids [N, T] -> [N, T, outputs];
// higher ranks likewise.
//   gradient  dtable[v] = sum of dy over the occurrences of id v, in order
//   A negative id is padding: it gives zeros and has no gradient. The row of padding_id begins with
//   zeros and has no gradient, as padding_idx of torch.nn.Embedding. An id beyond the table gives
//   NaN, so that wrong data is noticed.
//   Bengio et al. 2003, section 2.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct embedding final : layer {
  std::int64_t vocabulary, outputs, padding;  // padding < 0: no row
  filler_spec weight_filler;
  explicit embedding(const options& o)
      : vocabulary(o.integer("vocabulary")),
        outputs(o.integer("outputs")),
        padding(o.integer("padding_id")),
        weight_filler(filler_from(o.table("weight_filler"), "gaussian")) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 1 && in[0].rank() < shape::max_rank, "ids [N] or [N, T]", in);
    if (padding >= vocabulary)
      throw option_error("padding_id",
                         "padding_id = " + std::to_string(padding) + " is not below vocabulary = " + std::to_string(vocabulary));
    shape out = in[0];
    out.push_back(outputs);
    return {out};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1, 1);
  }
  bool differentiable(std::size_t) const override { return false; }
  std::int64_t ids_below(std::size_t, const shapes&) const override { return vocabulary; }
  param_specs params(const shapes&) const override {
    param_specs p(1);
    p[0] = {.name = "weight", .dims = shape{vocabulary, outputs}, .filler = weight_filler};
    p[0].zero_row = padding;
    return p;
  }
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    c.dev.gather_rows(params[0], in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors&, tensors& grad_params,
                bool accumulate) const override {
    assign_or_add(c.dev, grad_params[0], accumulate, [&](tensor& dw) {
      c.dev.scatter_rows(grad_out[0], s.inputs[0], dw);
      if (padding < 0) return;
      tensor row = dw.slice(padding * outputs, shape{outputs});
      c.dev.fill(0.0, row);
    });
  }
};

}  // namespace

layer_type embedding_layer() {
  using i = std::int64_t;
  const auto table = [](i vocabulary, i outputs) { return options{{{"vocabulary", vocabulary}, {"outputs", outputs}}}; };
  return {
      .name = "embedding",
      .doc =
          "y = table[id] for each id. ids [N] i32 -> [N, outputs], [N, T] -> [N, T, outputs]; weight [vocabulary, outputs]. The "
          "gradient of a row is the sum of dy over the occurrences of its id. A negative id is padding (zeros), and the row of "
          "padding_id has no gradient. Bengio et al. 2003.",
      .specs = {required_integer("vocabulary", "number of rows; valid ids are 0 to vocabulary - 1"),
                required_integer("outputs", "length of a row"),
                integer_option("padding_id", -1, "the row of this id begins with zeros and has no gradient; -1: none", -1),
                table_option("weight_filler", "filler of the table; default gaussian with std 1")},
      .make = [](const options& o) { return std::make_unique<embedding>(o); },
      .cases = {labelled("one id an example", table(5, 3), {{4}}, 5), labelled("sequences", table(7, 4), {{3, 6}}, 7),
                labelled("one example", table(2, 1), {{1}}, 2), labelled("one word", table(1, 5), {{3, 2}}, 1),
                labelled("wide", table(11, 37), {{2, 3}}, 11), labelled("grids, ids seldom used", table(40, 2), {{2, 3, 2}}, 40)}};
}

}  // namespace troupe
