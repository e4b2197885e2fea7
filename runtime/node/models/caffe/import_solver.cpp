#include "runtime/node/models/caffe/import_files.hpp"

#include <algorithm>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe {
namespace {

constexpr std::int64_t most_steps = 1'000'000'000;

// The word of the older field solver_type.
std::string rule_of_enum(message_reader& r) {
  const auto word = r.word("solver_type", "SGD", {"SGD", "NESTEROV", "ADAGRAD", "RMSPROP", "ADADELTA", "ADAM"});
  if (word == "NESTEROV") return "Nesterov";
  if (word == "ADAGRAD") return "AdaGrad";
  if (word == "RMSPROP") return "RMSProp";
  if (word == "ADADELTA") return "AdaDelta";
  return word == "ADAM" ? "Adam" : "SGD";
}

void read_rule(message_reader& r, job_model& job, findings& found) {
  const auto older = rule_of_enum(r);
  const auto type = r.text("type", older);
  const auto momentum = r.real("momentum", 0), momentum2 = r.real("momentum2", 0.999), delta = r.real("delta", 1e-8),
             rms_decay = r.real("rms_decay", 0.99);
  auto& d = job.dynamics;
  const auto rule = [&](const char* name) { d.emplace_back("rule", toml_text(name)); };
  const auto set = [&](const char* key, double v) { d.emplace_back(key, toml_text(v)); };
  if (type == "SGD") {
    rule(momentum == 0 ? "sgd" : "momentum");
    if (momentum != 0) set("momentum", momentum);
  } else if (type == "Nesterov") {
    rule("nesterov");
    set("momentum", momentum);
  } else if (type == "AdaGrad") {
    rule("adagrad");
    set("eps", delta);
  } else if (type == "RMSProp") {
    rule("rmsprop");
    set("rho", rms_decay);
    set("eps", delta);
  } else if (type == "AdaDelta") {
    rule("adadelta");
    set("rho", momentum);
    set("eps", delta);
  } else if (type == "Adam") {
    rule("adam");
    set("beta1", momentum);
    set("beta2", momentum2);
    set("eps", delta);
    found.note("Adam: Caffe adds delta to the uncorrected root of the mean square, Troupe to the corrected one");
  } else {
    r.error("type", "Troupe has no rule like the solver " + in_quotes(type));
  }
}

void read_schedule(message_reader& r, std::int64_t last, job_model& job) {
  const auto policy = r.text("lr_policy", "fixed");
  const auto gamma = r.real("gamma", 0), power = r.real("power", 0);
  const auto stepsize = r.integer("stepsize", 0, 1, most_steps);
  const auto steps = r.integers("stepvalue", 0, most_steps);
  std::string text;
  if (policy == "step") {
    if (stepsize == 0) r.error("lr_policy", "lr_policy 'step' needs 'stepsize'");
    text = "{ kind = \"step\", every = " + toml_text(std::max<std::int64_t>(stepsize, 1)) + ", factor = " + toml_text(gamma) + " }";
  } else if (policy == "exp") {
    text = "{ kind = \"exponential\", every = 1, factor = " + toml_text(gamma) + " }";
  } else if (policy == "inv") {
    text = "{ kind = \"inverse\", gamma = " + toml_text(gamma) + ", power = " + toml_text(power) + " }";
  } else if (policy == "multistep") {
    text = "{ kind = \"fixed_step\", at = " + toml_text(steps) + ", factor = " + toml_text(gamma) + " }";
  } else if (policy == "poly") {
    if (last == 0) r.error("lr_policy", "lr_policy 'poly' needs 'max_iter'");
    text = "{ kind = \"poly\", steps = " + toml_text(std::max<std::int64_t>(last, 1)) + ", power = " + toml_text(power) + " }";
  } else if (policy != "fixed") {
    r.error("lr_policy", "Troupe has no schedule like lr_policy " + in_quotes(policy));
  }
  if (!text.empty()) job.dynamics.emplace_back("schedule", text);
}

void read_clip(message_reader& r, job_model& job) {
  const auto norm = r.real("clip_gradients", -1);
  if (norm > 0) job.dynamics.emplace_back("clip", "{ norm = " + toml_text(norm) + " }");
  const auto kind = r.text("regularization_type", "L2");
  if (kind != "L2") r.error("regularization_type", "Troupe's decay is L2, not " + in_quotes(kind));
}

// Each of `n` packets is a batch of Caffe; their gradients are added up.
void multiply_batch(std::int64_t n, job_model& job) {
  for (auto& [key, value] : job.data) {
    std::int64_t batch = 0;
    if (key == "batch" && read_number(value, batch)) value = toml_text(batch * n);
  }
  job.pipeline.emplace_back("packets", toml_text(n));
}

}  // namespace

bool is_solver(const proto_field& tree) {
  const auto has = [&](const char* name) {
    return std::any_of(tree.fields.begin(), tree.fields.end(), [&](const proto_field& f) { return f.name == name; });
  };
  return has("base_lr") || has("max_iter") || has("lr_policy") || has("train_net") || (has("net") && !has("layer"));
}

void read_solver(const proto_field& tree, job_model& job, findings& found) {
  message_reader r(tree, "SolverParameter", "solver: ", found);
  read_rule(r, job, found);
  job.dynamics.emplace_back("lr", toml_text(r.real("base_lr", 0.01)));
  if (const auto decay = r.real("weight_decay", 0); decay != 0) job.dynamics.emplace_back("decay", toml_text(decay));
  const auto last = r.integer("max_iter", 0, 1, most_steps);
  read_schedule(r, last, job);
  read_clip(r, job);
  if (last > 0)
    job.finish.emplace_back("steps", toml_text(last));
  else
    job.finish.emplace_back("epochs", "10");
  if (const auto every = r.integer("test_interval", 0, 0, most_steps); every > 0)
    job.eval.insert(job.eval.begin(), {"every", toml_text(every)});
  if (const auto every = r.integer("snapshot", 0, 0, most_steps); every > 0) job.checkpoint.emplace_back("every", toml_text(every));
  if (const auto seed = r.integer("random_seed", -1, -1, std::int64_t{1} << 40); seed >= 0)
    job.job.emplace_back("seed", toml_text(seed));
  if (const auto n = r.integer("iter_size", 1, 1, 65535); n > 1) multiply_batch(n, job);
  if (r.word("solver_mode", "CPU", {"CPU", "GPU"}) == "GPU")
    found.note("solver_mode is GPU: set `devices = [\"gpu:0\"]` in [job] to use one");
  if (r.has("test_net_param")) found.note("solver: 'test_net_param' is left out: a job has one net for training and tests");
  r.ignore({"net",
            "net_param",
            "train_net_param",
            "test_net_param",
            "train_net",
            "test_net",
            "test_iter",
            "display",
            "average_loss",
            "snapshot_prefix",
            "snapshot_diff",
            "snapshot_format",
            "snapshot_after_train",
            "device_id",
            "debug_info",
            "test_compute_loss",
            "test_initialization",
            "layer_wise_reduce",
            "train_state",
            "test_state",
            "weights"});
}

void assume_solver(job_model& job) {
  job.heading.push_back("Caffe's net says nothing about training: the rule, the rate and the number of epochs are assumed.");
  job.dynamics = {{"rule", "\"momentum\""}, {"lr", "0.01"}, {"momentum", "0.9"}, {"decay", "0.0005"}};
  job.finish = {{"epochs", "10"}};
}

}  // namespace troupe::caffe
