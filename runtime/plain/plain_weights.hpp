// The parameters of a plain loop: values, state of the update rule, and, if a layer's weights lag
// some steps behind, the versions that are still read. The rule is applied to the sums of a step's
// gradients in the same way as on a shard.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tree/packet_tree.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

class plain_weights {
 public:
  // Starts from the job's given weights or the fillers. `delays`: as in plain_loop.
  plain_weights(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, std::vector<std::uint32_t> delays);

  bool trained(std::uint32_t param) const { return all_[param].trained; }
  // The parameters with which `l` computes step `step`.
  tensors of(const graph_layer& l, std::uint64_t step) const;
  // Copies the current version for later steps, because updates are in place. Call at the beginning
  // of step `step`.
  void keep_version(std::uint64_t step);
  // Applies the gradients of all packets of `step`. `sums`: by layer.
  void update(std::vector<packet_tree<tensors>>& sums, std::uint64_t step);
  // By name, in layer order, on the host.
  std::vector<std::pair<std::string, tensor>> named() const;

 private:
  struct parameter {
    tensor value;
    tensors rule;
    bool trained = false;
  };

  const tensors* sum_of(std::vector<packet_tree<tensors>>& sums, const graph_layer& l) const;
  double square_sum_of(const tensor& x) const;
  double norm_clip(std::vector<packet_tree<tensors>>& sums) const;

  std::shared_ptr<const prepared_job> job_;
  std::shared_ptr<device> dev_;
  std::unique_ptr<rule> rule_;
  std::unique_ptr<schedule> rate_;
  std::vector<std::uint32_t> delays_;          // by layer
  std::map<std::uint64_t, tensors> versions_;  // by step, then parameter; only with delays
  std::vector<parameter> all_;                 // by index in the graph
};

}  // namespace troupe
