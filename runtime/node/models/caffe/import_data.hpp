// Caffe's data layers as the tables [data] and [data.augment] of a job.
// Threads: one import, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/caffe/net.hpp"

namespace troupe::caffe {

// A data layer of one phase.
struct data_layer {
  std::string name, type;
  std::string source;
  bool leveldb = false;
  std::int64_t batch = 0, crop = 0;
  double scale = 1;
  bool mirror = false;
  std::string mean_file;
  std::vector<double> means;
  std::int64_t channels = 0;        // to which encoded pictures of a database are converted; 0: as they are
  std::vector<std::int64_t> shape;  // of an example; empty: the layer does not say it
  std::vector<std::string> tops;    // the first is the data
  std::size_t label_top = 1;        // the index of the labels
  bool labelled_by_name = false;    // of Input and DummyData: the top called "label" is the labels, wherever it is
  // Of an example that the net takes, after the crop; empty: not known.
  std::vector<std::int64_t> extents() const;
  // The tensor of the job that this top is: "data" or "label"; empty: none.
  std::string tensor_of(std::size_t top) const;
};

data_layer read_data_layer(net_layer& l, findings& found);

// What a net says about the labels of its data.
struct label_facts {
  std::int64_t classes = 0;             // for sources that do not know it
  std::optional<std::int64_t> ignored;  // the label >= 0 that does not count
};

// `train`, `test`: at least one.
void write_data(const std::optional<data_layer>& train, const std::optional<data_layer>& test, const label_facts& labels,
                job_model& job, findings& found);

}  // namespace troupe::caffe
