// lmdb: Caffe's databases of examples (datum.hpp), read from the file when they are used. value =
// byte * scale - mean. Images of encoded records become planes in the order blue, green, red, as
// Caffe has them, unless channel_order says otherwise; grey ones stay grey, unless `channels` does.
// A record that is damaged, has another shape or a label that is not below `classes` fails the job
// with its number. Negative labels do not count (label_rule.hpp).
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/label_rule.hpp"
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
  bool convert = false;  // encoded images of another number of channels are converted
  channel_order order = channel_order::bgr;
  std::int64_t classes = 0;
  std::vector<double> scale, mean;  // one number, or one for each channel
  std::optional<label_rule> rule;
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

images::image_size size_in_header(const datum& d, const std::string& place) {
  const auto size = images::size_of_image(d.data);
  if (!size) throw std::runtime_error(size.error().in(place).text);
  return *size;
}

// The image of an encoded record, in planes.
std::vector<std::uint8_t> planes_of(const datum& d, const record_layout& l, const std::string& place) {
  if (!l.convert && l.example[0] == 1 && size_in_header(d, place).channels != 1)
    throw std::runtime_error(place +
                             ": it is a colour image, but the first record is grey; channels = 3 makes all records colour, "
                             "channels = 1 grey");
  const auto image = images::decode_image(d.data, static_cast<int>(l.example[0]), {l.example[1], l.example[2]});
  if (!image) throw std::runtime_error(image.error().in(place).text);
  std::vector<std::uint8_t> planes;
  planes.reserve(image->bytes.size());
  images::append_planes(*image, l.order, planes);
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
  bool ignores_labels() const override { return layout_.rule->has_ignored(); }
  channel_order picture_order() const override { return layout_.order; }
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
    if (layout_.rule->ignores(d.label)) return -1;
    if (d.label >= layout_.classes)
      throw std::runtime_error(place_of(*p.from, row(p, i)) + ": its label " + std::to_string(d.label) +
                               " is not below classes = " + std::to_string(layout_.classes));
    return static_cast<std::int32_t>(d.label);
  }
  // Calls `use` with the bytes of example i, whose record is `d`.
  template <class F>
  void bytes_of(const datum& d, const lmdb_part& p, std::int64_t i, F&& use) const {
    if (!d.encoded) return use(d.data.data());
    use(planes_of(d, layout_, place_of(*p.from, row(p, i))).data());
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

// The shape and kind of the first record. As in Caffe an encoded image has the channels of its
// file, unless `channels` names them (Caffe: force_color, force_gray).
record_layout layout_of(const lmdb_records& from, const options& o) {
  std::vector<std::uint8_t> record;
  const auto d = record_of(from, 0, record);
  const auto channels = o.integer("channels");
  if (channels == 2) throw option_error("channels", "option 'channels' must be 1, 3, or 0 (those of the first record), not 2");
  record_layout l;
  l.encoded = d.encoded, l.floats = d.floats > 0;
  l.order = channel_order_of(o);
  l.example = shape{d.channels, d.height, d.width};
  if (d.encoded) {
    const auto size = size_in_header(d, place_of(from, 0));
    l.example = shape{channels != 0 ? channels : size.channels, size.height, size.width};
    l.convert = channels != 0;
  } else if (channels != 0 && channels != d.channels) {
    throw option_error(
        "channels", place_of(from, 0) + ": it has " + std::to_string(d.channels) +
                        " channels and is no encoded image, so it cannot be converted to channels = " + std::to_string(channels));
  }
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

// Largest label + 1 of all records. Throws option_error if one is neither a class number nor
// ignored.
std::int64_t count_classes(const lmdb_part& p, const char* key, label_rule& rule) {
  std::int64_t classes = 0;
  std::vector<std::uint8_t> record;
  for (const auto r : p.rows) {
    const auto label = record_of(*p.from, r, record).label;
    const auto counted = rule.of(static_cast<double>(label));
    if (!counted)
      throw option_error(key,
                         place_of(*p.from, r) + ": its label " + std::to_string(label) + " is not a class number (0, 1, 2, ...)");
    classes = std::max(classes, std::int64_t{*counted} + 1);
  }
  return classes;
}

void open_test_records(const options& o, std::array<lmdb_part, 2>& parts, const record_layout& layout) {
  parts[1] = open_records(o, "test_path");
  if (o.integer("classes") > 0) return;  // then no label is read before it is used
  auto rule = *layout.rule;
  if (const auto n = count_classes(parts[1], "test_path", rule); n > layout.classes)
    throw option_error("test_path", o.text("test_path") + ": its largest label is " + std::to_string(n - 1) + ", that of " +
                                        o.text("path") + " is " + std::to_string(layout.classes - 1) +
                                        "; set classes if that is meant");
}

std::shared_ptr<const source> opened(const options& o) {
  std::array<lmdb_part, 2> parts{open_records(o, "path"), {}};
  auto layout = layout_of(*parts[0].from, o);
  layout.scale = numbers_of(o, "scale", 1, layout.example[0]);
  layout.mean = numbers_of(o, "mean", 0, layout.example[0]);
  layout.rule.emplace(o, most_classes);
  layout.classes = o.integer("classes");
  if (layout.classes == 0) {
    layout.classes = count_classes(parts[0], "path", *layout.rule);
    layout.rule->check_zero("path", o.text("path"));
    if (layout.classes == 0) throw option_error("path", o.text("path") + ": no label of a record is a class number (0, 1, 2, ...)");
  }
  if (const auto fraction = o.real("test_fraction"); fraction > 0) {
    if (!o.text("test_path").empty()) throw option_error("test_fraction", "test_fraction and test_path exclude each other");
    const auto tested = chosen_for_test(parts[0].rows.size(), fraction);
    const auto all = std::exchange(parts[0].rows, {});
    parts[1].from = parts[0].from;
    for (const auto r : all) parts[tested[static_cast<std::size_t>(r)] ? 1 : 0].rows.push_back(r);
  } else if (!o.text("test_path").empty()) {
    open_test_records(o, parts, layout);
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
      ignore_label_option(),
      bounded(option_of("channels", kind::integer, std::int64_t{0},
                        "1 (grey) or 3 (colour): encoded images are converted; 0: as the first record's file has them"),
              0, 3),
      channel_order_option(channel_order::bgr,
                           "order of the three planes of colour pictures: as records with bytes have them, and as encoded images "
                           "are decoded"),
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
