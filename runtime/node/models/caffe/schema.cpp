#include "runtime/node/models/caffe/schema.hpp"

#include <algorithm>
#include <sstream>

namespace troupe::caffe {
namespace {

// NAME=NUMBER and a type: i integer, f float, b bool, s string, Name a message, :Name an enum,
// @ a BlobProto; + after it: packed. The number 0: a field of relatives of Caffe, in which it has
// several numbers; it is known in text only.
constexpr std::string_view messages[] = {
    "BlobShape dim=1i+",
    "FillerParameter type=1s value=2f min=3f max=4f mean=5f std=6f sparse=7i variance_norm=8:VarianceNorm",
    "NetParameter name=1s input=3s input_shape=8BlobShape input_dim=4i force_backward=5b state=6NetState debug_info=7b "
    "layer=100LayerParameter layers=2V1LayerParameter",
    "NetState phase=1:Phase level=2i stage=3s",
    "NetStateRule phase=1:Phase min_level=2i max_level=3i stage=4s not_stage=5s",
    "ParamSpec name=1s share_mode=2:DimCheckMode lr_mult=3f decay_mult=4f",
    "LayerParameter name=1s type=2s bottom=3s top=4s phase=10:Phase loss_weight=5f param=6ParamSpec blobs=7@ "
    "propagate_down=11b include=8NetStateRule exclude=9NetStateRule transform_param=100TransformationParameter "
    "loss_param=101LossParameter accuracy_param=102AccuracyParameter argmax_param=103ArgMaxParameter "
    "batch_norm_param=139BatchNormParameter bias_param=141BiasParameter concat_param=104ConcatParameter "
    "convolution_param=106ConvolutionParameter crop_param=144CropParameter data_param=107DataParameter "
    "dropout_param=108DropoutParameter dummy_data_param=109DummyDataParameter eltwise_param=110EltwiseParameter "
    "elu_param=140ELUParameter embed_param=137EmbedParameter flatten_param=135FlattenParameter "
    "hdf5_data_param=112HDF5DataParameter hinge_loss_param=114HingeLossParameter image_data_param=115ImageDataParameter "
    "inner_product_param=117InnerProductParameter input_param=143InputParameter lrn_param=118LRNParameter "
    "memory_data_param=119MemoryDataParameter pooling_param=121PoolingParameter power_param=122PowerParameter "
    "prelu_param=131PReLUParameter relu_param=123ReLUParameter reshape_param=133ReshapeParameter scale_param=142ScaleParameter "
    "sigmoid_param=124EngineParameter softmax_param=125SoftmaxParameter slice_param=126SliceParameter "
    "tanh_param=127EngineParameter swish_param=147SwishParameter bn_param=0BNParameter "
    "interp_param=0InterpParameter norm_param=0NormalizeParameter permute_param=0PermuteParameter relu6_param=0ReLUParameter "
    "selu_param=0SELUParameter reorg_param=0ReorgParameter shuffle_channel_param=0ShuffleChannelParameter "
    "upsample_param=0UpsampleParameter",
    "TransformationParameter scale=1f mirror=2b crop_size=3i mean_file=4s mean_value=5f force_color=6b force_gray=7b",
    "LossParameter ignore_label=1i normalization=3:NormalizationMode normalize=2b weight_by_label_freqs=0b class_weighting=0f",
    "AccuracyParameter top_k=1i axis=2i ignore_label=3i",
    "ArgMaxParameter out_max_val=1b top_k=2i axis=3i",
    "ConcatParameter axis=2i concat_dim=1i",
    "BatchNormParameter use_global_stats=1b moving_average_fraction=2f eps=3f scale_bias=0b use_weight_bias=0b bias_term=0b "
    "scale_filler=0FillerParameter filler=0FillerParameter bias_filler=0FillerParameter relu=0b",
    "BNParameter scale_filler=0FillerParameter shift_filler=0FillerParameter slope_filler=0FillerParameter "
    "bias_filler=0FillerParameter eps=0f var_eps=0f momentum=0f frozen=0b bn_mode=0:BNMode",
    "InterpParameter height=1i width=2i zoom_factor=3i shrink_factor=4i pad_beg=5i pad_end=6i use_blob_size=0b",
    "NormalizeParameter across_spatial=1b scale_filler=2FillerParameter channel_shared=3b eps=4f",
    "PermuteParameter order=1i",
    "ReorgParameter stride=1i reverse=2b",
    "ShuffleChannelParameter group=1i",
    "SELUParameter alpha=0f lambda=0f",
    "SwishParameter beta=1f",
    "UpsampleParameter scale=1i scale_h=0i scale_w=0i upsample_h=0i upsample_w=0i pad_out_h=0b pad_out_w=0b",
    "AxpyParameter",
    "BiasParameter axis=1i num_axes=2i filler=3FillerParameter",
    "ConvolutionParameter num_output=1i bias_term=2b pad=3i kernel_size=4i stride=6i dilation=18i pad_h=9i pad_w=10i kernel_h=11i "
    "kernel_w=12i stride_h=13i stride_w=14i group=5i weight_filler=7FillerParameter bias_filler=8FillerParameter engine=15:Engine "
    "axis=16i force_nd_im2col=17b",
    "CropParameter axis=1i offset=2i",
    "DataParameter source=1s batch_size=4i rand_skip=7i backend=8:DB scale=2f mean_file=3s crop_size=5i mirror=6b "
    "force_encoded_color=9b prefetch=10i",
    "DropoutParameter dropout_ratio=1f sample_weights_test=0b",
    "DummyDataParameter data_filler=1FillerParameter shape=6BlobShape num=2i channels=3i height=4i width=5i",
    "EltwiseParameter operation=1:EltwiseOp coeff=2f stable_prod_grad=3b",
    "ELUParameter alpha=1f",
    "EmbedParameter num_output=1i input_dim=2i bias_term=3b weight_filler=4FillerParameter bias_filler=5FillerParameter",
    "FlattenParameter axis=1i end_axis=2i",
    "HDF5DataParameter source=1s batch_size=2i shuffle=3b",
    "HingeLossParameter norm=1:Norm",
    "ImageDataParameter source=1s batch_size=4i rand_skip=7i shuffle=8b new_height=9i new_width=10i is_color=11b scale=2f "
    "mean_file=3s crop_size=5i mirror=6b root_folder=12s",
    "InnerProductParameter num_output=1i bias_term=2b weight_filler=3FillerParameter bias_filler=4FillerParameter axis=5i "
    "transpose=6b",
    "InputParameter shape=1BlobShape",
    "LRNParameter local_size=1i alpha=2f beta=3f norm_region=4:NormRegion k=5f engine=6:Engine",
    "MemoryDataParameter batch_size=1i channels=2i height=3i width=4i",
    "PoolingParameter pool=1:PoolMethod pad=4i pad_h=9i pad_w=10i kernel_size=2i kernel_h=5i kernel_w=6i stride=3i stride_h=7i "
    "stride_w=8i engine=11:Engine global_pooling=12b round_mode=13:RoundMode ceil_mode=0b avg_include_pad=0b torch_pooling=0b",
    "PowerParameter power=1f scale=2f shift=3f",
    "PReLUParameter filler=1FillerParameter channel_shared=2b",
    "ReLUParameter negative_slope=1f engine=2:Engine",
    "ReshapeParameter shape=1BlobShape axis=2i num_axes=3i",
    "ScaleParameter axis=1i num_axes=2i filler=3FillerParameter bias_term=4b bias_filler=5FillerParameter",
    "EngineParameter engine=1:Engine",
    "SliceParameter axis=3i slice_point=2i slice_dim=1i",
    "SoftmaxParameter engine=1:Engine axis=2i",
    "V1LayerParameter bottom=2s top=3s name=4s include=32NetStateRule exclude=33NetStateRule type=5:V1LayerType blobs=6@ "
    "param=1001s blobs_lr=7f weight_decay=8f loss_weight=35f accuracy_param=27AccuracyParameter argmax_param=23ArgMaxParameter "
    "concat_param=9ConcatParameter convolution_param=10ConvolutionParameter data_param=11DataParameter "
    "dropout_param=12DropoutParameter dummy_data_param=26DummyDataParameter eltwise_param=24EltwiseParameter "
    "hdf5_data_param=13HDF5DataParameter hinge_loss_param=29HingeLossParameter image_data_param=15ImageDataParameter "
    "inner_product_param=17InnerProductParameter lrn_param=18LRNParameter memory_data_param=22MemoryDataParameter "
    "pooling_param=19PoolingParameter power_param=21PowerParameter relu_param=30ReLUParameter sigmoid_param=38EngineParameter "
    "softmax_param=39SoftmaxParameter slice_param=31SliceParameter tanh_param=37EngineParameter "
    "transform_param=36TransformationParameter loss_param=42LossParameter",
};

constexpr std::string_view enums[] = {
    "Phase TRAIN=0 TEST=1",
    "VarianceNorm FAN_IN=0 FAN_OUT=1 AVERAGE=2",
    "DimCheckMode STRICT=0 PERMISSIVE=1",
    "NormalizationMode FULL=0 VALID=1 BATCH_SIZE=2 NONE=3",
    "Engine DEFAULT=0 CAFFE=1 CUDNN=2",
    "DB LEVELDB=0 LMDB=1",
    "EltwiseOp PROD=0 SUM=1 MAX=2",
    "Norm L1=1 L2=2",
    "NormRegion ACROSS_CHANNELS=0 WITHIN_CHANNEL=1",
    "PoolMethod MAX=0 AVE=1 STOCHASTIC=2",
    "RoundMode CEIL=0 FLOOR=1",
    "BNMode LEARN=0 INFERENCE=1",
    "V1LayerType NONE=0 ABSVAL=35 ACCURACY=1 ARGMAX=30 BNLL=2 CONCAT=3 CONTRASTIVE_LOSS=37 CONVOLUTION=4 DATA=5 DECONVOLUTION=39 "
    "DROPOUT=6 DUMMY_DATA=32 EUCLIDEAN_LOSS=7 ELTWISE=25 EXP=38 FLATTEN=8 HDF5_DATA=9 HDF5_OUTPUT=10 HINGE_LOSS=28 IM2COL=11 "
    "IMAGE_DATA=12 INFOGAIN_LOSS=13 INNER_PRODUCT=14 LRN=15 MEMORY_DATA=29 MULTINOMIAL_LOGISTIC_LOSS=16 MVN=34 POOLING=17 "
    "POWER=26 RELU=18 SIGMOID=19 SIGMOID_CROSS_ENTROPY_LOSS=27 SILENCE=36 SOFTMAX=20 SOFTMAX_LOSS=21 SPLIT=22 SLICE=33 TANH=23 "
    "WINDOW_DATA=24 THRESHOLD=31",
};

struct schema_table {
  std::map<std::string, message_type, std::less<>> of;
  std::map<std::string, std::map<std::int64_t, std::string>, std::less<>> words;
};

field_type parse_field(const std::string& word) {
  field_type f;
  const auto equals = word.find('=');
  f.name = word.substr(0, equals);
  std::size_t end = 0;
  f.number = static_cast<std::uint32_t>(std::stoul(word.substr(equals + 1), &end));
  auto type = word.substr(equals + 1 + end);
  if (type.ends_with('+')) f.packed = true, type.pop_back();
  static const std::map<std::string, field_type::kind> simple{{"i", field_type::kind::integer},
                                                              {"f", field_type::kind::real},
                                                              {"b", field_type::kind::flag},
                                                              {"s", field_type::kind::text},
                                                              {"@", field_type::kind::blob}};
  if (const auto found = simple.find(type); found != simple.end()) {
    f.what = found->second;
  } else if (type.starts_with(':')) {
    f.what = field_type::kind::word;
    f.type = type.substr(1);
  } else {
    f.what = field_type::kind::message;
    f.type = type;
  }
  return f;
}

schema_table read_schema() {
  schema_table t;
  std::string name, word;
  for (const auto line : messages) {
    std::istringstream in{std::string(line)};
    in >> name;
    while (in >> word) t.of[name].fields.push_back(parse_field(word));
  }
  for (const auto line : enums) {
    std::istringstream in{std::string(line)};
    in >> name;
    while (in >> word) t.words[name][std::stoll(word.substr(word.find('=') + 1))] = word.substr(0, word.find('='));
  }
  return t;
}

const schema_table& schema() {
  static const auto table = read_schema();
  return table;
}

}  // namespace

const field_type* message_type::find(std::string_view name) const {
  const auto i = std::find_if(fields.begin(), fields.end(), [&](const field_type& f) { return f.name == name; });
  return i == fields.end() ? nullptr : &*i;
}
const field_type* message_type::find(std::uint32_t number) const {
  const auto i = std::find_if(fields.begin(), fields.end(), [&](const field_type& f) { return f.number == number; });
  return i == fields.end() ? nullptr : &*i;
}

const message_type* message_named(std::string_view name) {
  const auto i = schema().of.find(name);
  return i == schema().of.end() ? nullptr : &i->second;
}

const std::string* enum_word(std::string_view type, std::int64_t number) {
  const auto words = schema().words.find(type);
  if (words == schema().words.end()) return nullptr;
  const auto word = words->second.find(number);
  return word == words->second.end() ? nullptr : &word->second;
}

std::int64_t enum_number(std::string_view type, std::string_view word) {
  const auto words = schema().words.find(type);
  if (words == schema().words.end()) return -1;
  for (const auto& [number, name] : words->second)
    if (name == word) return number;
  return -1;
}

}  // namespace troupe::caffe
