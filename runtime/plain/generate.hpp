// Generates text with a trained net, one character at a time. A recurrent net of a job whose data
// is text is unrolled over one step, with its state carried from character to character. Another
// net reads the last `sequence` characters anew for each character, from the first place on; what
// is behind the last one is padding, which causal layers do not read. The next character is drawn
// from softmax(scores / temperature), where the scores are the input of the job's loss, with the
// counter-based stream of the seed; the same seed gives the same text. Temperature 0: always the
// most probable character.  Graves 2013, section 3.
// Errors: make_generator returns a message.  Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

class text_generator {
 public:
  text_generator(model_graph graph, std::shared_ptr<const job_spec> spec, std::vector<std::string> symbols,
                 std::vector<tensors> params, tensor_ref scores, std::shared_ptr<device> d);
  ~text_generator();

  // The ids of the characters of `text`. An error names a character that the vocabulary lacks.
  expected<std::vector<std::int32_t>> encode(const std::string& text) const;
  const std::vector<std::string>& symbols() const { return symbols_; }

  // Reads one character.
  void read(std::int32_t id);
  // The probabilities of the next character, by id, after the characters read so far; sum 1.
  std::vector<double> next(double temperature) const;

 private:
  std::shared_ptr<const job_spec> spec_;  // the graph's layers refer to it
  model_graph graph_;
  std::vector<std::string> symbols_;
  std::vector<tensors> params_, carried_;  // by layer
  std::vector<std::unique_ptr<plan>> plans_;
  tensor_ref scores_;
  std::vector<std::int32_t> recent_;  // the last characters, at most as many as the net has steps
  std::vector<double> last_;
  std::uint64_t at_ = 0;
  std::shared_ptr<device> dev_;
};

// Makes the generator of a prepared job with these weights, which have passed check_weights().
// Returns a diagnostic if the job cannot generate text.
expected<std::unique_ptr<text_generator>, diagnostic> make_generator(const prepared_job& j,
                                                                     const std::vector<std::pair<std::string, tensor>>& weights,
                                                                     std::shared_ptr<device> d);

// Draws `length` characters after `prompt`. `text` has the drawn characters only; `nats` is the
// mean of -log of their probabilities.
struct generated {
  std::string text;
  double nats = 0;
};
generated generate(text_generator& g, const std::vector<std::int32_t>& prompt, std::int64_t length, double temperature,
                   std::uint64_t seed);

}  // namespace troupe
