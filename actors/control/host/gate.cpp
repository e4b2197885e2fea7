#include "actors/control/host/gate.hpp"

#include "actors/control/frames.hpp"
#include "runtime/access/names.hpp"
#include "runtime/node/net/hello.hpp"

namespace troupe::control {

bool turned_away(const shared& s, const cluster_controller* h, unheeded& dropped, const message_in& m) {
  std::string why;
  if (!is_operator(m.peer)) {
    if (speaker_of(m.what) != speaker::client) return false;  // cluster controller or member check which node may send it
    why = "only clients may send it, and this peer has a node's certificate";
  } else {
    const auto* f = std::get_if<fetch>(&m.what);
    const auto fine = check_message(m.who, m.what, f && h ? h->owner_of(f->job) : std::string());
    if (fine) return false;
    why = fine.error().text;
    if (const auto answer = refusal_of(m.what, why)) s.control_net->send(m.peer, to_frame(*answer));
  }
  if (const auto line = dropped.note(m.peer, m.what, why)) s.log(*line);
  return true;
}

}  // namespace troupe::control
