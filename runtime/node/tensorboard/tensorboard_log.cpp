#include "runtime/node/tensorboard/tensorboard_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/bf16.hpp"
#include "runtime/messages/value_histogram.hpp"
#include "runtime/node/images/png_encode.hpp"

namespace troupe {
namespace {

constexpr std::int64_t most_filters = 256;
constexpr std::int64_t pixels_of_filter = 32;
constexpr std::int64_t largest_filter = 64;  // of a side; larger weights are no filters to look at

// The values as doubles; empty for other types.
std::vector<double> numbers_of(const tensor& t) {
  std::vector<double> all(static_cast<std::size_t>(t.count()));
  const auto take = [&](const auto* from, auto&& number) {
    for (auto& v : all) v = number(*from++);
  };
  const auto same = [](auto v) { return static_cast<double>(v); };
  switch (t.type()) {
    case dtype::f32: take(static_cast<const float*>(t.raw()), same); break;
    case dtype::f64: take(static_cast<const double*>(t.raw()), same); break;
    case dtype::bf16: take(static_cast<const bf16*>(t.raw()), to_float); break;
    default: all.clear();
  }
  return all;
}

struct shade {
  double low = 0, high = 0;

  explicit shade(const std::vector<double>& all) {
    bool some = false;
    for (double v : all) {
      if (!std::isfinite(v)) continue;
      low = some ? std::min(low, v) : v;
      high = some ? std::max(high, v) : v;
      some = true;
    }
  }
  std::uint8_t of(double v) const {
    if (!std::isfinite(v)) return 0;
    if (high <= low) return 128;
    return static_cast<std::uint8_t>(std::lround(std::clamp((v - low) / (high - low), 0.0, 1.0) * 255.0));
  }
};

}  // namespace

std::optional<summary_image> filter_image(const tensor& weight) {
  if (!weight.backed() || !weight.space().host() || weight.dims().rank() != 4) return std::nullopt;
  const auto& d = weight.dims();
  const auto channels = d[1], rows = d[2], columns = d[3];
  if ((channels != 1 && channels != 3) || d[0] < 1 || rows < 1 || columns < 1 || std::max(rows, columns) > largest_filter)
    return std::nullopt;
  const auto values = numbers_of(weight);
  if (values.empty()) return std::nullopt;
  const shade grey(values);
  const auto filters = std::min(d[0], most_filters);
  const auto across = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(filters))));
  const auto down = (filters + across - 1) / across;
  const auto scale = std::max<std::int64_t>(1, pixels_of_filter / std::max(rows, columns));
  const auto width = scale * columns * across + across + 1, height = scale * rows * down + down + 1;
  images::image grid{height, width, static_cast<int>(channels), {}};
  grid.bytes.resize(static_cast<std::size_t>(width * height * channels), 0);
  for (std::int64_t f = 0; f < filters; ++f) {
    const auto left = 1 + f % across * (scale * columns + 1), top = 1 + f / across * (scale * rows + 1);
    for (std::int64_t y = 0; y < scale * rows; ++y)
      for (std::int64_t x = 0; x < scale * columns; ++x)
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto from = ((f * channels + c) * rows + y / scale) * columns + x / scale;
          const auto to = ((top + y) * width + left + x) * channels + c;
          grid.bytes[static_cast<std::size_t>(to)] = grey.of(values[static_cast<std::size_t>(from)]);
        }
  }
  const auto png = images::encode_png(grid);
  if (!png) return std::nullopt;
  return summary_image{static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height), static_cast<std::uint8_t>(channels),
                       std::string(png->begin(), png->end())};
}

expected<tensorboard_log, record_error> tensorboard_log::open(const std::filesystem::path& folder, double wall_time) {
  auto opened = event_file::open(folder, wall_time);
  if (!opened) return unexpected(std::move(opened).error());
  return tensorboard_log(std::move(*opened));
}

void tensorboard_log::event(const event_effect& e, double wall_time) {
  const auto scalar = [&](const std::string& name, double v) { file_.scalar(e.step, wall_time, name, v); };
  if (const auto* s = e.as<step_event>()) {
    scalar("train/loss", s->loss);
    if (s->lr) scalar("train/lr", *s->lr);
    scalar("train/examples_per_s", s->examples_per_s);
    if (s->skipped > 0) scalar("train/skipped", static_cast<double>(s->skipped));
  } else if (const auto* v = e.as<eval_event>()) {
    if (v->accuracy) scalar("test/accuracy", *v->accuracy);
    for (const auto& [name, value] : v->others) scalar("test/" + name, value);
    scalar("test/loss", v->loss);
  } else if (const auto* h = e.as<histogram_event>()) {
    file_.histogram(e.step, wall_time, (h->gradient ? "gradients/" : "weights/") + h->parameter, h->values);
  }
}

void tensorboard_log::weights(std::uint64_t step, double wall_time, const named_tensors& named) {
  const auto first =
      std::find_if(named.begin(), named.end(), [](const auto& n) { return n.second && n.second.dims().rank() == 4; });
  if (first == named.end()) return;
  if (const auto image = filter_image(first->second)) file_.image(step, wall_time, "filters/" + first->first, *image);
}

}  // namespace troupe
