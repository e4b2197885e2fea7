// The reducer of a node whose workers leave their sums on their own devices: it adds all sums of a
// block and step in one call of device::sum_across (on GPUs: NCCL), and passes the result up.
//
// Invariant: a sum is sent once all packets of the node's workers are in it. Its bits depend on the
// device and on the number of workers, not on the order of arrival.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/reduce/passing_reducer.hpp"

namespace troupe {

class device_reducer final : public passing_reducer {
 public:
  explicit device_reducer(reducer_config c);

 private:
  struct gathering {
    std::map<std::uint32_t, tensor> parts;  // by first packet
    std::uint32_t packets = 0;
  };

  void add(const header& h, const push& p, effects& out) override;
  void forget(std::uint32_t block, std::uint64_t before) override;
  std::size_t open() const override;

  std::map<role_id, std::vector<tree_node>> sent_;        // by role below: the sums that it sends of a block and step
  std::uint32_t packets_ = 0;                             // of the workers below
  tree_node whole_;                                       // these packets
  std::vector<std::map<std::uint64_t, gathering>> open_;  // by block, step
};

}  // namespace troupe
