#include "runtime/node/models/caffe/import_data.hpp"

#include <algorithm>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe {
namespace {

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
  p.ignore({"rand_skip", "prefetch", "force_encoded_color"});
  read_transform(d, p);
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
    l.error("Troupe's data has one tensor and its labels; there are " + std::to_string(d.tops.size()) + " inputs");
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
  if (first.leveldb || (second && second->leveldb))
    found.note("layer " + in_quotes(first.name) + " names a LevelDB, which Troupe does not read: convert it to LMDB");
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

std::string data_layer::tensor_of(std::size_t top) const {
  if (labelled_by_name && tops.size() > 1 && tops[0] == "label") return top == 0 ? "label" : top == 1 ? "data" : "";
  if (labelled_by_name && tops.size() == 1 && tops[0] == "label") return "label";
  return top == 0 ? "data" : top == 1 ? "label" : "";
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
    p.ignore({"shuffle"});
  } else {
    l.error("this data layer is not supported");
  }
  auto t = l.fields().message("transform_param");
  read_transform(d, t);
  d.means = t.reals("mean_value");
  t.ignore({"force_color", "force_gray"});
  if (d.tops.size() > 2 && l.type != "Input") l.error("a third top is not supported");
  return d;
}

void write_data(const std::optional<data_layer>& train, const std::optional<data_layer>& test, std::int64_t classes, job_model& job,
                findings& found) {
  const auto& first = train ? *train : *test;
  if (first.type == "Data")
    write_database(first, train, test, job, found);
  else
    write_synthetic(first, classes, job, found);
  const auto batch = std::max<std::int64_t>(first.batch, 1);
  job.data.emplace_back("batch", toml_text(batch));
  write_transform(first, first.type == "Data", job, found);
  if (train && test && test->batch > 0 && test->batch != batch) job.eval.emplace_back("batch", toml_text(test->batch));
}

}  // namespace troupe::caffe
