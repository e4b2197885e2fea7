#include "apps/commands/train/predictions.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/data/file_place.hpp"

namespace troupe {
namespace {

using prediction_json = nlohmann::ordered_json;

// The shortest text of the number as a float.
std::string number_of(double v) { return number_text(static_cast<float>(v)); }

prediction_json json_of(double v) {
  if (!std::isfinite(v)) return nullptr;
  double shortest = v;
  read_number(number_of(v), shortest);
  return shortest;
}

// RFC 4180.
std::string csv_text(const std::string& s) {
  if (s.find_first_of(",\"\r\n") == std::string::npos) return s;
  std::string out = "\"";
  for (const char c : s) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

struct prediction_writer::row {
  std::string input;
  std::int64_t index = 0, position = 0;
  std::vector<double> outputs;      // probabilities, scores or numbers
  std::vector<std::int64_t> order;  // the most probable classes, best first; empty: numbers
  std::optional<std::int32_t> label;
  std::vector<double> targets;
};

prediction_writer::prediction_writer(const output& out, const predictor& p, std::vector<std::string> class_names,
                                     prediction_format f)
    : out_(out), meaning_(p.meaning()), positions_(p.positions()), width_(p.width()), classes_(p.classes()), format_(std::move(f)) {
  if (static_cast<std::int64_t>(class_names.size()) == classes_) names_ = class_names;
  label_names_ = std::move(class_names);
}

prediction_writer::~prediction_writer() {
  if (temporary_.empty()) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

expected<void> prediction_writer::begin() {
  if (!format_.file.empty()) {
    const auto place = place_to_write(format_.file);
    if (!place) return unexpected(place.error());
    path_ = *place;
    file_.open(path_ + ".tmp", std::ios::binary | std::ios::trunc);
    if (!file_) return unexpected(error("cannot write to " + path_ + ".tmp"));
    temporary_ = path_ + ".tmp";
  }
  if (out_.json()) return {};
  return put(header());
}

std::string prediction_writer::header() const {
  const std::string value = meaning_ == answer::scores ? "score" : "probability";
  std::string s = "input,index";
  if (positions_ > 1) s += ",position";
  const auto choice = [&](const std::string& prefix) {
    s += "," + prefix + "class" + (names_.empty() ? "" : "," + prefix + "name") + "," + prefix + value;
  };
  if (classes_ > 0) choice("");
  if (format_.labelled) s += label_names_.empty() ? ",label" : ",label,label_name";
  for (std::int64_t k = 0; k < format_.targets; ++k) s += ",target" + (format_.targets == 1 ? "" : "_" + std::to_string(k));
  for (std::int64_t k = 2; k <= format_.top; ++k) choice("top" + std::to_string(k) + "_");
  if (classes_ == 0 && width_ == 1) return s + ",output\n";
  const auto n = classes_ == 0 ? width_ : format_.all ? classes_ : 0;
  for (std::int64_t k = 0; k < n; ++k) s += "," + (classes_ == 0 ? "output" : value) + "_" + std::to_string(k);
  return s + "\n";
}

prediction_writer::row prediction_writer::row_of(const double* values) const {
  row r;
  r.outputs.assign(values, values + width_);
  if (classes_ == 0) return r;
  r.outputs = by_class(meaning_, std::move(r.outputs));
  r.order = best_classes(r.outputs, static_cast<std::size_t>(format_.top));
  return r;
}

std::string prediction_writer::name_of_label(const row& r) const {
  if (!r.label || *r.label >= static_cast<std::int64_t>(label_names_.size())) return {};
  return label_names_[static_cast<std::size_t>(*r.label)];
}

std::string prediction_writer::csv_line(const row& r) const {
  std::string s = csv_text(r.input) + "," + std::to_string(r.index);
  if (positions_ > 1) s += "," + std::to_string(r.position);
  const auto choice = [&](std::int64_t k) {
    s += "," + std::to_string(k);
    if (!names_.empty()) s += "," + (k < 0 ? std::string() : csv_text(names_[static_cast<std::size_t>(k)]));
    s += "," + (k < 0 ? std::string("nan") : number_of(r.outputs[static_cast<std::size_t>(k)]));
  };
  if (!r.order.empty()) choice(r.order[0]);
  if (format_.labelled) s += r.label ? "," + std::to_string(*r.label) : ",";
  if (format_.labelled && !label_names_.empty()) s += "," + csv_text(name_of_label(r));
  for (const double v : r.targets) s += "," + number_of(v);
  for (std::size_t k = 1; k < r.order.size(); ++k) choice(r.order[k]);
  if (classes_ == 0 || format_.all)
    for (const double v : r.outputs) s += "," + number_of(v);
  return s + "\n";
}

void prediction_writer::append(const row& r) {
  if (!out_.json()) return void(text_ += csv_line(r));
  prediction_json o{{"event", "prediction"}, {"input", r.input}, {"index", r.index}};
  if (positions_ > 1) o["position"] = r.position;
  const char* value = meaning_ == answer::scores ? "score" : "probability";
  const auto choose = [&](prediction_json& into, std::int64_t k) {
    into["class"] = k < 0 ? prediction_json(nullptr) : prediction_json(k);
    if (!names_.empty() && k >= 0) into["name"] = names_[static_cast<std::size_t>(k)];
    into[value] = k < 0 ? prediction_json(nullptr) : json_of(r.outputs[static_cast<std::size_t>(k)]);
  };
  if (!r.order.empty()) choose(o, r.order[0]);
  if (r.label) o["label"] = *r.label;
  if (r.label && !label_names_.empty()) o["label_name"] = name_of_label(r);
  for (const double v : r.targets) o["targets"].push_back(json_of(v));
  if (r.order.size() > 1)
    for (const auto k : r.order) choose(o["top"].emplace_back(prediction_json::object()), k);
  if (classes_ == 0 || format_.all)
    for (const double v : r.outputs) o["outputs"].push_back(json_of(v));
  text_ += o.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

expected<void> prediction_writer::add(const std::vector<std::string>& inputs, const std::vector<std::int64_t>& indices,
                                      const predictor::result& r) {
  const auto* values = r.values.data();
  const bool labels = static_cast<std::int64_t>(r.labels.size()) == static_cast<std::int64_t>(inputs.size()) * positions_;
  std::size_t at = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::int64_t k = 0; k < positions_; ++k, ++at, values += width_) {
      auto one = row_of(values);
      one.input = inputs[i];
      one.index = indices[i];
      one.position = k;
      if (labels && r.labels[at] >= 0) one.label = r.labels[at];
      if (!r.targets.empty()) take_targets(one, r.targets.data() + i * static_cast<std::size_t>(format_.targets));
      if (one.label && !one.order.empty()) hits_ += one.order[0] == *one.label ? 1 : 0, ++labelled_;
      append(one);
    }
    ++examples_;
  }
  std::string text;
  text.swap(text_);
  return put(text);
}

void prediction_writer::take_targets(row& r, const double* targets) {
  r.targets.assign(targets, targets + format_.targets);
  if (r.targets.size() != r.outputs.size()) return;
  for (std::size_t k = 0; k < r.targets.size(); ++k) squares_ += (r.outputs[k] - r.targets[k]) * (r.outputs[k] - r.targets[k]);
  compared_ += format_.targets;
}

expected<void> prediction_writer::put(const std::string& text) {
  if (temporary_.empty()) {
    out_.formatted(text);
    return {};
  }
  file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (file_) return {};
  return unexpected(error("cannot write to " + temporary_));
}

expected<void> prediction_writer::end() {
  if (temporary_.empty()) return {};
  file_.close();
  if (!file_) return unexpected(error("cannot write to " + temporary_));
  std::error_code ec;
  std::filesystem::rename(temporary_, path_, ec);
  if (ec) return unexpected(error(ec.message()));
  temporary_.clear();
  return {};
}

std::optional<double> prediction_writer::accuracy() const {
  if (labelled_ == 0) return std::nullopt;
  return static_cast<double>(hits_) / static_cast<double>(labelled_);
}

std::optional<double> prediction_writer::squared_error() const {
  if (compared_ == 0) return std::nullopt;
  return squares_ / static_cast<double>(compared_);
}

}  // namespace troupe
