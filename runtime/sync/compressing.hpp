// Gradients that travel encoded (spec/codec_spec.hpp, reduce/codec.hpp): what a worker does before
// it pushes them, and a shard before it takes them. Both in tasks: these touch memory, and it is
// the host's.
//
// A worker keeps what its encoding lost, for each block and node of the packet tree that it pushes,
// and adds it to the next step's sum. That is the worker's and of this plan: a worker that is begun
// anew (a restart, a move, a loss of nodes, a checkpoint that a job goes on from) begins with
// nothing kept. What was kept is then lost: it never comes twice.
//
// Threads: `residuals` belongs to one role, and its tensors to the tasks of that role, which run
// one after the other.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/messages/message.hpp"
#include "runtime/role.hpp"
#include "runtime/spec/codec_spec.hpp"

namespace troupe {

// By block and first packet of the node: values of the block, with the host; empty: all zero. Made
// by the task that first needs it.
using residuals = std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<tensor>>;

// The pushes of one sum that are encoded in one task.
struct encoded_pushes {
  struct one {
    codec_spec codec;
    envelope sent;  // its push has the sum until encode(), the encoding after it
    tensor sum;
    std::shared_ptr<tensor> residual;
  };
  std::vector<one> list;

  void add(const codec_spec& c, envelope e, residuals& kept);
  task_cost cost() const;
  void encode(device& d);
};

// May these be the bytes of n values? Without maths they have no values to look at.
bool may_be_encoded(const codec_spec& c, const tensor& t, std::int64_t n, dtype type);

struct encoded_block {
  encoded_block(const codec_spec& c, tensor from, std::int64_t n, dtype type)
      : codec(c), bytes(std::move(from)), value(tensor::declare({n}, type)) {}
  codec_spec codec;
  tensor bytes, value;  // of u8; of the block's values, which have memory after decode()
  bool wrong = false;   // the bytes are no encoding

  task_cost cost() const;
  void decode(device& d);
};

}  // namespace troupe
