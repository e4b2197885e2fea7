// `troupe modes [NAME]`: lists the synchronisation modes, or describes one, from the mode registry.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/cli/registry.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

// Properties of a mode other than its options, as sentences.
std::string mode_facts_text(const sync_mode& m) {
  std::string s = m.lockstep ? "All workers compute the same step; evaluation is distributed over them.\n"
                             : "Each worker advances at its own pace; a tester evaluates in parallel with training.\n";
  if (m.work_units) s += "Packets are assigned to workers while the step runs.\n";
  s += m.by_groups ? "Independent trainers are worker groups; [topology] worker_groups sets their number.\n"
                   : "[topology] workers_per_group sets the number of workers.\n";
  if (m.takes_when) s += "Accepts a sync condition: when = { kind = ... } in [train.sync].\n";
  if (!m.clips_by_norm) s += "Does not support gradient clipping by global norm.\n";
  if (m.places) s += "Supports layers on other nodes than the workers and layers split by feature.\n";
  return s;
}

// The mode's entry in the table [train] of a job file, with default options.
std::string mode_line(const sync_mode& m) {
  std::string s = "sync = { mode = " + json(m.name).dump();
  for (const auto& o : m.specs) s += ", " + o.name + " = " + (o.fallback ? value_json(*o.fallback).dump() : "...");
  return s + " }";
}

int mode_page(const sync_mode& m, const output& out) {
  if (out.json()) {
    json o{{"event", "mode"}, {"name", m.name}, {"doc", m.doc}, {"options", json::array()}};
    for (const auto& s : m.specs) o["options"].push_back(option_json(s));
    o["lockstep"] = m.lockstep;
    o["portions"] = m.work_units;
    o["by_groups"] = m.by_groups;
    o["takes_when"] = m.takes_when;
    o["clips_by_norm"] = m.clips_by_norm;
    o["places"] = m.places;
    out.object(o);
    return exit_done;
  }
  out.text(page_text(m.name + ": " + m.doc) + "\n\n" + page_text(mode_facts_text(m)) + "\n" + option_table(m.specs) +
           "\nexample, in a job file:\n  [train]\n  " + mode_line(m) + "\n");
  return exit_done;
}

int run_modes(const list_arguments& a, const output& out) {
  auto all = node_tables();
  if (auto r = load_plugins(a.plugins, all); !r) return out.wrong("--plugin", r.error().message);
  return show(all.modes, a.name, "mode", out, mode_page, mode_line);
}

void add_mode_options(CLI::App& c, list_arguments& a) { list_options(c, a, "Mode to describe"); }

}  // namespace

cli_command modes_command() {
  return make_command<list_arguments>("modes", "List the synchronisation modes, or describe one",
                                      "  troupe modes\n  troupe modes bsp", add_mode_options, run_modes);
}

}  // namespace troupe
