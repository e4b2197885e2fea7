#include "runtime/pipeline/loader.hpp"

#include <algorithm>

#include "ops/device.hpp"

namespace troupe {

std::uint32_t eval_packets(std::int64_t test_size, std::int64_t eval_examples) {
  return eval_examples > 0 ? static_cast<std::uint32_t>((test_size + eval_examples - 1) / eval_examples) : 0;
}

loader::loader(loader_config c) : config_(std::move(c)) {
  const auto& me = (*config_.plan)[config_.self];
  range_ = config_.plan->ranges[me.worker];
  next_step_ = granted_ = config_.first_step;
  credit_.assign(me.out_edges.size(), config_.plan->sub_solvers);
}

void loader::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const grant& g) { granted_ = std::max(granted_, g.until); },
                 [&](const portion& p) { take_portion(p); },
                 [&](const resume_at& r) {
                   if (begun_) return;
                   begun_ = true;
                   next_step_ = r.step;
                 },
                 [&](const evaluate& v) {
                   if (v.round <= last_round_) return;  // rounds are counted from 1, and come in order
                   last_round_ = v.round;
                   const auto n = eval_packets(config_.data->size(split::test), config_.eval_examples);
                   rounds_.push_back({v.round, e.h.version, (*config_.plan)[config_.self].worker, n});
                 },
                 [&](const credit& c) { credit_[e.h.port] += c.count; },
                 [&](const finished&) { loaded_.push_back(std::move(loading_)); },
                 [&](const halt&) {
                   granted_ = next_step_;
                   portions_.clear();
                   rounds_.clear(), loaded_.clear();
                   out.stop();
                 },
                 [&](const auto&) {},
             },
             e.body);
  pump(out);
}

void loader::pump(effects& out) {
  while (send_front(out)) {
  }
  if (!loading_ && loaded_.size() <= config_.plan->sub_solvers) load_next(out);
}

void loader::take_portion(const portion& p) {
  if (!config_.dynamic || p.step < portion_step_) return;
  if (p.step > portion_step_ || portion_taken_.empty()) portion_taken_.assign(config_.plan->packets, false);
  portion_step_ = p.step;
  const auto end = std::min<std::uint64_t>(std::uint64_t{p.first} + p.count, config_.plan->packets);
  for (std::uint64_t k = p.first; k < end; ++k) {
    if (portion_taken_[k]) continue;
    portion_taken_[k] = true;
    portions_.push_back({p.step, static_cast<std::uint32_t>(k)});
  }
}

std::optional<loader::next_packet> loader::next_training() {
  if (config_.dynamic) {
    if (portions_.empty()) return std::nullopt;
    const auto p = portions_.front();
    portions_.pop_front();
    next_step_ = p.step;
    return p;
  }
  if (next_step_ >= granted_) return std::nullopt;
  const next_packet p{next_step_, range_.first + next_in_range_};
  if (++next_in_range_ == range_.count) {
    next_in_range_ = 0;
    ++next_step_;
  }
  return p;
}

bool loader::load_next(effects& out) {
  if (config_.await_resume && !begun_) return false;
  if (const auto p = next_training()) {
    begun_ = true;
    read(training_item(*p), split::train, out);
    return true;
  }
  while (!rounds_.empty() && rounds_.front().next >= rounds_.front().packets) rounds_.pop_front();
  if (rounds_.empty() || (!config_.dynamic && rounds_.front().version > next_step_)) return false;
  read(evaluation_item(), split::test, out);
  return true;
}

std::shared_ptr<loader::item> loader::training_item(next_packet p) {
  auto i = std::make_shared<item>();
  const auto n = config_.graph->packet_examples;
  const auto packet = p.packet;
  i->first_example = static_cast<std::uint32_t>(packet * n);
  i->valid = static_cast<std::uint32_t>(n);
  i->indices = config_.order->indices(p.step, i->first_example, n);
  i->h.step = i->h.version = p.step;
  i->h.packet = packet;
  i->h.packets = config_.plan->packets;
  i->h.phase = static_cast<std::uint8_t>(phase::train);
  return i;
}

std::shared_ptr<loader::item> loader::evaluation_item() {
  auto& r = rounds_.front();
  auto i = std::make_shared<item>();
  const auto n = config_.eval_examples, size = config_.data->size(split::test);
  const auto first = static_cast<std::int64_t>(r.next) * n;
  i->first_example = static_cast<std::uint32_t>(first);
  i->valid = static_cast<std::uint32_t>(std::min(n, size - first));
  for (std::int64_t k = 0; k < n; ++k) i->indices.push_back(first + k < size ? first + k : -1);
  i->h.step = r.index;
  i->h.version = r.version;
  i->h.packet = r.next;
  i->h.packets = r.packets;
  i->h.phase = static_cast<std::uint8_t>(phase::test);
  r.next += static_cast<std::uint32_t>(config_.plan->ranges.size());
  return i;
}

void loader::read(const std::shared_ptr<item>& i, split s, effects& out) {
  i->h.job = config_.job;
  i->h.src = config_.self;
  i->h.id = make_msg_id(config_.self, counter_++);
  const auto n = static_cast<std::int64_t>(i->indices.size());
  auto data = config_.graph->data;
  data.set(0, n);
  i->data = tensor::declare(data, config_.type);
  i->label = tensor::declare({n}, dtype::i32);
  loading_ = i;
  const job_cost cost{0, static_cast<double>(i->data.bytes()), "load"};
  out.run(
      [i, s, source = config_.data](job_context& c) {
        i->data.back(c.dev);
        i->label.back(c.dev);
        source->read(s, i->indices, i->data, i->label);
      },
      cost, 0);
}

bool loader::send_front(effects& out) {
  if (loaded_.empty()) return false;
  auto& i = *loaded_.front();
  const auto& edges = (*config_.plan)[config_.self].out_edges;
  const bool train = i.h.phase == static_cast<std::uint8_t>(phase::train);
  auto used = [&](std::size_t e) {
    const auto& edge = config_.plan->edges[edges[e]];
    return train ? edge.in_train : edge.in_test;
  };
  for (std::size_t e = 0; e < edges.size(); ++e)
    if (used(e) && credit_[e] == 0) return false;
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (!used(e)) continue;
    --credit_[e];
    const auto& edge = config_.plan->edges[edges[e]];
    i.h.dst = edge.to;
    i.h.port = edge.to_port;
    out.send({i.h, forward{edge.what.output == 0 ? i.data : i.label, i.valid, i.first_example}});
  }
  loaded_.pop_front();
  return true;
}

role_status loader::status() const {
  role_status s;
  s.step = next_step_;
  s.queued = static_cast<std::uint32_t>(loaded_.size());
  s.in_flight = loading_ ? 1 : 0;
  s.credit = credit_.empty() ? 0 : credit_[0];
  if (!loaded_.empty())
    s.waits_for = "a free sub-solver of the first stage";
  else if (config_.await_resume && !begun_)
    s.waits_for = "the step to begin with";
  else if (!loading_ && config_.dynamic)
    s.waits_for = "a portion";
  else if (!loading_ && next_step_ >= granted_)
    s.waits_for = "a grant beyond step " + std::to_string(granted_);
  return s;
}

}  // namespace troupe
