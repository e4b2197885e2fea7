// The algorithms of a job's convolutions, chosen once for all nodes: [job] convolution =
// "measured". Which passes are still open (`auto`), what is chosen for them given how long each
// algorithm takes, and the choice as text: as overrides of the job's text, which is all that
// travels, and in a checkpoint. Taking the time is somebody else's
// (runtime/node/convolution_times.hpp): this is pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ops/conv_algorithm.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

class device;

// One pass of a layer's convolution that training makes, of one whole packet.
struct conv_task {
  std::uint32_t layer = 0;
  std::string name;  // of the layer
  conv_pass pass = conv_pass::forward;
  conv_geometry geometry;
};

// All of them, in layer order; `open`: those that are to be measured. None unless the job is
// "measured" and of fp32.
std::vector<conv_task> conv_tasks(const model_graph& g);
std::vector<conv_task> open_conv_tasks(const prepared_job& j);

using conv_times = std::map<conv_algorithm, double>;    // ms of one call, by those that can
using conv_table = std::map<std::string, conv_choice>;  // by layer

// The fastest; but `rule`, what the device would do unasked, unless another is faster by more than
// 3 %: what is as fast is no choice for the noise of a measurement.
conv_algorithm fastest(const conv_times& times, conv_algorithm rule);

// For all layers with an open pass.
conv_table choose_convolutions(const prepared_job& j, const device& d,
                               const std::function<conv_times(const conv_geometry&, conv_pass)>& times);

// "conv1=direct/lowering1/winograd conv2=...", passes in their order. Nothing: it is no such text.
std::string to_text(const conv_table& t);
std::optional<conv_table> conv_table_from(const std::string& text);
// The choice as `--set` would have it.
std::vector<std::string> overrides_of(const conv_table& t);

// The job with this choice. Errors: a layer that is no convolution of it, or an algorithm that it
// or this build cannot.
std::variant<std::shared_ptr<prepared_job>, diagnostics> with_convolutions(const prepared_job& j, const conv_table& t);

// What a checkpoint of a measured job keeps of it, and reads back; other jobs have nothing.
metadata_map convolutions_to_keep(const prepared_job& j);
std::string kept_convolutions(const metadata_map& extra);

}  // namespace troupe
