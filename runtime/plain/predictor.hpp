// Computes the outputs of a trained net for examples: the layers of the test phase in a plain loop,
// without roles. A batch has the size of a packet of the job's evaluation, so results are
// bit-identical to those that `troupe test` counts. Layers that carry state from step to step in
// training (algorithm "bptt") begin every example with zeros, as evaluations do unless their
// sampler continues sequences.
// Errors: make() returns a diagnostic; exceptions of a source or layer pass through run().
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/model/maths_steps.hpp"
#include "runtime/plain/prediction.hpp"

namespace troupe {

class predictor {
 public:
  // `j` has its weights (begin_from_weights). `layer`: whose first output to compute; empty: the
  // prediction that the job's loss compares with the targets.
  // `batch`: examples of run(); 0: of an evaluation.
  static expected<std::unique_ptr<predictor>, diagnostic> make(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d,
                                                               const std::string& layer, std::int64_t batch = 0);
  ~predictor();

  answer meaning() const { return meaning_; }
  std::int64_t batch() const { return batch_; }          // examples of run()
  std::int64_t positions() const { return positions_; }  // answers for each example, > 1 for sequences
  std::int64_t width() const { return width_; }          // values of each answer
  std::int64_t classes() const;                          // 0: numbers. A single score says yes or no: 2 classes

  // What the net computed for a batch.
  struct result {
    std::vector<double> values;        // [examples][positions][width]
    std::vector<std::int32_t> labels;  // [examples][positions], or of the source's own size; -1: none
    std::vector<double> targets;       // [examples][label...], if the source's labels are values
  };
  // Reads examples [first, first + batch()) of the source's test split, as far as there are any,
  // applies the job's augmentation for tests, and runs the net. `from` has the shape and the type
  // of the job's own source.
  result run(const source& from, std::int64_t first);
  // Computes batch() examples of the net's input, in an f32 job without augmentation whose data are
  // values. `out`: [batch][positions][width].
  void compute(const float* examples, float* out);

 private:
  struct layer_state;
  predictor(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, tensor_ref what, answer meaning, std::int64_t batch);
  void find_steps();
  tensor forward(const tensor& data);
  void step_forward(const maths_step& step, const tensor& data);
  shape sized(const shape& s) const;

  std::shared_ptr<const prepared_job> job_;
  std::shared_ptr<device> dev_;
  tensor_ref what_;
  answer meaning_;
  std::int64_t batch_ = 0, positions_ = 1, width_ = 1;
  std::vector<const graph_layer*> needed_;  // layers that the output depends on, in order
  std::vector<maths_step> steps_;           // over `needed_`
  std::vector<layer_state> state_;          // by layer of the graph
};

}  // namespace troupe
