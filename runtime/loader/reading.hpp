// One packet's examples on their way from the source: what a loader and a data server have in
// common.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/augment.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/source.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/role.hpp"

namespace troupe {

// Where examples come from, shared by the roles that read them.
struct reading_config {
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const source> data;
  std::shared_ptr<const augmentation> augment;  // null: examples go to the net as the source has them
  dtype type = dtype::f32;
  std::shared_ptr<eval_sampler> eval;  // a role's own, like every sampler
  split eval_split = split::test;
  std::int64_t eval_examples = 0;  // of one evaluation packet
};

// Packets of one evaluation round over all workers; packet i is loaded by job_plan::eval_worker(i).
// 0: there is nothing to evaluate on.
std::uint32_t eval_packets(std::int64_t examples, std::int64_t packet_examples);

struct reading {
  header h;  // step, packet, phase, version
  std::vector<std::int64_t> indices;
  tensor data, label;
};

// Examples of evaluation packet h.packet with the weights of h.version; the last packet is padded
// with -1.
std::vector<std::int64_t> eval_indices(const reading_config& c, const header& h);

// Examples `indices` of the source as the net sees them, into `data` and `label` (both backed); h:
// step, packet and phase they are for. Example i is number h.packet * indices.size() + i of its
// step's batch.
void read_examples(const source& from, const augmentation* augment, split part, const header& h,
                   const std::vector<std::int64_t>& indices, device& dev, tensor& data, tensor& label);

// Throws std::runtime_error where an example has a label or an id that a layer of `g` would look up
// and not find, whatever the source says of itself: each time that examples are read.
void check_ids(const model_graph& g, split part, const std::vector<std::int64_t>& indices, const tensor& data, const tensor& label);

// A task that fills data and label with the examples of `indices`; answered by `token`; tasks of
// different slots may run at once. What the source throws, the task throws.
void begin_reading(const std::shared_ptr<reading>& r, const reading_config& c, std::uint64_t token, effects& out,
                   std::uint32_t slot = 0);

}  // namespace troupe
