// Actor-based layers: a layer type may register its own stage role, which replaces the stock stage.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct graph_layer;
struct job_plan;
struct stage_config;  // runtime/stage/stage.hpp

struct stage_type {
  std::function<std::unique_ptr<role>(stage_config)> make;
  // An error if the stage cannot run under this plan. Called before the job starts.
  std::function<expected<void>(const job_plan&, const graph_layer&)> check;
};

class stage_registry {
 public:
  // `layer_type`: the entry of the layer registry that this stage serves; it defines options,
  // shapes and parameters.
  void add(std::string layer_type, stage_type t) { rows_[std::move(layer_type)] = std::move(t); }
  const stage_type* find(std::string_view layer_type) const {
    auto i = rows_.find(layer_type);
    return i == rows_.end() ? nullptr : &i->second;
  }

  std::set<std::string> types() const {
    std::set<std::string> list;
    for (const auto& [type, make] : rows_) list.insert(type);
    return list;
  }

 private:
  std::map<std::string, stage_type, std::less<>> rows_;
};

}  // namespace troupe
