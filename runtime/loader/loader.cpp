#include "runtime/loader/loader.hpp"

#include <algorithm>

#include "ops/device.hpp"

namespace troupe {

namespace {

// Tokens of tasks: twice the slot, plus one if the task reads for the tree.
constexpr std::uint64_t token_of(std::uint32_t slot, bool tree) { return std::uint64_t{slot} * 2 + (tree ? 1 : 0); }
constexpr role_id the_coordinator{0};

}  // namespace

loader::loader(loader_config c) : config_(std::move(c)), agenda_(config_.plan, config_.self, config_.first_step, config_.dynamic) {
  const auto& me = (*config_.plan)[config_.self];
  readers_ = me.slots;
  if (!me.tester) range_ = config_.plan->ranges[me.worker];
  for (auto e : me.out_edges) credit_.emplace_back(config_.plan->edges[e].credit);
  // Packets that the tree keeps: a worker may be a few steps ahead of its children, which request
  // the same packets later.
  const auto steps = config_.retains_for_replay ? config_.plan->window() + config_.plan->warm_up + 3 : 4 + config_.plan->warm_up;
  const auto keep = steps * range_.count + 2 * (config_.plan->sub_solvers + readers_);
  if (config_.how == delivery::broadcast) tree_.emplace(*config_.plan, me.worker, config_.job, keep);
}

void loader::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const grant& g) {
                   agenda_.grant_until(g.until);
                   if (config_.retains_for_replay) forget_rounds();
                 },
                 [&](const work_unit& p) {
                   if (p.life != config_.incarnation) return drop(drop_reason::outdated);
                   if (!agenda_.deal(p)) drop(drop_reason::repeated);
                 },
                 [&](const resume_at& r) {
                   if (begun_) return drop(drop_reason::repeated);
                   if (config_.retains_for_replay && e.h.src != the_coordinator) return drop(drop_reason::misaddressed);
                   begun_ = true;
                   agenda_.resume_at(r.step);
                   if (tree_) tree_->greet(out);
                 },
                 [&](const start&) { take_start(e.h.src, out); },
                 [&](const evaluate& v) { take_round(v, e.h.version); },
                 [&](const credit&) {
                   if (e.h.port >= credit_.size()) return drop(drop_reason::misaddressed);
                   if (!credit_[e.h.port].give_back(e.h.id)) drop(drop_reason::repeated);
                 },
                 [&](const finished& f) { take_finished(f.token, out); },
                 [&](const want_examples& w) {
                   if (!tree_ || !tree_->asked(e.h.src, {e.h.step, w.nth}, out)) drop(drop_reason::misaddressed);
                 },
                 [&](const examples&) { take_examples(e, out); },
                 [&](const examples_seed& x) { take_seed(e.h.step, x.seed); },
                 [&](const halt&) {
                   agenda_.clear();
                   line_.clear();
                   if (tree_) tree_->clear();
                   out.stop();
                 },
                 [&](const auto&) { drop(drop_reason::unexpected); },
             },
             e.body);
  pump(out);
}

void loader::pump(effects& out) {
  do {
    while (send_front(out)) {
    }
    while (reads_on() && line_.size() < config_.plan->sub_solvers + readers_) {
      const auto i = next_item();
      if (!i) break;
      line_.push_back(i);
      obtain(i, out);
    }
  } while (send_front(out));  // packets that the tree already held
  read_next(out);
  read_for_tree(out);
}

header loader::to_coordinator() const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = the_coordinator;
  return h;
}

// `start` after a restart: of this loader (from the host), of a stage, or of the role that it
// requests examples from.
void loader::take_start(role_id from, effects& out) {
  if (config_.retains_for_replay && from == no_role && config_.incarnation > 0)
    out.send({to_coordinator(), ready{ready::what_of::joined}});
  else if (config_.retains_for_replay && from != no_role && (*config_.plan)[from].does().hosts_layers)
    send_again(from, out);
  else
    ask_again(out);
}

void loader::take_round(const evaluate& v, std::uint64_t version) {
  if (config_.dynamic && v.life != config_.incarnation) return drop(drop_reason::outdated);  // work units may have to come first
  if (agenda_.has_begun_round(v.round)) return drop(drop_reason::repeated);
  agenda_.begin_round(v.round, version, eval_packets(config_.read.eval->examples(), config_.read.eval_examples));
}

std::shared_ptr<loader::item> loader::next_item() {
  if (config_.await_resume && !begun_) return nullptr;
  if (const auto p = agenda_.next_training()) {
    begun_ = true;
    return training_item(*p);
  }
  const auto p = agenda_.next_evaluation();
  return p ? evaluation_item(*p) : nullptr;
}

std::shared_ptr<loader::item> loader::training_item(packet_agenda::training p) const {
  auto i = std::make_shared<item>();
  const auto n = config_.read.graph->packet_examples;
  i->first_example = static_cast<std::uint32_t>(p.packet * n);
  i->valid = static_cast<std::uint32_t>(n);
  i->h.step = i->h.version = p.step;
  i->h.packet = p.packet;
  i->h.packets = config_.plan->packets;
  i->h.phase = static_cast<std::uint8_t>(phase::train);
  if (config_.order->continues_sequences() && p.step % static_cast<std::uint64_t>(config_.order->steps_per_epoch()) == 0)
    i->h.flags |= flag_reset;
  return i;
}

std::shared_ptr<loader::item> loader::evaluation_item(packet_agenda::evaluation p) const {
  auto i = std::make_shared<item>();
  const auto n = config_.read.eval_examples;
  const auto first = static_cast<std::int64_t>(p.packet) * n;
  i->first_example = static_cast<std::uint32_t>(first);
  i->valid = static_cast<std::uint32_t>(std::min(n, config_.read.eval->examples() - first));
  i->h.step = p.round;
  i->h.version = p.version;
  i->h.packet = p.packet;
  i->h.packets = p.packets;
  i->h.phase = static_cast<std::uint8_t>(phase::test);
  return i;
}

bool loader::trains(const item& i) const { return i.h.phase == static_cast<std::uint8_t>(phase::train); }

// Requests the examples of a new item, or queues it for reading; begins to read if a reader is
// free.
void loader::obtain(const std::shared_ptr<item>& i, effects& out) {
  i->h.job = config_.job;
  i->h.src = config_.self;
  // With `retains_for_replay` ids depend on step and packet only, so a restarted loader gives
  // repeated packets the same ids.
  const auto n = static_cast<std::uint32_t>(trains(*i) ? i->h.step * range_.count + i->h.packet - range_.first
                                                       : i->h.step * i->h.packets + i->h.packet);
  i->h.id = make_msg_id(config_.self, config_.retains_for_replay ? 2 * n + (trains(*i) ? 0 : 1) : counter_++);
  if (config_.how == delivery::server) return ask(*i, out);
  if (!trains(*i)) {
    i->indices = eval_indices(config_.read, i->h);
    i->at = state::to_read;
  } else if (config_.how == delivery::seeds) {
    obtain_seed(*i, out);
  } else if (config_.how == delivery::broadcast) {
    batch_tree::pair_of_tensors found;
    if (!tree_->want(key_of(i->h), found, out)) return;
    i->data = found.data;
    i->label = found.label;
    i->at = state::here;
  } else {
    i->indices = config_.order->indices(i->h.step, i->first_example, config_.read.graph->packet_examples);
    i->at = state::to_read;
  }
  read_next(out);
}

// Sends one request per step: the packets of a step share its seed.
void loader::obtain_seed(item& i, effects& out) {
  if (seed_ && seed_->first == i.h.step) {
    i.indices = config_.order->indices_from(seed_->second, i.h.step, i.first_example, config_.read.graph->packet_examples);
    i.at = state::to_read;
    return;
  }
  const auto asked = [&](const auto& o) { return o.get() != &i && o->at == state::waits && trains(*o) && o->h.step == i.h.step; };
  if (std::none_of(line_.begin(), line_.end(), asked)) ask(i, out);
}

void loader::ask(const item& i, effects& out) {
  auto h = i.h;
  h.dst = config_.plan->data_server;
  out.send({h, want_examples{}});
}

// The data server (or the parent in the tree) was restarted and has lost all requests: sends every
// open request again.
void loader::ask_again(effects& out) {
  if (tree_) return tree_->ask_again(out);
  for (const auto& i : line_)
    if (i->at == state::waits) ask(*i, out);
}

std::uint32_t loader::free_slot() const {
  std::uint32_t s = 0;
  while (reading_.count(s) || tree_reading_.count(s)) ++s;
  return s;
}

void loader::read_next(effects& out) {
  while (reads_on()) {
    const auto next = std::find_if(line_.begin(), line_.end(), [](const auto& i) { return i->at == state::to_read; });
    if (next == line_.end()) return;
    const auto slot = free_slot();
    (*next)->at = state::reading;
    reading_.emplace(slot, *next);
    begin_reading(*next, config_.read, token_of(slot, false), out, slot % readers_);
  }
}

// The tree's root reads for all loaders: up to `readers` packets at once, in addition to its own.
void loader::read_for_tree(effects& out) {
  batch_tree::key k;
  while (tree_ && tree_->root() && tree_reading_.size() < readers_ && tree_->next_to_read(k)) {
    const auto slot = free_slot();
    auto r = std::make_shared<reading>();
    r->h.step = k.first;
    r->h.packet = range_.first + k.second;
    const auto n = config_.read.graph->packet_examples;
    r->indices = config_.order->indices(k.first, r->h.packet * n, n);
    tree_reading_.emplace(slot, r);
    begin_reading(r, config_.read, token_of(slot, true), out, slot % readers_);
  }
}

void loader::take_finished(std::uint64_t token, effects& out) {
  const auto slot = static_cast<std::uint32_t>(token / 2);
  if (token == token_of(slot, false)) {
    const auto i = reading_.find(slot);
    if (i == reading_.end()) return drop(drop_reason::unrequested);
    i->second->at = state::here;
    reading_.erase(i);
    return;
  }
  const auto i = tree_reading_.find(slot);
  if (i == tree_reading_.end()) return drop(drop_reason::unrequested);
  envelope e;
  e.h.step = i->second->h.step;
  e.body = examples{i->second->data, i->second->label, i->second->h.packet - range_.first};
  tree_reading_.erase(i);
  take_examples(e, out);
}

void loader::take_examples(const envelope& e, effects& out) {
  const auto& got = std::get<examples>(e.body);
  if (tree_ && !tree_->arrived({e.h.step, got.nth}, {got.data, got.label}, out)) return;
  const auto i = std::find_if(line_.begin(), line_.end(), [&](const auto& o) {
    if (o->at != state::waits) return false;
    if (tree_) return trains(*o) && key_of(o->h) == batch_tree::key{e.h.step, got.nth};
    return o->h.step == e.h.step && o->h.packet == e.h.packet && o->h.phase == e.h.phase && o->h.version == e.h.version;
  });
  if (i == line_.end()) return drop(drop_reason::unrequested);
  (*i)->data = got.data;
  (*i)->label = got.label;
  (*i)->at = state::here;
}

void loader::take_seed(std::uint64_t step, std::uint64_t seed) {
  bool wanted = false;
  for (const auto& i : line_) {
    if (i->at != state::waits || !trains(*i) || i->h.step != step) continue;
    i->indices = config_.order->indices_from(seed, step, i->first_example, config_.read.graph->packet_examples);
    i->at = state::to_read;
    wanted = true;
  }
  if (!wanted) return drop(drop_reason::unrequested);
  seed_.emplace(step, seed);
}

bool loader::send_front(effects& out) {
  if (line_.empty() || line_.front()->at != state::here) return false;
  auto& i = *line_.front();
  const auto& edges = (*config_.plan)[config_.self].out_edges;
  for (std::size_t e = 0; e < edges.size(); ++e)
    if (used(config_.plan->edges[edges[e]], i.h) && credit_[e].left() == 0) return false;
  if (config_.retains_for_replay) i.h.needed_from = static_cast<std::uint32_t>(needed_from());
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto& edge = config_.plan->edges[edges[e]];
    if (!used(edge, i.h)) continue;
    credit_[e].take(i.h.id);
    i.h.dst = edge.to;
    i.h.port = edge.to_port;
    out.send({i.h, forward{edge.what.output == 0 ? i.data : i.label, i.valid, i.first_example}});
  }
  if (config_.retains_for_replay) {
    sent_.add({i.h, i.data, i.label, i.valid, i.first_example});
    forget_sent();
  }
  line_.pop_front();
  return true;
}

bool loader::used(const plan_edge& e, const header& h) const {
  if (h.phase == static_cast<std::uint8_t>(phase::train)) return e.in_train && e.packets.has(h.packet);
  return e.in_test && e.packets.has(config_.plan->way_of(h.id));
}

// The first step of which a packet can still be needed. The grant is at most `window` steps ahead
// of the last step whose losses are complete.
std::uint64_t loader::needed_from() const {
  const auto window = config_.plan->window();
  return std::max(config_.first_step, config_.plan->needed_from(agenda_.granted() > window ? agenda_.granted() - window : 0));
}

void loader::send_again(role_id to, effects& out) {
  forget_sent();
  for (auto& k : sent_) {
    k.h.attempt = static_cast<std::uint8_t>(std::min(k.h.attempt + 1, 255));
    k.h.needed_from = static_cast<std::uint32_t>(needed_from());
    for (auto e : (*config_.plan)[config_.self].out_edges) {
      const auto& edge = config_.plan->edges[e];
      if (edge.to != to || !used(edge, k.h)) continue;
      k.h.dst = to;
      k.h.port = edge.to_port;
      out.send({k.h, forward{edge.what.output == 0 ? k.data : k.label, k.valid, k.first_example}});
    }
  }
}

// Drops evaluation rounds that are over: steps after a round are granted only when it is complete.
// A restarted loader may still hold packets of a round that was completed by reports from before
// its restart.
void loader::forget_rounds() {
  agenda_.forget_rounds();
  std::erase_if(line_, [&](const auto& i) { return !trains(*i) && i->h.version < agenda_.granted(); });
  forget_sent();
}

// Drops sent packets that no restarted stage can request any more, and restores their credit: a
// stage that has dropped the packet, or waits for its other inputs, will not return it.
void loader::forget_sent() {
  sent_.forget(needed_from(), agenda_.granted(), [&](msg_id gone) {
    for (auto& c : credit_) c.give_back(gone);
  });
}

role_status loader::status() const {
  role_status s;
  s.step = agenda_.next_step();
  for (const auto& i : line_) s.queued += i->at == state::here ? 1 : 0;
  s.in_flight = static_cast<std::uint32_t>(reading_.size() + tree_reading_.size());
  s.credit = credit_.empty() ? 0 : credit_[0].left();
  if (!line_.empty() && line_.front()->at == state::here)
    s.wait(wait_kind::credit, "a free sub-solver of the first stage");
  else if (!line_.empty() && line_.front()->at == state::waits)
    s.wait(wait_kind::data, config_.how == delivery::broadcast ? "examples from worker 0" : "the data server");
  else if (config_.await_resume && !begun_)
    s.wait(wait_kind::answers, "the step to resume at");
  else if (reading_.empty() && config_.dynamic)
    s.wait(wait_kind::grant, "a work unit");
  else if (reading_.empty() && agenda_.next_step() >= agenda_.granted())
    s.wait(wait_kind::grant, "a grant beyond step " + std::to_string(agenda_.granted()));
  return s;
}

}  // namespace troupe
