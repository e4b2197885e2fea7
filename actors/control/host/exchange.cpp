// The actor that hosts the hub of the exchange: frames of the control transport in, the hub's
// effects out. Detached, because sums of large buffers must not delay layers or the REPL. A frame's
// credit is returned when the hub has handled it, which bounds the mailbox.
#include <algorithm>

#include "actors/control/host/actors.hpp"
#include "ops/device.hpp"
#include "runtime/exchange/client/frames.hpp"
#include "runtime/exchange/hub/hub.hpp"
#include "runtime/exchange/shared/shared_memory.hpp"
#include "runtime/memory/process_memory.hpp"

namespace troupe::control {
namespace {

// Bytes counted for a client's connection with its unread bytes, and for the entry of a buffer or
// lock with its name.
constexpr std::uint64_t bytes_of_client = std::uint64_t{4} << 20, bytes_of_entry = 1024;

// The bytes that clients may reserve if the cluster file sets no limit.
std::uint64_t usual_share(const process_memory& m) {
  constexpr std::uint64_t most = std::uint64_t{4} << 30;
  return m.total == 0 ? most : std::min(most, m.total / 4);
}

exchange::hub_limits limits_of(const shared& s) {
  exchange::hub_limits l;
  l.bytes = s.options.exchange_memory > 0 ? s.options.exchange_memory : usual_share(memory_of_this_process());
  l.client_bytes = bytes_of_client;
  l.entry_bytes = bytes_of_entry;
  return l;
}

// Returns true if the message may reserve memory in the hub. Only then is the free memory
// determined, since that reads files of /proc.
bool reserves(const exchange::message& m) {
  return std::holds_alternative<exchange::open_session>(m) || std::holds_alternative<exchange::declare>(m) ||
         std::holds_alternative<exchange::share>(m) || std::holds_alternative<exchange::take_lock>(m);
}

class exchange_actor final : public compat::base_actor {
 public:
  exchange_actor(caf::actor_config& c, shared& s) : compat::base_actor(c), s_(s), limits_(limits_of(s)), hub_(limits_) {}
  const char* name() const override { return "exchange"; }
  caf::behavior make_behavior() override {
    return {[this](const exchange_in& n) { receive(n); }, [this](const probe&) { s_.answer_probe(watched_actor::exchange); }};
  }

 private:
  void receive(const exchange_in& n) {
    try {
      if (n.gone) {
        hub_.on_gone(n.peer, n.reason, out_);
        s_.memory.promise(memory_book::part::exchange, hub_.reserved());
      } else {
        handle_event(n.peer, n.what);
      }
      for (auto& e : out_) std::visit([this](auto& x) { perform(x); }, e);
    } catch (const std::exception& e) {
      s_.log(std::string("exchange: ") + e.what());
    }
    out_.clear();
  }

  void handle_event(const std::string& peer, const net::frame& f) {
    const auto m = exchange::from_frame(f);
    if (!m) return perform(exchange::drop_effect{peer, net::unreadable(peer, f, "it is not a message of the exchange").message});
    // Disconnects a client that sends requests and does not read its answers, which would fill the
    // daemon's memory.
    if (!std::holds_alternative<exchange::piece>(*m) && unread(peer) > hub_.max_unread(peer))
      return perform(exchange::drop_effect{peer, "it does not read its answers"});
    if (reserves(*m)) hub_.may_reserve(room());
    hub_.on(peer, *m, out_);
    s_.memory.promise(memory_book::part::exchange, hub_.reserved());
    // A declared buffer makes the client's answers longer, so its limit of queued bytes is raised
    // before the first such answer.
    if (std::holds_alternative<exchange::declare>(*m)) s_.control_net->limit(peer, max_queued_for_operator + hub_.max_unread(peer));
  }

  // The limit of the exchange, or less: the memory that remains after the running job's
  // reservation.
  std::uint64_t room() {
    s_.memory.holds(memory_book::part::job, s_.dev->pool().bytes_held);
    s_.memory.holds(memory_book::part::exchange, hub_.held());
    const auto open = s_.memory.open_to(memory_book::part::exchange).bytes;
    return open > 0 ? std::min(limits_.bytes, static_cast<std::uint64_t>(open)) : limits_.bytes;
  }

  std::uint64_t unread(const std::string& peer) const {
    for (const auto& p : s_.control_net->stats().peers)
      if (p.peer == peer) return p.queued_bytes;
    return 0;
  }

  void perform(const exchange::send_effect& e) { s_.control_net->send(e.to, exchange::to_frame(e.what)); }
  void perform(const exchange::drop_effect& e) {
    s_.log("exchange: " + e.who + " is disconnected: " + e.why);
    s_.control_net->disconnect(e.who);
  }
  void perform(const exchange::note_effect& e) { s_.log(e.line); }
  void perform(exchange::share_effect& e) {
    auto& a = e.what;
    auto at = memory_.find(a.id);
    if (at == memory_.end()) {
      if (auto made = exchange::shared_file::make(e.type, e.count)) {
        at = memory_.emplace(a.id, *std::move(made)).first;
      } else {
        perform(exchange::send_effect{e.to, exchange::answer{a.call, exchange::code::too_large, made.error().text, 0, 0}});
        exchange::hub_effects more;  // answers to the other clients that wait for it
        hub_.on(e.to, exchange::filled{a.id, exchange::contents::empty}, more);
        for (auto& x : more) std::visit([this](auto& y) { perform(y); }, x);
        return;
      }
    }
    at->second.say_where(a);
    perform(exchange::send_effect{e.to, std::move(a)});
  }
  void perform(const exchange::unshare_effect& e) { memory_.erase(e.id); }

  shared& s_;
  const exchange::hub_limits limits_;  // `bytes`: the upper limit of room()
  exchange::hub hub_;
  exchange::hub_effects out_;
  std::map<std::uint64_t, exchange::shared_file> memory_;  // by a share's id
};

}  // namespace

caf::actor spawn_exchange(caf::actor_system& system, shared& s) { return system.spawn<exchange_actor, caf::detached>(s); }

}  // namespace troupe::control
