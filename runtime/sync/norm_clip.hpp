// The update step that clips by the norm of the gradient of all parameters (sync_config::clip_norm
// > 0), in modes in which one complete gradient per step is formed at the shards (bsp,
// sandblaster). It costs one extra round per step: the step computes the norm partials (sums of
// squares) of each block's gradient, sends them to the other shards and holds the gradient. When it
// has the partials of every block of the job, it computes the norm and passes on the gradients that
// it holds, with the clip factor. All shards compute the same norm: parameters are added in layer
// order, and the parts of a parameter in the fixed tree over its elements. Blocks
// that receive no gradient in training, and skipped clocks, pass at once.
//
// Messages per step: for every block, one `norm_partials` to each other shard. Bytes: a few
// numbers.
//
// Invariants:
//   * the clip factor depends on the gradients alone, not on how parameters are cut nor on the
//     order of arrival;
//   * a block is updated once per step, after the factor of the step is known.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/plan/plan.hpp"
#include "runtime/reduce/norm.hpp"
#include "runtime/sync/update_steps.hpp"

namespace troupe {

// The parts over which the norm of a parameter's gradient is summed, chosen so that its bits do not
// depend on the size of blocks (topology.max_block). If all blocks of the parameter begin at groups
// of elements (reduce/norm.hpp), the whole parameter is one part, for any number of shards and
// blocks. If a placed layer is cut elsewhere, each of its parts is summed by itself: over the
// part's own groups of elements or, if the part is a range of columns, over its rows. Pure
// functions.
struct norm_part {
  bool rows = false;                  // summed row by row
  std::int64_t total = 0;             // number of rows, or of elements
  std::vector<std::uint32_t> blocks;  // ids of its blocks, in order
};

// The parts of parameter `param`, which has `elements` elements, in the order in which they are
// added.
std::vector<norm_part> norm_parts(const std::vector<param_block>& blocks, std::uint32_t param, std::int64_t elements);

// The position of a block in its part: first row or element, and their number in the part.
struct place_in_part {
  std::int64_t begin = 0, total = 0;
};
place_in_part place_in_norm_part(const std::vector<param_block>& blocks, const param_block& b, std::int64_t elements);

class norm_clip final : public update_step {
 public:
  explicit norm_clip(const shard_parts& p);
  static std::unique_ptr<update_step> make(const shard_parts& p) {
    return p.config.clip_norm > 0 ? std::make_unique<norm_clip>(p) : nullptr;
  }

  void take(complete_gradient g, effects& out) override;
  std::optional<drop_reason> take_message(const envelope& e, effects& out) override;

 private:
  struct round {
    std::map<std::uint32_t, std::vector<square_sum>> parts;  // by block id
    std::vector<complete_gradient> held;                     // of this shard's blocks
  };

  bool counts(const param_block& b) const;
  void measured(std::uint32_t block, std::uint64_t step, std::vector<square_sum> found, effects& out);
  std::optional<drop_reason> add(std::uint32_t block, std::uint64_t step, std::vector<square_sum> parts, effects& out);
  std::vector<double> sums_of_squares(const round& r) const;

  std::size_t expected_ = 0;                      // number of blocks that receive a gradient
  std::vector<std::vector<norm_part>> parts_of_;  // by parameter, in layer order
  std::uint64_t next_ = 0;                        // first step whose factor is not known
  std::map<std::uint64_t, round> rounds_;         // by step
};

}  // namespace troupe
