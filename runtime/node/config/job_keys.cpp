#include "runtime/node/config/job_keys.hpp"

#include <iterator>

#include "runtime/node/config/average_keys.hpp"
#include "runtime/spec/codec_spec.hpp"

namespace troupe {
namespace {

constexpr double many = 65535;  // packets, workers, shards: sent as 16 bits
constexpr double max_readers = 64;
constexpr double int32_max = 2147483647;
constexpr double int64_max = 9223372036854775807.0;

}  // namespace

const keys<job_spec>& file_keys() {
  static const keys<job_spec> k(
      "The file", "",
      {other_key<job_spec>(
           key_kind::texts, "plugins",
           "shared libraries that add layers, modes, samplers, ...; relative paths start at the folder of this file"),
       other_key<job_spec>(
           key_kind::texts, "include",
           "job files whose keys are added to this file; relative paths start at the folder of this file. The keys of this file "
           "win, then those of the last file; layers and blocks of included files come first"),
       other_key<job_spec>(key_kind::tables, "included",
                           "file names and texts of included files; programs that send a job to a daemon add them"),
       other_key<job_spec>(key_kind::table, "job", "general settings of the job"),
       other_key<job_spec>(key_kind::table, "data", "the source of examples").required(),
       other_key<job_spec>(key_kind::tables, "block", "groups of layers that the model uses, several times if it likes"),
       other_key<job_spec>(key_kind::tables, "layer", "the model: one table per layer").required(),
       other_key<job_spec>(key_kind::table, "train", "the training algorithm and the end of the job").required(),
       other_key<job_spec>(key_kind::table, "eval", "when the model is evaluated, and on which data"),
       other_key<job_spec>(key_kind::table, "checkpoint", "automatic checkpoints (docs/failures.md)"),
       other_key<job_spec>(key_kind::table, "pipeline", "packets, sub-solvers and stages"),
       other_key<job_spec>(key_kind::table, "topology", "numbers of workers and servers, in SINGA's terms (docs/protocols.md)")});
  return k;
}

const keys<job_spec>& job_keys() {
  static const keys<job_spec> k(
      "[job]", "",
      {name_key<job_spec>("name", "name of the job in lists and files; must not contain '/'", &job_spec::name)
           .otherwise("the file name without its extension"),
       whole_key<job_spec>("seed", 0, int64_max, "seed of all random numbers: initial weights, order of examples, dropout",
                           &job_spec::seed),
       texts_key<job_spec>("devices",
                           "devices of an embedded run, \"cpu:0\" or \"gpu:0\" ([gpu.md](gpu.md)); on a cluster, the cluster file "
                           "lists them per node",
                           &job_spec::devices),
       reals_key<job_spec>("tflops", least_speed, no_upper,
                           "speed of each device, in any unit, for `fraction = \"auto\"` (docs/gpu.md)")
           .otherwise("all equal"),
       whole_key<job_spec>(
           "max_failures", 0, int64_max,
           "number of node failures that a job on a cluster survives; 0: the first failure ends the job (docs/failures.md)",
           &job_spec::max_failures)
           .otherwise("no limit, but at most 3 within 30 s"),
       whole_key<job_spec>("min_nodes", 0, 65535,
                           "minimum number of nodes; with fewer the job ends. With min_nodes or max_nodes the number of workers "
                           "follows the number of nodes "
                           "(docs/failures.md)",
                           &job_spec::min_nodes)
           .otherwise("no minimum"),
       whole_key<job_spec>("max_nodes", 0, 65535,
                           "maximum number of nodes; the numbers of workers in [topology] are for this many nodes",
                           &job_spec::max_nodes)
           .otherwise("all nodes except the spares"),
       whole_key<job_spec>("spares", 0, 65535, "number of nodes held in reserve to replace failed nodes", &job_spec::spares),
       word_key<job_spec>("precision", {"fp32", "f64", "bf16"}, "data type of activations (docs/precision.md)",
                          &job_spec::precision),
       flag_key<job_spec>("record", "record the messages of all roles, for `troupe replay` (docs/replay.md)", &job_spec::record),
       flag_key<job_spec>("tf32", "GPUs may round the f32 factors of products and convolutions to TF32, 10 bits of mantissa")
           .otherwise(written(maths_rules{}.tf32)),
       other_key<job_spec>(key_kind::bytes, "conv_workspace",
                           "maximum workspace of one convolution on a GPU; the choice of its engine depends on it")
           .otherwise("\"256MiB\"")});
  return k;
}

void read_maths(table_reader& r, maths_rules& into) {
  job_keys().read_into(r, "tf32", into.tf32);
  if (std::int64_t bytes = 0; job_keys().read_into(r, "conv_workspace", bytes))
    into.conv_workspace = static_cast<std::size_t>(bytes);
}

const keys<data_spec>& data_keys() {
  static const keys<data_spec> k(
      "[data]", "The options of the source belong to this table too.",
      {other_key<data_spec>(key_kind::entry, "source", "name of the source").required(),
       whole_key<data_spec>("batch", 1, int32_max,
                            "number of examples per step, over all workers; must be a multiple of [pipeline] packets",
                            &data_spec::batch),
       real_key<data_spec>("validation", 0, 0.9,
                           "share of the training examples that evaluations use instead of test examples; never trained on "
                           "(docs/data.md)",
                           &data_spec::validation),
       whole_key<data_spec>("readers", 1, max_readers, "number of packets that a loader reads at once (docs/data.md)",
                            &data_spec::readers)
           .otherwise("the source's default"),
       other_key<data_spec>(key_kind::table, "augment", "random changes to images (docs/data.md)")});
  return k;
}

const keys<layer_spec>& layer_keys() {
  static const keys<layer_spec> k(
      "[[layer]]", "The options of the layer type belong to this table too.",
      {name_key<layer_spec>("name", "name of the layer in inputs, overrides and weights files; unique", &layer_spec::name)
           .required(),
       other_key<layer_spec>(key_kind::entry, "type", "name of the layer type").required(),
       texts_key<layer_spec>(
           "inputs", "the tensors that the layer reads: a layer name, \"data\", \"label\", or \"slice1.1\" for output 1 of slice1",
           &layer_spec::inputs),
       text_key<layer_spec>("share",
                            "a layer whose parameters this layer uses instead of its own, those of the same name; "
                            "\"embed.weight\": only this one (docs/layers.md)",
                            &layer_spec::share)
           .otherwise("none"),
       word_key<layer_spec>("partition", {"batch", "feature", "input", "none"},
                            "how the layer is split into parts (docs/partitioning.md)", &layer_spec::partition),
       word_key<layer_spec>("phase", {"train", "test"}, "the only phase in which the layer is computed", &layer_spec::phase)
           .otherwise("both phases"),
       word_key<layer_spec>("wire", {"fp32", "bf16", "int8"}, "encoding of the outputs and their gradients between nodes",
                            &layer_spec::wire),
       word_key<layer_spec>("compress", {std::begin(codec_words), std::end(codec_words)},
                            "codec of the layer's gradients to the shards (docs/protocols.md)", &layer_spec::compress)
           .otherwise("`compress` of `[train.exchange]`"),
       reals_key<layer_spec>("lr_scale", 0, no_upper, "factor on the learning rate; a list has one factor per parameter")
           .otherwise("1"),
       real_key<layer_spec>("loss_weight", 0, no_upper, "weight of a loss layer in the total loss", &layer_spec::loss_weight)
           .otherwise("1"),
       reals_key<layer_spec>("decay_scale", 0, no_upper, "factor on the weight decay; a list has one factor per parameter")
           .otherwise("each parameter's own factor"),
       texts_key<layer_spec>("place", "nodes of the layer's parts, one per part: NODE or NODE/DEVICE", &layer_spec::place)
           .otherwise("the nodes of the workers, or those of the layer's input"),
       reals_key<layer_spec>(
           "fraction", 0, 1,
           "shares of the parts; their sum must be 1. \"auto\": packets by the speed of the workers (docs/gpu.md)")
           .otherwise("equal shares"),
       flag_key<layer_spec>("recompute", "backward runs forward again instead of keeping its results (docs/memory.md)",
                            &layer_spec::recompute),
       flag_key<layer_spec>("gather", "all packets of a step are computed as one; for layers that support it", &layer_spec::gather),
       word_key<layer_spec>("algorithm", {"auto"}, "algorithm of the layer; convolutions have further values")
           .otherwise("\"auto\"")});
  return k;
}

const keys<train_spec>& train_keys() {
  static const keys<train_spec> k(
      "[train]", "",
      {other_key<train_spec>(key_kind::table, "sampler", "which examples each worker receives (docs/data.md)")
           .otherwise("{ kind = \"shuffle\" }"),
       other_key<train_spec>(key_kind::table, "dynamics", "the update rule and the learning rate (docs/dynamics.md)")
           .otherwise("{ rule = \"sgd\" }"),
       word_key<train_spec>("algorithm", {"bp", "bptt", "cd"},
                            "bp: back-propagation; bptt: back-propagation through time, with state carried from step to step; cd: "
                            "contrastive divergence",
                            &train_spec::algorithm),
       texts_key<train_spec>("freeze",
                             "layers and parameters that keep their values: names of both, \"conv1\" or \"conv1.bias\", with \"*\" "
                             "for any text and \"?\" for a character; running statistics of layers stay too (docs/dynamics.md)",
                             &train_spec::freeze)
           .otherwise("none"),
       other_key<train_spec>(key_kind::table, "average", "an average of the weights, for evaluations and the final weights")
           .otherwise("none"),
       other_key<train_spec>(key_kind::table, "sync", "the synchronisation mode (docs/protocols.md)")
           .otherwise("{ mode = \"bsp\" }"),
       other_key<train_spec>(key_kind::table, "exchange", "how sums of gradients are sent to the shards")
           .otherwise("{ reducer = \"server\" }"),
       other_key<train_spec>(key_kind::table, "finish", "when the job ends (docs/dynamics.md)").required(),
       whole_key<train_spec>(
           "max_skipped", 0, int64_max,
           "maximum number of consecutive steps that are skipped because their gradient is not finite; one more ends the job "
           "(docs/failures.md)",
           &train_spec::max_skipped),
       flag_key<train_spec>("deterministic",
                            "false: nodes whose results differ in rounding may share the job (docs/determinism.md)",
                            &train_spec::deterministic)});
  return k;
}

const keys<train_spec>& sampler_keys() {
  static const keys<train_spec> k("[train.sampler]", "The options of the sampler belong to this table too.",
                                  {other_key<train_spec>(key_kind::entry, "kind", "name of the sampler").required()});
  return k;
}

const keys<train_spec>& dynamics_keys() {
  static const keys<train_spec> k(
      "[train.dynamics]", "The options of the update rule belong to this table too.",
      {other_key<train_spec>(key_kind::entry, "rule", "name of the update rule").required(),
       real_key<train_spec>("lr", 0, no_upper, "base learning rate, with which the schedule starts", &train_spec::lr),
       real_key<train_spec>("decay", 0, no_upper, "weight decay: decay x weight is added to the gradient", &train_spec::decay),
       real_key<train_spec>("decay_l1", 0, no_upper, "L1 decay: decay_l1 x the sign of the weight is added to the gradient",
                            &train_spec::decay_l1),
       other_key<train_spec>(key_kind::table, "schedule", "how the learning rate changes").otherwise("{ kind = \"fixed\" }"),
       other_key<train_spec>(key_kind::table, "clip", "bound of the gradient"),
       word_key<train_spec>("lr_scale", {"none", "linear", "sqrt"}, "how the learning rate grows with batch / base_batch",
                            &train_spec::lr_scale),
       whole_key<train_spec>("base_batch", 1, int32_max, "the batch size that lr was chosen for", &train_spec::base_batch)
           .otherwise("required with lr_scale")});
  return k;
}

const keys<train_spec>& schedule_keys() {
  static const keys<train_spec> k(
      "[train.dynamics.schedule]", "The options of the schedule belong to this table too.",
      {other_key<train_spec>(key_kind::entry, "kind", "name of the schedule").required(),
       other_key<train_spec>(key_kind::table, "warmup", "factor on the rate that grows to 1 during the first steps")});
  return k;
}

const keys<warmup_spec>& warmup_keys() {
  static const keys<warmup_spec> k(
      "[train.dynamics.schedule.warmup]", "",
      {whole_key<warmup_spec>("steps", 1, int64_max, "number of steps until the rate of the schedule is reached",
                              &warmup_spec::steps)
           .required(),
       real_key<warmup_spec>("from", 0, 1, "factor of the first step", &warmup_spec::from),
       flag_key<warmup_spec>("prefix", "the schedule begins after the warm-up: its step 0 is step `steps` of the job",
                             &warmup_spec::prefix)});
  return k;
}

const keys<clip_spec>& clip_keys() {
  static const keys<clip_spec> k(
      "[train.dynamics.clip]", "Exactly one of the two keys.",
      {real_key<clip_spec>("value", 0, no_upper,
                           "each element of the mean gradient is clipped to [-value, value]; must be greater than 0",
                           &clip_spec::value)
           .otherwise("no bound"),
       real_key<clip_spec>(
           "norm", 0, no_upper,
           "the mean gradient of all parameters is scaled down to this L2 norm if it is larger; must be greater than 0",
           &clip_spec::norm)
           .otherwise("no bound")});
  return k;
}

const keys<train_spec>& sync_keys() {
  static const keys<train_spec> k(
      "[train.sync]", "The options of the mode belong to this table too.",
      {other_key<train_spec>(key_kind::entry, "mode", "name of the synchronisation mode").required(),
       other_key<train_spec>(key_kind::table, "when", "when a worker exchanges with the shards, for modes with a choice")
           .otherwise("the mode's default")});
  return k;
}

const keys<train_spec>& when_keys() {
  static const keys<train_spec> k("[train.sync.when]", "The options of the condition belong to this table too.",
                                  {other_key<train_spec>(key_kind::entry, "kind", "name of the sync condition").required()});
  return k;
}

const keys<train_spec>& exchange_keys() {
  static const keys<train_spec> k(
      "[train.exchange]", "The options of the reducer belong to this table too.",
      {other_key<train_spec>(key_kind::entry, "reducer",
                             "name of the reducer, or \"auto\": the one of server, sharded, hierarchical and tree with the lowest "
                             "load on its busiest node")
           .otherwise(written(train_spec{}.reducer)),
       word_key<train_spec>(
           "compress", {std::begin(codec_words), std::end(codec_words)},
           "codec of gradients to the shards; encoding errors are added to the gradient of the next step (docs/protocols.md)",
           &train_spec::compress),
       real_key<train_spec>("fraction", 0, 1,
                            "for topk: fraction of the values of each block that is sent, the largest by magnitude",
                            &train_spec::fraction),
       real_key<train_spec>("threshold", 0, no_upper, "for threshold: values of at least this magnitude are sent",
                            &train_spec::threshold)});
  return k;
}

const keys<finish_spec>& finish_keys() {
  static const keys<finish_spec> k(
      "[train.finish]",
      "At least one of epochs, steps, patience, target_accuracy, time and custom is required. The job ends when the first of them "
      "is met.",
      {whole_key<finish_spec>("epochs", 1, int64_max, "number of passes over the training set", &finish_spec::epochs),
       whole_key<finish_spec>("steps", 1, int64_max, "number of steps", &finish_spec::steps),
       whole_key<finish_spec>("patience", 1, int64_max,
                              "number of consecutive evaluations without a better result; requires [eval] every",
                              &finish_spec::patience),
       word_key<finish_spec>("measure", {"auto", "accuracy", "loss"},
                             "what patience compares; auto: the accuracy if the model has one, else the loss",
                             &finish_spec::measure),
       real_key<finish_spec>("target_accuracy", 0, 1, "accuracy that an evaluation must reach; requires [eval] every",
                             &finish_spec::target_accuracy),
       other_key<finish_spec>(key_kind::time, "time", "running time", &finish_spec::seconds),
       word_key<finish_spec>("who", {"all", "any"},
                             "which workers must finish their steps, in modes whose workers are not in lockstep", &finish_spec::who,
                             {"each"}),
       other_key<finish_spec>(key_kind::table, "custom", "a further condition")});
  return k;
}

const keys<finish_spec>& custom_keys() {
  static const keys<finish_spec> k("[train.finish.custom]", "The options of the condition belong to this table too.",
                                   {other_key<finish_spec>(key_kind::entry, "kind", "name of the finish condition").required()});
  return k;
}

const keys<eval_spec>& eval_keys() {
  static const keys<eval_spec> k(
      "[eval]", "",
      {whole_key<eval_spec>("every", 0, int64_max, "number of steps between evaluations; 0: only at the end", &eval_spec::every),
       whole_key<eval_spec>("batch", 1, int32_max, "number of examples per step of an evaluation", &eval_spec::batch)
           .otherwise("the training batch"),
       other_key<eval_spec>(key_kind::table, "sampler", "which examples an evaluation uses").otherwise("{ kind = \"all\" }"),
       word_key<eval_spec>("split", {"test", "train"}, "which part of the data is used").otherwise("\"test\"")});
  return k;
}

const keys<eval_spec>& eval_sampler_keys() {
  static const keys<eval_spec> k("[eval.sampler]", "The options of the sampler belong to this table too.",
                                 {other_key<eval_spec>(key_kind::entry, "kind", "name of the evaluation sampler").required()});
  return k;
}

const keys<checkpoint_spec>& checkpoint_keys() {
  static const keys<checkpoint_spec> k(
      "[checkpoint]", "",
      {other_key<checkpoint_spec>(key_kind::steps_or_time, "every",
                                  "interval between checkpoints, in steps or as a time; \"never\": only on request and at a stop")
           .otherwise("every 5 minutes on a cluster and in a run folder; elsewhere only on request and at a stop"),
       whole_key<checkpoint_spec>("keep", 2, 1000,
                                  "number of the job's newest checkpoints that are retained on the coordinator's node",
                                  &checkpoint_spec::keep),
       text_key<checkpoint_spec>("dir",
                                 "absolute path of a folder on the coordinator's node, or on storage that the nodes share; each "
                                 "run of the job has its own subfolder",
                                 &checkpoint_spec::dir)
           .otherwise("the state folder of the coordinator's node; in one process, a file next to the job file"),
       word_key<checkpoint_spec>(
           "resume", {"never", "auto"},
           "auto: start from the newest checkpoint of a job of this name, on a cluster of the same owner, if there is one",
           &checkpoint_spec::resume),
       word_key<checkpoint_spec>("match", {"all", "names"},
                                 "names: parameters whose name and shape are in the weights file are loaded, the others are "
                                 "initialised; all: every parameter must be in it",
                                 &checkpoint_spec::match)});
  return k;
}

const keys<pipeline_spec>& pipeline_keys() {
  static const keys<pipeline_spec> k(
      "[pipeline]", "",
      {whole_key<pipeline_spec>("packets", 1, many,
                                "number of equal parts of a step's batch; the weights depend on it (docs/determinism.md)",
                                &pipeline_spec::packets),
       whole_key<pipeline_spec>("sub_solvers", 1, many, "number of packets of one worker that may be in flight at once",
                                &pipeline_spec::sub_solvers),
       word_key<pipeline_spec>("fuse", {"none", "auto"}, "auto: consecutive layers share a stage", &pipeline_spec::fuse),
       flag_key<pipeline_spec>("fuse_layers", "adjacent layers that support it are computed as one, with the same bits",
                               &pipeline_spec::fuse_layers),
       word_key<pipeline_spec>("weights", {"drain", "latest", "stash"},
                               "which version of the weights a packet uses (docs/protocols.md)", &pipeline_spec::weights)});
  return k;
}

const keys<topology_spec>& topology_keys() {
  static const keys<topology_spec> k(
      "[topology]", "",
      {whole_key<topology_spec>("worker_groups", 1, many, "number of groups of workers; each group takes its own steps",
                                &topology_spec::worker_groups),
       whole_key<topology_spec>("workers_per_group", 1, many, "number of workers in a group; they share a step",
                                &topology_spec::workers_per_group),
       whole_key<topology_spec>("server_groups", 1, many, "number of copies of the parameters: 1, or one per worker group",
                                &topology_spec::server_groups),
       whole_key<topology_spec>("servers_per_group", 1, many, "number of shards of each copy", &topology_spec::servers_per_group),
       whole_key<topology_spec>("replicas", 1, 16,
                                "number of nodes that hold each block of parameters; one fewer may fail at once (docs/failures.md)",
                                &topology_spec::replicas),
       flag_key<topology_spec>("colocated", "shards may be on the nodes of workers; false: on other nodes, if there are any",
                               &topology_spec::colocated),
       whole_key<topology_spec>(
           "max_block", 64, std::int64_t{1} << 40,
           "maximum size of a block of a parameter in one message, in bytes; larger parameters are cut into blocks",
           &topology_spec::max_block)});
  return k;
}

std::vector<key_table> job_tables() {
  return {file_keys().described(),    job_keys().described(),          data_keys().described(),       layer_keys().described(),
          train_keys().described(),   sampler_keys().described(),      dynamics_keys().described(),   schedule_keys().described(),
          warmup_keys().described(),  clip_keys().described(),         average_keys().described(),    sync_keys().described(),
          when_keys().described(),    exchange_keys().described(),     finish_keys().described(),     custom_keys().described(),
          eval_keys().described(),    eval_sampler_keys().described(), checkpoint_keys().described(), pipeline_keys().described(),
          topology_keys().described()};
}

}  // namespace troupe
