// lmdb: Caffe's databases of examples (datum.hpp), read from the file when they are used. value =
// byte * scale - mean. Images of encoded records become planes in the order blue, green, red, as
// Caffe has them; a record that is damaged or has another shape fails the job with its number.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/test_split.hpp"
#include "runtime/node/formats/datum.hpp"
#include "runtime/node/formats/formats.hpp"
#include "runtime/node/formats/lmdb_records.hpp"
#include "runtime/node/images/decode.hpp"

namespace troupe {
namespace {

// What all records of a job have.
struct record_layout {
  shape example;
  bool encoded = false, floats = false;
  std::int64_t classes = 0;
  std::vector<double> scale, mean;  // one number, or one for each channel
};

struct lmdb_part {
  std::shared_ptr<const lmdb_records> from;
  std::vector<std::int64_t> rows;  // numbers of records, in the order of the examples
};

std::string place_of(const lmdb_records& from, std::int64_t row) { return from.path() + ": record " + std::to_string(row); }

// Reads a record to `bytes`, into which the result points.
datum record_of(const lmdb_records& from, std::int64_t row, std::vector<std::uint8_t>& bytes) {
  if (const auto fine = from.read(row, bytes); !fine) throw std::runtime_error(fine.error().in(place_of(from, row)).text);
  auto d = parse_datum(bytes);
  if (!d) throw std::runtime_error(d.error().in(place_of(from, row)).text);
  return *d;
}

// The image of an encoded record, in planes.
std::vector<std::uint8_t> planes_of(const datum& d, const shape& example, const std::string& place) {
  const auto channels = example[0];
  const auto image = images::decode_image(d.data, static_cast<int>(channels), {example[1], example[2]});
  if (!image) throw std::runtime_error(image.error().in(place).text);
  std::vector<std::uint8_t> planes(image->bytes.size());
  const auto area = static_cast<std::size_t>(example[1] * example[2]), n = static_cast<std::size_t>(channels);
  for (std::size_t c = 0; c < n; ++c)
    for (std::size_t k = 0; k < area; ++k) planes[c * area + k] = image->bytes[k * n + (n - 1 - c)];
  return planes;
}

class lmdb_source final : public source {
 public:
  lmdb_source(std::array<lmdb_part, 2> parts, record_layout layout) : parts_(std::move(parts)), layout_(std::move(layout)) {
    const auto each = [](const std::vector<double>& list, std::size_t c) { return list.size() == 1 ? list[0] : list[c]; };
    for (std::size_t c = 0; c < static_cast<std::size_t>(layout_.example[0]); ++c)
      scaling_.emplace_back(each(layout_.scale, c), each(layout_.mean, c));
  }

  shape example() const override { return layout_.example; }
  std::int64_t classes() const override { return layout_.classes; }
  std::int64_t size(split s) const override { return static_cast<std::int64_t>(part(s).rows.size()); }
  bool decodes() const override { return layout_.encoded; }
  std::optional<byte_scaling> bytes() const override {
    if (layout_.floats) return std::nullopt;
    byte_scaling b{layout_.scale, layout_.mean};
    b.scale.resize(std::max(b.scale.size(), b.mean.size()), b.scale[0]);
    b.mean.resize(b.scale.size(), b.mean[0]);
    return b;
  }
  void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto n = static_cast<std::size_t>(layout_.example.count());
    std::vector<std::uint8_t> record;
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n);
      else
        bytes_of(checked(part(s), i, record), part(s), i, [&](const std::uint8_t* from) { std::memcpy(out, from, n); });
      out += n;
    }
  }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * layout_.example.count());
    auto* labels = label.mutable_data<std::int32_t>();
    if (data.type() == dtype::f64)
      read_examples(part(s), indices, data.mutable_data<double>(), labels);
    else
      read_examples(part(s), indices, data.mutable_data<float>(), labels);
  }

 private:
  const lmdb_part& part(split s) const { return parts_[s == split::train ? 0 : 1]; }
  static std::int64_t row(const lmdb_part& p, std::int64_t i) { return p.rows[static_cast<std::size_t>(i)]; }

  datum checked(const lmdb_part& p, std::int64_t i, std::vector<std::uint8_t>& record) const {
    const auto d = record_of(*p.from, row(p, i), record);
    const bool same =
        layout_.encoded ? d.encoded
                        : !d.encoded && (d.floats > 0) == layout_.floats && shape{d.channels, d.height, d.width} == layout_.example;
    if (!same)
      throw std::runtime_error(place_of(*p.from, row(p, i)) + ": its shape or kind differs from that of the first record, " +
                               layout_.example.to_string());
    return d;
  }
  std::int32_t label_of(const datum& d, const lmdb_part& p, std::int64_t i) const {
    if (d.label < 0 || d.label >= layout_.classes)
      throw std::runtime_error(place_of(*p.from, row(p, i)) + ": its label " + std::to_string(d.label) +
                               " is not below classes = " + std::to_string(layout_.classes));
    return static_cast<std::int32_t>(d.label);
  }
  // Calls `use` with the bytes of example i, whose record is `d`.
  template <class F>
  void bytes_of(const datum& d, const lmdb_part& p, std::int64_t i, F&& use) const {
    if (!d.encoded) return use(d.data.data());
    use(planes_of(d, layout_.example, place_of(*p.from, row(p, i))).data());
  }
  template <class T>
  void read_examples(const lmdb_part& p, const std::vector<std::int64_t>& indices, T* out, std::int32_t* labels) const {
    const auto n = static_cast<std::size_t>(layout_.example.count()), area = n / scaling_.size();
    const auto scaled = [&](const auto* from) {
      for (std::size_t c = 0; c < scaling_.size(); ++c)
        for (std::size_t k = c * area; k < (c + 1) * area; ++k)
          out[k] = static_cast<T>(static_cast<double>(from[k]) * scaling_[c].first - scaling_[c].second);
    };
    std::vector<float> floats(layout_.floats ? n : 0);
    std::vector<std::uint8_t> record;
    for (auto i : indices) {
      if (i < 0) {
        std::fill_n(out, n, T{0});
        *labels++ = -1;
      } else {
        const auto d = checked(p, i, record);
        *labels++ = label_of(d, p, i);
        if (layout_.floats) {
          copy_floats(record, floats.data());
          scaled(floats.data());
        } else {
          bytes_of(d, p, i, scaled);
        }
      }
      out += n;
    }
  }

  std::array<lmdb_part, 2> parts_;
  record_layout layout_;
  std::vector<std::pair<double, double>> scaling_;  // by channel
};

lmdb_part open_records(const options& o, const char* key) {
  const auto& path = o.text(key);
  check_path_text(key, path);
  auto records = lmdb_records::open(path);
  if (!records) throw option_error(key, records.error().text);
  lmdb_part p{*std::move(records), {}};
  for (std::int64_t r = 0; r < p.from->size(); ++r) p.rows.push_back(r);
  return p;
}

// The shape and kind of the first record.
record_layout layout_of(const lmdb_records& from) {
  std::vector<std::uint8_t> record;
  const auto d = record_of(from, 0, record);
  record_layout l;
  l.encoded = d.encoded, l.floats = d.floats > 0;
  l.example = shape{d.channels, d.height, d.width};
  if (!d.encoded) return l;
  const auto size = images::size_of_image(d.data);
  if (!size) throw std::runtime_error(size.error().in(place_of(from, 0)).text);
  l.example = shape{d.channels == 1 ? 1 : 3, size->height, size->width};
  return l;
}

std::vector<double> numbers_of(const options& o, const char* key, double otherwise, std::int64_t channels) {
  auto list = o.get<std::vector<double>>(key);
  if (list.empty()) return {otherwise};
  if (list.size() != 1 && list.size() != static_cast<std::size_t>(channels))
    throw option_error(key, std::string(key) + " has " + std::to_string(list.size()) + " numbers, but an example has " +
                                std::to_string(channels) + " channels");
  return list;
}

std::shared_ptr<const source> opened(const options& o) {
  std::array<lmdb_part, 2> parts{open_records(o, "path"), {}};
  auto layout = layout_of(*parts[0].from);
  layout.scale = numbers_of(o, "scale", 1, layout.example[0]);
  layout.mean = numbers_of(o, "mean", 0, layout.example[0]);
  layout.classes = o.integer("classes");
  if (layout.classes == 0) {
    std::vector<std::uint8_t> record;
    for (const auto r : parts[0].rows) layout.classes = std::max(layout.classes, record_of(*parts[0].from, r, record).label + 1);
    if (layout.classes < 1 || layout.classes > most_classes)
      throw option_error("path", o.text("path") + ": its labels are no class numbers (0, 1, 2, ...)");
  }
  if (const auto fraction = o.real("test_fraction"); fraction > 0) {
    if (!o.text("test_path").empty()) throw option_error("test_fraction", "test_fraction and test_path exclude each other");
    const auto tested = chosen_for_test(parts[0].rows.size(), fraction);
    const auto all = std::exchange(parts[0].rows, {});
    parts[1].from = parts[0].from;
    for (const auto r : all) parts[tested[static_cast<std::size_t>(r)] ? 1 : 0].rows.push_back(r);
  } else if (!o.text("test_path").empty()) {
    parts[1] = open_records(o, "test_path");
  }
  return std::make_shared<lmdb_source>(std::move(parts), std::move(layout));
}

std::shared_ptr<const source> open_lmdb(const options& o, std::uint64_t) {
  try {
    return opened(o);
  } catch (const option_error&) {
    throw;
  } catch (const std::runtime_error& e) {  // of a record
    throw option_error("path", e.what());
  }
}

option_specs lmdb_specs() {
  using kind = option_kind;
  const option_value none{std::string{}}, no_numbers{std::vector<double>{}};
  return {
      option_of("path", kind::text, std::nullopt, "LMDB database of the training examples: its folder, or data.mdb itself"),
      option_of("test_path", kind::text, none, "that of the test examples"),
      real_option("test_fraction", 0.0, "instead of test_path: this fraction of the examples is the test split", 0.0, 0.9),
      bounded(option_of("classes", kind::integer, std::int64_t{0},
                        "number of classes; 0: the largest training label + 1, for which all records are read at the start"),
              0, most_classes),
      option_of("scale", kind::reals, no_numbers, "value = number * scale - mean, one for all or one for each channel; none: 1"),
      option_of("mean", kind::reals, no_numbers, "subtracted after scaling, likewise; none: 0")};
}

}  // namespace

source_type lmdb_source_type() {
  const auto files = [](const options& o) {
    std::vector<source_file> list;
    std::error_code ec;
    for (const char* key : {"path", "test_path"})
      list.push_back({key, o.text(key), std::filesystem::is_directory(o.text(key), ec)});
    return list;
  };
  return {"lmdb", "Caffe's databases of examples (Datum in LMDB), read in place.", lmdb_specs(), open_lmdb, files};
}

}  // namespace troupe
