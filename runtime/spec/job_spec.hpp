// A job as data: what a job file says, names and kinds checked, defaults filled in. Made by
// runtime/node/config/job_file (the only reader of TOML), or by hand in tests. Positions are kept
// so that later checks (shapes, cycles) still name file, line and column.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/dtype.hpp"
#include "ops/options.hpp"
#include "runtime/base/diagnostic.hpp"

namespace troupe {

// A table `{ kind = "...", ... }`: the word that names a row of a registry, and that row's checked
// options.
struct choice {
  std::string kind;
  options values;
  source_position at;
};

struct layer_spec {
  std::string name;
  std::string type;
  std::vector<std::string> inputs;  // names of layers, "data", "label", or "slice1.1" for output 1 of slice1
  options values;                   // the type's own options, checked
  double lr_scale = 1.0;
  std::optional<double> decay_scale;            // not written: each parameter's own multiplier (ops/layer.hpp), else in its place
  std::vector<double> lr_scales, decay_scales;  // written as a list: one factor a parameter, in the layer's order (weight, bias)
  std::optional<double> loss_weight;            // of a loss layer; 1 when not given
  std::string partition = "batch";              // batch | feature | input | none
  std::vector<double> fraction;
  std::vector<std::string> place;  // nodes, one a part
  std::string algorithm;           // of this layer's maths, empty = auto
  bool recompute = false;          // backward runs forward again, in place of what it would keep
  bool gather = false;             // the packets of a step are computed as one (stage/gather_stage.hpp)
  std::string wire = "fp32";       // fp32 | bf16 | int8: how its outputs and their gradients travel between nodes
  std::string compress;            // how its gradients travel to the shards; empty: as train_spec says
  std::string phase;               // "train", "test" or empty for both
  source_position at;
  std::map<std::string, source_position> key_at;  // of each key, inputs[i] as "inputs.0"
};

// How examples reach a worker's loader; a property of the sampler.
enum class delivery : std::uint8_t {
  local,      // every loader reads its own
  server,     // a data server reads and sends them
  seeds,      // a data server sends a number for each step, the loader reads what follows from it
  broadcast,  // worker 0's loader reads, the others pass the examples on in a binomial tree
};

struct data_spec {
  std::string source;  // idx | synthetic | <plugin>
  options values;      // the source's own options (path, ...), checked
  std::int64_t batch = 64;
  std::int64_t readers = 0;           // packets that are read at once; 0: as the source has it
  std::optional<options> augment;     // checked
  choice sampler{"shuffle", {}, {}};  // from [train]
  delivery how = delivery::local;     // the sampler's; prepare_job sets it
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct finish_spec {
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::optional<double> target_accuracy;
  std::optional<std::int64_t> patience;  // evaluations without a better accuracy
  std::optional<double> seconds;         // from time = "10min"
  std::optional<choice> custom;          // a row of the table of finish conditions
  std::string who = "all";               // all | any: which workers have to make their steps
};

// Of the mean gradient: each element to [-value, value], or all of it to an L2 norm of at most
// `norm`. 0: not.
struct clip_spec {
  double value = 0.0, norm = 0.0;
};

// dynamics.schedule.warmup: a factor on the schedule that grows from `from` to 1 in `steps` steps.
struct warmup_spec {
  std::int64_t steps = 0;
  double from = 0.0;
};

struct train_spec {
  choice rule{"sgd", {}, {}};  // dynamics.rule and the rule's options (momentum, ...)
  double lr = 0.01;
  double decay = 0.0;
  choice schedule{"fixed", {}, {}};
  warmup_spec warmup;
  std::string lr_scale = "none";  // none | linear | sqrt: the rate grows with the batch over base_batch
  std::int64_t base_batch = 0;
  clip_spec clip;
  std::string algorithm = "bp";
  choice sync{"bsp", {}, {}};
  std::optional<choice> when;  // sync.when: when to exchange, for the modes that leave it open
  std::string reducer = "server";
  options reducer_values;                     // its own options (arity, ...)
  std::string compress = "none";              // how gradients travel to the shards: a word of codec_words (codec_spec.hpp)
  double fraction = 0.01, threshold = 0.001;  // of the codecs topk and threshold
  finish_spec finish;
  std::int64_t max_skipped = 0;  // steps in a row that may be left out because their gradient is not finite
  bool deterministic = true;
  source_position at;
  std::map<std::string, source_position> key_at;  // "dynamics.lr", "finish.epochs", ...
};

struct eval_spec {
  std::int64_t every = 0;  // steps; 0: only at the end
  std::int64_t batch = 0;  // 0: the training batch
  choice sampler{"all", {}, {}};
  bool on_training = false;  // split = "train"
  source_position at;
  std::map<std::string, source_position> key_at;
};

// When a running job is kept without being asked, and how many files of it stay.
struct checkpoint_spec {
  std::int64_t every_steps = 0;  // 0: not by steps
  double every_seconds = 0;      // 0: not by time
  std::int64_t keep = 2;
  std::string dir;               // where they go; empty: beside the job, or below the coordinator's state
  std::string resume = "never";  // never | auto: begin with the newest of the job's own, if there is one
  std::string match = "all";     // all | names: what a file of weights must have of the job's parameters
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct pipeline_spec {
  std::int64_t packets = 1;
  std::int64_t sub_solvers = 1;
  std::string fuse = "none";      // none | auto
  bool fuse_layers = true;        // compute neighbours as one layer where one absorbs the other
  std::string weights = "drain";  // drain | latest | stash
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct topology_spec {
  std::int64_t worker_groups = 1;
  std::int64_t workers_per_group = 1;
  std::int64_t server_groups = 1;
  std::int64_t servers_per_group = 1;
  std::int64_t replicas = 1;  // of every shard, itself counted
  bool colocated = true;
  std::int64_t max_block = std::int64_t{256} << 20;  // bytes of a parameter that one block may have
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct job_spec {
  std::string file;                  // as the user named it
  std::vector<std::string> plugins;  // resolved paths
  std::string name;
  std::uint64_t seed = 1;
  std::vector<std::string> devices{"cpu:0"};
  std::string precision = "fp32";            // fp32 | f64 | bf16 (docs/precision.md)
  std::optional<std::int64_t> max_failures;  // losses of nodes that the job survives; none: as many as come one after the other
  // How many nodes it uses (job/elastic.hpp); 0: whatever there is, and as many as there are less
  // the spares.
  std::int64_t min_nodes = 0, max_nodes = 0, spares = 0;
  bool elastic = false, nodes_fixed = false;  // set once all nodes are known
  std::string convolution = "rule";           // rule | measured: what `auto` algorithms of convolutions stand for
  // Of activations and their gradients; of parameters and everything that belongs to them.
  dtype type() const { return precision == "f64" ? dtype::f64 : precision == "bf16" ? dtype::bf16 : dtype::f32; }
  dtype parameter_type() const { return wide_of(type()); }
  source_position at;
  data_spec data;
  std::vector<layer_spec> layers;
  train_spec train;
  eval_spec eval;
  checkpoint_spec checkpoint;
  pipeline_spec pipeline;
  topology_spec topology;
};

// One node of a cluster file.
struct node_spec {
  std::string name;
  std::string address;  // host:port; the data plane's port is told at join
  std::vector<std::string> devices{"cpu:0"};
  std::vector<std::string> roles{"coordinator", "worker", "server", "data"};
  std::int64_t memory_limit = 0;  // bytes, 0: none
  std::vector<std::string> data{
      "/usr/share/datasets"};            // folders that jobs from outside may read data in, resolved against the file's
  std::vector<std::string> checkpoints;  // folders that they may keep checkpoints in, likewise
  source_position at;
};
struct cluster_spec {
  std::string file;
  std::string name;
  std::string tls_dir;  // resolved against the file's folder
  std::vector<std::string> plugins;
  std::vector<node_spec> nodes;
};

}  // namespace troupe
