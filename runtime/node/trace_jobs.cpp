#include "runtime/node/trace_jobs.hpp"

#include <algorithm>
#include <sstream>

#include "runtime/job/coarse.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

diagnostics mistake_of(const std::string& file, std::string what) {
  diagnostic d;
  d.at.file = file;
  d.message = std::move(what);
  return diagnostics(1, d);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : ",") + w;
  return text.empty() ? "-" : text;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text == "-" ? std::string() : text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// "n1 2 cpu:0,cpu:1 coordinator,worker": name, threads, devices, roles.
std::string text_of_nodes(const std::vector<node_spec>& nodes, unsigned threads) {
  std::string text;
  for (const auto& n : nodes) {
    const auto cpus = std::count_if(n.devices.begin(), n.devices.end(), [](const auto& d) { return d.starts_with("cpu"); });
    text += n.name + " " + std::to_string(threads > 0 ? threads : std::max<unsigned>(1, static_cast<unsigned>(cpus))) + " " +
            joined(n.devices) + " " + joined(n.roles) + "\n";
  }
  return text;
}

}  // namespace

trace_job trace_job_of(const prepared_job& j, unsigned threads) { return {resolved_job_text(j), text_of_nodes(j.nodes, threads)}; }

trace_job trace_job_of(const job_spec& s, const tables& all, const std::vector<node_spec>& nodes, unsigned threads) {
  return {resolved_job_text(s, all), text_of_nodes(nodes, threads)};
}

expected<traced_job, diagnostics> job_of_trace(const trace_job& t, const std::string& file, bool load_plugins) {
  traced_job found;
  std::vector<node_spec> nodes;
  std::istringstream lines(t.nodes);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    node_spec n;
    unsigned threads = 0;
    std::string devices, roles;
    if (!(words >> n.name >> threads >> devices >> roles))
      return unexpected(mistake_of(file, "the trace describes its nodes in an unknown way: " + line));
    n.devices = parts_of(devices);
    n.roles = parts_of(roles);
    found.threads = std::max(found.threads, threads);
    nodes.push_back(std::move(n));
  }
  auto made = prepare_text({t.text, file, {}, {}, load_plugins}, std::make_shared<const tables>(node_tables()), nodes,
                           [](job_spec& j, std::vector<node_spec>&) {
                             j.train.finish = {};
                             j.train.finish.steps = std::int64_t{1} << 40;
                             j.eval.every = 0;
                             j.checkpoint = {};
                           });
  if (!made) return unexpected(std::move(made).error());
  auto counted = make_counted(**made, nodes);
  if (!counted) return unexpected(std::move(counted).error());
  found.job = *std::move(counted);
  return found;
}

}  // namespace troupe
