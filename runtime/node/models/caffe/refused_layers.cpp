#include "runtime/node/models/caffe/refused_layers.hpp"

#include <map>
#include <set>

#include "runtime/base/wording.hpp"

namespace troupe::caffe {
namespace {

enum class instead : std::uint8_t { plugin, backbone, other_loss, softmax_loss, lstm, input };

instead advice_for(const std::string& type) {
  static const std::map<std::string, instead> advice{{"CPMData", instead::input},
                                                     {"CenterLoss", instead::other_loss},
                                                     {"ContrastiveLoss", instead::other_loss},
                                                     {"ImageLabelmapData", instead::input},
                                                     {"InfogainLoss", instead::other_loss},
                                                     {"LSTM", instead::lstm},
                                                     {"LaneData", instead::input},
                                                     {"MarginInnerProduct", instead::other_loss},
                                                     {"MultinomialLogisticLoss", instead::softmax_loss},
                                                     {"PSROIAlign", instead::backbone},
                                                     {"PSROIPooling", instead::backbone},
                                                     {"Proposal", instead::backbone},
                                                     {"RNN", instead::lstm},
                                                     {"ROIAlign", instead::backbone},
                                                     {"ROIPooling", instead::backbone},
                                                     {"TripletLoss", instead::other_loss}};
  const auto found = advice.find(type);
  return found == advice.end() ? instead::plugin : found->second;
}

std::string text_of(instead what) {
  switch (what) {
    case instead::backbone:
      return "it reads boxes of an image. Remove it and the layers that need its output; the layers before it can be imported";
    case instead::other_loss: return "put another loss in its place, such as SoftmaxWithLoss, or write it as a layer of a plugin";
    case instead::softmax_loss: return "replace it and the Softmax before it by SoftmaxWithLoss";
    case instead::lstm:
      return "its steps are on the first axis, and a second bottom says where sequences begin. Remove it, and add Troupe's lstm, "
             "which takes [N, T, D], to the job file";
    case instead::input: return "replace it by a layer Input with the tops data and label";
    case instead::plugin: break;
  }
  return "remove it and the layers that need its output, or write it as a layer of a plugin";
}

// "'ProposalLayer' of the module 'rpn.proposal_layer'"; empty: the layer does not say it.
std::string python_class(const net_layer& l) {
  std::string module, name;
  for (const auto& f : l.rest->at().fields) {
    if (f.name != "python_param") continue;
    for (const auto& p : f.fields) {
      if (p.name == "module") module = p.text;
      if (p.name == "layer") name = p.text;
    }
  }
  return name.empty() ? "" : in_quotes(name) + (module.empty() ? "" : " of the module " + in_quotes(module));
}

}  // namespace

bool is_of_results(const std::string& type) {
  static const std::set<std::string> types{// positions of boxes, their choice and their drawing
                                           "DetectionOutput", "PriorBox", "YoloDetectionOutput", "Yolov3DetectionOutput",
                                           // measures
                                           "ArgMax", "DetectionEvaluate", "EvalDetection", "SegAccuracy", "YoloEvalDetection",
                                           // files
                                           "HDF5Output", "ImageOutput",
                                           // losses of boxes
                                           "BoxAnnotatorOHEM", "MultiBoxLoss", "RegionLoss", "SmoothL1Loss", "SmoothL1LossOHEM",
                                           "SoftmaxWithLossOHEM", "Yolov3", "YoloSeg"};
  return types.contains(type);
}

std::string why_refused(const net_layer& l) {
  if (l.type != "Python") return "Troupe has no layer like " + l.type + ": " + text_of(advice_for(l.type));
  const auto named = python_class(l);
  return "Troupe does not run the Python code of a net" + (named.empty() ? "" : ", here " + named) +
         ": remove the layer and the layers that need its output, or write it as a layer of a plugin";
}

}  // namespace troupe::caffe
