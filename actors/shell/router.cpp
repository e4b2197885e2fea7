#include "actors/shell/router.hpp"

#include "runtime/messages/fits.hpp"

namespace troupe {
namespace {

constexpr std::uint16_t envelope_type = 1;

net::const_part part_of(const wire_part& p) {
  if (!p.region) return {p.data, p.bytes, p.owner, nullptr, 0};
  return {nullptr, p.bytes, p.owner, p.region, static_cast<std::size_t>(static_cast<const std::byte*>(p.data) - p.region->base)};
}

bool read(const net::frame& f, envelope& out) {
  std::string error;
  if (f.lent.empty()) return decode(f.payload.get(), f.bytes, f.payload, out, error);
  std::vector<wire_piece> elsewhere;
  elsewhere.reserve(f.lent.size());
  for (const auto& p : f.lent) elsewhere.push_back({p.at, p.bytes, p.data.get(), p.data});
  return decode(f.payload.get(), f.bytes, f.payload, out, error, elsewhere);
}

}  // namespace

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

std::string router::send(std::uint32_t node, envelope e) {
  auto* t = transport_.load();
  const auto job = find(e.h.job);
  if (!t || !job || node >= job->nodes.size()) {
    unknown_job_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
  const auto parts = encode(e);
  if (const auto bytes = total_bytes(parts); bytes > most_) {
    unsent_.fetch_add(1, std::memory_order_relaxed);
    return "role " + std::to_string(index_of(e.h.src)) + ": its message '" + name_of(e.body) + "' to node " + job->nodes[node] +
           " has " + std::to_string(bytes) + " bytes, one may have " + std::to_string(most_);
  }
  net::outgoing_frame f;
  f.type = envelope_type;
  f.source = index_of(e.h.src);
  f.destination = index_of(e.h.dst);
  f.id = static_cast<std::uint64_t>(e.h.id);
  for (const auto& p : parts) f.parts.push_back(part_of(p));
  const bool gone = f.parts.empty() || !t->send(job->nodes[node], std::move(f));
  (gone ? unsent_ : sent_).fetch_add(1, std::memory_order_relaxed);
  return {};
}

void router::receive(const std::string& peer, net::frame&& f) {
  auto* h = host_.load();
  envelope e;
  if (!h || f.type != envelope_type || !read(f, e) || !has_values(e)) {
    unreadable_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto job = find(e.h.job);
  if (!job) {
    unknown_job_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto from = index_of(e.h.src);
  if (from >= job->node_of.size() || job->nodes[job->node_of[from]] != peer) {
    wrong_source_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  received_.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const void> payload = std::move(f.payload);
  f.lent.clear();
  h->deliver(std::move(e));
  net::release_credit(payload);
}

router_counts router::counts() const { return {sent_, received_, unsent_, unreadable_, unknown_job_, wrong_source_}; }

}  // namespace troupe
