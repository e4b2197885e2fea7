// group_sync: server groups that train apart and are synchronised now and then (SINGA's distributed
// Hogwild and its server groups; Wang et al. 2015, "SINGA: Putting Deep Learning in the Hands of
// Multimedia Users", section 5).
//
// Worker half. That of bsp, inside its worker group: a step is the mean gradient over the group's
// packets. Shard half. Every worker group has a server group with all parameters. Block by block:
// after sync_freq updates a group other than the first sends cur - last to the same block of the
// first (the master). Master: cur += increment, answers with cur. The sender: cur += answer - what
// it had when it sent; last = answer. So updates made meanwhile stay.
//
// Messages, per block: in a group those of bsp; every sync_freq steps one push and one weights
// between a group and the master. Bytes: the block both ways.
//
// Invariants:
//   * every update of a group reaches the master once, as part of one increment (a second push of
//     the same number is ignored); settling sends the rest;
//   * one group is bsp.
#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/sync/guarded.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

class group_shard final : public guarded_shard {
 public:
  explicit group_shard(sync_config c)
      : guarded_shard(std::move(c), {}),
        every_(static_cast<std::uint64_t>(config_.mode.integer("sync_freq"))),
        blocks_state_(config_.plan->blocks.size()) {}

 private:
  struct increment {
    header h;
    tensor value;
  };
  struct block_state {
    tensor last;                  // what the master had when it last answered (at first: what we began with)
    tensor sent;                  // our value when we last sent
    std::uint64_t synced_at = 0;  // our updates when we last sent
    std::uint64_t number = 0;     // of the increment under way, or the last
    bool waiting = false;         // for the answer
    bool closing = false;         // settling: send what is left
    tensor answer;
    std::vector<increment> line;                   // master: increments to add
    std::map<std::uint32_t, std::uint64_t> taken;  // master: number of the last one, by group
  };

  bool master() const { return group() == 0; }

  void on_filled(effects&) override {
    for (const auto& b : blocks_.list()) {
      blocks_state_[b.plan->id].last = b.value;
      blocks_state_[b.plan->id].synced_at = b.updates;
    }
  }

  void on_push(const header& h, const push& p, shard_block& b, effects& out) override {
    if (index_of(h.src) >= config_.plan->roles.size() || !(*config_.plan)[h.src].does().owns_parameters)
      return clocked_shard::on_push(h, p, b, out);
    if (!master()) return drop(drop_reason::misaddressed);
    auto& s = blocks_state_[b.plan->id];
    auto& taken = s.taken[(*config_.plan)[h.src].group];
    if (h.step <= taken) return drop(drop_reason::repeated);  // it came twice; an answer now might lack it
    taken = h.step;
    s.line.push_back({h, p.sum});
    if (!b.updating) on_idle(b, out);
  }

  void answer(const header& h, const shard_block& b, effects& out) const {
    auto back = to(h.src);
    back.step = h.step;
    out.send({back, weights{b.plan->id, b.value}});
  }

  void on_other(const envelope& e, effects& out) override {
    const auto* w = std::get_if<weights>(&e.body);
    if (!w) return guarded_shard::on_other(e, out);
    auto* b = blocks_.find(w->block);
    if (!b) return drop(drop_reason::misaddressed);
    if (!holds(w->value, b->plan->count, config_.type)) return drop(drop_reason::malformed);
    auto& s = blocks_state_[w->block];
    if (!s.waiting || e.h.step != s.number || s.answer) return drop(drop_reason::unrequested);
    s.answer = w->value;
    if (!b->updating) on_idle(*b, out);
  }

  // Nothing changes the block: what may be done with it?
  void on_idle(shard_block& b, effects& out) override {
    auto& s = blocks_state_[b.plan->id];
    if (!s.line.empty()) {
      auto next = std::move(s.line.front());
      s.line.erase(s.line.begin());
      return change(
          b, 1.0, next.value, {}, [this, h = next.h](shard_block& done, effects& more) { answer(h, done, more); }, out);
    }
    if (s.answer) {
      s.waiting = false;
      s.last = std::exchange(s.answer, {});
      return change(
          b, 1.0, s.last, std::exchange(s.sent, {}), [](shard_block&, effects&) {}, out);
    }
    const bool due = b.updates - s.synced_at >= (s.closing ? 1 : every_);
    if (!master() && !s.waiting && due) send_increment(b, out);
  }

  void send_increment(shard_block& b, effects& out) {
    auto& s = blocks_state_[b.plan->id];
    s.waiting = true;
    s.synced_at = b.updates;
    s.sent = b.value;
    ++s.number;
    auto delta = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    tasks_.run(
        [now = s.sent, last = s.last, delta](task_context& c) {
          delta->back(c.dev);
          c.dev.apply(binary::subtract, now, last, *delta);
        },
        {0, 3.0 * static_cast<double>(delta->bytes()), "increment"},
        [this, &b, delta](effects& more) {
          auto h = to(config_.plan->shard_of(*b.plan, 0));
          h.step = blocks_state_[b.plan->id].number;
          more.send({h, push{b.plan->id, 0, 1, *delta}});
        },
        out);
  }

  // value += a - b, in a task; the block counts as updating meanwhile.
  void change(shard_block& b, double scale, tensor plus, tensor minus, std::function<void(shard_block&, effects&)> then,
              effects& out) {
    b.updating = true;
    auto next = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    tasks_.run(
        [was = b.value, next, scale, plus = std::move(plus), minus = std::move(minus)](task_context& c) {
          next->back(c.dev);
          c.dev.copy(was, *next);
          c.dev.axpy(scale, plus, *next);
          if (minus) c.dev.axpy(-1.0, minus, *next);
        },
        {0, 4.0 * static_cast<double>(next->bytes()), "sync"},
        [this, &b, next, then = std::move(then)](effects& more) {
          b.value = *next;
          b.updating = false;
          then(b, more);
          if (!apply_next(b, more)) on_idle(b, more);
        },
        out);
  }

  void on_all_flushed(std::uint64_t, effects& out) override {
    for (auto& b : blocks_.list()) {
      blocks_state_[b.plan->id].closing = true;
      if (!b.updating) on_idle(b, out);
    }
  }

  bool quiet(std::uint64_t step) override {
    if (!clocked_shard::quiet(step)) return false;
    for (const auto& b : blocks_.list()) {
      const auto& s = blocks_state_[b.plan->id];
      if (s.waiting || !s.line.empty() || b.updating || (!master() && b.updates != s.synced_at)) return false;
    }
    for (auto& s : blocks_state_) s.closing = false;
    return true;
  }

  std::uint64_t every_;
  std::vector<block_state> blocks_state_;  // by block id
};

}  // namespace

sync_mode group_sync_mode() {
  return {
      .name = "group_sync",
      .doc =
          "Each worker group trains synchronously on its own server group; server groups exchange what they changed with the first "
          "every sync_freq updates. SINGA (Wang et al. 2015).",
      .specs = {integer_option("sync_freq", 10, "updates between two exchanges of server groups", 1)},
      .by_groups = true,
      .left = survivor_rule::newest,
      .no_statistics = [](const options&, const job_plan& p) -> std::string {
        if (p.groups.size() == 1) return {};
        return "groups add what each has changed, and so would fold the same old statistics away several times";
      },
      .check =
          [](const options&, const job_spec&, const job_plan& p) {
            no_tree(p, "group_sync");
            if (p.server_groups != p.groups.size())
              throw option_error("topology.server_groups",
                                 "group_sync gives every worker group its own server group: server_groups must be " +
                                     std::to_string(p.groups.size()) + ", it is " + std::to_string(p.server_groups));
          },
      .make_worker = [](sync_config c) { return std::make_unique<clocked_worker>(std::move(c), clock_policy{}); },
      .make_shard = [](sync_config c) { return std::make_unique<group_shard>(std::move(c)); }};
}

}  // namespace troupe
