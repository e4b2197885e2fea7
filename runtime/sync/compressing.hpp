// Gradients that travel encoded (spec/codec_spec.hpp, reduce/codec.hpp): encoding by the worker
// before a push, decoding by the shard after it. Both run as tasks, because they read and write
// tensor values, and work in host memory.
//
// A worker keeps the encoding error (the residual) of each block and packet-tree node that it
// pushes, and adds it to the next step's sum. Residuals belong to one worker sync and one plan. A
// worker sync that is created anew (move, node failure, resume from a checkpoint) starts
// without residuals: the old ones are lost, and are never applied twice.
//
// Threads: `residuals` belongs to one role. Its tensors are accessed by tasks of that role, which
// run one after the other.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/messages/message.hpp"
#include "runtime/role.hpp"
#include "runtime/spec/codec_spec.hpp"

namespace troupe {

// By (block, first packet of the tree node): one value per element of the block, in host memory. An
// empty tensor means all zero; the first task that needs it allocates it.
using residuals = std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<tensor>>;

// The pushes of one sum. One task encodes them all.
struct encoded_pushes {
  struct one {
    codec_spec codec;
    envelope sent;  // a push whose tensor is declared by add() and filled by encode()
    tensor sum;
    std::shared_ptr<tensor> residual;
  };
  std::vector<one> list;

  void add(const codec_spec& c, envelope e, residuals& kept);
  task_cost cost() const;
  void encode(device& d);
};

// Returns true if type and size of `t` fit an encoding of n values. The content is checked by
// decode(); in simulations without maths there is none.
bool may_be_encoded(const codec_spec& c, const tensor& t, std::int64_t n, dtype type);

struct encoded_block {
  encoded_block(const codec_spec& c, tensor from, std::int64_t n, dtype type)
      : codec(c), bytes(std::move(from)), value(tensor::declare({n}, type)) {}
  codec_spec codec;
  tensor bytes, value;  // u8; the decoded values, which have memory after decode()
  bool wrong = false;   // set by decode(): the bytes are not a valid encoding

  task_cost cost() const;
  void decode(device& d);
};

}  // namespace troupe
