#include "runtime/plan/message_sizes.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

class size_checker {
 public:
  size_checker(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most)
      : p_(p), g_(g), job_(job), max_(most - static_cast<std::int64_t>(wire_overhead)) {}

  diagnostics run() {
    for (const auto& e : p_.edges) look_at(e);
    look_at_examples();
    for (const auto& l : g_.layers) look_at_carried(l);
    return std::move(wrong_);
  }

 private:
  // The bytes of the largest packet on this route: evaluation has its own batch size.
  std::int64_t largest(std::int64_t bytes, bool in_test) const {
    if (!in_test || job_.eval.batch <= 0 || g_.packet_examples <= 0) return bytes;
    const auto examples = std::max<std::int64_t>(1, job_.eval.batch / std::max<std::int64_t>(job_.pipeline.packets, 1));
    return std::max(bytes, bytes / g_.packet_examples * examples);
  }

  void look_at(const plan_edge& e) {
    if (p_[e.from].node == p_[e.to].node) return;
    const auto* l = e.what.layer < 0 ? nullptr : &g_.layers[static_cast<std::size_t>(e.what.layer)];
    const auto& whole = l ? l->out[e.what.output] : e.what.output == 0 ? g_.data : g_.label;
    const auto bytes = largest(wire_bytes(e.wire, cut(whole, e.region), g_.type_of(e.what, job_.type())), e.in_test);
    if (bytes > max_ && told_.insert(e.what.layer).second)
      l ? error(l->spec ? l->spec->at : job_.at, "layer " + in_quotes(l->name) + ": a packet of its outputs", bytes,
                p_[e.from].node, p_[e.to].node)
        : error(job_.data.at, "a packet of examples", bytes, p_[e.from].node, p_[e.to].node);
  }

  void look_at_examples() {
    const auto packet = g_.data.count() * static_cast<std::int64_t>(size_of(g_.data_type(job_.type()))) +
                        g_.label.count() * static_cast<std::int64_t>(size_of(g_.label_type(job_.type())));
    const auto bytes = largest(packet, true);
    for (std::uint32_t w = 0; w < p_.loaders.size() && bytes > max_; ++w) {
      const auto to = p_[p_.loaders[w]].node;
      const auto source = job_.data.how == delivery::seeds ? no_role : p_.examples_from(job_.data.how, w);
      const auto from = source == no_role ? to : p_[source].node;
      if (from != to && told_.insert(from_data).second) error(job_.data.at, "a packet of examples", bytes, from, to);
    }
  }

  // Carried state is sent to the coordinator for a checkpoint.
  void look_at_carried(const graph_layer& l) {
    std::int64_t bytes = 0;
    for (const auto& c : l.carries) bytes += c.dims.count() * static_cast<std::int64_t>(size_of(job_.type()));
    if (bytes <= max_) return;
    const auto to = p_.roles.front().node;
    for (const auto& r : p_.roles)
      if (r.trains() && r.node != to && std::count(r.layers.begin(), r.layers.end(), l.index) > 0)
        return error(l.spec ? l.spec->at : job_.at, "layer " + in_quotes(l.name) + ": the state that it carries for a packet",
                     bytes, r.node, to);
  }

  void error(const source_position& at, const std::string& what, std::int64_t bytes, std::uint32_t from, std::uint32_t to) {
    wrong_.push_back({at, what + " has " + std::to_string(bytes) + " bytes, but a message from node " +
                              in_quotes(p_.nodes[from].name) + " to " + in_quotes(p_.nodes[to].name) + " can have at most " +
                              std::to_string(max_) + ": increase pipeline.packets"});
  }

  const job_plan& p_;
  const model_graph& g_;
  const job_spec& job_;
  const std::int64_t max_;
  std::set<std::int32_t> told_;  // layers already reported, or from_data
  diagnostics wrong_;
};

}  // namespace

diagnostics too_large_to_send(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most) {
  return size_checker(p, g, job, most).run();
}

expected<void> check_message_sizes(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most) {
  const auto elsewhere = [&](role_id w) { return p[w].node != p[p.workers.front()].node; };
  if (std::none_of(p.workers.begin(), p.workers.end(), elsewhere)) return {};
  for (const auto& l : g.layers) {
    std::int64_t bytes = static_cast<std::int64_t>(wire_overhead);
    for (auto q : l.params) bytes += g.params[q].spec.dims.count() * static_cast<std::int64_t>(size_of(job.parameter_type()));
    if (bytes > most)
      return unexpected(error("sends all parameters of a layer in one message: with its header, that of layer " +
                              in_quotes(l.name) + " has " + std::to_string(bytes) +
                              " bytes, but a message between nodes can have at most " + std::to_string(most)));
  }
  return {};
}

}  // namespace troupe
