// Translates a net of Caffe into a job: blobs become named layers, in-place layers too, and what
// Troupe's jobs need is added.
//   BatchNorm, Scale   one batch_norm, if nothing else reads the first
//   Split              of Caffe's own making ("x_split"): its tops are its bottom
//   outputs            that nothing uses are left out; a net without a loss gets one
// Threads: one import, one thread.
#pragma once

#include <map>
#include <set>

#include "runtime/node/models/caffe/fields.hpp"
#include "runtime/node/models/caffe/import_data.hpp"
#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/model_format.hpp"

namespace troupe::caffe {

// Layers and data of the job. `names`: {Caffe's layer, Troupe's layer}. `with_weights`: the layers
// have their blobs.
job_model translate_net(net& from, bool with_weights, const name_pairs& names, findings& found);

// Names of Troupe: printable ASCII without spaces, dots and slashes, unique, of at most 200 bytes.
class name_maker {
 public:
  explicit name_maker(const name_pairs& names) : given_(names) {}
  // The name of Caffe's layer.
  std::string of(const std::string& theirs);
  std::string fresh(std::string wanted);
  // One note for all layers that have another name than in Caffe.
  void note_changes(findings& found) const;

 private:
  const name_pairs& given_;
  std::set<std::string> taken_{"data", "label"};
  std::map<std::string, int> last_;   // the last number after a name
  std::vector<std::string> changes_;  // "'a/b' is 'a_b'"
};

// The last steps of an import, on the complete list of layers.

// Merges each batch_norm with the scale that follows, leaves out layers whose outputs nothing uses,
// and adds a loss and an accuracy to a net that has no loss.
void finish_layers(job_model& job, findings& found);

// The number of classes: the features of the layer whose scores the first loss takes; 10 if
// unknown.
std::int64_t classes_of(const job_model& job);

}  // namespace troupe::caffe
