#include "tests/cluster/modes.hpp"

#include <fstream>
#include <sstream>

namespace troupe::testing_cluster {

std::string config_text(const std::string& file) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::map<std::string, std::vector<std::string>> documented_modes() {
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

std::map<std::string, std::vector<std::string>> modes_for_four_nodes() {
  auto all = documented_modes();
  all.erase("hogwild");
  all.at("hogwild_nodes").push_back("topology={worker_groups=4,workers_per_group=1,server_groups=4}");
  return all;
}

}  // namespace troupe::testing_cluster
