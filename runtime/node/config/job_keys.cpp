#include "runtime/node/config/job_keys.hpp"

#include <iterator>

#include "runtime/spec/codec_spec.hpp"

namespace troupe {
namespace {

constexpr double many = 65535;  // packets, workers, shards: they travel as 16 bits
constexpr double max_readers = 64;
constexpr double int32_max = 2147483647;
constexpr double int64_max = 9223372036854775807.0;

}  // namespace

const keys<job_spec>& file_keys() {
  static const keys<job_spec> k(
      "The file", "",
      {other_key<job_spec>(key_kind::texts, "plugins",
                           "shared libraries that add layers, modes, samplers, ...; a relative path begins at this file"),
       other_key<job_spec>(key_kind::table, "job", "the job as such"),
       other_key<job_spec>(key_kind::table, "data", "where examples come from").required(),
       other_key<job_spec>(key_kind::tables, "layer", "the model: a table for each layer").required(),
       other_key<job_spec>(key_kind::table, "train", "how it learns, and when it ends").required(),
       other_key<job_spec>(key_kind::table, "eval", "when and on what it is evaluated"),
       other_key<job_spec>(key_kind::table, "checkpoint", "when it is kept while it runs (docs/failures.md)"),
       other_key<job_spec>(key_kind::table, "pipeline", "packets and sub-solvers"),
       other_key<job_spec>(key_kind::table, "topology", "workers and servers, in SINGA's terms (docs/protocols.md)")});
  return k;
}

const keys<job_spec>& job_keys() {
  static const keys<job_spec> k(
      "[job]", "",
      {text_key<job_spec>("name", "names the job in lists and files; no '/'", &job_spec::name).otherwise("the file's name"),
       whole_key<job_spec>("seed", 0, int64_max, "of all that is random: first weights, order of examples, dropout",
                           &job_spec::seed),
       texts_key<job_spec>("devices", "of an embedded run; a cluster file has them for each node", &job_spec::devices),
       whole_key<job_spec>("max_failures", 0, int64_max,
                           "losses of nodes that a job on a cluster survives; 0: the first ends it (docs/failures.md)",
                           &job_spec::max_failures)
           .otherwise("any number, but not more than 3 within 30 s"),
       whole_key<job_spec>("min_nodes", 0, 65535,
                           "a job with fewer nodes ends; with this or max_nodes its number of workers follows that of its nodes "
                           "(docs/failures.md)",
                           &job_spec::min_nodes)
           .otherwise("any number"),
       whole_key<job_spec>("max_nodes", 0, 65535, "nodes that it uses, for which the topology's numbers of workers are meant",
                           &job_spec::max_nodes)
           .otherwise("all but the spares"),
       whole_key<job_spec>("spares", 0, 65535, "nodes held back, to take the place of lost ones", &job_spec::spares),
       word_key<job_spec>("precision", {"fp32", "f64", "bf16"}, "type of activations (docs/precision.md)", &job_spec::precision),
       word_key<job_spec>("convolution", {"rule", "measured"}, "what `auto` algorithms of convolutions stand for (docs/layers.md)",
                          &job_spec::convolution)});
  return k;
}

const keys<data_spec>& data_keys() {
  static const keys<data_spec> k(
      "[data]", "Beside these keys stand those of the source.",
      {whole_key<data_spec>("batch", 1, int32_max, "examples of a step, over all workers; packets must divide it",
                            &data_spec::batch),
       whole_key<data_spec>("readers", 1, max_readers, "packets that a loader reads at once (docs/data.md)", &data_spec::readers)
           .otherwise("as the source has it"),
       other_key<data_spec>(key_kind::table, "augment", "changes images on their way (docs/data.md)"),
       other_key<data_spec>(key_kind::entry, "source", "a source").required()});
  return k;
}

const keys<layer_spec>& layer_keys() {
  static const keys<layer_spec> k(
      "[[layer]]", "Beside these keys stand those of the layer type.",
      {text_key<layer_spec>("name", "what other layers, overrides and files of weights call it", &layer_spec::name).required(),
       texts_key<layer_spec>("inputs", "layers that it reads: a name, \"data\", \"label\", or \"slice1.1\" for output 1 of slice1",
                             &layer_spec::inputs),
       word_key<layer_spec>("partition", {"batch", "feature", "input", "none"}, "how its parts lie (docs/partitioning.md)",
                            &layer_spec::partition),
       word_key<layer_spec>("phase", {"train", "test"}, "computed in that phase alone", &layer_spec::phase).otherwise("both"),
       word_key<layer_spec>("wire", {"fp32", "bf16", "int8"}, "how its outputs and their gradients travel between nodes",
                            &layer_spec::wire),
       word_key<layer_spec>("compress", {std::begin(codec_words), std::end(codec_words)},
                            "how its gradients travel to the shards (docs/protocols.md)", &layer_spec::compress)
           .otherwise("as `[train.exchange]` says"),
       reals_key<layer_spec>("lr_scale", 0, no_upper, "factor on the rate; a list has one for each parameter").otherwise("1"),
       real_key<layer_spec>("loss_weight", 0, no_upper, "of a loss: its weight in the sum", &layer_spec::loss_weight)
           .otherwise("1"),
       reals_key<layer_spec>("decay_scale", 0, no_upper, "factor on the decay; a list has one for each parameter")
           .otherwise("each parameter's own"),
       texts_key<layer_spec>("place", "nodes of its parts, \"n2\", one for each part", &layer_spec::place)
           .otherwise("beside the workers, or where its input is"),
       reals_key<layer_spec>("fraction", 0, 1, "shares of its parts; they sum to 1").otherwise("equal shares"),
       flag_key<layer_spec>("recompute", "backward runs forward again, in place of what it would keep (docs/memory.md)",
                            &layer_spec::recompute),
       flag_key<layer_spec>("gather", "the packets of a step are computed as one, where the layer can", &layer_spec::gather),
       other_key<layer_spec>(key_kind::entry, "type", "a layer type").required(),
       word_key<layer_spec>("algorithm", {"auto"}, "of the layer's maths; convolutions have words of their own")
           .otherwise("\"auto\"")});
  return k;
}

const keys<train_spec>& train_keys() {
  static const keys<train_spec> k(
      "[train]", "",
      {other_key<train_spec>(key_kind::table, "sampler", "which examples a worker takes (docs/data.md)")
           .otherwise("{ kind = \"shuffle\" }"),
       other_key<train_spec>(key_kind::table, "dynamics", "the update rule and its rate (docs/dynamics.md)")
           .otherwise("{ rule = \"sgd\" }"),
       word_key<train_spec>("algorithm", {"bp", "bptt", "cd"},
                            "back-propagation; through time, with state carried from step to step; contrastive divergence",
                            &train_spec::algorithm),
       other_key<train_spec>(key_kind::table, "sync", "the synchronisation mode (docs/protocols.md)")
           .otherwise("{ mode = \"bsp\" }"),
       other_key<train_spec>(key_kind::table, "exchange", "how sums reach the shards").otherwise("{ reducer = \"server\" }"),
       other_key<train_spec>(key_kind::table, "finish", "when the job ends (docs/dynamics.md)").required(),
       whole_key<train_spec>("max_skipped", 0, int64_max,
                             "steps in a row that are left out because their gradient is not finite; one more ends the job "
                             "(docs/failures.md)",
                             &train_spec::max_skipped),
       flag_key<train_spec>("deterministic", "false: nodes that compute other bits may share the job (docs/determinism.md)",
                            &train_spec::deterministic)});
  return k;
}

const keys<train_spec>& sampler_keys() {
  static const keys<train_spec> k("[train.sampler]", "Beside it stand the options of the sampler.",
                                  {other_key<train_spec>(key_kind::entry, "kind", "a sampler").required()});
  return k;
}

const keys<train_spec>& dynamics_keys() {
  static const keys<train_spec> k(
      "[train.dynamics]", "Beside these keys stand those of the rule.",
      {real_key<train_spec>("lr", 0, no_upper, "rate of a step, where the schedule begins", &train_spec::lr),
       real_key<train_spec>("decay", 0, no_upper, "weight decay: what is added to the gradient for each unit of weight",
                            &train_spec::decay),
       other_key<train_spec>(key_kind::table, "schedule", "how the rate changes").otherwise("{ kind = \"fixed\" }"),
       other_key<train_spec>(key_kind::table, "clip", "a bound of the gradient"),
       word_key<train_spec>("lr_scale", {"none", "linear", "sqrt"}, "the rate grows with batch / base_batch",
                            &train_spec::lr_scale),
       whole_key<train_spec>("base_batch", 1, int32_max, "the batch that lr was chosen for", &train_spec::base_batch)
           .otherwise("required with lr_scale"),
       other_key<train_spec>(key_kind::entry, "rule", "an update rule").required()});
  return k;
}

const keys<train_spec>& schedule_keys() {
  static const keys<train_spec> k("[train.dynamics.schedule]", "Beside these keys stand those of the schedule.",
                                  {other_key<train_spec>(key_kind::table, "warmup", "a factor that grows to 1 in the first steps"),
                                   other_key<train_spec>(key_kind::entry, "kind", "a schedule").required()});
  return k;
}

const keys<warmup_spec>& warmup_keys() {
  static const keys<warmup_spec> k(
      "[train.dynamics.schedule.warmup]", "",
      {whole_key<warmup_spec>("steps", 1, int64_max, "until the schedule's own rate is reached", &warmup_spec::steps).required(),
       real_key<warmup_spec>("from", 0, 1, "the factor of the first step", &warmup_spec::from)});
  return k;
}

const keys<clip_spec>& clip_keys() {
  static const keys<clip_spec> k(
      "[train.dynamics.clip]", "One of the two.",
      {real_key<clip_spec>("value", 0, no_upper, "each element of the mean gradient is brought into [-value, value]; more than 0",
                           &clip_spec::value)
           .otherwise("not"),
       real_key<clip_spec>("norm", 0, no_upper, "the mean gradient of all parameters is shortened to this L2 norm; more than 0",
                           &clip_spec::norm)
           .otherwise("not")});
  return k;
}

const keys<train_spec>& sync_keys() {
  static const keys<train_spec> k(
      "[train.sync]", "Beside these keys stand those of the mode.",
      {other_key<train_spec>(key_kind::table, "when", "when a worker exchanges, for the modes that leave it open")
           .otherwise("the mode's habit"),
       other_key<train_spec>(key_kind::entry, "mode", "a synchronisation mode").required()});
  return k;
}

const keys<train_spec>& when_keys() {
  static const keys<train_spec> k("[train.sync.when]", "Beside it stand the options of the condition.",
                                  {other_key<train_spec>(key_kind::entry, "kind", "a sync condition").required()});
  return k;
}

const keys<train_spec>& exchange_keys() {
  static const keys<train_spec> k(
      "[train.exchange]", "Beside these keys stand those of the reducer.",
      {other_key<train_spec>(
           key_kind::entry, "reducer",
           "a reducer, or \"auto\": the one of server, sharded, hierarchical and tree whose busiest node has the least to do")
           .otherwise(written(train_spec{}.reducer)),
       word_key<train_spec>("compress", {std::begin(codec_words), std::end(codec_words)},
                            "how gradients travel to the shards; what is lost is added to the next step's (docs/protocols.md)",
                            &train_spec::compress),
       real_key<train_spec>("fraction", 0, 1, "topk: of each block's values, those of the largest magnitude travel",
                            &train_spec::fraction),
       real_key<train_spec>("threshold", 0, no_upper, "threshold: values of this magnitude and more travel",
                            &train_spec::threshold)});
  return k;
}

const keys<finish_spec>& finish_keys() {
  static const keys<finish_spec> k(
      "[train.finish]",
      "One of epochs, steps, patience, target_accuracy, time and custom at least; the first that says so ends the job.",
      {whole_key<finish_spec>("epochs", 1, int64_max, "passes over the training set", &finish_spec::epochs),
       whole_key<finish_spec>("steps", 1, int64_max, "steps", &finish_spec::steps),
       whole_key<finish_spec>("patience", 1, int64_max, "evaluations without a better accuracy; needs [eval] every",
                              &finish_spec::patience),
       real_key<finish_spec>("target_accuracy", 0, 1, "an evaluation that reaches it; needs [eval] every",
                             &finish_spec::target_accuracy),
       other_key<finish_spec>(key_kind::time, "time", "this long", &finish_spec::seconds),
       word_key<finish_spec>("who", {"all", "any"}, "which workers have to make their steps, in modes where they go by themselves",
                             &finish_spec::who, {"each"}),
       other_key<finish_spec>(key_kind::table, "custom", "one more condition")});
  return k;
}

const keys<finish_spec>& custom_keys() {
  static const keys<finish_spec> k("[train.finish.custom]", "Beside it stand the options of the condition.",
                                   {other_key<finish_spec>(key_kind::entry, "kind", "a finish condition").required()});
  return k;
}

const keys<eval_spec>& eval_keys() {
  static const keys<eval_spec> k(
      "[eval]", "",
      {whole_key<eval_spec>("every", 0, int64_max, "steps between two evaluations; 0: at the end alone", &eval_spec::every),
       whole_key<eval_spec>("batch", 1, int32_max, "examples of an evaluation's step", &eval_spec::batch)
           .otherwise("the training batch"),
       other_key<eval_spec>(key_kind::table, "sampler", "which examples an evaluation takes").otherwise("{ kind = \"all\" }"),
       word_key<eval_spec>("split", {"test", "train"}, "of the data").otherwise("\"test\"")});
  return k;
}

const keys<eval_spec>& eval_sampler_keys() {
  static const keys<eval_spec> k("[eval.sampler]", "Beside it stand the options of the sampler.",
                                 {other_key<eval_spec>(key_kind::entry, "kind", "an evaluation sampler").required()});
  return k;
}

const keys<checkpoint_spec>& checkpoint_keys() {
  static const keys<checkpoint_spec> k(
      "[checkpoint]", "",
      {other_key<checkpoint_spec>(key_kind::steps_or_time, "every", "a checkpoint after so many steps, or after so long")
           .otherwise("when asked, and at a stop"),
       whole_key<checkpoint_spec>("keep", 2, 1000, "of the job's own, on the coordinator's node: so many of the newest stay",
                                  &checkpoint_spec::keep),
       text_key<checkpoint_spec>(
           "dir", "a folder on the coordinator's node, or one that nodes share: each run of the job has a folder in it",
           &checkpoint_spec::dir)
           .otherwise("the coordinator's state; in one process a file beside the job"),
       word_key<checkpoint_spec>("resume", {"never", "auto"},
                                 "auto: begin with the newest checkpoint of a job of this name, if there is one",
                                 &checkpoint_spec::resume),
       word_key<checkpoint_spec>("match", {"all", "names"},
                                 "names: of a file of weights, parameters that it has by name and shape are taken, others filled",
                                 &checkpoint_spec::match)});
  return k;
}

const keys<pipeline_spec>& pipeline_keys() {
  static const keys<pipeline_spec> k(
      "[pipeline]", "",
      {whole_key<pipeline_spec>("packets", 1, many,
                                "equal parts that a step's batch travels in; weights depend on it (docs/determinism.md)",
                                &pipeline_spec::packets),
       whole_key<pipeline_spec>("sub_solvers", 1, many, "packets of one worker that may be under way at once",
                                &pipeline_spec::sub_solvers),
       word_key<pipeline_spec>("fuse", {"none", "auto"}, "auto: consecutive layers share a stage", &pipeline_spec::fuse),
       flag_key<pipeline_spec>("fuse_layers", "layers that can are computed as one, to the same bits", &pipeline_spec::fuse_layers),
       word_key<pipeline_spec>("weights", {"drain", "latest", "stash"},
                               "which version of the weights a packet meets (docs/protocols.md)", &pipeline_spec::weights)});
  return k;
}

const keys<topology_spec>& topology_keys() {
  static const keys<topology_spec> k(
      "[topology]", "",
      {whole_key<topology_spec>("worker_groups", 1, many, "groups of workers that each take steps of their own",
                                &topology_spec::worker_groups),
       whole_key<topology_spec>("workers_per_group", 1, many, "workers that share a step", &topology_spec::workers_per_group),
       whole_key<topology_spec>("server_groups", 1, many, "copies of the parameters: 1, or as many as worker groups",
                                &topology_spec::server_groups),
       whole_key<topology_spec>("servers_per_group", 1, many, "shards that each copy is cut over",
                                &topology_spec::servers_per_group),
       whole_key<topology_spec>("replicas", 1, 16,
                                "nodes that have each block of parameters: as many less one may be lost at once (docs/failures.md)",
                                &topology_spec::replicas),
       flag_key<topology_spec>("colocated", "shards live on nodes of workers", &topology_spec::colocated),
       whole_key<topology_spec>("max_block", 64, std::int64_t{1} << 40,
                                "bytes of a parameter that one message carries at most: larger ones are cut into blocks",
                                &topology_spec::max_block)});
  return k;
}

std::vector<key_table> job_tables() {
  return {file_keys().described(),         job_keys().described(),        data_keys().described(),     layer_keys().described(),
          train_keys().described(),        sampler_keys().described(),    dynamics_keys().described(), schedule_keys().described(),
          warmup_keys().described(),       clip_keys().described(),       sync_keys().described(),     when_keys().described(),
          exchange_keys().described(),     finish_keys().described(),     custom_keys().described(),   eval_keys().described(),
          eval_sampler_keys().described(), checkpoint_keys().described(), pipeline_keys().described(), topology_keys().described()};
}

}  // namespace troupe
