// The parameters of a plain loop: their values, what the update rule remembers of each, and, where
// a layer's weights are some steps behind, the versions that are still read. The rule is applied to
// the sums of a step's gradients as a shard applies it.
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
  // What the job has been given, or the fillers. `delays`: as plain_loop has them.
  plain_weights(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, std::vector<std::uint32_t> delays);

  bool trained(std::uint32_t param) const { return all_[param].trained; }
  // What `l` computes step `step` with.
  tensors of(const graph_layer& l, std::uint64_t step) const;
  // Updates are made in place: what a later step reads of this one's version is a copy. To be
  // called when step `step` begins.
  void keep_version(std::uint64_t step);
  // With the gradients of all packets of `step`, by layer.
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
  std::map<std::uint64_t, tensors> versions_;  // by step, parameter; with delays only
  std::vector<parameter> all_;                 // by index in the graph
};

}  // namespace troupe
