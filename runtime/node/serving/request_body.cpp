#include "runtime/node/serving/request_body.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ops/device.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/node/images/codecs.hpp"

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

expected<request_examples> of_npy(const std::string& body, const prepared_job& j, bool raw, std::int64_t most) {
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

expected<request_examples> of_image(const std::string& body, const prepared_job& j) {
  const auto s = j.data->example();
  const auto f = format_of(j, true);
  if (s.rank() != 3 || (s[0] != 1 && s[0] != 3) || f.scale.empty())
    return unexpected(error("the body is an image, but the net takes " + s.to_string() + ", not 1 or 3 channels of bytes"));
  const auto bytes = std::span(reinterpret_cast<const std::uint8_t*>(body.data()), body.size());
  const auto made = images::decode_image(bytes, static_cast<int>(s[0]), {s[1], s[2]});
  if (!made) return unexpected(made.error().in("the image"));
  request_examples e{std::vector<float>(static_cast<std::size_t>(s.count())), 1};
  const auto pixels = static_cast<std::size_t>(s[1] * s[2]), channels = static_cast<std::size_t>(s[0]);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t p = 0; p < pixels; ++p)
      e.values[c * pixels + p] = scaled(f, made->bytes[p * channels + c], c * pixels + p, e.values.size());
  return e;
}

// Appends the numbers of nested lists; at most `most`. False: something else is in them.
bool take_numbers(const nlohmann::json& list, std::vector<double>& out, std::size_t most, int depth = 0) {
  if (list.is_number()) return out.push_back(list.get<double>()), out.size() <= most;
  if (!list.is_array() || depth > shape::max_rank) return false;
  for (const auto& x : list)
    if (!take_numbers(x, out, most, depth + 1)) return false;
  return true;
}

expected<request_examples> of_json(const std::string& body, const prepared_job& j, bool raw, std::int64_t most) {
  const auto o = nlohmann::json::parse(body, nullptr, false);
  if (!o.is_object() || !o.contains("examples") || !o["examples"].is_array())
    return unexpected(error("the body is no .npy file, no PNG or JPEG image, and not JSON as in {\"examples\": [[1, 2], [3, 4]]}"));
  const auto& list = o["examples"];
  const auto size = static_cast<std::size_t>(j.data->example().count());
  if (list.size() > static_cast<std::size_t>(most))
    return unexpected(
        error("a request has at most " + std::to_string(most) + " examples, this one has " + std::to_string(list.size())));
  const auto f = format_of(j, raw);
  request_examples e;
  for (const auto& x : list) {
    const auto wrong = [&](const std::string& what) { return unexpected(error("example " + std::to_string(e.n) + " " + what)); };
    std::vector<double> numbers;
    if (!take_numbers(x, numbers, size) || numbers.size() != size)
      return wrong("must be " + std::to_string(size) + " numbers (" + j.data->example().to_string() + ")" +
                   (numbers.size() < size ? ", it has " + std::to_string(numbers.size()) : ""));
    for (std::size_t k = 0; k < size; ++k) {
      if (j.data->ids() && !(numbers[k] >= 0 && numbers[k] < 16777216 && numbers[k] == std::floor(numbers[k])))
        return wrong("has a number that is no id (0, 1, 2, ...)");
      e.values.push_back(raw ? scaled(f, numbers[k], k, size) : static_cast<float>(numbers[k]));
    }
    ++e.n;
  }
  return e;
}

}  // namespace

expected<request_examples> examples_of_body(const std::string& body, const prepared_job& j, bool raw, std::int64_t most) {
  const auto bytes = std::span(reinterpret_cast<const std::uint8_t*>(body.data()), body.size());
  if (body.starts_with("\x93NUMPY")) return of_npy(body, j, raw, most);
  if (images::is_png(bytes) || images::is_jpeg(bytes)) return of_image(body, j);
  return of_json(body, j, raw, most);
}

}  // namespace troupe
