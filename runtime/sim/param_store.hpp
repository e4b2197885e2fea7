// Hogwild's shared parameters in virtual time (Niu, Recht, Re, Wright 2011): one array per block
// that all roles of a node read and add to without a lock. In production an addition is, element by
// element, a relaxed load and a relaxed store. Here a block is cut into chunks; an addition loads
// each chunk and stores the sum some time later. Two additions that overlap in time interleave: a
// value stored between the other's load and store is lost, and counted.
//
// An operation over n chunks has n + 1 moments, evenly spread over its duration: at moment k it
// stores chunk k - 1 and loads chunk k.
// Invariants: values within a chunk are never torn; an addition is applied at most once; without
// overlap no addition is lost. Without a device no values are stored, and the same losses are
// counted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe::sim {

class param_store {
 public:
  enum class kind : std::uint8_t { read, add, write };

  // `value`: read: the destination (gets memory); add: the addend; write: the block's new content.
  // Returns the number of the operation.
  std::uint32_t begin(kind what, std::uint32_t block, std::shared_ptr<tensor> value);
  // Returns the number of moments of the operation, at least 2.
  std::uint32_t moments(std::uint32_t operation) const;
  // Runs the next moment of the operation. Returns true if it was the last one; the operation's
  // number is then free.
  bool advance(std::uint32_t operation, device* dev);

  std::uint64_t additions() const { return additions_; }  // of a chunk each
  std::uint64_t lost() const { return lost_; }            // additions overwritten by one that had not loaded them
  static constexpr std::int64_t chunk_elements = 1024;
  static constexpr std::int64_t max_chunks = 32;

 private:
  struct array {
    tensor value;
    std::vector<std::uint64_t> writes;  // by chunk
    std::int64_t count = 0;
  };
  struct pending {
    kind what = kind::read;
    std::uint32_t block = 0;
    std::shared_ptr<tensor> value;
    std::uint32_t moment = 0;
    tensor loaded;           // add: the chunk as loaded
    std::uint64_t seen = 0;  // number of writes to the chunk at that time
  };
  struct range {
    std::int64_t begin, count;
  };

  array& block_of(const pending& o, device* dev);
  static std::uint32_t chunks_of(std::int64_t count);
  static range chunk(const array& b, std::uint32_t k);
  void load(pending& o, array& b, std::uint32_t k, device* dev);
  void store(pending& o, array& b, std::uint32_t k, device* dev);

  std::map<std::uint32_t, array> blocks_;
  std::vector<pending> operations_;
  std::vector<std::uint32_t> free_;
  std::uint64_t additions_ = 0, lost_ = 0;
};

}  // namespace troupe::sim
