#include "runtime/stage/joint_stage.hpp"

#include <algorithm>

#include "runtime/messages/fits.hpp"

namespace troupe {
namespace {

// Bounds steps_, which has an entry per step and message type. Peers can be one step ahead, so
// there are at most four; the rest is reserve.
constexpr std::size_t max_steps = 8;

const joint_maths& joint_of(const stage_maths& m) { return *m.layout().hosted(0).maths->joint(); }

}  // namespace

joint_stage::joint_stage(stage_config c) : stage(std::move(c)), mine_(config().slots), waits_(config().slots, 0) {}

expected<void> joint_stage::check(const job_plan& p, const graph_layer& l) {
  if (!l.maths->joint()) return {};
  if (p.rule != weight_rule::drain)
    return unexpected(error("its packets compute together, which requires pipeline.weights = \"drain\""));
  std::uint32_t most = 0;
  for (const auto& r : p.ranges) most = std::max(most, r.count);
  if (p.sub_solvers >= most) return {};
  return unexpected(error("its packets compute together, so all of a step must be in flight: a worker has " + std::to_string(most) +
                          " packets, but pipeline.sub_solvers = " + std::to_string(p.sub_solvers)));
}

std::shared_ptr<tensor> joint_stage::begin_measure(const slot& s) {
  waits_[s.index] = 0;
  return mine_[s.index] = std::make_shared<tensor>(
             tensor::declare(joint_of(*maths_of_stage()).measured(layout().hosted(0).in), wide_of(config().type)));
}

void joint_stage::begin_forward(slot& s, effects& out) {
  if (!training(s)) return stage::begin_forward(s, out);
  run_own(
      s, measure,
      [m = maths_of_stage(), to = begin_measure(s)](packet_work& w, task_context& c) {
        m->join_inputs(w, c.dev);
        m->gather(w, 0);
        auto with = m->context_of(w, 0, c.dev);
        *to = joint_of(*m).measure(with, w.passes[0].in);
      },
      {0, 0, "measure"}, out);
}

void joint_stage::begin_backward(slot& s, effects& out) {
  run_own(
      s, measure_back,
      [m = maths_of_stage(), to = begin_measure(s)](packet_work& w, task_context& c) {
        m->fill_grad_out(w, 0, c.dev);
        auto& pass = w.passes[0];
        auto with = m->context_of(w, 0, c.dev);
        *to = joint_of(*m).measure_back(with, pass.kept, pass.params, pass.grad_out, pass.grad_params);
      },
      {0, 0, "measure"}, out);
}

void joint_stage::on_task(slot& s, std::uint32_t task, effects& out) {
  if (task == make) return forward_done(s, out);
  if (task == make_back) return backward_done(s, out);
  waits_[s.index] = task == measure ? forward_part : backward_part;
  for (auto peer : config().peers)
    out.send({reply(s, peer), user{task == measure ? forward_part : backward_part, {}, {*mine_[s.index]}}});
}

// Returns true if `packet` belongs to `peer`: no other role may send its measurement.
bool joint_stage::owns(role_id peer, std::uint32_t packet) const {
  const auto& all = config().peers;
  return std::find(all.begin(), all.end(), peer) != all.end() && (*config().plan)[peer].packets.has(packet);
}

void joint_stage::on_user(const envelope& e, effects& out) {
  const auto& u = std::get<user>(e.body);
  const auto packets = config().plan->packets;
  if (u.type != forward_part && u.type != backward_part) return drop(drop_reason::unexpected);
  if (e.h.packet >= packets || !owns(e.h.src, e.h.packet)) return drop(drop_reason::misaddressed);
  if (u.values.size() != 1 ||
      !fits(u.values[0], joint_of(*maths_of_stage()).measured(layout().hosted(0).in), wide_of(config().type)))
    return drop(drop_reason::malformed);
  if (e.h.step < done_[u.type]) return drop(drop_reason::outdated);
  if (steps_.size() >= max_steps && !steps_.count({e.h.step, u.type})) return drop(drop_reason::unexpected);
  auto& step = steps_[{e.h.step, u.type}];
  if (step.by_packet.empty()) step.by_packet.resize(packets), step.missing = packets;
  if (step.by_packet[e.h.packet]) return drop(drop_reason::repeated);
  step.by_packet[e.h.packet] = u.values[0];
  if (--step.missing > 0) return;
  const auto all = std::make_shared<const tensors>(std::move(step.by_packet));
  steps_.erase({e.h.step, u.type});
  done_[u.type] = e.h.step + 1;
  for (std::uint32_t i = 0; i < config().slots; ++i) {
    auto& s = slot_at(i);
    if (s.at != slot::stage_of::free && training(s) && s.h.step == e.h.step && waits_[i] == u.type) use(s, u.type, all, out);
  }
}

void joint_stage::use(slot& s, std::uint32_t kind, const std::shared_ptr<const tensors>& all, effects& out) {
  const bool ahead = kind == forward_part;
  waits_[s.index] = 0;
  run_own(
      s, ahead ? make : make_back,
      [m = maths_of_stage(), all, ahead](packet_work& w, task_context& c) {
        auto& pass = w.passes[0];
        auto with = m->context_of(w, 0, c.dev);
        if (ahead) {
          joint_of(*m).forward_with(with, *all, pass.in, pass.params, pass.out, pass.kept);
          if (m->layout().hosted(0).maths->is_loss()) m->report_scalar(w, 0, c.dev);
          m->keep(w, m->layout().steps()[0]);
          m->cut_outputs(w, c.dev);
        } else {
          joint_of(*m).backward_with(with, *all, pass.kept, pass.params, pass.grad_out, pass.grad_in);
          stage_maths::forget(pass.kept);
          m->hand_back(w, c.dev);
        }
      },
      {0, 0, ahead ? "forward" : "backward"}, out);
}

}  // namespace troupe
