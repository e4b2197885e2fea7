#include "runtime/node/config/prepare_text.hpp"

#include <filesystem>
#include <utility>
#include <variant>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/data_folders.hpp"
#include "runtime/node/config/device_names.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

using outcome = expected<std::shared_ptr<prepared_job>, diagnostics>;

diagnostics mistake(const std::string& file, std::string what) {
  diagnostic d;
  d.at.file = file;
  d.message = std::move(what);
  return diagnostics(1, d);
}

const std::vector<std::string>* allowed_plugins(const job_text& what) { return what.limits ? &what.limits->plugins : nullptr; }

// with_plugins() of the plugins that the job's document names.
expected<std::shared_ptr<const tables>, diagnostics> with_plugins_of(const job_document& d, const job_text& what,
                                                                     std::shared_ptr<const tables> all) {
  const auto plugins = read_plugins(d, what.file, allowed_plugins(what));
  if (!plugins) return unexpected(plugins.error());
  if (plugins->empty() || what.limits) return all;
  if (!what.load_plugins)
    return unexpected(mistake(what.file,
                              "the job loads plugins, which are code: add --load-plugins (in Python: load_plugins=True) "
                              "if you trust them: " +
                                  joined(*plugins)));
  auto own = std::make_shared<tables>(*all);
  if (auto loaded = load_plugins(*plugins, *own); !loaded) return unexpected(mistake(what.file, loaded.error().message));
  return own;
}

// The job's specification. `all` gets the plugins that it names.
expected<job_spec, diagnostics> read_spec(const job_text& what, std::shared_ptr<const tables>& all) {
  const auto document = read_job_document(what.text, what.file, what.overrides);
  if (!document) return unexpected(document.error());
  auto extended = with_plugins_of(*document, what, std::move(all));
  if (!extended) return unexpected(std::move(extended).error());
  all = *std::move(extended);
  return parse_job(*document, what.file, *all, allowed_plugins(what));
}

// Null if the data is to be opened anew: then prepare_job reports errors with their positions.
std::shared_ptr<const source> data_of(const job_text& what, const job_spec& spec, const tables& all) {
  const auto* type = all.sources.find(spec.data.source);
  if (!what.opened || !type) return nullptr;
  try {
    return what.opened->open(*type, spec.data, spec.seed);
  } catch (const option_error&) {
    return nullptr;
  }
}

// What to add to an error if the path of the data is not in the current folder, but in that of the
// job file. Empty for a daemon, whose errors do not tell which files exist.
std::string place_of_data(const job_text& what, const job_spec& spec) {
  const auto& values = spec.data.values.values;
  const auto at = values.find("path");
  const auto* path = at == values.end() ? nullptr : std::get_if<std::string>(&at->second);
  std::error_code ec;
  if (what.limits || !path || path->empty() || std::filesystem::exists(*path, ec)) return {};
  const auto beside = std::filesystem::path(what.file).parent_path() / *path;
  if (!std::filesystem::exists(beside, ec)) return {};
  return "; relative paths start at the current folder, not at the job file: try --set data.path=" + beside.string();
}

outcome prepare(const job_text& what, std::shared_ptr<const tables> all, std::vector<node_spec> nodes,
                const job_adjustment& adjust) {
  auto spec = read_spec(what, all);
  if (!spec) return unexpected(std::move(spec).error());
  if (what.limits) {
    const auto& data = spec->data;
    if (auto ok = check_folders(data, *all->sources.find(data.source), what.limits->data, what.limits->withheld); !ok)
      return unexpected(diagnostics{ok.error()});
    if (auto ok = check_folders(spec->checkpoint, what.limits->checkpoints); !ok) return unexpected(diagnostics{ok.error()});
  }
  if (adjust) adjust(*spec, nodes);
  if (nodes.empty()) {
    const auto& job = *spec;
    if (auto bad = unusable_devices(job.devices, job.devices_at); !bad.empty()) return unexpected(bad);
    nodes.emplace_back();
    nodes[0].name = "local";
    nodes[0].devices = job.devices;
    nodes[0].tflops = job.tflops;
  }
  layer_origins origins;
  for (const auto& l : spec->layers)
    if (!l.origin.empty()) origins[l.name] = l.origin;
  auto data = data_of(what, *spec, *all);
  const auto hint = place_of_data(what, *spec);
  auto made = prepare_job(std::move(*spec), std::move(all), nodes, std::move(data));
  if (made) return made;
  auto mistakes = std::move(made).error();
  if (!mistakes.empty()) mistakes.front().message += hint;
  name_uses(mistakes, origins);
  return unexpected(shown_mistakes(std::move(mistakes)));
}

}  // namespace

expected<std::shared_ptr<const tables>, diagnostics> with_plugins(const job_text& what, std::shared_ptr<const tables> all) {
  const auto document = read_job_document(what.text, what.file, what.overrides);
  if (!document) return unexpected(document.error());
  return with_plugins_of(*document, what, std::move(all));
}

outcome prepare_text(const job_text& what, std::shared_ptr<const tables> all, std::vector<node_spec> nodes,
                     const job_adjustment& adjust) {
  try {
    return prepare(what, std::move(all), std::move(nodes), adjust);
  } catch (const option_error& e) {
    return unexpected(mistake(what.file, (e.key.empty() ? std::string() : "'" + e.key + "': ") + e.what()));
  } catch (const std::exception& e) {
    return unexpected(mistake(what.file, e.what()));
  }
}

}  // namespace troupe
