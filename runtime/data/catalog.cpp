// The tables of sources and samplers, and what stands in them from the start.
#include <utility>

#include "runtime/data/stock.hpp"

namespace troupe {

void source_registry::add(source_type t) {
  auto name = t.name;
  types_.insert_or_assign(std::move(name), std::move(t));
}

const source_type* source_registry::find(std::string_view name) const {
  auto i = types_.find(name);
  return i == types_.end() ? nullptr : &i->second;
}

std::vector<std::string> source_registry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, type] : types_) out.push_back(name);
  return out;
}

void sampler_registry::add(sampler_type t) {
  auto name = t.name;
  types_.insert_or_assign(std::move(name), std::move(t));
}

const sampler_type* sampler_registry::find(std::string_view name) const {
  auto i = types_.find(name);
  return i == types_.end() ? nullptr : &i->second;
}

std::vector<std::string> sampler_registry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, type] : types_) out.push_back(name);
  return out;
}

void add_stock_sources(source_registry& r) {
  r.add(idx_source_type());
  r.add(synthetic_source_type());
}

void add_stock_samplers(sampler_registry& r) {
  r.add(shuffle_sampler_type());
  r.add(sequential_sampler_type());
}

void check_sampler_config(const sampler_config& c) {
  if (c.batch <= 0) throw option_error("batch", "batch is " + std::to_string(c.batch) + ": at least 1 example");
  if (c.examples < c.batch)
    throw option_error("batch", "batch is " + std::to_string(c.batch) + ", but the training set has only " +
                                    std::to_string(c.examples) + " examples");
}

}  // namespace troupe
