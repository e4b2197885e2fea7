#include "runtime/node/predict/net_file.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ops/bf16.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/plain/predictor.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;

constexpr const char* version_key = "troupe_net";
constexpr const char* version = "1";
constexpr const char* scale_suffix = "@scale";
constexpr int byte_zero = 128, byte_most = 127;

diagnostics wrong_net(const std::string& file, const std::string& what) {
  diagnostics d(1);
  d[0].at.file = file;
  d[0].message = what;
  return d;
}

// The shapes of a job's data, without the data.
class data_facts final : public source {
 public:
  shape example_, label_;
  std::int64_t classes_ = 0, vocabulary_ = 0, sizes_[2] = {1, 1};
  bool ids_ = false, targets_ = false, resizes_ = false;
  channel_order order_ = channel_order::rgb;
  std::optional<byte_scaling> bytes_;
  std::vector<std::string> names_;
  std::shared_ptr<const table_layout> table_;

  shape example() const override { return example_; }
  shape label() const override { return label_; }
  std::int64_t classes() const override { return classes_; }
  bool targets() const override { return targets_; }
  bool ids() const override { return ids_; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  channel_order picture_order() const override { return order_; }
  std::vector<std::string> class_names() const override { return names_; }
  std::int64_t size(split s) const override { return sizes_[s == split::train ? 0 : 1]; }
  std::optional<byte_scaling> bytes() const override { return bytes_; }
  bool resizes() const override { return resizes_; }
  std::shared_ptr<const table_layout> table() const override { return table_; }
  void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override {
    throw std::runtime_error("a net file has no examples");
  }
};

json list_of(const shape& s) {
  auto list = json::array();
  for (int i = 0; i < s.rank(); ++i) list.push_back(s[i]);
  return list;
}

// The job with a source that every program has; facts_of() keeps what predictions need of its own.
job_spec without_data(const job_spec& s) {
  auto made = s;
  made.data.source = "synthetic";
  made.data.values = check_options({}, stock_tables().sources.find("synthetic")->specs);
  made.data.key_at.clear();
  return made;
}

std::string facts_of(const prepared_job& j) {
  const auto& d = *j.data;
  json o{{"example", list_of(d.example())},
         {"label", list_of(d.label())},
         {"classes", d.classes()},
         {"targets", d.targets()},
         {"ids", d.ids()},
         {"vocabulary", d.vocabulary()},
         {"sizes", {d.size(split::train), d.size(split::test)}},
         {"class_names", d.class_names()},
         {"resizes", d.resizes()}};
  const auto f = input_format_of(d, j.spec.data.source, j.spec.data.values);
  if (f.order != channel_order::rgb) o["channel_order"] = name_of(f.order);
  if (!f.scale.empty()) o["scale"] = f.scale, o["mean"] = f.mean;
  if (const auto t = d.table())
    o["table"] = {{"separator", std::string(1, t->separator)},
                  {"header", t->header},
                  {"inputs", t->inputs},
                  {"labels", t->labels},
                  {"ignored", t->ignored},
                  {"fill", t->fill}};
  return o.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Throws if the number has a fraction or does not fit: get() would round it.
std::int64_t whole_number(const json& v) {
  const bool large = v.is_number_unsigned() && v.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  if (!v.is_number_integer() || large) throw std::runtime_error("a number is no integer, or is out of range");
  return v.get<std::int64_t>();
}

// A pair for all values, or for each part of an example, as readers divide it.
byte_scaling scaling_of(const json& o, const shape& example) {
  byte_scaling s{o.at("scale").get<std::vector<double>>(), o.at("mean").get<std::vector<double>>()};
  const auto n = static_cast<std::int64_t>(s.scale.size());
  if (n < 1 || s.mean.size() != s.scale.size() || n > example.count() || example.count() % n != 0)
    throw std::runtime_error("the scaling does not fit the examples");
  return s;
}

table_layout table_of(const json& o, const shape& example) {
  table_layout t;
  const auto separator = o.at("separator").get<std::string>();
  if (separator.size() != 1) throw std::runtime_error("the separator of its tables is malformed");
  t.separator = separator[0];
  t.header = o.at("header").get<bool>();
  t.inputs = o.at("inputs").get<std::vector<std::string>>();
  t.labels = o.at("labels").get<std::vector<std::string>>();
  t.ignored = o.at("ignored").get<std::vector<std::string>>();
  t.fill = o.at("fill").get<std::vector<double>>();
  const auto n = static_cast<std::size_t>(example.count());
  if (t.inputs.size() != n || (!t.fill.empty() && t.fill.size() != n))
    throw std::runtime_error("the columns of its tables do not fit the examples");
  return t;
}

channel_order order_of(const json& o) {
  if (!o.contains("channel_order")) return channel_order::rgb;  // also of older files
  const auto name = o["channel_order"].get<std::string>();
  for (const auto order : {channel_order::rgb, channel_order::bgr})
    if (name == name_of(order)) return order;
  throw std::runtime_error("the order of channels is neither rgb nor bgr");
}

shape shape_of_list(const json& list) {
  shape s;
  if (!list.is_array() || list.size() > static_cast<std::size_t>(shape::max_rank)) throw std::runtime_error("a shape is malformed");
  for (const auto& e : list) {
    const auto n = whole_number(e);
    if (n < 1 || n > (std::int64_t{1} << 40) / s.count()) throw std::runtime_error("a shape is malformed");
    s.push_back(n);
  }
  return s;
}

// Throws std::exception if the text is malformed.
std::shared_ptr<const source> source_of(const std::string& text) {
  const auto o = json::parse(text);
  const auto s = std::make_shared<data_facts>();
  s->example_ = shape_of_list(o.at("example"));
  s->label_ = shape_of_list(o.at("label"));
  s->classes_ = whole_number(o.at("classes"));
  s->ids_ = o.at("ids").get<bool>();
  s->vocabulary_ = o.contains("vocabulary") ? whole_number(o["vocabulary"]) : s->ids_ ? s->classes_ : 0;  // older files lack it
  s->targets_ = o.value("targets", false);
  s->resizes_ = o.value("resizes", false);
  s->order_ = order_of(o);
  for (std::size_t k : {0, 1}) s->sizes_[k] = whole_number(o.at("sizes").at(k));
  s->names_ = o.at("class_names").get<std::vector<std::string>>();
  if (o.contains("table")) s->table_ = std::make_shared<const table_layout>(table_of(o["table"], s->example_));
  if (o.contains("scale")) s->bytes_ = scaling_of(o, s->example_);
  if (s->classes_ < 0 || s->vocabulary_ < 0 || s->sizes_[0] < 1 || s->sizes_[1] < 0)
    throw std::runtime_error("a number is out of range");
  return s;
}

// The job for predictions in one thread: without what concerns its training on a cluster.
void simplify(job_spec& s) {
  s.trains = false;
  s.topology = {};
  s.pipeline = {};
  s.checkpoint = {};
  s.data.batch = 1;
  s.data.validation = 0;
  s.data.readers = 1;
  s.data.sampler = {"sequential", {}, {}};
  if (s.train.algorithm == "bptt") s.train.algorithm = "bp";  // every example begins with zeros
  s.devices = {"cpu:0"};
  s.devices_at.clear(), s.tflops.clear();
  s.min_nodes = s.max_nodes = s.spares = 0;
  s.record = false;
  s.train.sync = {"bsp", {}, {}};
  s.train.when.reset();
  s.train.reducer = "server", s.train.reducer_values = {};
  s.train.compress = "none";
  s.eval = {};
  for (auto& l : s.layers) {
    l.place.clear(), l.fraction.clear();
    l.auto_fraction = l.gather = l.recompute = false;
    l.partition = "batch", l.wire = "fp32", l.compress.clear();
    l.key_at.erase("partition");
  }
}

// --- smaller weights

tensor new_tensor(const shape& s, dtype t) {
  const auto made = tensor::declare(s, t);
  const auto memory = std::make_shared<std::vector<double>>(made.bytes() / sizeof(double) + 1);
  return tensor::adopt(memory, memory->data(), s, t);
}
// For the maker of an adopted tensor, which is its only user.
template <class T>
T* values_of(const tensor& t) {
  return const_cast<T*>(t.data<T>());
}

tensor in_bf16(const tensor& w) {
  auto made = new_tensor(w.dims(), dtype::bf16);
  for (std::int64_t i = 0; i < w.count(); ++i) values_of<bf16>(made)[i] = to_bf16(w.data<float>()[i]);
  return made;
}

// Symmetric, with a scale for each row of axis 0.
std::pair<tensor, tensor> in_int8(const tensor& w) {
  const auto rows = w.dims()[0], n = w.count() / rows;
  auto bytes = new_tensor(w.dims(), dtype::u8), scales = new_tensor({rows}, dtype::f32);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* x = w.data<float>() + r * n;
    float most = 0;
    for (std::int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
    const float scale = most > 0 ? most / byte_most : 1;
    values_of<float>(scales)[r] = scale;
    for (std::int64_t i = 0; i < n; ++i)
      values_of<std::uint8_t>(bytes)[r * n + i] = static_cast<std::uint8_t>(byte_zero + std::lround(x[i] / scale));
  }
  return {std::move(bytes), std::move(scales)};
}

tensor from_bf16(const tensor& w) {
  auto made = new_tensor(w.dims(), dtype::f32);
  for (std::int64_t i = 0; i < w.count(); ++i) values_of<float>(made)[i] = to_float(w.data<bf16>()[i]);
  return made;
}

tensor from_int8(const tensor& w, const tensor& scales) {
  auto made = new_tensor(w.dims(), dtype::f32);
  const auto n = w.count() / w.dims()[0];
  for (std::int64_t i = 0; i < w.count(); ++i)
    values_of<float>(made)[i] = static_cast<float>(w.data<std::uint8_t>()[i] - byte_zero) * scales.data<float>()[i / n];
  return made;
}

// The weights of a file as the job has them.
expected<named_tensors, diagnostics> widened(const named_tensors& named, const std::string& file) {
  std::map<std::string, tensor> all(named.begin(), named.end());
  named_tensors out;
  for (const auto& [name, value] : named) {
    if (name.ends_with(scale_suffix)) continue;
    if (value.type() == dtype::bf16) {
      out.emplace_back(name, from_bf16(value));
    } else if (value.type() == dtype::u8) {
      const auto scales = all.find(name + scale_suffix);
      if (scales == all.end() || value.dims().rank() < 1 || scales->second.type() != dtype::f32 || value.count() == 0 ||
          scales->second.count() != value.dims()[0])
        return unexpected(wrong_net(file, "tensor '" + name + "' is int8, but has no scale for each row"));
      out.emplace_back(name, from_int8(value, scales->second));
    } else {
      out.emplace_back(name, value);
    }
  }
  return out;
}

expected<std::shared_ptr<prepared_job>, diagnostics> prepared_of(const safetensors_content& content, const std::string& file) {
  const auto text = [&](const char* key) {
    const auto found = content.metadata.find(key);
    return found == content.metadata.end() ? std::string() : found->second;
  };
  if (text(version_key).empty())
    return unexpected(wrong_net(file, "is not a net file; make one with `troupe export JOB --weights FILE --out NET.troupe`"));
  if (text(version_key) != version)
    return unexpected(
        wrong_net(file, "is a net file of version " + in_quotes(text(version_key)) + ", this program reads version 1"));
  std::shared_ptr<const source> data;
  try {
    data = source_of(text("data"));
  } catch (const std::exception& e) {
    return unexpected(wrong_net(file, std::string("its facts about the data cannot be read: ") + e.what()));
  }
  const auto all = std::make_shared<const tables>(stock_tables());
  auto spec = parse_job(text("job"), file + ", its job", *all);
  if (!spec) return unexpected(std::move(spec).error());
  simplify(*spec);
  node_spec here;
  here.name = "local";
  return prepare_job(*std::move(spec), all, {here}, std::move(data));
}

}  // namespace

expected<std::string, diagnostics> net_file_bytes(const prepared_job& j, const named_tensors& weights, net_weights kept) {
  named_tensors smaller;
  for (const auto& [name, w] : weights) {
    if (kept == net_weights::f32 || w.dims().rank() < 2 || w.type() != dtype::f32) {
      smaller.emplace_back(name, w);
    } else if (kept == net_weights::bf16) {
      smaller.emplace_back(name, in_bf16(w));
    } else {
      auto [bytes, scales] = in_int8(w);
      smaller.emplace_back(name, std::move(bytes));
      smaller.emplace_back(name + scale_suffix, std::move(scales));
    }
  }
  auto bytes = safetensors_bytes(smaller, {{version_key, version},
                                           {"job", resolved_job_text(without_data(j.spec), *j.all)},
                                           {"data", facts_of(j)},
                                           {"weights", net_weights_names[static_cast<int>(kept)]}});
  if (!bytes) return unexpected(wrong_net({}, bytes.error().to_string()));
  const auto owner = std::make_shared<std::string>(*bytes);
  const auto again = read_net_file(owner, owner->data(), owner->size(), j.spec.file);  // whether it can predict
  if (!again) return unexpected(again.error());
  const auto net = predictor::make(*again, make_cpu_device(), {});
  if (!net) return unexpected(diagnostics{net.error()});
  return *std::move(bytes);
}

expected<std::shared_ptr<prepared_job>, diagnostics> read_net_file(std::shared_ptr<const void> owner, const void* data,
                                                                   std::size_t bytes, const std::string& file) {
  auto content = parse_safetensors(std::move(owner), data, bytes, integrity::required);
  if (!content) return unexpected(wrong_net(file, content.error().to_string()));
  auto made = prepared_of(*content, file);
  if (!made) return made;
  auto weights = widened(content->named, file);
  if (!weights) return unexpected(std::move(weights).error());
  if (const auto begun = begin_from_weights(**made, {{}, *std::move(weights)}, file); !begun)
    return unexpected(wrong_net({}, begun.error().to_string()));
  return made;
}

expected<std::shared_ptr<prepared_job>, diagnostics> open_net_file(const std::string& file) {
  auto content = read_file(file);
  if (!content) return unexpected(wrong_net(file, content.error().text));
  return read_net_file(content->data, content->data.get(), content->bytes, file);
}

}  // namespace troupe
