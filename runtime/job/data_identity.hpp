// What identifies the training data of a job, for a comparison when the job is resumed: a job that
// continues with other examples does not get the weights of an unbroken run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/data/source.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {

// Reads examples of a source, one at a time, in the types in which they are hashed, so that equal
// data has one hash whatever file it is in. The source must outlive it. Threads: one at a time.
class example_hasher {
 public:
  explicit example_hasher(const source& s);
  example_hasher(const example_hasher&) = delete;  // the tensors are views of the vectors
  example_hasher& operator=(const example_hasher&) = delete;

  // Replaces the vectors by those of example `index`, and returns the hash of its values and
  // labels. Throws what source::read throws.
  sha256::digest read(split part, std::int64_t index);

  const std::vector<float>& values() const { return values_; }         // empty: the source has ids
  const std::vector<std::int32_t>& ids() const { return ids_; }        // empty: the source has values
  const std::vector<float>& targets() const { return targets_; }       // empty: the source has labels
  const std::vector<std::int32_t>& labels() const { return labels_; }  // empty: the source has targets

 private:
  const source& source_;
  std::vector<float> values_, targets_;
  std::vector<std::int32_t> ids_, labels_;
  tensor data_, label_;
};

// Hash of the hashes of `examples`, in order.
class hash_of_hashes {
 public:
  void add(const sha256::digest& example) { all_.update(example.data(), example.size()); }
  std::string finish();  // in hexadecimal digits; no add() may follow

 private:
  sha256 all_;
};

// "sha256 HASH": the hash of all training examples and labels that `troupe data` prints. Of more
// than four million values, "sha256 HASH of 64 examples": of 64 examples that are spread evenly, so
// that resuming a job does not read all of its data. Empty if they cannot be read here. The
// identity is kept as long as the source exists: every source is read once. Threads: any.
std::string identity_of(const std::shared_ptr<const source>& data);

}  // namespace troupe
