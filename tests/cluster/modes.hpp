// The settings that configs/jobs/lenet_modes.toml documents, read from its own lines, for the tests that run them.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::testing_cluster {

inline std::string config_text(const std::string& file) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// By mode: what follows every --set of its line. bsp is the file as it stands.
inline std::map<std::string, std::vector<std::string>> documented_modes() {
  std::map<std::string, std::vector<std::string>> found{{"bsp", {}}};
  std::istringstream text(config_text("lenet_modes.toml"));
  for (std::string line; std::getline(text, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("#   ") || colon == std::string::npos) continue;
    auto& set = found[line.substr(4, colon - 4)];
    for (auto at = line.find("--set '"); at != std::string::npos; at = line.find("--set '", at)) {
      at += 7;
      set.push_back(line.substr(at, line.find('\'', at) - at));
    }
  }
  return found;
}

// Of four daemons with a worker each: hogwild shares memory within each node.
inline std::map<std::string, std::vector<std::string>> modes_for_four_nodes() {
  auto all = documented_modes();
  all.erase("hogwild");
  all.at("hogwild_nodes").push_back("topology={worker_groups=4,workers_per_group=1,server_groups=4}");
  return all;
}

}  // namespace troupe::testing_cluster
