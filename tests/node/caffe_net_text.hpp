// Nets of Caffe for tests, and the ways to read them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/models/caffe/import_files.hpp"
#include "runtime/node/models/caffe/wire.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/error_text.hpp"

namespace troupe::caffe::nets {

inline std::shared_ptr<const tables> all_tables() {
  static const auto all = std::make_shared<const tables>(node_tables());
  return all;
}

// The job of a text, on a node that has these devices.
inline std::shared_ptr<prepared_job> prepared(const std::string& text, const std::vector<std::string>& devices = {"cpu:0"}) {
  node_spec n;
  n.name = "local", n.devices = devices;
  auto made = prepare_text({text, "job.toml", {}, {}}, all_tables(), {n});
  EXPECT_EQ(test::error_text(made), "") << text;
  return made ? *made : nullptr;
}

inline imported_model imported(const std::vector<caffe::named_text>& files, const name_pairs& names = {}) {
  auto made = caffe::import_texts(files, names);
  EXPECT_EQ(test::error_text(made), "");
  return made ? *std::move(made) : imported_model();
}
inline imported_model imported_net(const std::string& text) { return imported({{"net.prototxt", text}}); }

// All mistakes, one a line.
inline std::string mistakes(const std::vector<caffe::named_text>& files, const name_pairs& names = {}) {
  return test::error_text(caffe::import_texts(files, names));
}
inline std::string mistakes_of_net(const std::string& text) { return mistakes({{"net.prototxt", text}}); }

// The [[layer]] table of this name, as it is in the text.
inline std::string table_of(const std::string& job, const std::string& layer) {
  const auto name = job.find("[[layer]]\nname = \"" + layer + "\"\n");
  if (name == std::string::npos) return "none";
  const auto end = job.find("\n\n", name);
  return job.substr(name + 10, (end == std::string::npos ? job.size() : end + 1) - name - 10);
}
// The text of a table, from its head to the next empty line.
inline std::string section(const std::string& job, const std::string& head) {
  const auto at = job.find("[" + head + "]\n");
  if (at == std::string::npos) return "none";
  const auto from = at + head.size() + 3, end = job.find("\n\n", from);
  return job.substr(from, (end == std::string::npos ? job.size() : end + 1) - from);
}

inline bool noted(const imported_model& m, const std::string& part) {
  for (const auto& n : m.notes)
    if (n.find(part) != std::string::npos) return true;
  return false;
}

// A layer Input of three channels, as most tests begin.
inline std::string input_layer(const std::string& dims = "dim: 4 dim: 3 dim: 8 dim: 8") {
  return "layer { name: \"data\" type: \"Input\" top: \"data\" top: \"label\" input_param { shape { " + dims +
         " } shape { dim: 4 } } }\n";
}
inline std::string layer_text(const std::string& name, const std::string& type, const std::string& bottom, const std::string& top,
                              const std::string& rest = {}) {
  return "layer { name: \"" + name + "\" type: \"" + type + "\" bottom: \"" + bottom + "\" top: \"" + top + "\" " + rest + " }\n";
}
// InnerProduct and SoftmaxWithLoss on a blob, so that a net is whole.
inline std::string end_of_net(const std::string& bottom) {
  return layer_text("fc", "InnerProduct", bottom, "fc", "inner_product_param { num_output: 10 }") +
         "layer { name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"fc\" bottom: \"label\" top: \"loss\" }\n";
}

}  // namespace troupe::caffe::nets
