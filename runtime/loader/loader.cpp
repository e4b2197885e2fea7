#include "runtime/loader/loader.hpp"

#include <algorithm>

#include "ops/device.hpp"

namespace troupe {

namespace {

// Tokens of tasks: twice the slot, plus one if the task reads for the tree.
constexpr std::uint64_t token_of(std::uint32_t slot, bool tree) { return std::uint64_t{slot} * 2 + (tree ? 1 : 0); }

}  // namespace

loader::loader(loader_config c) : config_(std::move(c)), agenda_(config_.plan, config_.self, config_.first_step, config_.dynamic) {
  const auto& me = (*config_.plan)[config_.self];
  readers_ = me.slots;
  if (!me.tester) range_ = config_.plan->ranges[me.worker];
  for (auto e : me.out_edges) credit_.emplace_back(config_.plan->edges[e].credit);
  // Packets that the tree keeps: a worker may be a few steps ahead of its children, which request
  // the same packets later.
  const auto keep = (4 + config_.plan->warm_up) * range_.count + 2 * (config_.plan->sub_solvers + readers_);
  if (config_.how == delivery::broadcast) tree_.emplace(*config_.plan, me.worker, config_.job, keep);
}

void loader::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const grant& g) { agenda_.grant_until(g.until); },
                 [&](const work_unit& p) {
                   if (!agenda_.deal(p)) drop(drop_reason::repeated);
                 },
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

void loader::take_round(const evaluate& v, std::uint64_t version) {
  if (agenda_.has_begun_round(v.round)) return drop(drop_reason::repeated);
  agenda_.begin_round(v.round, version, eval_packets(config_.read.eval->examples(), config_.read.eval_examples));
}

std::shared_ptr<loader::item> loader::next_item() {
  if (const auto p = agenda_.next_training()) return training_item(*p);
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
  i->h.id = make_msg_id(config_.self, counter_++);
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
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto& edge = config_.plan->edges[edges[e]];
    if (!used(edge, i.h)) continue;
    credit_[e].take(i.h.id);
    i.h.dst = edge.to;
    i.h.port = edge.to_port;
    out.send({i.h, forward{edge.what.output == 0 ? i.data : i.label, i.valid, i.first_example}});
  }
  line_.pop_front();
  return true;
}

bool loader::used(const plan_edge& e, const header& h) const {
  if (h.phase == static_cast<std::uint8_t>(phase::train)) return e.in_train && e.packets.has(h.packet);
  return e.in_test && e.packets.has(config_.plan->way_of(h.id));
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
  else if (reading_.empty() && config_.dynamic)
    s.wait(wait_kind::grant, "a work unit");
  else if (reading_.empty() && agenda_.next_step() >= agenda_.granted())
    s.wait(wait_kind::grant, "a grant beyond step " + std::to_string(agenda_.granted()));
  return s;
}

}  // namespace troupe
