// did_you_mean() has a file of its own because it is the only function of this folder that needs
// ops: libtroupe_exchange links this folder without ops.
#include "ops/options.hpp"
#include "runtime/base/other_words.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 80;  // the cost of the edit distance grows with the length
  if (word.size() > longest) return {};
  if (const auto meant = words_for(word, candidates); !meant.empty()) {
    std::vector<std::string> quoted;
    for (const auto& m : meant) quoted.push_back(in_quotes(m));
    const bool spelt = other_spelling(word, meant.front());
    return spelt ? "; did you mean " + quoted.front() + "?" : "; Troupe calls it " + joined(quoted, " or ");
  }
  const auto near = nearest_word(word, candidates);
  return near.empty() ? std::string() : "; did you mean " + in_quotes(near) + "?";
}

}  // namespace troupe
