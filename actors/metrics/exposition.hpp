// The metrics that Troupe exports, and one page of their values in Prometheus' text format.
//
// Names follow Prometheus' conventions: base units (seconds, bytes, ratios), `_total` for counters.
// Every metric is in metric_table(); add() refuses other names and other labels, so the table is
// complete. Labels have few values: numbers of the newest jobs, nodes of the cluster file, kinds of
// roles, layers, reasons.
//
// Threads: a page belongs to one thread. Errors: invariants.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

enum class metric_kind : std::uint8_t { gauge, counter, histogram };

struct metric {
  const char* name;
  metric_kind kind;
  const char* labels;  // names, separated by spaces
  const char* help;
};
std::span<const metric> metric_table();

// Media type of the page.
inline constexpr const char* exposition_type = "text/plain; version=0.0.4; charset=utf-8";

constexpr double real(std::uint64_t n) { return static_cast<double>(n); }

class exposition {
 public:
  exposition();
  ~exposition();
  exposition(const exposition&) = delete;
  exposition& operator=(const exposition&) = delete;

  using labels = std::initializer_list<std::string_view>;  // values, in the order of the table
  void add(std::string_view name, labels values, double value);
  void add(std::string_view name, double value) { add(name, {}, value); }
  // counts[i]: number of values in (bounds[i - 1], bounds[i]]; one more count for larger values.
  void add(std::string_view name, labels values, std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum);

  std::string text() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
