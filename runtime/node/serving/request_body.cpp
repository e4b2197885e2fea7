#include "runtime/node/serving/request_body.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/node/images/codecs.hpp"
#include "runtime/node/images/resize.hpp"

namespace troupe {
namespace {

input_format format_of(const prepared_job& j, bool raw) {
  auto f = input_format_of(*j.data, j.spec.data.source, j.spec.data.values);
  f.scales_floats = raw;
  return f;
}

float scaled(const input_format& f, double number, std::size_t k, std::size_t size) {
  if (f.scale.empty()) return static_cast<float>(number);
  const auto each = size / f.scale.size(), c = k / each;
  return static_cast<float>(number * f.scale[c] - f.mean[std::min(c, f.mean.size() - 1)]);
}

expected<request_examples> of_npy(std::string_view body, const prepared_job& j, bool raw, std::int64_t most) {
  const auto opened = npy_input_of("the body", bytes_of_caller({reinterpret_cast<const std::uint8_t*>(body.data()), body.size()}),
                                   format_of(j, raw));
  if (!opened) return unexpected(opened.error());
  const auto& from = **opened;
  request_examples e;
  e.n = from.size(split::test);
  if (e.n > most)
    return unexpected(error("a request has at most " + std::to_string(most) + " examples, this one has " + std::to_string(e.n)));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(e.n));
  std::iota(indices.begin(), indices.end(), 0);
  shape s{e.n};
  for (int i = 0; i < j.data->example().rank(); ++i) s.push_back(j.data->example()[i]);
  e.values.resize(static_cast<std::size_t>(s.count()));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(e.n)), ids(j.data->ids() ? e.values.size() : 0);
  auto label = tensor::borrow(labels.data(), {e.n}, dtype::i32);
  auto data = j.data->ids() ? tensor::borrow(ids.data(), s, dtype::i32) : tensor::borrow(e.values.data(), s, dtype::f32);
  try {
    from.read(split::test, indices, data, label);
  } catch (const std::exception& x) {
    return unexpected(error(x.what()));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) e.values[i] = static_cast<float>(ids[i]);
  return e;
}

// The pixels of an image that is resized before the net reads it; 0: it has the size of the net.
expected<std::int64_t> resized_pixels(std::span<const std::uint8_t> file, const shape& wanted, std::int64_t before,
                                      std::int64_t most) {
  const auto size = images::size_of_image(file);
  if (!size) return unexpected(size.error());
  if (size->height == wanted[1] && size->width == wanted[2]) return 0;
  const auto pixels = size->height * size->width;  // at most images::max_pixels
  const auto text = std::to_string(size->height) + "x" + std::to_string(size->width) + " pixels (height x width)";
  if (pixels > most_resized_pixels)
    return unexpected(error("is " + text + ", more than the 2^24 that are resized here: make it smaller"));
  if (pixels > most - before)
    return unexpected(error("is " + text + ", which are with those before it more than the " +
                            with_commas(static_cast<std::uint64_t>(most)) +
                            " pixels that one request may have resized: send the images in several requests, or smaller "
                            "(--resized-pixels of `troupe serve` is the limit)"));
  return pixels;
}

// `before`: pixels of the request that were resized already.
expected<request_examples> of_image(std::string_view body, const prepared_job& j, const body_options& o, std::int64_t before) {
  const bool resize = o.resize || j.data->resizes();
  const auto s = j.data->example();
  const auto f = format_of(j, true);
  if (s.rank() != 3 || (s[0] != 1 && s[0] != 3) || f.scale.empty())
    return unexpected(error("the body is an image, but the net takes " + s.to_string() + ", not 1 or 3 channels of bytes"));
  const auto bytes = std::span(reinterpret_cast<const std::uint8_t*>(body.data()), body.size());
  const auto larger = resize ? resized_pixels(bytes, s, before, o.pixels) : expected<std::int64_t>(0);
  if (!larger) return unexpected(larger.error().in("the image"));
  auto made = images::decode_image(bytes, static_cast<int>(s[0]), resize ? images::wanted_size{} : images::wanted_size{s[1], s[2]});
  if (!made) return unexpected(made.error().in("the image"));
  if (made->height != s[1] || made->width != s[2]) *made = images::resized(*made, s[1], s[2]);
  request_examples e{std::vector<float>(static_cast<std::size_t>(s.count())), 1, *larger};
  std::vector<std::uint8_t> planes;
  planes.reserve(e.values.size());
  images::append_planes(*made, f.order, planes);
  for (std::size_t k = 0; k < planes.size(); ++k) e.values[k] = scaled(f, planes[k], k, planes.size());
  return e;
}

// Takes the numbers of {"examples": [...]} as they are parsed, so that memory is that of the
// numbers. A body that cannot be used ends at its first mistake. Other keys of the object are
// ignored.
// size: one method for each kind of value
class examples_reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  examples_reader(const prepared_job& j, bool raw, std::int64_t most, std::size_t body_bytes)
      : ids_(j.data->ids()), raw_(raw), shape_(j.data->example()), format_(format_of(j, raw)), most_(most) {
    size_ = static_cast<std::size_t>(shape_.count());
    // A number of JSON has at least two bytes with its comma. Pages are touched only as numbers
    // arrive.
    out_.values.reserve(std::min(body_bytes / 2 + 1, size_ * static_cast<std::size_t>(most)));
  }

  // After parsing. `complete`: the whole body was JSON.
  expected<request_examples> result(bool complete) && {
    if (!wrong_.empty()) return unexpected(error(wrong_));
    if (!complete || !found_)
      return unexpected(
          error("the body is no .npy file, no PNG or JPEG image, and not JSON as in {\"examples\": [[1, 2], [3, 4]]}"));
    return std::move(out_);
  }

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool string(string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool number_integer(number_integer_t v) override { return number(static_cast<double>(v)); }
  bool number_unsigned(number_unsigned_t v) override { return number(static_cast<double>(v)); }
  bool number_float(number_float_t v, const string_t&) override { return number(v); }
  bool key(string_t& k) override {
    if (depth_ > 1) return true;
    here_ = k == "examples";
    return !(here_ && found_) || fail("the body has the key \"examples\" twice");
  }
  bool start_object(std::size_t) override { return depth_ == 0 || !here_ ? enter() : other(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;
    if (here_ && depth_ == list_depth - 1) found_ = true;
    if (here_ && depth_ == list_depth && !begin_example()) return false;
    if (here_ && depth_ > list_depth + shape::max_rank) return wrong_example();
    return enter();
  }
  bool end_array() override {
    leave();
    return !here_ || depth_ != list_depth || end_example();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  static constexpr int list_depth = 2;  // inside of the list of examples
  static constexpr int most_depth = 64;

  bool enter() { return ++depth_ <= most_depth; }
  bool leave() { return --depth_, true; }
  // A value that is neither a number nor a list.
  bool other() {
    if (!here_ || depth_ == 0) return depth_ > 0;
    if (depth_ < list_depth) return false;
    return (depth_ > list_depth || begin_example()) && wrong_example();
  }
  bool number(double v) {
    if (!here_ || depth_ == 0) return depth_ > 0;
    if (depth_ < list_depth) return false;
    if (depth_ == list_depth) return begin_example() && take(v) && end_example();
    return take(v);
  }
  bool begin_example() {
    if (out_.n == most_) return fail("a request has at most " + std::to_string(most_) + " examples, this one has more");
    numbers_ = 0;
    return true;
  }
  bool take(double v) {
    if (numbers_ == size_) return wrong_example();
    if (ids_ && !(v >= 0 && v < 16777216 && v == std::floor(v)))
      return fail("example " + std::to_string(out_.n) + " has a number that is no id (0, 1, 2, ...)");
    out_.values.push_back(raw_ ? scaled(format_, v, numbers_, size_) : static_cast<float>(v));
    ++numbers_;
    return true;
  }
  bool end_example() {
    if (numbers_ != size_) return wrong_example(", it has " + std::to_string(numbers_));
    ++out_.n;
    return true;
  }
  bool wrong_example(const std::string& more = {}) {
    return fail("example " + std::to_string(out_.n) + " must be " + std::to_string(size_) + " numbers (" + shape_.to_string() +
                ")" + more);
  }
  bool fail(std::string text) {
    wrong_ = std::move(text);
    return false;
  }

  const bool ids_, raw_;
  const shape shape_;
  const input_format format_;
  const std::int64_t most_;
  std::size_t size_ = 0, numbers_ = 0;  // of an example; of the one that is being read
  int depth_ = 0;                       // objects and arrays around the next value
  bool here_ = false, found_ = false;   // inside of the value of "examples"; it has been there
  request_examples out_;
  std::string wrong_;
};

expected<request_examples> of_json(std::string_view body, const prepared_job& j, bool raw, std::int64_t most) {
  examples_reader reader(j, raw, most, body.size());
  const bool complete = nlohmann::json::sax_parse(body, &reader);
  return std::move(reader).result(complete);
}

}  // namespace

expected<request_examples> examples_of_body(std::string_view body, const prepared_job& j, const body_options& o, std::int64_t most,
                                            std::int64_t resized) {
  const auto bytes = std::span(reinterpret_cast<const std::uint8_t*>(body.data()), body.size());
  if (body.starts_with("\x93NUMPY")) return of_npy(body, j, o.raw, most);
  if (images::is_png(bytes) || images::is_jpeg(bytes)) return of_image(body, j, o, resized);
  return of_json(body, j, o.raw, most);
}

}  // namespace troupe
