// Hogwild's shared parameters in virtual time (Niu, Recht, Re, Wright 2011): one array per block
// that all roles of a node read and add to without a lock. In production an addition is, element by
// element, a relaxed load and a relaxed store; here a block is cut into chunks, and of each chunk
// an addition loads what is there and a while later stores the sum. Two additions that overlap in
// time interleave, and what one stores between the other's load and store is lost, and counted.
//
// An operation over n chunks has n + 1 moments, evenly spread over its time: at moment k it stores
// chunk k - 1 and loads chunk k.
// Invariants: within a chunk nothing is torn; an addition is applied at most once; without overlap
// nothing is lost. Without a device nothing is stored, and the same is counted.
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

  // `value`: read: where to (gets memory); add: what; write: the block's new content.
  std::uint32_t begin(kind what, std::uint32_t block, std::shared_ptr<tensor> value);
  // How many moments the operation has: at least 2.
  std::uint32_t moments(std::uint32_t operation) const;
  // Its next moment has come. True when it was the last one: the operation is over and its number
  // free.
  bool advance(std::uint32_t operation, device* dev);
  // The node has crashed.
  void clear();

  std::uint64_t additions() const { return additions_; }  // of a chunk
  std::uint64_t lost() const { return lost_; }            // of them, overwritten by one that had not seen them
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
    tensor loaded;           // add: the chunk as it was
    std::uint64_t seen = 0;  // its writes by then
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
