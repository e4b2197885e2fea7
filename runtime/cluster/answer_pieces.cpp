#include "runtime/cluster/answer_pieces.hpp"

namespace troupe::control {

std::vector<answer> in_pieces(answer whole) {
  constexpr std::size_t each = max_message / 2;  // `next` has at most the other half
  const auto text = fitted_answer(whole.text, longest_answer);
  std::vector<answer> pieces;
  std::size_t at = 0;
  for (; text.size() - at > each; at += each) pieces.push_back({whole.id, whole.how, text.substr(at, each), {}, true});
  whole.text = text.substr(at);
  pieces.push_back(std::move(whole));
  return pieces;
}

}  // namespace troupe::control
