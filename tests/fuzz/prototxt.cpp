// Fuzz target: nets and solvers of Caffe in the text format of Protocol Buffers. A text that can be
// read is printed, read again, and translated into a job.
#include "runtime/node/models/caffe/prototxt.hpp"

#include "runtime/node/models/caffe/import_files.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_prototxt(input in) {
  const auto all = text(in);
  const auto tree = caffe::parse_prototxt(all, "fuzz.prototxt");
  if (!tree) return must(!tree.error().empty() && tree.error()[0].at.line > 0, "refused without a place");
  const auto printed = caffe::prototxt_of(*tree);
  const auto again = caffe::parse_prototxt(printed, "printed");
  must(again && caffe::prototxt_of(*again) == printed, "its own text is read as another tree");
  const auto made = caffe::import_texts({{"fuzz.prototxt", all}}, {});
  if (!made) return must(!made.error().empty(), "refused without a reason");
  must(!made->job.empty() && made->weights.empty(), "a net without layers, or weights from nowhere");
}

std::vector<std::string> sound_prototxt() {
  return {
      "name: \"n\" input: \"data\" input_dim: 4 input_dim: 3 input_dim: 8 input_dim: 8\n"
      "layer { name: \"c\" type: \"Convolution\" bottom: \"data\" top: \"c\" param { lr_mult: 1 } param { lr_mult: 2 }\n"
      "  convolution_param { num_output: 4 kernel_h: 1 kernel_w: 3 pad_w: 1 weight_filler { type: \"gaussian\" std: 1e-2 } } } # a "
      "comment\n"
      "layer { name: \"bn\" type: \"BatchNorm\" bottom: \"c\" top: \"c\" } layer { name: \"sc\" type: \"Scale\" bottom: \"c\" top: "
      "\"c\" scale_param { bias_term: true } }\n"
      "layer { name: \"r\" type: \"ReLU\" bottom: \"c\" top: \"c\" include { phase: TRAIN } include { phase: TEST } }\n"
      "layer { name: \"p\" type: \"Pooling\" bottom: \"c\" top: \"p\" pooling_param { pool: AVE global_pooling: true } }\n"
      "layer { name: \"prob\" type: \"Softmax\" bottom: \"p\" top: \"prob\" }\n",
      "layers < name: 'd' type: DATA top: \"d\" top: \"l\" data_param: { source: \"a\\n\\101\" batch_size: 0x10 backend: LMDB } >\n"
      "layers { name: \"s\" type: SLICE bottom: \"d\" top: \"a\" top: \"b\" slice_param { slice_point: [1] } }\n"
      "layers { name: \"x\" type: CONCAT bottom: \"a\" bottom: \"b\" top: \"x\"; concat_param { concat_dim: 1, } }\n"
      "layers { name: \"f\" type: INNER_PRODUCT bottom: \"x\" top: \"f\" blobs_lr: 1 blobs_lr: 2 inner_product_param { num_output: "
      "10 } gpu_0_batch_proportion: .5 }\n"
      "layers { name: \"e\" type: SOFTMAX_LOSS bottom: \"f\" bottom: \"l\" loss_weight: 0.3f }\n",
      "net: \"a.prototxt\" base_lr: 1e-3 lr_policy: \"multistep\" gamma: 0.1 stepvalue: [10, 20] max_iter: 30 momentum: 0.9\n",
      "start_layer: \"fc\" end_layers: \"loss\" node_info { position: 1 }\n"};
}

const entry prototxt_entry({"prototxt", read_prototxt, sound_prototxt});

}  // namespace
}  // namespace troupe::fuzz
