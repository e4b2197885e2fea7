// The versions of weights that a stage holds, by the layer's position in the stage, and which
// version a packet uses under the job's weight rule (plan/warm_up.hpp): under drain and stash
// exactly one version, under latest the newest, if it is new enough.
// Bound: a layer with delay d has at most d + 1 versions (stash) or one (other rules).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/plan/plan.hpp"
#include "runtime/stage/stage_slot.hpp"

namespace troupe {

class stage_weights {
 public:
  using entry = std::pair<const std::uint64_t, tensors>;  // version, parameters
  struct layer_wants {
    bool parameters = false;  // false: the layer has no parameters, hence no versions
    std::uint64_t delay = 0;
  };
  stage_weights(const std::vector<layer_wants>& layers, weight_rule rule, std::uint64_t first_step);

  // Returns false, and drops the values, if no future packet can use a version this old.
  bool take(std::size_t position, std::uint64_t version, tensors values);

  // The version that a packet uses in the layer at `position`. Null if it has not arrived, or the
  // layer has no parameters.
  const entry* of(const header& h, std::size_t position) const;
  bool here_for(const header& h) const;
  // Returns true if a layer has weights newer than `version`.
  bool beyond(std::uint64_t version) const;

  bool wanted(std::size_t position) const { return all_[position].wants.parameters; }
  std::uint64_t newest(std::size_t position) const { return all_[position].newest; }  // received so far; 0: none
  std::uint64_t newest() const;                                                       // over all layers
  const tensors& newest_values(std::size_t position) const;

  // Updates most() with the versions held now, including those that packets in flight hold.
  void count(const std::vector<std::unique_ptr<stage_slot>>& slots);
  std::uint32_t most() const { return max_; }  // versions of one layer held at once

 private:
  struct versions {
    layer_wants wants;
    bool any = false;
    std::uint64_t newest = 0;
    std::map<std::uint64_t, tensors> here;
  };
  std::uint64_t wanted_by(const header& h, const versions& v) const;
  std::uint64_t oldest_wanted(const versions& v) const;

  std::vector<versions> all_;
  weight_rule rule_;
  std::uint64_t first_step_;
  std::uint32_t max_ = 0;
};

}  // namespace troupe
