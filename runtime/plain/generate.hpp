// Text from a trained net, one character after the other: the net of a job whose data is text,
// unrolled over one step, its state carried from character to character. The distribution behind a
// text is softmax(scores / temperature), scores being what the job's loss reads; drawn with the
// counter-based stream of the seed, so the same seed gives the same text. Temperature 0: always the
// likeliest.  Graves 2013, section 3.
// Errors: make_generator gives a message.  Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe {

class text_generator {
 public:
  text_generator(model_graph graph, std::shared_ptr<const job_spec> spec, std::vector<std::string> symbols,
                 std::vector<tensors> params, tensor_ref scores, std::shared_ptr<device> d);
  ~text_generator();

  // The numbers of the characters of `text`; false: `error` names the first one that the vocabulary
  // does not have.
  bool encode(const std::string& text, std::vector<std::int32_t>& ids, std::string& error) const;
  const std::vector<std::string>& symbols() const { return symbols_; }

  // Reads one character.
  void read(std::int32_t id);
  // What may come next, by number, after what has been read; sums to 1.
  std::vector<double> next(double temperature) const;

 private:
  std::shared_ptr<const job_spec> spec_;  // the graph's layers refer to it
  model_graph graph_;
  std::vector<std::string> symbols_;
  std::vector<tensors> params_, carried_;  // by layer
  std::vector<std::unique_ptr<plan>> plans_;
  tensor_ref scores_;
  std::vector<double> last_;
  std::uint64_t at_ = 0;
  std::shared_ptr<device> dev_;
};

// The generator of a prepared job with these weights (which check_weights() has passed); else what
// is wrong, and where.
std::variant<std::unique_ptr<text_generator>, diagnostic> make_generator(const prepared_job& j,
                                                                         const std::vector<std::pair<std::string, tensor>>& weights,
                                                                         std::shared_ptr<device> d);

// `length` characters after `prompt`. The text has only what was drawn; nats is the mean of -log of
// its characters' probabilities.
struct generated {
  std::string text;
  double nats = 0;
};
generated generate(text_generator& g, const std::vector<std::int32_t>& prompt, std::int64_t length, double temperature,
                   std::uint64_t seed);

}  // namespace troupe
