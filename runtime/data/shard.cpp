// shard: every worker has its own part of the data, fixed for the whole job and proportional to its
// share of the batch, and takes it in a new order every epoch. Two workers never see the same
// example. An epoch is one pass over all parts, examples / batch steps; the remainder is dropped
// (other examples every time).
//
// Part of worker w: positions [n * before / all, n * (before + share) / all) of the source, where
// `before` is the sum of the shares of the workers before it. With deal = "random", for sources
// sorted by class, they are positions of one fixed random order of the source (key sub_key(seed,
// all ones)). Order in epoch e: permutation.hpp's for sub_key(worker_seed(seed, w), e), so that a
// single worker with deal = "blocks" has the order of `shuffle`.
#include <cassert>
#include <optional>

#include "runtime/data/permutation.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class shard_sampler final : public sampler {
 public:
  shard_sampler(const sampler_config& c, bool random)
      : seed_(worker_seed(c.seed, c.worker)), deal_(sub_key(c.seed, ~std::uint64_t{0})), order_(0, 0) {
    const auto [own, before, all, largest] = shares_of(c);
    share_ = own;
    steps_ = c.examples / all;
    if (steps_ == 0)
      throw option_error("batch", "the workers take " + std::to_string(all) + " examples per step, but the training set has only " +
                                      std::to_string(c.examples));
    __extension__ using wide = __int128;
    const auto cut = [&](std::int64_t at) { return static_cast<std::int64_t>(static_cast<wide>(c.examples) * at / all); };
    const auto begin = cut(before), end = cut(before + share_.count);
    assert(end - begin >= steps_ * share_.count);
    order_ = permutation(begin, end);
    if (random) dealt_.emplace(0, c.examples);
  }

  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t held_bytes() const override { return order_.bytes() + (dealt_ ? dealt_->bytes() : 0); }
  bool by_worker() const override { return true; }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= share_.first && first + count <= share_.first + share_.count);
    const auto steps = static_cast<std::uint64_t>(steps_);
    auto out = order_.part(sub_key(seed_, step / steps),
                           static_cast<std::int64_t>(step % steps) * share_.count + first - share_.first, count);
    if (dealt_)
      for (auto& i : out) i = dealt_->at(deal_, i);
    return out;
  }

 private:
  std::uint64_t seed_, deal_;
  worker_share share_;
  std::int64_t steps_ = 0;
  permutation order_;
  std::optional<permutation> dealt_;  // of the whole source
};

option_specs shard_specs() {
  option_spec deal;
  deal.name = "deal";
  deal.kind = option_kind::text;
  deal.fallback = std::string("blocks");
  deal.doc = "how the parts are cut: blocks of the source, or random (for a source sorted by class)";
  deal.choices = {"blocks", "random"};
  return {deal};
}

}  // namespace

sampler_type shard_sampler_type() {
  return {
      "shard",
      "Every worker has its own fixed part of the training set, as large as its share of the batch, in a new order every epoch. "
      "Weights depend on the number of workers.",
      shard_specs(), [](const options& o, const sampler_config& c) -> std::unique_ptr<sampler> {
        check_sampler_config(c);
        return std::make_unique<shard_sampler>(c, o.text("deal") == "random");
      }};
}

}  // namespace troupe
