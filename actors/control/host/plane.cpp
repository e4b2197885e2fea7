#include "actors/control/host/plane.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "actors/control/client/client.hpp"
#include "actors/control/frames.hpp"
#include "actors/control/host/actors.hpp"
#include "actors/metrics/page.hpp"
#include "actors/shell/node_host_caf.hpp"
#include "ops/cpu/block_pool.hpp"
#include "ops/cpu/processor.hpp"
#include "ops/device_descriptors.hpp"
#include "ops/gpu.hpp"
#include "runtime/access/names.hpp"
#include "runtime/exchange/client/frames.hpp"
#include "runtime/exchange/hub/wire.hpp"
#include "runtime/memory/process_memory.hpp"
#include "runtime/messages/wire.hpp"
#include "runtime/node/executor/job_folders.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/tcp_transport.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {

using namespace control;

namespace {

const node_spec* node_named(const cluster_spec& c, const std::string& name) {
  const auto at = std::find_if(c.nodes.begin(), c.nodes.end(), [&](const auto& n) { return n.name == name; });
  return at == c.nodes.end() ? nullptr : &*at;
}

// Bytes of address space for shared buffers: the size of the machine's memory. Memory is allocated
// only as it is used.
std::uint64_t addresses_to_share() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// One per CPU in the list. A node that lists only GPUs uses all cores for reading and messages.
unsigned cpu_threads(const node_spec& n) {
  const auto cpus = std::count_if(n.devices.begin(), n.devices.end(), [](const auto& d) { return d.starts_with("cpu"); });
  return cpus > 0 ? static_cast<unsigned>(cpus) : cpu::usable_threads();
}

net::tcp_options tcp_options_of(const control_plane_options& o) {
  net::tcp_options t;
  t.cluster = o.cluster.name;
  t.node = o.node;
  t.incarnation = o.incarnation;
  const auto dir = certificate_folder(o.cluster.tls_dir, o.node);
  t.ca = dir / "ca.pem";
  t.certificate = dir / (o.node + ".pem");
  t.key = dir / (o.node + ".key");
  return t;
}

// Callbacks of one transport; they post notes to the control actor.
net::callbacks callbacks_of(shared& s, bool data) {
  net::callbacks c;
  c.on_peer_up = [&s, data](const std::string& peer, std::uint64_t incarnation) {
    s.log(std::string(data ? "data" : "control") + " connection with " + peer);
    s.control.post(control_note{link_change{data, true, peer, {}, incarnation}});
  };
  c.on_peer_down = [&s, data](const std::string& peer, const coded_error& why) {
    if (!data) s.exchange.post(exchange_in{peer, {}, true, why.message});
    if (!data && why.code == "queue_full") s.log(peer + " does not read its answers: disconnected");
    if (why.code == "peer_stalled") s.log(peer + " does not read: " + why.message);
    if (why.code == net::unreadable_frame) s.log(why.message + ": disconnected");
    s.control.post(control_note{link_change{data, false, peer, why.code + ": " + why.message, 0}});
  };
  c.log = [&s](const std::string& line) { s.log(line); };
  return c;
}

}  // namespace

// Connected clients with the role of their certificates. Used only by the control transport's
// thread.
class client_roles {
 public:
  void up(const std::string& peer, certificate_role role) {
    if (is_operator(peer)) roles_[peer] = role;
  }
  void down(const std::string& peer) {
    roles_.erase(peer);
    refused_.erase(peer);
  }
  bool refuse(const std::string& peer) { return refused_.insert(peer).second; }  // returns true for the first time
  certificate_role of(const std::string& peer) const {
    const auto at = roles_.find(peer);
    return at == roles_.end() ? certificate_role::node : at->second;
  }

 private:
  std::map<std::string, certificate_role, std::less<>> roles_;
  std::set<std::string> refused_;  // at the exchange
};

namespace {

void receive_exchange(shared& s, client_roles& roles, const std::string& peer, net::frame&& f) {
  const person who{operator_of(peer), roles.of(peer)};
  const auto fine = check_right(who, right::exchange, "enter a room of the exchange");
  if (fine) return s.exchange.post(exchange_in{peer, std::move(f), false, {}});
  const auto m = exchange::from_frame(f);
  const auto* opens = m ? std::get_if<exchange::open_session>(&*m) : nullptr;
  if (!opens || !roles.refuse(peer)) return s.control_net->disconnect(peer);
  const auto& why = fine.error().text;
  s.log(peer + ": " + why);
  const auto code =
      opens->version < 5 ? exchange::code::bad_argument : exchange::code::not_allowed;  // older clients do not know not_allowed
  s.control_net->send(peer, exchange::to_frame(exchange::answer{0, code, why, 0, 0}));  // open_session has no call number
}

void receive_message(shared& s, certificate_role role, const std::string& peer, control::message&& m, const net::frame& f) {
  // Lines go directly to the REPL actor, so they do not wait for the control actor.
  if (auto* a = std::get_if<ask>(&m)) {
    auto who = asker_of(peer, role, *a);
    if (role == certificate_role::node && !s.is_node(peer))
      who = {peer, role};  // certified, but not in the cluster file: may not forward lines
    return s.repl.post(ask_in{peer, std::move(*a), std::move(who), f.payload});
  }
  if (auto* a = std::get_if<answer>(&m)) {
    if (peer == s.coordinator) s.repl.post(answer_in{std::move(*a)});
    return;
  }
  const person who{operator_of(peer), role};
  if (auto* l = std::get_if<look>(&m); l && is_operator(peer) && check_message(who, m))
    return s.repl.post(look_in{peer, std::move(*l), who, f.payload});
  s.control.post(control_note{message_in{peer, std::move(m), who, f.payload}});
}

expected<void, coded_error> receive_control(shared& s, client_roles& roles, const std::string& peer, net::frame&& f) {
  if (exchange::is_exchange_type(f.type) && is_operator(peer))
    return receive_exchange(s, roles, peer, std::move(f)), expected<void, coded_error>();
  auto m = from_frame(f);
  if (!m) return unexpected(net::unreadable(peer, f, "it is not a control message"));
  receive_message(s, roles.of(peer), peer, std::move(*m), f);
  return {};
}

host_config host_config_of(shared& s, const node_spec& me) {
  host_config c;
  c.threads = cpu_threads(me);
  c.callbacks.on_event = [&s](std::uint32_t job, const event_effect& e) {
    // The failure of a role of this node, not of the job: the node is about to be lost.
    if (e.is<error_event>() && lost_gpu() >= 0 && s.options.on_lost_gpu) return s.options.on_lost_gpu();
    s.control.post(control_note{event_in{{job, e}}});
  };
  c.callbacks.on_store = [&s](std::uint32_t job, const store_effect& e) { s.control.post(control_note{store_in{job, e}}); };
  c.callbacks.on_remote = [&s](std::uint32_t node, envelope e) {
    const auto job = e.h.job;
    const auto step = e.h.step;
    if (auto sent = s.route.send(node, std::move(e)); !sent)
      s.control.post(control_note{event_in{{job, {step, error_event{std::move(sent).error().text}}}}});
  };
  return c;
}

}  // namespace

namespace control {

expected<net::address, coded_error> data_place_of(const node_spec& n) {
  if (!n.data_address.empty()) return net::parse_address(n.data_address);
  auto where = net::parse_address(n.address);
  if (where) where->port = 0;
  return where;
}

void shared::release_unused() const {
  opened->release_unused(std::chrono::steady_clock::now());
  constexpr std::uint64_t worth_a_trim = std::uint64_t{1} << 20;
  const auto bytes = cpu::block_pool::release_unused_of_all() + data_net->release_unused() + control_net->release_unused();
  if (bytes >= worth_a_trim) ::malloc_trim(0);
}

void shared::release_all_unused() const {
  for (int twice = 0; twice < 2; ++twice)
    cpu::block_pool::release_unused_of_all(), data_net->release_unused(), control_net->release_unused();
  ::malloc_trim(0);
}

}  // namespace control

struct control_plane::impl {
  client_roles clients;
  shared s;

  expected<void, coded_error> make_transports() {
    auto data = tcp_options_of(s.options);
    data.max_frame = wire_max_message;
    auto control = data;
    if (s.options.shares_memory) {
      auto arena = net::shared_arena::make(addresses_to_share());
      if (!arena) s.log("tensors are not shared with nodes of this machine: " + arena.error().message);
      if (arena) data.shares = std::move(*arena);
    }
    data.faults = s.faults.data;
    control.faults = s.faults.control;
    control.operators = true;
    control.max_frame = max_message;
    // Limits the receive buffers of all clients together to an eighth of the memory: one window and
    // one partial frame each.
    if (const auto m = memory_of_this_process(); m.total > 0) {
      control.window = std::clamp(m.total / 64, std::uint64_t{2} << 20, std::uint64_t{16} << 20);
      control.max_operators = static_cast<std::size_t>(std::clamp<std::uint64_t>(m.total / 8 / exchange::max_frame, 16, 1024));
    }
    control.max_queued = max_queued_for_node;
    control.max_queued_operator = max_queued_for_operator;
    control.pool_keep = 4 << 20;
    auto on_data = callbacks_of(s, true);
    on_data.on_frame = [this](const std::string& peer, net::frame&& f) {
      return s.meter.take(*s.data_net, peer, f) ? expected<void, coded_error>() : s.route.receive(peer, std::move(f));
    };
    auto on_control = callbacks_of(s, false);
    on_control.on_frame = [this](const std::string& peer, net::frame&& f) {
      return receive_control(s, clients, peer, std::move(f));
    };
    on_control.on_proved = [this](const std::string& peer, certificate_role role) { clients.up(peer, role); };
    on_control.on_peer_down = [this, down = std::move(on_control.on_peer_down)](const std::string& peer, const coded_error& why) {
      clients.down(peer);
      down(peer, why);
    };
    auto d = net::make_tcp_transport(std::move(data), std::move(on_data));
    if (!d) return unexpected(d.error());
    auto c = net::make_tcp_transport(std::move(control), std::move(on_control));
    if (!c) return unexpected(c.error());
    s.data_net = std::move(*d);
    s.control_net = std::move(*c);
    return {};
  }

  expected<void, coded_error> start(const node_spec& me) {
    if (auto made = make_transports(); !made) return made;
    auto config = host_config_of(s, me);
    try {
      config.devices = make_devices(me.devices);
    } catch (const std::exception& e) {
      return unexpected(coded_error{"no_device", "node " + me.name + " cannot use its device " + e.what()});
    }
    s.dev = config.devices.front();
    s.numerics = numerics_of(config.devices);
    s.gpus = std::make_unique<gpu_watch>(gpus_in(me.devices));
    s.host = std::make_unique<node_host>(std::move(config));
    s.route.attach(s.data_net.get(), s.host.get());
    auto& system = s.host->system();
    if (s.coordinates()) {
      s.book = std::make_unique<journal>(s.options.state / "journal");
      if (!s.book->opened()) s.log(s.book->opened().error().text);
      s.book->pace(s.faults.pace());
      s.runs = std::make_unique<job_runs>(s.options.state, [this](const std::string& line) { s.log(line); });
    }
    s.failures = std::make_unique<node_post_mortems>(*s.host, s.said, [this](const std::string& line) { s.log(line); });
    if (s.book) give_known_owners(s.options.state, s.book->found());
    take_up_given(job_place_of(s), s.book ? s.book->found().jobs : std::vector<unfinished_job>());
    s.repl.open(spawn_repl(system, s));
    s.keep.open(spawn_executor(system, s));
    s.check.open(spawn_checker(system, s));
    s.exchange.open(spawn_exchange(system, s));
    s.control.open(spawn_control(system, s));
    auto where = net::parse_address(me.address);
    if (!where) return unexpected(where.error());
    auto data_at = data_place_of(me);
    if (!data_at) return unexpected(data_at.error());
    auto data = s.data_net->listen(*data_at);
    if (!data && !me.data_address.empty())
      return unexpected(coded_error{data.error().code, data.error().message + " (data_address of node " + me.name + ")"});
    if (!data) return unexpected(data.error());
    s.ports.data = *data;
    auto control = s.control_net->listen(*where);
    if (!control) return unexpected(control.error());
    s.ports.control = *control;
    s.control.post(control_note{listening_in{}});
    return {};
  }

  ~impl() {
    s.meter.stop();
    if (s.control_net) s.control_net->close();
    if (s.data_net) s.data_net->close();
    for (auto* who : {&s.control, &s.repl, &s.keep, &s.check, &s.exchange}) who->close();
    s.measurements.close();
    s.host.reset();
  }
};

control_plane::control_plane(std::unique_ptr<impl> p) : impl_(std::move(p)) {}
control_plane::~control_plane() = default;

expected<std::unique_ptr<control_plane>, coded_error> control_plane::open(control_plane_options o) {
  auto p = std::make_unique<impl>();
  p->s.options = std::move(o);
  auto& options = p->s.options;
  const auto* me = node_named(options.cluster, options.node);
  if (!me) return unexpected(coded_error{"unknown_node", "the cluster file has no node named " + options.node});
  const auto where = coordinator_of(options.cluster);
  const auto at = net::parse_address(where.address);
  if (!at)
    return unexpected(
        coded_error{"no_coordinator", "no node of the cluster file has the role \"coordinator\" and a valid address"});
  p->s.coordinator = where.node;
  p->s.coordinator_at = *at;
  try {
    if (auto started = p->start(*me); !started) return unexpected(started.error());
  } catch (const std::exception& e) {
    return unexpected(coded_error{"cannot_start", e.what()});
  }
  return std::unique_ptr<control_plane>(new control_plane(std::move(p)));
}

expected<void, coded_error> control_plane::reload_certificates() {
  for (auto* net : {impl_->s.control_net.get(), impl_->s.data_net.get()})
    if (auto done = net->reload_certificates(); !done) return done;
  return {};
}

listening_ports control_plane::ports() const { return impl_->s.ports; }
void control_plane::drain() { impl_->s.control.post(control_note{drain_in{}}); }
metrics_facts control_plane::facts() const { return facts_of(impl_->s); }
std::vector<role_published> control_plane::roles() const { return impl_->s.host->published(); }
std::unique_ptr<repl_backend> control_plane::backend(person who) { return make_backend(impl_->s, std::move(who)); }
void control_plane::release_unused() { impl_->s.release_unused(); }
void control_plane::checkpoint() {
  impl_->s.control.post(control_note{tell_in{0, {checkpoint_command{}}, {impl_->s.options.node, certificate_role::admin}}});
}

}  // namespace troupe
