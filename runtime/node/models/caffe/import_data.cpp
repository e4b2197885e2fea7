#include "runtime/node/models/caffe/import_data.hpp"

#include <algorithm>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe {
namespace {

constexpr const char* of_reading = "it says how examples are read, or changes those of training";

// Scale, mean, crop and mirror: in transform_param, formerly in the layer's own message.
void read_transform(data_layer& d, message_reader& p) {
  d.scale = p.real("scale", d.scale);
  d.mirror = p.flag("mirror", d.mirror);
  d.crop = p.integer("crop_size", d.crop, 0, 65535);
  d.mean_file = p.text("mean_file", d.mean_file);
}

void read_database(data_layer& d, net_layer& l) {
  auto p = l.fields().message("data_param");
  d.source = p.text("source");
  d.batch = p.integer("batch_size", 0, 1);
  d.leveldb = p.word("backend", "LEVELDB", {"LEVELDB", "LMDB"}) == "LEVELDB";
  p.ignore({"rand_skip", "prefetch"});
  if (p.flag("force_encoded_color", false)) d.channels = 3;
  read_transform(d, p);
  p.leave_rest(of_reading);
  if (d.source.empty()) p.error("source", "'source' is missing");
  if (d.batch == 0 && !p.has("batch_size")) p.error("batch_size", "'batch_size' is missing");
}

void read_images(data_layer& d, net_layer& l) {
  auto p = l.fields().message("image_data_param");
  d.source = p.text("source");
  d.batch = p.integer("batch_size", 1, 1);
  p.ignore({"rand_skip", "shuffle", "root_folder"});
  const auto height = p.integer("new_height", 0, 0, 65535), width = p.integer("new_width", 0, 0, 65535);
  const std::int64_t channels = p.flag("is_color", true) ? 3 : 1;
  read_transform(d, p);
  p.leave_rest(of_reading);
  if (height > 0 && width > 0) d.shape = {channels, height, width};
}

std::vector<std::int64_t> without_examples(std::vector<std::int64_t> shape, data_layer& d) {
  if (shape.empty()) return shape;
  d.batch = shape.front();
  shape.erase(shape.begin());
  return shape;
}

void read_dummy(data_layer& d, net_layer& l, findings& found) {
  auto p = l.fields().message("dummy_data_param");
  p.ignore({"data_filler"});
  d.labelled_by_name = true;
  for (const auto* s : p.all("shape")) {
    message_reader r(*s, "BlobShape", l.title() + ": shape: ", found);
    const auto shape = read_shape(r);
    if (d.shape.empty()) d.shape = without_examples(shape, d);
  }
  std::vector<std::int64_t> old;
  for (const auto* key : {"num", "channels", "height", "width"}) {
    const auto list = p.integers(key, 1);
    if (!list.empty()) old.push_back(list[0]);
  }
  if (d.shape.empty()) d.shape = without_examples(old, d);
}

// resize_param of SSD: the extents of an image. Several are sizes of which each batch has one.
void read_sizes(data_layer& d, message_reader& t, const std::string& title, findings& found) {
  const auto all = t.all("resize_param");
  if (all.size() > 1)
    found.note(title + ": of " + std::to_string(all.size()) +
               " resize_param the first counts: all examples of a job have one size");
  for (const auto* field : all) {
    message_reader r(*field, "ResizeParameter", title + ": transform_param: resize_param: ", found);
    const auto height = r.integer("height", 0, 0, 65535), width = r.integer("width", 0, 0, 65535);
    if (d.shape.empty() && height > 0 && width > 0) d.shape = {d.channels == 1 ? 1 : 3, height, width};
    r.leave_rest(of_reading);
  }
}

// Other data layers: their batch and source, if a message says them.
void read_other(data_layer& d, net_layer& l) {
  for (const auto& f : l.fields().at().fields) {
    if (f.what != proto_field::kind::message || !f.name.ends_with("_param") || f.name == "transform_param") continue;
    auto p = l.fields().message(f.name);
    const auto batch = p.integer("batch_size", d.batch, 0);
    if (batch > 0) d.batch = batch;
    if (const auto* source = p.one("source"); source && source->what == proto_field::kind::text) d.source = source->text;
    p.leave_rest(of_reading);
  }
}

void read_input(data_layer& d, net_layer& l, findings& found) {
  auto shapes = l.inputs;
  auto p = l.fields().message("input_param");
  for (const auto* s : p.all("shape")) {
    message_reader r(*s, "BlobShape", l.title() + ": shape: ", found);
    shapes.push_back(read_shape(r));
  }
  d.labelled_by_name = true;
  const auto label = std::find(d.tops.begin(), d.tops.end(), "label");
  const std::size_t data = label == d.tops.begin() && d.tops.size() > 1 ? 1 : 0;
  if (!shapes.empty()) d.shape = without_examples(shapes[std::min(data, shapes.size() - 1)], d);
  if (d.tops.size() > 2)
    found.note(l.title() + ": Troupe's data has one tensor and its labels; of " + std::to_string(d.tops.size()) +
               " inputs the others are left out");
}

// Caffe reads pictures with OpenCV, as blue, green and red. Datasets of HDF5 have the order that
// their maker gave them.
void write_channel_order(const data_layer& d, job_model& job) {
  if (d.type == "HDF5Data" || d.channels == 1) return;
  const bool pictures = d.type == "Data" || d.shape.empty() || (d.shape.size() == 3 && d.shape[0] == 3);
  if (pictures) job.data.emplace_back("channel_order", "\"bgr\"");
}

void write_transform(const data_layer& d, bool of_source, job_model& job, findings& found) {
  // Caffe: (x - mean) scale. Troupe: x scale - mean.
  std::vector<double> means;
  for (const auto m : d.means) means.push_back(m * d.scale);
  auto& to = of_source ? job.data : job.augment;
  if (d.scale != 1) to.emplace_back("scale", toml_text(std::vector<double>{d.scale}));
  if (!means.empty()) to.emplace_back("mean", toml_text(means));
  if (d.crop > 0) job.augment.emplace_back("crop", toml_text(d.crop));
  if (d.mirror) job.augment.emplace_back("mirror", "true");
  if (!d.mean_file.empty())
    found.note("layer " + in_quotes(d.name) + ": the mean image " + in_quotes(d.mean_file) +
               " is not read; set `mean` of [data], one number for each channel");
}

void write_database(const data_layer& first, const std::optional<data_layer>& train, const std::optional<data_layer>& test,
                    job_model& job, findings& found) {
  const auto* second = train && test && test->type == "Data" && test->source != train->source ? &*test : nullptr;
  job.data.emplace_back("source", "\"lmdb\"");
  job.data.emplace_back("path", toml_text(first.source));
  if (second)
    job.data.emplace_back("test_path", toml_text(second->source));
  else
    found.note("the net has one database: set `test_path` or `test_fraction` of [data] for evaluations");
  if (first.channels > 0) job.data.emplace_back("channels", toml_text(first.channels));
  if (first.leveldb || (second && second->leveldb))
    found.note("layer " + in_quotes(first.name) + " names a LevelDB, which Troupe does not read: convert it to LMDB");
}

void write_hdf5(const data_layer& first, const std::optional<data_layer>& train, const std::optional<data_layer>& test,
                job_model& job, findings& found) {
  job.data.emplace_back("source", "\"hdf5\"");
  job.data.emplace_back("path", toml_text(first.source));
  if (train && test && test->source != train->source && !test->source.empty())
    job.data.emplace_back("test_path", toml_text(test->source));
  else
    found.note("the net has one list of HDF5 files: set `test_path` or `test_fraction` of [data] for evaluations");
  if (!first.tops.empty() && first.tops[0] != "data") job.data.emplace_back("data", toml_text(first.tops[0]));
  if (first.tops.size() < 2) {  // the files have no labels
    job.data.emplace_back("labels", "\"\"");
    return;
  }
  if (first.tops[1] != "label") job.data.emplace_back("labels", toml_text(first.tops[1]));
  const auto compares = [](const job_layer& l) {
    return (l.type == "euclidean" || l.type == "squared_error" || l.type == "sigmoid_cross_entropy") &&
           std::find(l.inputs.begin(), l.inputs.end(), "label") != l.inputs.end();
  };
  const bool values = std::any_of(job.layers.begin(), job.layers.end(), compares);
  job.data.emplace_back("label_kind", values ? "\"values\"" : "\"classes\"");
}

void write_synthetic(const data_layer& first, std::int64_t classes, job_model& job, findings& found) {
  auto shape = first.shape;
  if (shape.empty()) {
    shape = {3, first.crop > 0 ? first.crop : 224, first.crop > 0 ? first.crop : 224};
    found.note("layer " + in_quotes(first.name) + " (" + first.type +
               ") does not say the shape of an example: set `shape` of [data]");
  } else if (first.crop > 0 && shape.size() == 3) {
    shape = {shape[0], std::max(shape[1], first.crop), std::max(shape[2], first.crop)};
  }
  job.data.emplace_back("source", "\"synthetic\"");
  job.data.emplace_back("shape", toml_text(shape));
  job.data.emplace_back("classes", toml_text(classes));
  found.note("the data of layer " + in_quotes(first.name) + " (" + first.type + ")" +
             (first.source.empty() ? "" : ", " + in_quotes(first.source) + ",") +
             " is not read: [data] names synthetic examples of the same shape; set your source");
}

}  // namespace

std::vector<std::int64_t> data_layer::extents() const {
  if (crop > 0 && shape.size() != 1) return {shape.empty() ? (channels == 1 ? 1 : 3) : shape[0], crop, crop};
  return shape;
}

std::string data_layer::tensor_of(std::size_t top) const {
  if (labelled_by_name && tops.size() > 1 && tops[0] == "label") return top == 0 ? "label" : top == 1 ? "data" : "";
  if (labelled_by_name && tops.size() == 1 && tops[0] == "label") return "label";
  if (top == 0) return "data";
  return top == label_top ? "label" : "";
}

data_layer read_data_layer(net_layer& l, findings& found) {
  data_layer d;
  d.name = l.name, d.type = l.type, d.tops = l.tops;
  if (l.type == "Data") {
    read_database(d, l);
  } else if (l.type == "ImageData") {
    read_images(d, l);
  } else if (l.type == "DummyData") {
    read_dummy(d, l, found);
  } else if (l.type == "Input") {
    read_input(d, l, found);
  } else if (l.type == "MemoryData") {
    auto p = l.fields().message("memory_data_param");
    d.batch = p.integer("batch_size", 1, 1);
    for (const auto* key : {"channels", "height", "width"}) d.shape.push_back(p.integer(key, 1, 1));
  } else if (l.type == "HDF5Data") {
    auto p = l.fields().message("hdf5_data_param");
    d.source = p.text("source");
    d.batch = p.integer("batch_size", 1, 1);
    p.leave_rest(of_reading);
  } else {
    read_other(d, l);
  }
  auto t = l.fields().message("transform_param");
  read_transform(d, t);
  d.means = t.reals("mean_value");
  const bool colour = t.flag("force_color", false), grey = t.flag("force_gray", false);
  if (colour && grey) t.error("force_gray", "'force_color' and 'force_gray' exclude each other");
  if (colour) d.channels = 3;
  if (grey) d.channels = 1;
  read_sizes(d, t, l.title(), found);
  t.leave_rest(of_reading);
  l.fields().leave_rest(of_reading);
  return d;
}

void write_data(const std::optional<data_layer>& train, const std::optional<data_layer>& test, const label_facts& labels,
                job_model& job, findings& found) {
  const auto& first = train ? *train : *test;
  if (first.type == "Data")
    write_database(first, train, test, job, found);
  else if (first.type == "HDF5Data" && !first.source.empty())
    write_hdf5(first, train, test, job, found);
  else
    write_synthetic(first, labels.classes, job, found);
  if (labels.ignored) job.data.emplace_back("ignore_label", toml_text(*labels.ignored));
  const auto batch = std::max<std::int64_t>(first.batch, 1);
  job.data.emplace_back("batch", toml_text(batch));
  write_transform(first, first.type == "Data", job, found);
  write_channel_order(first, job);
  if (train && test && test->batch > 0 && test->batch != batch) job.eval.emplace_back("batch", toml_text(test->batch));
}

}  // namespace troupe::caffe
