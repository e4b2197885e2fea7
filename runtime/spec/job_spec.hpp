// A job as data: the content of a job file, with names and kinds checked and defaults filled in.
// Made by runtime/node/config/job_file (the only reader of TOML), or by hand in tests. Positions
// are kept so that later checks (shapes, cycles) can name file, line and column.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/dtype.hpp"
#include "ops/maths_rules.hpp"
#include "ops/options.hpp"
#include "runtime/base/diagnostic.hpp"

namespace troupe {

// A table `{ kind = "...", ... }`: the name of a registry entry, and the checked options of that
// entry.
struct choice {
  std::string kind;
  options values;
  source_position at;
};

// size: mirrors a [[layer]] of a job file
struct layer_spec {
  std::string name;
  std::string type;
  std::vector<std::string> inputs;  // names of layers, "data", "label", or "slice1.1" for output 1 of slice1
  options values;                   // the type's own options, checked
  double lr_scale = 1.0;
  std::optional<double> decay_scale;            // absent: each parameter's own multiplier (ops/layer.hpp); otherwise replaces it
  std::vector<double> lr_scales, decay_scales;  // written as a list: one factor per parameter, in the layer's order (weight, bias)
  std::optional<double> loss_weight;            // of a loss layer; absent: 1
  std::string partition = "batch";              // batch | feature | input | none
  std::vector<double> fraction;
  bool auto_fraction = false;      // fraction = "auto": by the speed of the workers' devices
  std::vector<std::string> place;  // "NODE" or "NODE/DEVICE", one per part
  std::string algorithm;           // of this layer's maths; empty: auto
  bool recompute = false;          // backward runs forward again instead of keeping its results
  bool gather = false;             // the packets of a step are computed as one (stage/gather_stage.hpp)
  std::string share;               // "LAYER" or "LAYER.PARAMETER" whose parameters it uses (model/share.hpp)
  std::string wire = "fp32";       // fp32 | bf16 | int8: format of its outputs and their gradients between nodes
  std::string compress;            // codec of its gradients to the shards; empty: that of train_spec
  std::string phase;               // "train", "test", or empty for both
  std::string origin;              // of a layer of a block, for messages: the block and the layer that uses it
  source_position at;
  std::map<std::string, source_position> key_at;  // by key; inputs[i] as "inputs.0"
};

// How examples reach a worker's loader; a property of the sampler.
enum class delivery : std::uint8_t {
  local,      // every loader reads its own examples
  server,     // a data server reads and sends them
  seeds,      // a data server sends a seed for each step, from which the loader derives what to read
  broadcast,  // worker 0's loader reads; the others forward the examples along a binomial tree
};

struct data_spec {
  std::string source;  // idx | synthetic | <plugin>
  options values;      // the source's own options (path, ...), checked
  std::int64_t batch = 64;
  double validation = 0;              // share of the training examples that are the test split instead
  std::int64_t readers = 0;           // packets that are read at once; 0: the source's default
  std::optional<options> augment;     // options, checked
  choice sampler{"shuffle", {}, {}};  // from [train]
  delivery how = delivery::local;     // set by prepare_job from the sampler
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct finish_spec {
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  std::optional<double> target_accuracy;
  std::optional<std::int64_t> patience;  // evaluations without a better result
  std::string measure = "auto";          // of patience: accuracy | loss | auto, the accuracy if the model has one
  std::optional<double> seconds;         // from time = "10min"
  std::optional<choice> custom;          // an entry of the table of finish conditions
  std::string who = "all";               // all | any: which workers must finish their steps
};

// Bounds the mean gradient: each element to [-value, value], or the whole gradient to an L2 norm of
// at most `norm`. 0: no bound.
struct clip_spec {
  double value = 0.0, norm = 0.0;
};

// dynamics.schedule.warmup: a factor on the rate that grows from `from` to 1 over `steps` steps.
// `prefix`: the schedule begins after them.
struct warmup_spec {
  std::int64_t steps = 0;
  double from = 0.0;
  bool prefix = false;
};

// train.average: a mean of the weights over updates, kept by the shards (ops/rules/average.hpp).
struct average_spec {
  std::string kind;                      // ema | swa; empty: none
  double decay = 0.999;                  // of ema
  bool bias_correction = false;          // of ema
  std::int64_t start = 0;                // updates before the first one that counts
  std::optional<double> start_fraction;  // the same, as a fraction of the job's steps
  std::int64_t every = 1;                // every this many updates count
  std::string evaluate = "average";      // average | weights | both
  std::string write = "average";         // average | weights: the final weights
  source_position at;
};

// size: mirrors the table [train] of a job file
struct train_spec {
  choice rule{"sgd", {}, {}};  // dynamics.rule and the rule's options (momentum, ...)
  double lr = 0.01;
  double decay = 0.0, decay_l1 = 0.0;
  choice schedule{"fixed", {}, {}};
  warmup_spec warmup;
  std::string lr_scale = "none";  // none | linear | sqrt: how the rate grows with batch / base_batch
  std::int64_t base_batch = 0;
  clip_spec clip;
  std::string algorithm = "bp";
  std::vector<std::string> freeze;  // patterns of layers and parameters that keep their values
  average_spec average;
  choice sync{"bsp", {}, {}};
  std::optional<choice> when;  // sync.when: when a worker exchanges, for modes with a choice
  std::string reducer = "server";
  options reducer_values;                     // options of the reducer (arity, ...)
  std::string compress = "none";              // codec of gradients to the shards: one of codec_words (codec_spec.hpp)
  double fraction = 0.01, threshold = 0.001;  // of the codecs topk and threshold
  finish_spec finish;
  std::int64_t max_skipped = 0;  // consecutive steps that may be skipped because their gradient is not finite
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

// When checkpoints of a running job are written, and how many are retained.
struct checkpoint_spec {
  std::int64_t every_steps = 0;  // 0: no interval in steps
  double every_seconds = 0;      // 0: no interval in time
  bool never = false;            // every = "never": not even the interval that a cluster adds (docs/failures.md)
  std::int64_t keep = 2;
  std::string dir;               // target folder; empty: next to the job file, or in the coordinator's state folder
  std::string resume = "never";  // never | auto: start from the newest checkpoint of a job of this name, if there is one
  std::string match = "all";     // all | names: which of the job's parameters a file of weights must contain
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct pipeline_spec {
  std::int64_t packets = 1;
  std::int64_t sub_solvers = 1;
  std::string fuse = "none";      // none | auto
  bool fuse_layers = true;        // compute adjacent layers as one where a layer can absorb the next
  std::string weights = "drain";  // drain | latest | stash
  source_position at;
  std::map<std::string, source_position> key_at;
};

struct topology_spec {
  std::int64_t worker_groups = 1;
  std::int64_t workers_per_group = 1;
  std::int64_t server_groups = 1;
  std::int64_t servers_per_group = 1;
  std::int64_t replicas = 1;  // copies of every shard, including the shard itself
  bool colocated = true;
  std::int64_t max_block = std::int64_t{256} << 20;  // maximum size of a block, bytes
  source_position at;
  std::map<std::string, source_position> key_at;
};

// size: mirrors the tables of a job file
struct job_spec {
  std::string file;                  // as the user named it
  std::vector<std::string> plugins;  // resolved paths
  std::string name;
  std::uint64_t seed = 1;
  std::vector<std::string> devices{"cpu:0"};
  std::vector<source_position> devices_at;   // positions of the devices; empty: they are the default
  std::vector<double> tflops;                // speed of the devices, one each; empty: not stated
  maths_rules maths;                         // of GPUs
  std::string precision = "fp32";            // fp32 | f64 | bf16 (docs/precision.md)
  std::optional<std::int64_t> max_failures;  // node failures that the job survives; absent: any number
  // Number of nodes that the job uses (job/elastic.hpp). min_nodes 0: no minimum; max_nodes 0: all
  // nodes except the spares.
  std::int64_t min_nodes = 0, max_nodes = 0, spares = 0;
  bool elastic = false, nodes_fixed = false;  // set once all nodes are known
  bool trains = true;                         // false: for predictions or to measure layers; training is not checked
  bool record = false;                        // nodes record the messages of roles (docs/replay.md)
  // type(): of activations and their gradients; parameter_type(): of parameters and their state.
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

// Predictions that a daemon serves over HTTP (docs/predict.md).
struct predict_spec {
  std::vector<std::string> nets;  // net files, resolved against the file's folder; empty: none
  std::string address, token;     // as metrics_address and metrics_token
};

// One node of a cluster file.
struct node_spec {
  std::string name;
  std::string address;       // host:port of the control plane
  std::string data_address;  // host:port of the data plane; empty: host of `address`, and a port that the system chooses
  std::vector<std::string> devices{"cpu:0"};
  std::vector<double> tflops;  // speed of the devices, one each; empty: not stated
  std::vector<std::string> roles{"coordinator", "worker", "server", "data"};
  std::int64_t memory_limit = 0;  // bytes; 0: no limit
  std::vector<std::string> data{
      "/usr/share/datasets"};            // folders in which submitted jobs may read data, resolved against the file's folder
  std::vector<std::string> checkpoints;  // folders in which they may write checkpoints, resolved likewise
  std::string metrics_address;           // host:port of /metrics (docs/ecosystem.md); empty: not served
  std::string metrics_token;             // file of the bearer token for it, resolved likewise; empty: no token
  predict_spec predict;
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
