#include "runtime/node/config/prepare_text.hpp"

#include <utility>

#include "runtime/node/config/data_folders.hpp"
#include "runtime/node/config/device_names.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

using outcome = std::variant<std::shared_ptr<prepared_job>, diagnostics>;

diagnostics mistake(const std::string& file, std::string what) {
  diagnostic d;
  d.at.file = file;
  d.message = std::move(what);
  return diagnostics(1, d);
}

outcome prepare(const job_text& what, std::shared_ptr<const tables> all, std::vector<node_spec> nodes,
                const job_adjustment& adjust) {
  const auto* only = what.limits ? &what.limits->plugins : nullptr;
  auto plugins = read_plugins(what.text, what.file, what.overrides, only);
  if (auto* bad = std::get_if<diagnostics>(&plugins)) return std::move(*bad);
  if (const auto& wanted = std::get<std::vector<std::string>>(plugins); !wanted.empty() && !only) {
    auto own = std::make_shared<tables>(*all);
    if (auto loaded = load_plugins(wanted, *own); !loaded) return mistake(what.file, loaded.error().message);
    all = std::move(own);
  }
  auto spec = parse_job(what.text, what.file, *all, what.overrides, only);
  if (auto* bad = std::get_if<diagnostics>(&spec)) return std::move(*bad);
  if (what.limits) {
    const auto& data = std::get<job_spec>(spec).data;
    if (auto bad = outside_of_folders(data, *all->sources.find(data.source), what.limits->data)) return diagnostics{*bad};
    if (auto bad = outside_of_folders(std::get<job_spec>(spec).checkpoint, what.limits->checkpoints)) return diagnostics{*bad};
  }
  if (adjust) adjust(std::get<job_spec>(spec), nodes);
  if (nodes.empty()) {
    const auto& job = std::get<job_spec>(spec);
    if (auto bad = unusable_devices(job.devices, job.devices_at); !bad.empty()) return bad;
    nodes.emplace_back();
    nodes[0].name = "local";
    nodes[0].devices = job.devices;
    nodes[0].tflops = job.tflops;
  }
  auto made = prepare_job(std::move(std::get<job_spec>(spec)), std::move(all), nodes);
  if (auto* bad = std::get_if<diagnostics>(&made)) return shown_mistakes(std::move(*bad));
  return made;
}

}  // namespace

outcome prepare_text(const job_text& what, std::shared_ptr<const tables> all, std::vector<node_spec> nodes,
                     const job_adjustment& adjust) {
  try {
    return prepare(what, std::move(all), std::move(nodes), adjust);
  } catch (const option_error& e) {
    return mistake(what.file, (e.key.empty() ? std::string() : "'" + e.key + "': ") + e.what());
  } catch (const std::exception& e) {
    return mistake(what.file, e.what());
  }
}

}  // namespace troupe
