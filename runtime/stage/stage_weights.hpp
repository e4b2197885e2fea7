// The versions of its layers' weights that a stage has, by the layer's position in it, and which of
// them a packet meets by the job's weight rule (plan/warm_up.hpp): drain and stash exactly one
// version, latest the newest, if it is new enough.
// Bound: a layer with delay d has at most d + 1 versions (stash), else one, and those that roles
// which were restarted may still want.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/plan/plan.hpp"
#include "runtime/stage/stage_slot.hpp"

namespace troupe {

class stage_weights {
 public:
  using entry = std::pair<const std::uint64_t, tensors>;  // version, parameters
  struct layer_wants {
    bool parameters = false;  // a layer without has no versions, and wants none
    std::uint64_t delay = 0;
  };
  // Restarted roles may ask for packets from this step on. None: nobody is restarted by itself.
  using kept_from = std::optional<std::uint64_t>;

  stage_weights(const std::vector<layer_wants>& layers, weight_rule rule, std::uint64_t first_step);

  // False: they are too old for any packet to come.
  bool take(std::size_t position, std::uint64_t version, tensors values, kept_from kept);
  // Lets go of versions that no packet to come can want.
  void forget(kept_from kept);

  // What a packet meets in the layer at `position`; null: not here, or it wants none.
  const entry* of(const header& h, std::size_t position) const;
  bool here_for(const header& h) const;
  // Weights of some layer have gone on beyond this version.
  bool beyond(std::uint64_t version) const;

  bool wanted(std::size_t position) const { return all_[position].wants.parameters; }
  std::uint64_t newest(std::size_t position) const { return all_[position].newest; }  // that has come; 0: none
  std::uint64_t newest() const;                                                       // of all layers
  const tensors& newest_values(std::size_t position) const;

  // Takes note of how many versions are here, those that packets under way hold included.
  void count(const std::vector<std::shared_ptr<stage_slot>>& slots);
  std::uint32_t most() const { return max_; }  // of one layer, at once

 private:
  struct versions {
    layer_wants wants;
    bool any = false;
    std::uint64_t newest = 0;
    std::map<std::uint64_t, tensors> here;
  };
  std::uint64_t wanted_by(const header& h, const versions& v) const;
  std::uint64_t oldest_wanted(const versions& v, kept_from kept) const;

  std::vector<versions> all_;
  weight_rule rule_;
  std::uint64_t first_step_;
  std::uint32_t max_ = 0;
};

}  // namespace troupe
