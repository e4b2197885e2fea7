// `troupe doctor [--cluster FILE]`: says whether this machine, or a cluster, is fit to train, and
// what to do where it is not.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <variant>

#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/look/doctor.hpp"
#include "apps/commands/named_run.hpp"
#include "ops/gpu.hpp"
#include "runtime/node/machine/reading.hpp"
#include "runtime/node/runs/run_files.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/node/runs/run_query.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

void add_gpus(machine::facts& f) {
  const int gpus = count_gpus(f.why_no_gpu);
  for (int n = 0; n < gpus; ++n) {
    machine::gpu g;
    g.name = "gpu:" + std::to_string(n);
    try {
      const auto found = describe_gpu(n);
      g.name += " " + found.name;
      g.failure = found.failure;
    } catch (const std::exception& e) {
      g.failure = e.what();
    }
    f.gpus.push_back(std::move(g));
  }
}

machine::check database_check(const fs::path& runs) {
  const auto file = run_database_file(runs);
  machine::check c{"runs database", machine::verdict::ok, file.string()};
  std::error_code ec;
  if (!fs::exists(file, ec)) {
    c.value += ": none yet";
    return c;
  }
  auto opened = run_query::open(file);
  if (!opened) {
    c.text = opened.error().message;
  } else {
    const auto tables = opened->tables();
    if (const auto* bad = std::get_if<run_query::problem>(&tables)) c.text = bad->message;
  }
  if (c.text.empty()) return c;
  c.state = machine::verdict::fail;
  c.next = "mv " + file.string() + " " + file.string() + ".broken (the folders of the runs stay)";
  return c;
}

int run_doctor(const doctor_arguments& a, const output& out) {
  if (!a.out.empty())
    if (const auto fine = check_writable_file(a.out); !fine) return out.wrong(a.out, fine.error().text);
  if (!a.cluster.empty()) return run_doctor_cluster(a, out);
  const auto runs = runs_folder(a.run_dir, false);
  machine::wanted w;
  if (!runs.empty()) w.folders.emplace_back("runs", runs.string());
  auto f = machine::read_facts(w);
  add_gpus(f);
  doctor_report report(out);
  report.show(machine::checks_of(f, {}, {}));
  if (!runs.empty()) report.show(database_check(runs));
  if (!a.out.empty()) {
    const auto threads = f.speed.threads;
    if (const auto bad = write_machine_file(a.out, {{"this machine", threads, std::move(f)}}, {}); !bad.empty())
      return out.failed(a.out, bad);
  }
  return report.end();
}

void add_options(CLI::App& c, doctor_arguments& a) {
  file_option(c, "--cluster", a.cluster, "Examine the nodes of this cluster and the links between them");
  file_option(c, "--out", a.out, "Write what was measured to this file, for `troupe sim --network` and `troupe plan --machine`");
  file_option(c, "--run-dir", a.run_dir, "Folder of the runs (default: $TROUPE_RUNS, or runs/)");
  c.add_flag("--busy", a.busy, "With --cluster: measure speeds although a job runs; it becomes slower meanwhile");
  json_option(c);
}

}  // namespace

std::string write_machine_file(const std::string& file, const std::vector<machine::measured_node>& nodes,
                               const std::vector<machine::link>& links) {
  const auto text = machine::machine_file(nodes, links, "Measured by `troupe doctor`.");
  const auto written = write_text(file, text);
  return written ? std::string() : written.error().message;
}

cli_command doctor_command() {
  return make_command<doctor_arguments>(
      "doctor", "Check whether this machine or a cluster is fit to train, and say what to do where it is not",
      "  troupe doctor\n  troupe doctor --cluster cluster.toml\n"
      "  troupe doctor --cluster cluster.toml --out machine.toml\n  troupe plan job.toml --cluster cluster.toml --machine "
      "machine.toml",
      add_options, run_doctor);
}

}  // namespace troupe
