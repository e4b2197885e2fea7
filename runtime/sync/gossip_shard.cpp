// The shard sync of mode `gossip` (gossip.cpp): provides the first weights and collects the
// workers' copies. Their mean, weighted by mass, is the job's weights.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "runtime/sync/gossip.hpp"
#include "runtime/sync/shard_sync.hpp"

namespace troupe {
namespace {

class gossip_shard final : public shard_sync {
 public:
  explicit gossip_shard(sync_config c) : shard_sync(std::move(c), gives::state) {}

 private:
  void on_push(const header&, const push&, shard_block&, effects&) override { drop(drop_reason::unexpected); }
  void on_all_flushed(std::uint64_t, effects& out) override { fold_contributions(true, true, out); }

  void ask(role_id worker, effects& out) const { out.send({to(worker), user{want_copy, {}, {}, round_}}); }

  // Requests the copies of all workers, and answers collections with their mean.
  void before_collect(effects& out) override {
    if (blocks_.hold_collects) return;
    std::vector<std::uint32_t> all(workers());
    std::iota(all.begin(), all.end(), 0u);
    ask_for_copies(
        all, [this](effects& more) { blocks_.answer_collects(more); }, out);
  }

  void ask_for_copies(const std::vector<std::uint32_t>& from, std::function<void(effects&)> then, effects& out) {
    blocks_.hold_collects = true;
    ++round_;
    copies_.clear();
    asked_ = from.size();
    then_ = std::move(then);
    for (auto w : from) ask(config_.plan->workers[w], out);
  }

  void on_copy(const header& h, const state& s, effects& out) override {
    if (s.round > 0) return shard_sync::on_copy(h, s, out);  // sent at a flush
    if (!blocks_.hold_collects || s.request != round_) return drop(drop_reason::outdated);
    copies_[s.block][worker_of(h.src)] = s;
    for (const auto& b : blocks_.list())
      if (copies_[b.plan->id].size() < asked_) return;
    fold_copies(parts(), copies_, true, true, out);
    tasks_.run([](task_context&) {}, {0, 0, "mean"},
               [this, round = round_](effects& more) {
                 if (round != round_) return;  // a newer request has replaced this one
                 blocks_.hold_collects = false;
                 then_(more);
               },
               out);
    copies_.clear();
  }

  // After a node failure the mean of the living workers' present copies is the job's weights.
  void on_quiesce(const quiesce& s, effects& out) override {
    std::vector<std::uint32_t> from;
    for (auto w : std::set(s.living.begin(), s.living.end()))
      if (w < workers()) from.push_back(w);
    if (blocks_.list().empty() || from.empty()) return say_whats_here(out);
    ask_for_copies(
        from, [this](effects& more) { say_whats_here(more); }, out);
  }
  void on_message_while_quiesced(const envelope& e, effects& out) override {
    if (const auto* c = std::get_if<state>(&e.body)) return take_copy(e.h, *c, out);
    if (const auto* f = std::get_if<finished>(&e.body); !f || !tasks_.finished(f->token, out)) drop(drop_reason::quiesced);
  }

  std::uint64_t round_ = 0;  // of want_copy
  std::size_t asked_ = 0;    // number of workers asked in this round
  std::function<void(effects&)> then_;
  worker_copies copies_;
};

}  // namespace

std::unique_ptr<role> make_gossip_shard(sync_config c) { return std::make_unique<gossip_shard>(std::move(c)); }

}  // namespace troupe
