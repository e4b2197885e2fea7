// Answers to lines of a REPL in one or more messages. All pieces but the last have `more` set; the
// last one has the outcome and the next line. They arrive in order on one connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/fitting.hpp"
#include "runtime/cluster/messages.hpp"

namespace troupe::control {

// fitted_answer() cuts longer ones. Half of what a daemon queues for a client that does not read.
constexpr std::size_t longest_answer = 2 * max_message;

std::vector<answer> in_pieces(answer whole);

// Joins the pieces of the answer to one request. A value.
class answer_pieces {
 public:
  // Returns the whole answer with its last piece. Pieces of other requests are ignored. Text beyond
  // `longest_answer` is dropped; no daemon of this protocol sends it.
  std::optional<answer> take(const answer& piece, std::uint64_t id) {
    if (piece.id != id) return std::nullopt;
    text_.append(piece.text, 0, longest_answer - text_.size());
    if (piece.more) return std::nullopt;
    auto whole = piece;
    whole.text = std::exchange(text_, {});
    return whole;
  }

 private:
  std::string text_;
};

}  // namespace troupe::control
