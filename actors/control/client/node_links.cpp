#include "actors/control/client/node_links.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace troupe {
namespace {

using namespace std::chrono_literals;
constexpr auto try_again_after = 2s;
constexpr std::size_t most_links_at_once = 32;  // connections that are made at the same time

void connect(node_links::node& n, std::chrono::milliseconds within) {
  n.tried = std::chrono::steady_clock::now();
  auto made = client_link::open(n.where, within);
  n.trouble = made ? std::string() : made.error().message;
  n.link = made ? *std::move(made) : nullptr;
}

void drop(node_links::node& n) {
  n.trouble = n.link->why_lost();
  n.link.reset();
  n.tried = std::chrono::steady_clock::now();
}

}  // namespace

node_links::node_links(const cluster_spec& c, std::chrono::milliseconds within) {
  for (const auto& n : c.nodes) nodes_.push_back({.where = {c.name, c.tls_dir, n.address, n.name}});
  for (std::size_t from = 0; from < nodes_.size(); from += most_links_at_once) {
    std::vector<std::jthread> threads;
    for (std::size_t i = from; i < std::min(from + most_links_at_once, nodes_.size()); ++i)
      threads.emplace_back([this, i, within] { connect(nodes_[i], within); });
  }
}

std::size_t node_links::connected() const {
  return static_cast<std::size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const node& n) { return n.link != nullptr; }));
}

std::string node_links::troubles() const {
  std::string text;
  for (const auto& n : nodes_)
    if (!n.trouble.empty()) text += (text.empty() ? "" : "; ") + n.trouble;
  return text;
}

void node_links::reconnect(std::chrono::milliseconds within) {
  for (auto& n : nodes_) {
    if (n.link && n.link->lost()) drop(n);
    if (!n.link && std::chrono::steady_clock::now() - n.tried >= try_again_after) connect(n, within);
  }
}

std::uint64_t node_links::send(node& n, control::look what) {
  what.id = ++asked_;
  if (n.link->send(what)) return what.id;
  drop(n);
  return 0;
}

std::optional<control::looked> node_links::receive(node& n, std::uint64_t id, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left = deadline - std::chrono::steady_clock::now();
    // What has arrived is read also after the deadline, which another node may have used up.
    auto m = n.link->receive(std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(left)));
    auto* r = m ? std::get_if<control::looked>(&*m) : nullptr;
    if (r && r->id == id) {
      n.trouble = r->refusal;
      return r->refusal.empty() ? std::optional(std::move(*r)) : std::nullopt;
    }
    if (n.link->lost()) return drop(n), std::nullopt;
    if (!m && left <= 0ms) break;
  }
  n.trouble = "the daemon of node " + n.where.node + " is connected but did not answer in time";
  return std::nullopt;
}

std::optional<control::looked> node_links::ask(node& n, control::look what, std::chrono::milliseconds within) {
  if (!n.link) return std::nullopt;
  const auto id = send(n, std::move(what));
  return id == 0 ? std::nullopt : receive(n, id, std::chrono::steady_clock::now() + within);
}

}  // namespace troupe
