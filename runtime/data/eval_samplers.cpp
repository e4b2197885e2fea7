// all:     the whole split, in order.
// sample:  `examples` of the split, drawn for every evaluation without replacement: the first ones
//          of permutation.hpp's order for the key sub_key(seed, version).
#include <numeric>

#include "runtime/data/permutation.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class all_of_it final : public eval_sampler {
 public:
  explicit all_of_it(std::int64_t examples) : examples_(examples) {}
  std::int64_t examples() const override { return examples_; }
  std::vector<std::int64_t> indices(std::uint64_t, std::int64_t first, std::int64_t count) override {
    std::vector<std::int64_t> out(static_cast<std::size_t>(count));
    std::iota(out.begin(), out.end(), first);
    return out;
  }

 private:
  std::int64_t examples_;
};

class some_of_it final : public eval_sampler {
 public:
  some_of_it(std::uint64_t seed, std::int64_t examples, std::int64_t size) : seed_(seed), examples_(examples), order_(0, size) {}
  std::int64_t examples() const override { return examples_; }
  std::vector<std::int64_t> indices(std::uint64_t version, std::int64_t first, std::int64_t count) override {
    return order_.part(sub_key(seed_, version), first, count);
  }
  std::int64_t held_bytes() const override { return order_.bytes(); }

 private:
  std::uint64_t seed_;
  std::int64_t examples_;
  permutation order_;
};

option_specs sample_specs() {
  option_spec examples;
  examples.name = "examples";
  examples.kind = option_kind::integer;
  examples.doc = "number of examples; at most those of the split";
  examples.min = 1;
  option_spec seed;
  seed.name = "seed";
  seed.kind = option_kind::integer;
  seed.fallback = std::int64_t{0};
  seed.doc = "seed of the sample; 0: the job's seed";
  seed.min = 0;
  return {examples, seed};
}

}  // namespace

eval_sampler_type all_eval_sampler_type() {
  return {"all", "The whole split, in its order.", {}, [](const options&, const eval_sampler_config& c) {
            return std::unique_ptr<eval_sampler>(std::make_unique<all_of_it>(c.examples));
          }};
}

eval_sampler_type sample_eval_sampler_type() {
  return {"sample", "A random part of the split, drawn anew for every evaluation, without replacement.", sample_specs(),
          [](const options& o, const eval_sampler_config& c) {
            const auto n = o.integer("examples");
            if (n > c.examples)
              throw option_error("examples",
                                 "a sample of " + std::to_string(n) + " examples from a split of " + std::to_string(c.examples));
            const auto given = static_cast<std::uint64_t>(o.integer("seed"));
            return std::unique_ptr<eval_sampler>(std::make_unique<some_of_it>(given == 0 ? c.seed : given, n, c.examples));
          }};
}

}  // namespace troupe
