#include "actors/shell/router.hpp"

#include "runtime/node/role_frames.hpp"

namespace troupe {

void router::open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) {
  auto t = std::make_shared<const table>(table{std::move(nodes), std::move(node_of)});
  std::unique_lock guard(lock_);
  jobs_[job] = std::move(t);
}

void router::close(std::uint32_t job) {
  std::unique_lock guard(lock_);
  jobs_.erase(job);
}

void router::attach(net::transport* t, node_host* h) {
  transport_ = t;
  host_ = h;
}

std::shared_ptr<const router::table> router::find(std::uint32_t job) const {
  std::shared_lock guard(lock_);
  const auto at = jobs_.find(job);
  return at == jobs_.end() ? nullptr : at->second;
}

expected<void> router::send(std::uint32_t node, envelope e) {
  auto* t = transport_.load();
  const auto job = find(e.h.job);
  if (!t || !job || node >= job->nodes.size()) {
    unknown_job_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  auto f = to_frame(e);
  std::size_t bytes = 0;
  for (const auto& p : f.parts) bytes += p.bytes;
  if (bytes > max_) {
    unsent_.fetch_add(1, std::memory_order_relaxed);
    return unexpected(error("role " + std::to_string(index_of(e.h.src)) + ": its message '" + name_of(e.body) + "' to node " +
                            job->nodes[node] + " has " + std::to_string(bytes) + " bytes, the maximum is " + std::to_string(max_)));
  }
  const bool gone = f.parts.empty() || !t->send(job->nodes[node], std::move(f));
  (gone ? unsent_ : sent_).fetch_add(1, std::memory_order_relaxed);
  return {};
}

expected<void, coded_error> router::receive(const std::string& peer, net::frame&& f) {
  envelope e;
  if (const auto read = from_frame(f, e); !read) {
    unreadable_.fetch_add(1, std::memory_order_relaxed);
    return unexpected(net::unreadable(peer, f, read.error().text));
  }
  auto* h = host_.load();
  const auto job = find(e.h.job);
  if (!h || !job) {
    unknown_job_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  const auto from = index_of(e.h.src);
  if (from >= job->node_of.size() || job->nodes[job->node_of[from]] != peer) {
    wrong_source_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  received_.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const void> payload = std::move(f.payload);
  f.shared.clear();
  h->deliver(std::move(e));
  net::release_credit(payload);
  return {};
}

router_counts router::counts() const { return {sent_, received_, unsent_, unreadable_, unknown_job_, wrong_source_}; }

}  // namespace troupe
