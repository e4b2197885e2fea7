// Fuzz target: .caffemodel files. A net that can be read is written, read again and translated into
// a job.
#include "runtime/node/models/caffe/import_files.hpp"
#include "runtime/node/models/caffe/wire.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_caffemodel(input in) {
  const auto net = caffe::parse_binary_net(in.data(), in.size());
  if (!net) return must(!net.error().text.empty(), "refused without a reason");
  std::size_t values = 0;
  for (const auto& b : net->blobs) {
    std::int64_t count = 1;
    for (const auto d : b.dims) count *= d;
    must(static_cast<std::size_t>(count) == b.values->size(), "a blob has not as many values as its shape says");
    values += b.values->size();
  }
  must(values <= in.size(), "more values than bytes");
  // Fields that the schema lacks cannot be written.
  if (const auto bytes = caffe::binary_of(*net)) {
    const auto again = caffe::parse_binary_net(bytes->data(), bytes->size());
    must(again && again->blobs.size() == net->blobs.size(), "its own bytes are read as another net");
  }
  const auto made = caffe::import_texts({{"fuzz.caffemodel", text(in)}}, {});
  if (!made) must(!made.error().empty(), "refused without a reason");
}

caffe::proto_field fuzz_field(const char* name, caffe::proto_field::kind what, const std::string& text,
                              std::vector<caffe::proto_field> inner = {}) {
  caffe::proto_field f;
  f.name = name, f.what = what, f.text = text, f.fields = std::move(inner);
  return f;
}

std::vector<std::string> sound_caffemodel() {
  using kind = caffe::proto_field::kind;
  const auto n = [](const char* name, const char* v) { return fuzz_field(name, kind::number, v); };
  const auto t = [](const char* name, const char* v) { return fuzz_field(name, kind::text, v); };
  const auto m = [](const char* name, std::vector<caffe::proto_field> inner) {
    return fuzz_field(name, kind::message, "", std::move(inner));
  };
  caffe::binary_net net;
  for (const auto& dims : {std::vector<std::int64_t>{2, 3, 1, 1}, std::vector<std::int64_t>{2}, std::vector<std::int64_t>{}}) {
    caffe::blob b;
    std::size_t count = 1;
    for (const auto d : dims) count *= static_cast<std::size_t>(d);
    b.dims = dims, b.values = std::make_shared<const std::vector<float>>(count, 0.5F);
    net.blobs.push_back(b);
  }
  net.net.fields = {
      t("name", "n"),
      m("layer", {t("name", "data"), t("type", "Input"), t("top", "data"),
                  m("input_param", {m("shape", {n("dim", "4"), n("dim", "3"), n("dim", "5"), n("dim", "5")})})}),
      m("layer",
        {t("name", "c"), t("type", "Convolution"), t("bottom", "data"), t("top", "c"),
         m("convolution_param", {n("num_output", "2"), n("kernel_size", "1"), fuzz_field("bias_term", kind::word, "true")}),
         fuzz_field("blobs", kind::blob, "0"), fuzz_field("blobs", kind::blob, "1")}),
      m("layer", {t("name", "p"), t("type", "Pooling"), t("bottom", "c"), t("top", "p"),
                  m("pooling_param", {fuzz_field("pool", kind::word, "AVE"), fuzz_field("global_pooling", kind::word, "true")})}),
      m("layer", {t("name", "s"), t("type", "PReLU"), t("bottom", "p"), t("top", "p"), n("loss_weight", "0"),
                  m("prelu_param", {fuzz_field("channel_shared", kind::word, "true")}), fuzz_field("blobs", kind::blob, "2")})};
  auto whole = caffe::binary_of(net);
  must(whole.has_value(), "a sound net cannot be written");
  // A layer of the old form, by hand: name 4, type 5, blobs 6 { num 1, channels 2, height 3, width
  // 4, data 5, double_data 8 }.
  static constexpr char old[] =
      "\x12\x1d\x22\x01x\x28\x0e\x32\x16\x08\x01\x10\x01\x18\x01\x20\x02\x2d\0\0\x80\x3f\x41\0\0\0\0\0\0\xf0\x3f";
  return {*whole, std::string(old, sizeof old - 1)};
}

const entry caffemodel_entry({"caffemodel", read_caffemodel, sound_caffemodel});

}  // namespace
}  // namespace troupe::fuzz
