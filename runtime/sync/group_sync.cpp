// Mode `group_sync`: server groups that train separately and synchronise periodically (SINGA's
// distributed Hogwild and its server groups; Wang et al. 2015, "SINGA: Putting Deep Learning in the
// Hands of Multimedia Users", section 5).
//
// Worker sync. That of bsp, within the worker group: a step applies the mean gradient over the
// group's packets.
//
// Shard sync. Every worker group has its own server group with all parameters; server group 0 is
// the master. For each block: after sync_freq updates a shard of another group pushes the increment
// cur - last to the master's shard of the same block. The master sets cur += increment and answers
// with cur. The sender sets cur += answer - sent, where `sent` is its cur at the push, and last =
// answer. So updates made meanwhile are kept.
//
// Messages per block: those of bsp within a group; every sync_freq updates one push and one weights
// between a group and the master. Bytes: the block both ways.
//
// Invariants:
//   * every update of a group reaches the master once, as part of one increment: a second push with
//     the same number is dropped; a flush sends the rest;
//   * with one group the mode is bsp.
#include <deque>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/sync/clocked.hpp"
#include "runtime/sync/finite_check.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

class group_shard final : public shard_sync {
 public:
  explicit group_shard(sync_config c)
      : shard_sync(std::move(c), gives::weights, {finite_check::make, apply_rule::make, replicate::make}),
        clocks_(parts(), {}, update_),
        every_(static_cast<std::uint64_t>(config_.mode.integer("sync_freq"))),
        blocks_state_(config_.plan->blocks.size()) {}

  role_status status() const override {
    auto s = shard_sync::status();
    clocks_.describe(s);
    return s;
  }

 private:
  struct increment {
    role_id from;
    std::uint64_t number;
    tensor value;
  };
  struct block_state {
    tensor last;                  // the master's latest answer; initially the first weights
    tensor sent;                  // this shard's value at its last increment
    std::uint64_t synced_at = 0;  // number of updates at that moment
    std::uint64_t number = 0;     // of the increment in flight, or of the last one
    bool waiting = false;         // an increment is in flight
    bool closing = false;         // flush: send the remaining updates
    tensor answer;
    std::deque<increment> line;                    // master: increments to be added
    std::map<std::uint32_t, std::uint64_t> taken;  // master: number of the last accepted increment, by group
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
      return note(clocks_.take_push(h, p, b, out));
    if (!master()) return drop(drop_reason::misaddressed);
    auto& s = blocks_state_[b.plan->id];
    auto& taken = s.taken[(*config_.plan)[h.src].group];
    if (p.increment <= taken) return drop(drop_reason::repeated);  // not answered: the increment may not have been added yet
    taken = p.increment;
    s.line.push_back({h.src, p.increment, p.sum});
    if (!b.updating) work_between(b, out);
  }
  void on_fetch(const header& h, const fetch&, shard_block& b, effects& out) override { note(clocks_.take_fetch(h, b, out)); }
  void on_updated(shard_block& b, effects& out) override {
    clocks_.updated(b, out);
    go_on(b, out);
  }
  // An update or a change of the block is complete.
  void go_on(shard_block& b, effects& out) {
    if (!clocks_.start_next(b, out)) work_between(b, out);
  }

  void on_other(const envelope& e, effects& out) override {
    const auto* w = std::get_if<weights>(&e.body);
    if (!w) return drop(drop_reason::unexpected);
    auto* b = blocks_.find(w->block);
    if (!b) return drop(drop_reason::misaddressed);
    if (!holds(w->value, b->plan->count, config_.type)) return drop(drop_reason::malformed);
    auto& s = blocks_state_[w->block];
    if (!s.waiting || w->increment != s.number || s.answer) return drop(drop_reason::unrequested);
    s.answer = w->value;
    if (!b->updating) work_between(*b, out);
  }

  // Called when no update of the block runs. Adds an increment (master), applies the master's
  // answer, or sends an increment that is due.
  void work_between(shard_block& b, effects& out) {
    auto& s = blocks_state_[b.plan->id];
    if (!s.line.empty()) {
      auto next = std::move(s.line.front());
      s.line.pop_front();
      return change(
          b, 1.0, next.value, {},
          [this, from = next.from, number = next.number](shard_block& done, effects& more) {
            more.send({to(from), weights{done.plan->id, done.value, number}});
          },
          out);
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
          more.send(
              {to(config_.plan->shard_of(*b.plan, 0)), push{b.plan->id, 0, 1, *delta, false, blocks_state_[b.plan->id].number}});
        },
        out);
  }

  // value += scale * plus - minus, in a task. The block counts as updating until it has finished.
  void change(shard_block& b, double scale, tensor plus, tensor minus, std::function<void(shard_block&, effects&)> then,
              effects& out) {
    b.updating = true;
    auto next = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    tasks_.run(
        [was = b.value, next, scale, plus = std::move(plus), minus = std::move(minus),
         frozen = config_.graph->params[b.plan->param].frozen](task_context& c) {
          next->back(c.dev);
          c.dev.copy(was, *next);
          if (frozen) return;
          c.dev.axpy(scale, plus, *next);
          if (minus) c.dev.axpy(-1.0, minus, *next);
        },
        {0, 4.0 * static_cast<double>(next->bytes()), "sync"},
        [this, &b, next, then = std::move(then)](effects& more) {
          b.value = *next;
          b.updating = false;
          then(b, more);
          go_on(b, more);
        },
        out);
  }

  void on_all_flushed(std::uint64_t, effects& out) override {
    for (auto& b : blocks_.list()) {
      blocks_state_[b.plan->id].closing = true;
      if (!b.updating) work_between(b, out);
    }
  }

  bool quiet(std::uint64_t step) override {
    if (tasks_.size() > 0 || !clocks_.all_applied(step)) return false;
    for (const auto& b : blocks_.list()) {
      const auto& s = blocks_state_[b.plan->id];
      if (s.waiting || !s.line.empty() || b.updating || (!master() && b.updates != s.synced_at)) return false;
    }
    for (auto& s : blocks_state_) s.closing = false;
    return true;
  }

  gradient_clocks clocks_;
  std::uint64_t every_;
  std::vector<block_state> blocks_state_;  // by block id
};

}  // namespace

sync_mode group_sync_mode() {
  return {.name = "group_sync",
          .doc =
              "Each worker group trains synchronously on its own server group. Every sync_freq updates the server groups "
              "exchange their changes with the first one. SINGA (Wang et al. 2015).",
          .specs = {integer_option("sync_freq", 10, "number of updates between two exchanges of server groups", 1)},
          .by_groups = true,
          .left = survivor_rule::newest,
          .check_statistics = [](const options&, const job_plan& p) -> expected<void> {
            if (p.groups.size() == 1) return {};
            return unexpected(error("every group adds its own changes, so the old statistics would be decayed several times"));
          },
          .check =
              [](const options&, const job_spec&, const job_plan& p) {
                no_tree(p, "group_sync");
                if (p.server_groups != p.groups.size())
                  throw option_error("topology.server_groups",
                                     "group_sync gives every worker group its own server group: server_groups must be " +
                                         std::to_string(p.groups.size()) + ", not " + std::to_string(p.server_groups));
              },
          .make_worker = [](sync_config c) { return std::make_unique<clocked_worker>(std::move(c), clock_policy{}); },
          .make_shard = [](sync_config c) { return std::make_unique<group_shard>(std::move(c)); }};
}

}  // namespace troupe
