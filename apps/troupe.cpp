// troupe: everything a person types. This file knows the command line and nothing else; troupe_*.cpp hold the commands.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>

#include "actors/repl/repl.hpp"
#include "apps/troupe_commands.hpp"

namespace troupe {
namespace {

constexpr const char* about =
    "Troupe trains neural networks as a company of actors.\n"
    "\n"
    "A job is one TOML file: data, model, training. Begin with\n"
    "  troupe check JOB.toml                      is the file right?\n"
    "  troupe train JOB.toml --out net.safetensors\n"
    "  troupe test JOB.toml --weights net.safetensors\n";
constexpr const char* footer =
    "Exit code: 0 done, 1 failed while running, 2 wrong usage or configuration.\n"
    "With --json every command writes one JSON object a line on stdout, and nothing else there.\n"
    "`troupe COMMAND --help` explains a command.";

struct choice_made {
  std::function<int(const output&)> run;
  bool json = false;
};

void json_flag(CLI::App& c, bool& json) { c.add_flag("--json", json, "Events as JSON, one object a line on stdout"); }

void job_flags(CLI::App& c, job_arguments& a, bool& json) {
  c.add_option("JOB", a.file, "Job file (TOML)")->required()->option_text("(required)");
  c.add_option(
       "--set", a.overrides,
       "Override a key of the job file, as in --set train.finish.epochs=1 or\n--set layer.conv1.outputs=10; may be repeated")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  json_flag(c, json);
}

CLI::Option* file_option(CLI::App& c, const std::string& name, std::string& into, const std::string& text) {
  return c.add_option(name, into, text)->option_text("FILE");
}

void threads_option(CLI::App& c, unsigned& into, const std::string& fallback) {
  c.add_option("--threads", into, "Threads for all actors together (default: " + fallback + ")")
      ->option_text("N")
      ->check(CLI::Range(0u, 4096u));
}

CLI::App* command(CLI::App& app, const std::string& name, const std::string& text, const std::string& examples) {
  auto* c = app.add_subcommand(name, text);
  if (!examples.empty()) c->footer("Examples:\n" + examples);
  return c;
}

void add_train(CLI::App& app, train_arguments& a, choice_made& chosen) {
  auto* c = command(app, "train", "Train a job: in this process, or on a cluster",
                    "  troupe train configs/jobs/lenet_fashion.toml --out lenet.safetensors\n"
                    "  troupe train job.toml --set train.dynamics.lr=0.02 --set pipeline.sub_solvers=2 --threads 2\n"
                    "  troupe train job.toml --resume job.checkpoint.safetensors\n"
                    "Ctrl-C (or SIGTERM) stops at the next step and saves a checkpoint; a second one ends at once.");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--out", a.out, "Write the final weights here (safetensors)");
  file_option(*c, "--weights", a.weights, "Begin from these weights (safetensors), at step 0");
  file_option(*c, "--resume", a.resume, "Continue a checkpoint: weights, state of the update rule, step");
  file_option(*c, "--checkpoint", a.checkpoint, "Where checkpoints go (default: <job name>.checkpoint.safetensors)");
  file_option(*c, "--cluster", a.cluster, "Submit to the cluster of this file and follow; Ctrl-C detaches");
  threads_option(*c, a.threads, "one per core");
  c->callback([&] { chosen.run = [&](const output& o) { return run_train(a, o); }; });
}

void add_test(CLI::App& app, test_arguments& a, choice_made& chosen) {
  auto* c = command(app, "test", "Evaluate weights on the job's test data",
                    "  troupe test configs/jobs/lenet_fashion.toml --weights lenet.safetensors");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--weights", a.weights, "Weights to evaluate (safetensors; a checkpoint will do)")->required();
  threads_option(*c, a.threads, "one per core");
  c->callback([&] { chosen.run = [&](const output& o) { return run_test(a, o); }; });
}

void add_sample(CLI::App& app, sample_arguments& a, choice_made& chosen) {
  auto* c =
      command(app, "sample", "Write text with a net that was trained on text",
              "  troupe sample configs/jobs/char_rnn_lstm.toml --set data.path=input.txt --weights net.safetensors --start ROMEO:");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--weights", a.weights, "Weights of the net (safetensors; a checkpoint will do)")->required();
  c->add_option("--start", a.start, "What the text begins with (default: a new line, which is not printed)")->option_text("TEXT");
  c->add_option("--length", a.length, "Characters to write (default: 400)")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000000}));
  c->add_option("--temperature", a.temperature, "Scores are divided by it; 0: always the likeliest (default: 0.8)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 1000.0));
  c->add_option("--seed", a.seed, "Of the drawing (default: 1)")->option_text("S");
  c->callback([&] { chosen.run = [&](const output& o) { return run_sample(a, o); }; });
}

void add_time(CLI::App& app, time_arguments& a, choice_made& chosen) {
  auto* c = command(app, "time", "Time a job: each layer, and what the actors cost over a plain loop",
                    "  troupe time configs/jobs/lenet_fashion.toml --steps 200\n"
                    "  troupe time job.toml --set pipeline.packets=2 --set pipeline.sub_solvers=2 --threads 2\n"
                    "Both ways run in alternating blocks of steps inside one process; medians over steps.");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--weights", a.weights, "Time with these weights instead of initial ones");
  c->add_option("--steps", a.steps, "Steps to time each way (default: 50)")->option_text("N")->check(CLI::Range(2u, 1000000u));
  threads_option(*c, a.threads, "1, as the plain loop has one");
  c->callback([&] { chosen.run = [&](const output& o) { return run_time(a, o); }; });
}

void add_init(CLI::App& app, init_arguments& a, choice_made& chosen) {
  auto* c =
      command(app, "init", "Write a job's initial weights", "  troupe init job.toml --out initial.safetensors --set job.seed=7");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--out", a.out, "Weights file to write (safetensors)")->required();
  c->callback([&] { chosen.run = [&](const output& o) { return run_init(a, o); }; });
}

void add_pack(CLI::App& app, pack_arguments& a, choice_made& chosen) {
  auto* c = command(app, "pack", "Write a job's data into one file that any example is read from at once",
                    "  troupe pack configs/jobs/cifar10_images.toml --out cifar10.pack\n"
                    "  troupe train job.toml --set data='{ source = \"packed\", path = \"cifar10.pack\", batch = 100 }'\n"
                    "What the source yields is written, before [data] augment; training with it gives the same weights.");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--out", a.out, "File to write")->required();
  c->callback([&] { chosen.run = [&](const output& o) { return run_pack(a, o); }; });
}

void add_unroll(CLI::App& app, unroll_arguments& a, choice_made& chosen) {
  auto* c = command(app, "unroll", "Make an autoencoder's weights from those of a stack of Boltzmann machines",
                    "  troupe train configs/jobs/rbm_stack.toml --out stack.safetensors\n"
                    "  troupe unroll stack.safetensors --out begin.safetensors\n"
                    "  troupe train configs/jobs/rbm_autoencoder.toml --weights begin.safetensors\n"
                    "Each layer NAME of type rbm becomes two of type linear: NAME, and NAME_back with the transposed weights.");
  c->add_option("FILE", a.file, "Weights of the stack (safetensors; a checkpoint will do)")->required()->option_text("");
  file_option(*c, "--out", a.out, "Weights file to write (safetensors)")->required();
  json_flag(*c, chosen.json);
  c->callback([&] { chosen.run = [&](const output& o) { return run_unroll(a, o); }; });
}

void add_plan(CLI::App& app, plan_arguments& a, choice_made& chosen) {
  auto* c =
      command(app, "plan", "Show placement, routes, weight delays, bytes per step and memory of a job",
              "  troupe plan job.toml\n"
              "  troupe plan job.toml --cluster configs/clusters/local2.toml --set topology.workers_per_group=2\n"
              "  troupe plan job.toml --cluster lab.toml --set layer.fc7.partition=input --set layer.fc6.wire=bf16\n"
              "  troupe plan configs/jobs/alexnet.toml --suggest --set topology.workers_per_group=4 --set pipeline.packets=4");
  job_flags(*c, a, chosen.json);
  file_option(*c, "--cluster", a.cluster, "Place the job on the nodes of this cluster file");
  c->add_flag("--suggest", a.suggest, "Search for places of layers that make a step cheaper, and say which keys to write");
  c->add_option("--gbit", a.gigabits, "With --suggest: Gbit/s of a node's link, each direction (default: 10)")
      ->option_text("G")
      ->check(CLI::Range(1e-6, 1e6));
  c->add_option("--tflops", a.teraflops, "With --suggest: 10^12 operations a second of a node (default: 1)")
      ->option_text("T")
      ->check(CLI::Range(1e-6, 1e6));
  c->callback([&] { chosen.run = [&](const output& o) { return run_plan(a, o); }; });
}

void add_sim(CLI::App& app, sim_arguments& a, choice_made& chosen) {
  auto* c = command(app, "sim", "Simulate a job on a virtual cluster: same roles, virtual time, seeded faults",
                    "  troupe sim configs/jobs/lenet_synthetic.toml --nodes 16 --network configs/sim/ethernet.toml\n"
                    "  troupe sim job.toml --nodes 8 --faults configs/faults/everything.toml --seed 7\n"
                    "  troupe sim configs/sim/firecaffe_googlenet_128.toml\n"
                    "  troupe sim configs/jobs/alexnet_fc.toml --cluster configs/clusters/alexnet_fc.toml --maths none --steps 3\n"
                    "With --nodes one worker a node. JOB may be a scenario: a file that names job, nodes, network and faults.");
  job_flags(*c, a, chosen.json);
  c->add_option("--nodes", a.nodes, "Nodes of the virtual cluster, one worker each")
      ->option_text("N")
      ->check(CLI::Range(1u, 65535u));
  file_option(*c, "--cluster", a.cluster, "Instead of --nodes: the nodes of this cluster file, and the job as it stands");
  file_option(*c, "--network", a.network, "Network and compute model (TOML)");
  file_option(*c, "--faults", a.faults, "Faults to inject (TOML)");
  c->add_option("--seed", a.seed, "Of the simulation; the job has its own (default: 1)")
      ->option_text("S")
      ->check(CLI::Range(std::int64_t{0}, INT64_MAX));
  c->add_option("--maths", a.maths, "real: train. none: count only, at full speed (default: real)")
      ->option_text("real|none")
      ->check(CLI::IsMember({"real", "none"}));
  c->add_option("--buckets", a.buckets, "With --maths none: gradients travel in K buckets (default: 4); 0: layer by layer")
      ->option_text("K")
      ->check(CLI::Range(0, 4096));
  c->add_option("--steps", a.steps, "End after N steps, whatever the job says")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, INT64_MAX));
  file_option(*c, "--trace", a.trace, "Write a trace that Perfetto (ui.perfetto.dev) and Chrome open");
  c->callback([&] { chosen.run = [&](const output& o) { return run_sim(a, o); }; });
}

void add_check(CLI::App& app, check_arguments& a, choice_made& chosen) {
  auto* c = command(app, "check", "Validate job, cluster and simulation files; says all that is wrong",
                    "  troupe check configs/jobs/*.toml configs/clusters/*.toml");
  c->add_option("FILE", a.files, "Job, cluster, network, fault or scenario files")->required()->option_text("...");
  c->add_option("--set", a.overrides, "Override a key of the job files; may be repeated")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  json_flag(*c, chosen.json);
  c->callback([&] { chosen.run = [&](const output& o) { return run_check(a, o); }; });
}

void add_init_cluster(CLI::App& app, init_cluster_arguments& a, choice_made& chosen) {
  auto* c = command(app, "init-cluster", "Make the certificates of a cluster file: one CA, one pair per node, one for operators",
                    "  troupe init-cluster --cluster configs/clusters/local2.toml");
  file_option(*c, "--cluster", a.cluster, "Cluster file")->required();
  c->add_flag("--overwrite", a.overwrite, "Replace existing certificates; nodes that hold the old ones are shut out");
  json_flag(*c, chosen.json);
  c->callback([&] { chosen.run = [&](const output& o) { return run_init_cluster(a, o); }; });
}

void add_lists(CLI::App& app, list_arguments& layers, list_arguments& modes, choice_made& chosen) {
  const auto add = [&](const char* name, const char* text, const char* what, list_arguments& a, auto run,
                       const std::string& examples) {
    auto* c = command(app, name, text, examples);
    c->add_option("NAME", a.name, what)->option_text(" ");
    c->add_option("--plugin", a.plugins, "Also what this plugin brings; may be repeated")
        ->option_text("FILE")
        ->allow_extra_args(false);
    json_flag(*c, chosen.json);
    c->callback([&chosen, &a, run] { chosen.run = [&a, run](const output& o) { return run(a, o); }; });
  };
  add("layers", "List the layer types, or explain one", "Layer type to explain", layers, run_layers,
      "  troupe layers\n  troupe layers convolution");
  add("modes", "List the synchronisation modes, or explain one", "Mode to explain", modes, run_modes,
      "  troupe modes\n  troupe modes bsp");
}

// A mistake on the command line. CLI11 says what it is; --help is no mistake.
int usage_error(const CLI::App& app, const CLI::ParseError& e, const output& out) {
  if (e.get_exit_code() == 0) return app.exit(e) == 0 ? exit_done : exit_wrong;
  std::string hint = "try: troupe --help";
  for (const auto* c : app.get_subcommands()) hint = "try: troupe " + c->get_name() + " --help";
  return out.wrong("command line", std::string(e.what()) + " (" + hint + ")");
}

int run(int argc, char** argv) {
  CLI::App app{about, "troupe"};
  app.footer(footer);
  app.set_version_flag("--version", std::string("troupe 0.1.0"));
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  choice_made chosen;
  train_arguments train;
  test_arguments test;
  sample_arguments sample;
  time_arguments time;
  init_arguments init;
  pack_arguments pack;
  unroll_arguments unroll;
  plan_arguments plan;
  sim_arguments sim;
  check_arguments check;
  init_cluster_arguments init_cluster;
  list_arguments layers, modes;
  add_train(app, train, chosen);
  add_test(app, test, chosen);
  add_sample(app, sample, chosen);
  add_time(app, time, chosen);
  add_init(app, init, chosen);
  add_pack(app, pack, chosen);
  add_unroll(app, unroll, chosen);
  add_plan(app, plan, chosen);
  add_sim(app, sim, chosen);
  add_check(app, check, chosen);
  add_init_cluster(app, init_cluster, chosen);
  add_lists(app, layers, modes, chosen);
  // Listed here, read by repl_main(): it has a command line of its own.
  app.add_subcommand("repl", "Run jobs here, or talk to a running daemon: submit, status, pause, set, ... (troupe repl --help)");
  if (argc > 1 && std::strcmp(argv[1], "repl") == 0) return repl_main({argv + 2, argv + argc});
  // Known before parsing, since a mistake in it has to be told in the same way.
  const bool json = std::any_of(argv, argv + argc, [](const char* a) { return std::strcmp(a, "--json") == 0; });
  const output out(json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_error(app, e, out);
  }
  try {
    return chosen.run(out);
  } catch (const std::exception& e) {
    return out.failed("troupe", e.what());
  }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  try {
    return troupe::run(argc, argv);
  } catch (...) {
    std::fputs("troupe: unexpected failure\n", stderr);
    return troupe::exit_failed;
  }
}
