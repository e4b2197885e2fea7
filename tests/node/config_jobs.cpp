#include "tests/node/config_jobs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/node/image_files.hpp"

namespace troupe::testing_configs {
namespace {

// Overrides that replace the data sets that no package has: ten classes of small pictures, or a
// text, just enough for a batch.
std::vector<std::string> data_of(const std::string& name) {
  static const test::temp_dir dir, texts;
  if (name.starts_with("char_")) {
    std::string text;
    for (int i = 0; i < 80000; ++i) text += static_cast<char>('a' + i % 23);
    test::write_bytes(texts.file("text.txt"), {text.begin(), text.end()});
    return {"data.path=" + texts.file("text.txt")};
  }
  if (name != "cifar10_images.toml") return {};
  if (std::filesystem::is_empty(dir.path))
    image_test::write_set(dir.path, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, 10, 1, 32);
  return {"data.path=" + dir.path};
}

// Jobs that name nodes, and the cluster files with these nodes.
const std::map<std::string, std::string> clusters_of_jobs{{"alexnet_fc.toml", "alexnet_fc.toml"},
                                                          {"multinode_caffe.toml", "multinode_caffe.toml"},
                                                          {"pipeline4.toml", "pipeline4.toml"},
                                                          {"two_stage.toml", "local2.toml"},
                                                          {"singa_hybrid.toml", "local2.toml"}};

}  // namespace

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& e : std::filesystem::directory_iterator(std::string(TROUPE_SOURCE_DIR) + "/configs/" + folder))
    if (e.path().extension() == ".toml") out.push_back(e.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::string text_of(const diagnostics& list) {
  std::string s;
  for (const auto& d : list) s += d.to_string() + "\n";
  return s;
}

std::shared_ptr<prepared_job> prepared(const std::string& name, const std::vector<node_spec>& nodes,
                                       std::vector<std::string> overrides) {
  static std::map<std::string, std::shared_ptr<prepared_job>> kept;  // opening a data set takes a second
  const auto key = name + (overrides.empty() ? "" : overrides.front()) + std::to_string(nodes.size());
  if (auto i = kept.find(key); i != kept.end()) return i->second;
  auto all = std::make_shared<const tables>(node_tables());
  for (auto& o : data_of(name)) overrides.push_back(std::move(o));
  auto spec = read_job_file(std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + name, *all, overrides);
  if (!spec) {
    ADD_FAILURE() << text_of(spec.error());
    return nullptr;
  }
  auto job = prepare_job(*std::move(spec), all, nodes);
  if (!job) {
    ADD_FAILURE() << text_of(job.error());
    return nullptr;
  }
  return kept[key] = *std::move(job);
}

std::vector<node_spec> one_node() {
  node_spec n;
  n.name = "local";
  return {n};
}

std::vector<node_spec> nodes_of(const std::string& cluster) {
  auto c = read_cluster_file(std::string(TROUPE_SOURCE_DIR) + "/configs/clusters/" + cluster);
  if (!c) {
    ADD_FAILURE() << text_of(c.error());
    return {};
  }
  return c->nodes;
}

std::shared_ptr<prepared_job> job_of_file(const std::string& name) {
  const auto cluster = clusters_of_jobs.find(name);
  return prepared(name, cluster == clusters_of_jobs.end() ? one_node() : nodes_of(cluster->second));
}

}  // namespace troupe::testing_configs
