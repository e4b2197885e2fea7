#include "runtime/sync/bsp.hpp"

namespace troupe {

void mode_registry::add(sync_mode m) {
  auto name = m.name;
  rows_[std::move(name)] = std::move(m);
}

const sync_mode* mode_registry::find(std::string_view name) const {
  auto i = rows_.find(name);
  return i == rows_.end() ? nullptr : &i->second;
}

std::vector<std::string> mode_registry::names() const {
  std::vector<std::string> list;
  for (const auto& [name, row] : rows_) list.push_back(name);
  return list;
}

void add_stock_modes(mode_registry& r) { r.add(bsp_mode()); }

}  // namespace troupe
