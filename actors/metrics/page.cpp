#include "actors/metrics/page.hpp"

#include "actors/metrics/exposition.hpp"

namespace troupe {

std::string metrics_page::text(const metrics_facts& f, const http::server_counts& requests) {
  const auto begun = std::chrono::steady_clock::now();
  roles_.take(f.roles);
  exposition x;
  add_process(x, f);
  add_jobs(x, f);
  add_roles(x, f, roles_);
  add_links(x, f);
  const std::pair<const char*, std::uint64_t> results[] = {
      {"served", requests.served}, {"refused", requests.refused}, {"broken", requests.broken}, {"displaced", requests.displaced}};
  for (const auto& [result, n] : results) x.add("troupe_metrics_requests_total", {result}, static_cast<double>(n));
  x.add("troupe_metrics_page_seconds", last_took_);
  auto text = x.text();
  last_took_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return text;
}

}  // namespace troupe
