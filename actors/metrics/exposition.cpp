#include "actors/metrics/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <cmath>
#include <limits>
#include <unordered_map>

#include "runtime/base/invariant.hpp"
#include "runtime/base/printable.hpp"

namespace troupe {
namespace {

using family = prometheus::MetricFamily;
constexpr std::size_t longest_label = 128;  // bytes that are shown

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(' ', at), text.size());
    list.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return list;
}

prometheus::MetricType type_of(metric_kind k) {
  switch (k) {
    case metric_kind::gauge: return prometheus::MetricType::Gauge;
    case metric_kind::counter: return prometheus::MetricType::Counter;
    case metric_kind::histogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

// The table with its labels, by name.
struct index {
  struct row {
    std::size_t at = 0;
    std::vector<std::string> labels;
  };
  std::unordered_map<std::string_view, row> rows;

  index() {
    const auto table = metric_table();
    for (std::size_t i = 0; i < table.size(); ++i) rows[table[i].name] = {i, words(table[i].labels)};
  }
  static const index& all() {
    static const index made;
    return made;
  }
};

}  // namespace

struct exposition::impl {
  std::vector<family> families;

  prometheus::ClientMetric& make(std::string_view name, labels values, bool histogram) {
    const auto at = index::all().rows.find(name);
    invariant(at != index::all().rows.end(), "a metric is in the table");
    const auto& [i, names] = at->second;
    auto& f = families[i];
    invariant(names.size() == values.size() && histogram == (f.type == prometheus::MetricType::Histogram),
              "a metric has the labels and the kind of the table");
    auto& m = f.metric.emplace_back();
    auto value = values.begin();
    for (const auto& n : names) m.label.push_back({n, printable(std::string_view(*value++).substr(0, longest_label))});
    return m;
  }
};

exposition::exposition() : impl_(std::make_unique<impl>()) {
  for (const auto& m : metric_table()) impl_->families.push_back({m.name, m.help, type_of(m.kind), {}});
}
exposition::~exposition() = default;

void exposition::add(std::string_view name, labels values, double value) {
  auto& m = impl_->make(name, values, false);
  m.counter.value = m.gauge.value = value;
}

void exposition::add(std::string_view name, labels values, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                     double sum) {
  auto& h = impl_->make(name, values, true).histogram;
  invariant(counts.size() == bounds.size() + 1, "a histogram has one count more than bounds");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    h.sample_count += counts[i];
    h.bucket.push_back({h.sample_count, i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity()});
  }
  h.sample_sum = sum;
}

std::string exposition::text() const {
  std::vector<family> used;
  for (auto& f : impl_->families)
    if (!f.metric.empty()) used.push_back(f);
  return prometheus::TextSerializer().Serialize(used);
}

}  // namespace troupe
