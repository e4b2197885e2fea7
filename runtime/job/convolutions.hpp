// Chooses the algorithms of a job's convolutions once for all nodes ([job] convolution =
// "measured"): which passes are open (`auto`), the choice given the time of each algorithm, and the
// choice as text, in overrides of the job's text (which are sent to the nodes) and in checkpoints.
// Pure: runtime/node/convolution_times.hpp measures the times.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/conv_algorithm.hpp"
#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

class device;

// One pass of a layer's convolution, for one whole packet.
struct conv_task {
  std::uint32_t layer = 0;
  std::string name;  // of the layer
  conv_pass pass = conv_pass::forward;
  conv_geometry geometry;
};

// Returns all passes, in layer order.
std::vector<conv_task> conv_tasks(const model_graph& g);
// Returns the passes to be measured; empty unless the job is "measured" and its precision fp32.
std::vector<conv_task> open_conv_tasks(const prepared_job& j);

using conv_times = std::map<conv_algorithm, double>;    // ms of one call, for each algorithm that supports the pass
using conv_table = std::map<std::string, conv_choice>;  // by layer

// Returns the fastest algorithm if it is more than 3 % faster than `rule`, the choice of the
// device's rule; else `rule`. Smaller differences are within the noise of the measurement.
conv_algorithm fastest(const conv_times& times, conv_algorithm rule);

// Chooses the algorithms of all layers with an open pass.
conv_table choose_convolutions(const prepared_job& j, const device& d,
                               const std::function<conv_times(const conv_geometry&, conv_pass)>& times);

// Returns text such as "conv1=direct/lowering1/winograd conv2=..."; forward, data, weights.
std::string to_text(const conv_table& t);
// Reads such a text. Returns nullopt if it is malformed.
std::optional<conv_table> conv_table_from(const std::string& text);
// Returns the choice as overrides, as given to `--set`.
std::vector<std::string> overrides_of(const conv_table& t);

// Prepares the job with this choice. Errors: a layer that is not a convolution of the job, or an
// algorithm that the layer or this build does not support.
expected<std::shared_ptr<prepared_job>, diagnostics> with_convolutions(const prepared_job& j, const conv_table& t);

// Returns the choice as metadata of a checkpoint; empty unless the job is "measured".
metadata_map convolutions_to_keep(const prepared_job& j);
// Returns the text of the choice from such metadata; empty if it has none.
std::string kept_convolutions(const metadata_map& extra);

}  // namespace troupe
