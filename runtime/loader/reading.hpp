// Reading the examples of one packet from the source; shared by loader and data server.
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

// The source of examples and how to read it.
struct reading_config {
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const source> data;
  std::shared_ptr<const augmentation> augment;  // null: the net receives examples unchanged
  dtype type = dtype::f32;
  std::shared_ptr<eval_sampler> eval;  // not shared between roles, like every sampler
  split eval_split = split::test;
  std::int64_t eval_examples = 0;  // per evaluation packet
};

// Number of packets of one evaluation round, over all workers; packet i is loaded by
// job_plan::eval_worker(i). 0 if there are no examples to evaluate on.
std::uint32_t eval_packets(std::int64_t examples, std::int64_t packet_examples);

struct reading {
  header h;  // step, packet, phase, version
  std::vector<std::int64_t> indices;
  tensor data, label;
};

// Indices of the examples of evaluation packet h.packet, for weights of version h.version. The last
// packet is padded with -1. Throws std::runtime_error if the sampler returns too few or too many.
std::vector<std::int64_t> eval_indices(const reading_config& c, const header& h);

// Reads examples `indices` from the source, applies the augmentation, and writes `data` and `label`
// (both with memory). `h`: their step, packet and phase. Example i is number h.packet *
// indices.size() + i of its step's batch.
void read_examples(const source& from, const augmentation* augment, split part, const header& h,
                   const std::vector<std::int64_t>& indices, device& dev, tensor& data, tensor& label);

// Throws std::runtime_error unless `indices` are `count` examples of the split, or padding. Called
// before examples are read, because a sampler of a plugin may return others.
void check_indices(const source& from, split part, const std::vector<std::int64_t>& indices, std::int64_t count);

// Throws std::runtime_error if an example has a label or id beyond the range that layers of `g`
// look up. Called whenever examples are read, because a source may deliver values that it does not
// declare.
void check_ids(const model_graph& g, split part, const std::vector<std::int64_t>& indices, const tensor& data, const tensor& label);

// Runs a task that fills data and label with the examples of `indices`, with token `token`. Tasks
// of different slots may run at once. The task throws the exceptions of the source, of
// check_indices and of check_ids.
void begin_reading(const std::shared_ptr<reading>& r, const reading_config& c, std::uint64_t token, effects& out,
                   std::uint32_t slot = 0);

}  // namespace troupe
