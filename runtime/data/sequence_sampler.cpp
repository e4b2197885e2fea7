// lanes: for sequences that continue from example to example (text) and layers that carry state
// from step to step. The split is cut into as many equal parts as the batch has positions (sequence
// slots). Position i reads part i, one example per step. The epoch ends with the parts: then all
// positions restart, and carried state is reset. The remaining examples at the end of the split are
// left out.
#include <cassert>

#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

// Example `at` of the part of position `sequence`; all parts have `length` examples.
std::int64_t example_of(std::int64_t length, std::int64_t sequence, std::int64_t at) { return sequence * length + at; }

class sequence_sampler final : public sampler {
 public:
  explicit sequence_sampler(const sampler_config& c) : batch_(c.batch), length_(c.examples / c.batch) {}

  std::int64_t steps_per_epoch() const override { return length_; }
  bool continues_sequences() const override { return true; }
  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= 0 && count >= 0 && first + count <= batch_);
    std::vector<std::int64_t> out;
    const auto at = static_cast<std::int64_t>(step % static_cast<std::uint64_t>(length_));
    for (auto sequence = first; sequence < first + count; ++sequence) out.push_back(example_of(length_, sequence, at));
    return out;
  }

 private:
  std::int64_t batch_, length_;
};

// The same for an evaluation: its batch has `sequences` positions, and each takes one example in
// turn.
class sequence_eval_sampler final : public eval_sampler {
 public:
  explicit sequence_eval_sampler(const eval_sampler_config& c) : sequences_(c.sequences), length_(c.examples / c.sequences) {}
  std::int64_t examples() const override { return sequences_ * length_; }
  bool continues_sequences() const override { return true; }
  std::vector<std::int64_t> indices(std::uint64_t, std::int64_t first, std::int64_t count) override {
    std::vector<std::int64_t> out;
    for (auto i = first; i < first + count; ++i) out.push_back(example_of(length_, i % sequences_, i / sequences_));
    return out;
  }

 private:
  std::int64_t sequences_, length_;
};

}  // namespace

sampler_type sequence_sampler_type() {
  return {"lanes",
          "Position i of the batch reads the i-th part of the training set in order and restarts with every "
          "epoch: for "
          "text and layers that carry state (algorithm = \"bptt\").",
          {},
          [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
            check_sampler_config(c);
            return std::make_unique<sequence_sampler>(c);
          }};
}

eval_sampler_type sequence_eval_sampler_type() {
  return {"lanes",
          "The split in as many parts as the batch of an evaluation has positions, each read in order: for layers "
          "that carry "
          "state. The remaining examples are left out.",
          {},
          [](const options&, const eval_sampler_config& c) -> std::unique_ptr<eval_sampler> {
            if (c.examples > 0 && c.examples < c.sequences)
              throw option_error("kind", std::to_string(c.sequences) +
                                             " sequences (the batch of an evaluation), but the split has only " +
                                             std::to_string(c.examples) + " examples");
            return std::make_unique<sequence_eval_sampler>(c);
          }};
}

}  // namespace troupe
