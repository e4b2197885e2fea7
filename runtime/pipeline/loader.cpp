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
                 [&](const evaluate& v) {
                   const auto n = eval_packets(config_.data->size(split::test), config_.eval_examples);
                   rounds_.push_back({v.round, e.h.version, (*config_.plan)[config_.self].worker, n});
                 },
                 [&](const credit& c) { credit_[e.h.port] += c.count; },
                 [&](const finished&) { loaded_.push_back(std::move(loading_)); },
                 [&](const halt&) {
                   granted_ = next_step_;
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

bool loader::load_next(effects& out) {
  if (next_step_ < granted_) {
    read(training_item(), split::train, out);
    return true;
  }
  while (!rounds_.empty() && rounds_.front().next >= rounds_.front().packets) rounds_.pop_front();
  if (rounds_.empty() || rounds_.front().version > next_step_) return false;
  read(evaluation_item(), split::test, out);
  return true;
}

std::shared_ptr<loader::item> loader::training_item() {
  auto i = std::make_shared<item>();
  const auto n = config_.graph->packet_examples;
  const auto packet = range_.first + next_packet_;
  i->first_example = static_cast<std::uint32_t>(packet * n);
  i->valid = static_cast<std::uint32_t>(n);
  i->indices = config_.order->indices(next_step_, i->first_example, n);
  i->h.step = i->h.version = next_step_;
  i->h.packet = packet;
  i->h.packets = config_.plan->packets;
  i->h.phase = static_cast<std::uint8_t>(phase::train);
  if (++next_packet_ == range_.count) {
    next_packet_ = 0;
    ++next_step_;
  }
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
  else if (!loading_ && next_step_ >= granted_)
    s.waits_for = "a grant beyond step " + std::to_string(granted_);
  return s;
}

}  // namespace troupe
