// The best evaluation of a job (messages/best_evaluation.hpp), and whether its weights have been
// stored.
//
//   idle --note, better--> pending --stored--> idle        (at a boundary: a collection)
//   pending --fetch--> fetching --take, all layers--> pending --stored--> idle   (from the tester)
//   pending or fetching --give_up--> idle
//
// Invariant: so_far() is an evaluation whose weights have been stored, by this plan of the job or
// an earlier one. Errors: none. Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/coordinator/handover.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

class best_weights {
 public:
  using named_tensors = std::vector<std::pair<std::string, tensor>>;

  // `keeps`: false: note() always returns false.
  best_weights(bool keeps, std::optional<best_evaluation> so_far) : keeps_(keeps), so_far_(so_far) {}

  const std::optional<best_evaluation>& so_far() const { return so_far_; }
  // A round is complete. Returns true if its weights must be stored.
  bool note(const best_evaluation& e);
  bool pending() const { return pending_.has_value(); }
  // The weights of the pending evaluation have been stored. Returns it.
  best_evaluation stored();
  void give_up();

  // --- from the tester: the weights of evaluation round `round`, layer by layer
  void fetch(std::uint64_t round) { round_ = round; }
  bool fetching() const { return round_.has_value(); }
  // Returns false if these are not the weights of one layer of the round, or have been taken.
  bool take(std::uint64_t round, const layer_weights& w, const model_graph& g, dtype type);
  bool complete(const model_graph& g) const;
  named_tensors named(const model_graph& g) const;  // in layer order

 private:
  bool keeps_;
  std::optional<best_evaluation> so_far_, pending_;
  std::optional<std::uint64_t> round_;
  std::map<std::uint32_t, tensors> layers_;
};

}  // namespace troupe
