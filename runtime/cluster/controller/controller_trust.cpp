// cluster_controller: which messages it accepts from which peer (trust.hpp). A node may report
// about itself and about jobs that it has a part in.
#include "runtime/access/names.hpp"
#include "runtime/cluster/controller/cluster_controller.hpp"

namespace troupe::control {

expected<void> cluster_controller::check_sender(const std::string& from, const message& m) const {
  const auto refused = [](std::string why) { return unexpected(error(std::move(why))); };
  const auto who = speaker_of(m);
  if (who == speaker::client || who == speaker::asker) {
    if (is_operator(from)) return {};
    return refused("only clients may send it, and this peer has a node's certificate");
  }
  if (who == speaker::coordinator) {
    if (from == state_.nodes.self()) return {};
    return refused("only the coordinator's daemon may send it");
  }
  if (is_operator(from)) return refused("only nodes may send it, and this peer has a client's certificate");
  if (const auto* j = std::get_if<join>(&m)) {  // an unknown node gets a refusal as its answer
    const auto connection = state_.nodes.connection_of(from);
    if (!connection || *connection == j->incarnation) return {};
    return refused("incarnation " + std::to_string(j->incarnation) + " differs from that of its connection, " +
                   std::to_string(*connection));
  }
  if (!state_.nodes.knows(from)) return refused("the cluster file of " + state_.nodes.self() + " has no node named " + from);
  const auto part_of = [&](std::uint32_t job_id, const std::string& node) -> expected<void> {
    const auto* j = state_.jobs.find(job_id);
    if (!j || j->has_part(node)) return {};
    return refused(node + " has no part in job " + std::to_string(number_of(job_id)));
  };
  if (const auto* t = std::get_if<trouble>(&m)) {
    auto fine = part_of(t->job, from);
    return fine ? part_of(t->job, t->node) : fine;
  }
  if (const auto* r = std::get_if<revised>(&m)) return part_of(r->job, from);
  if (const auto* s = std::get_if<swapped>(&m)) return part_of(s->job, from);
  return {};
}

}  // namespace troupe::control
