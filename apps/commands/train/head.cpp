#include "apps/commands/train/head.hpp"

#include <algorithm>

#include "apps/cli/screen.hpp"
#include "ops/cpu/processor.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {

std::string kernels_text(const std::string& numerics) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= numerics.size();) {
    const auto end = std::min(numerics.find('/', begin), numerics.size());
    parts.push_back(numerics.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() < 2) return numerics;
  const std::string blas = "openblas-";
  if (parts[0].starts_with(blas)) return "OpenBLAS " + parts[0].substr(blas.size()) + ", " + parts[1];
  return parts[0] == "gpu" ? parts[1] : parts[0] + " " + parts[1];
}

std::vector<head_line> cluster_head(const accepted_job& j, const std::string& cluster) {
  std::vector<head_line> lines;
  for (const auto& text : j.head) lines.push_back(head_line_of(text));
  auto job = std::to_string(j.number) + " on " + cluster;
  if (j.ahead > 0)
    job += "; " + std::to_string(j.ahead) + (j.ahead == 1 ? " job runs or waits" : " jobs run or wait") + " before it";
  lines.push_back({"job", job});
  return lines;
}

std::vector<head_line> run_head(const prepared_job& j, const run_facts& f) {
  auto lines = job_head(j);
  std::vector<std::string> names, kernels;
  for (const auto& name : j.plan.nodes.front().devices)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  for (const auto& d : f.devices)
    if (auto text = kernels_text(d->numerics_id()); std::find(kernels.begin(), kernels.end(), text) == kernels.end())
      kernels.push_back(std::move(text));
  const auto threads = f.threads > 0 ? f.threads : cpu::usable_threads();
  lines.push_back({"device", joined(names) + " (" + joined(kernels, "; ") + "), " + std::to_string(threads) +
                                 (threads == 1 ? " thread" : " threads")});
  if (!f.from.empty()) lines.push_back({"starts from", f.from + (j.first_step > 0 ? ", step " + with_commas(j.first_step) : "")});
  if (!f.run_folder.empty()) lines.push_back({"run", near_path(f.run_folder)});
  return lines;
}

}  // namespace troupe
