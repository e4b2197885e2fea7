// Mode `hogwild`: the workers of one node read and add to one shared array without locks (Niu,
// Recht, Re, Wright 2011, "Hogwild!"). With several server groups (SINGA's distributed Hogwild)
// each node has its own array, which is synchronised with that of server group 0 as in group_sync.
//
// Worker sync. A step computes the gradient of the worker's packets with the weights that it last
// read. One step of the job's rule gives a difference, which is added to the shared array
// (`shared_effect`: relaxed loads and stores, no lock, outside any mailbox). The worker then reads
// the array again and begins the next step. Rule states are the worker's own.
//
// Shard sync. Writes the first weights into the array and reads it for collections. With several
// server groups: after sync_freq steps of its workers a shard of group g > 0 reads the array and
// pushes its change since the last exchange to the shard of group 0 with the same blocks. That
// shard adds the change to its array and answers with the array's content. The sender adds the
// answer, minus what it had read, to its own array.
//
// Messages per step: none for parameters within the node; with several server groups one `user`
// notice from each worker to each shard of its group. Bytes between nodes, per exchange: the block
// both ways.
//
// Invariants:
//   * an addition may be lost to a concurrent one, element by element; it is never applied twice,
//     and no element is torn;
//   * one worker is plain training with the job's rule, up to rounding, since the weights are the
//     sum of what was read and the difference.
#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/sync/local.hpp"
#include "runtime/sync/shard_sync.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t note_type = 1;  // worker -> shards of its group: it has made header.step steps

using kind = shared_effect::kind_of;

std::uint32_t place_of(const job_plan& p, std::uint32_t server_group, std::uint32_t block) {
  return server_group * static_cast<std::uint32_t>(p.blocks.size()) + block;
}

// What is added to `b` to make it `a`. Of a frozen parameter, both are equal: -0, which changes no
// value, while 0 would change -0.
void difference_of(device& d, bool frozen, const tensor& a, const tensor& b, tensor& to) {
  to.back(d);
  if (frozen) return d.fill(-0.0, to);
  d.apply(binary::subtract, a, b, to);
}

class hogwild_worker final : public local_worker {
 public:
  explicit hogwild_worker(sync_config c)
      : local_worker(std::move(c)), group_(config_.plan->group_of(config_.worker).server_group), added_(layers_.size()) {}

 private:
  // Keeps the weights that were read: the step's task leaves the new weights in the replica, and
  // the difference of the two is added to the array.
  void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) override {
    before_.resize(replicas_.size());
    for (auto p : layer_at(layer).params) before_[p] = replicas_[p].value;
    local_worker::on_sum(layer, step, node, sum, out);
  }

  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override {
    auto delta = std::make_shared<tensors>();
    auto was = std::make_shared<tensors>();
    for (auto p : layer_at(layer).params) {
      delta->push_back(tensor::declare(replicas_[p].value.dims(), config_.type));
      was->push_back(before_[p]);
    }
    busy_[layer] = true;
    task_cost cost{0, 0, "difference"};
    for (const auto& d : *delta) cost.bytes += 3.0 * static_cast<double>(d.bytes());
    tasks_.run(
        [now = values_of(layer), delta, was, graph = config_.graph, params = layer_at(layer).params](task_context& c) {
          for (std::size_t i = 0; i < delta->size(); ++i)
            difference_of(c.dev, graph->params[params[i]].frozen, now[i], (*was)[i], (*delta)[i]);
        },
        cost, [this, layer, step, delta](effects& more) { add(layer, step, *delta, more); }, out);
  }

  void add(std::uint32_t layer, std::uint64_t step, const tensors& delta, effects& out) {
    const auto& params = layer_at(layer).params;
    for (auto id : layers_[layer].blocks) {
      const auto& b = block_at(id);
      const auto i = static_cast<std::size_t>(std::find(params.begin(), params.end(), b.param) - params.begin());
      auto part = std::make_shared<tensor>(delta[i].slice(b.begin, {b.count}));
      out.shared({kind::add, place_of(*config_.plan, group_, id), std::move(part), tasks_.expect([](effects&) {})});
    }
    note(layer, step + 1, out);
    read(layer, step + 1, out);
  }

  // Notifies the shards when all layers have made the step.
  void note(std::uint32_t layer, std::uint64_t done, effects& out) {
    added_[layer] = done;
    if (config_.plan->server_groups == 1) return;
    for (std::size_t l = 0; l < layers_.size(); ++l)
      if (!layers_[l].blocks.empty() && added_[l] < done) return;
    for (std::uint32_t s = 0; s < config_.plan->servers_per_group; ++s) {
      auto h = to(config_.plan->shards[group_ * config_.plan->servers_per_group + s]);
      h.step = done;
      out.send({h, user{note_type, {}, {}}});
    }
  }

  void read(std::uint32_t layer, std::uint64_t version, effects& out) {
    auto blocks = std::make_shared<std::vector<std::shared_ptr<tensor>>>();
    auto missing = std::make_shared<std::size_t>(layers_[layer].blocks.size());
    for (auto id : layers_[layer].blocks) {
      blocks->push_back(std::make_shared<tensor>(tensor::declare({block_at(id).count}, config_.type)));
      out.shared({kind::read, place_of(*config_.plan, group_, id), blocks->back(),
                  tasks_.expect([this, layer, version, blocks, missing](effects& more) {
                    if (--*missing == 0) have_read(layer, version, *blocks, more);
                  })});
    }
  }

  void have_read(std::uint32_t layer, std::uint64_t version, const std::vector<std::shared_ptr<tensor>>& blocks, effects& out) {
    last_merge_[layer] = version;
    tensors parts;
    for (const auto& b : blocks) parts.push_back(*b);
    take_blocks(layer, version, std::move(parts), out);
  }

  void on_flush(std::uint64_t, effects& out) override { contribute(1.0, out); }

  std::uint32_t group_;
  std::vector<std::uint64_t> added_;  // by layer: number of steps added to the array
  tensors before_;                    // by parameter: the weights that were read
};

class hogwild_shard final : public shard_sync {
 public:
  explicit hogwild_shard(sync_config c)
      : shard_sync(std::move(c), gives::state),
        every_(static_cast<std::uint64_t>(config_.mode.integer("sync_freq"))),
        syncs_(config_.plan->blocks.size()),
        noted_(workers(), config_.first_step) {}

 private:
  struct block_sync {
    tensor last, sent;
    std::uint64_t number = 0;
    bool waiting = false;
    std::map<std::uint32_t, std::uint64_t> taken;  // master: number of the last added increment, by group
  };

  bool master() const { return group() == 0; }
  std::uint32_t place(const shard_block& b) const { return place_of(*config_.plan, group(), b.plan->id); }

  void on_filled(effects& out) override {
    for (auto& b : blocks_.list()) {
      syncs_[b.plan->id].last = b.value;
      out.shared({kind::write, place(b), std::make_shared<tensor>(b.value), tasks_.expect([](effects&) {})});
    }
  }

  // Reads the array into b.value, then calls `then`.
  void read(shard_block& b, std::function<void(effects&)> then, effects& out) {
    auto t = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    out.shared({kind::read, place(b), t, tasks_.expect([&b, t, then = std::move(then)](effects& more) {
                  b.value = *t;
                  then(more);
                })});
  }
  void read_all(std::function<void(effects&)> then, effects& out) {
    auto missing = std::make_shared<std::size_t>(blocks_.list().size());
    if (*missing == 0) return then(out);  // this shard owns no blocks
    for (auto& b : blocks_.list())
      read(
          b,
          [missing, then](effects& more) {
            if (--*missing == 0) then(more);
          },
          out);
  }

  void before_collect(effects& out) override {
    if (std::exchange(blocks_.hold_collects, true)) return;
    read_all(
        [this](effects& more) {
          blocks_.hold_collects = false;
          blocks_.answer_collects(more);
        },
        out);
  }

  // After a node failure the array holds the job's weights. Workers may add to it while it is read,
  // element by element.
  void on_quiesce(const quiesce&, effects& out) override {
    read_all([this](effects& more) { say_whats_here(more); }, out);
  }
  void on_message_while_quiesced(const envelope& e, effects& out) override {
    if (const auto* f = std::get_if<finished>(&e.body); !f || !tasks_.finished(f->token, out)) drop(drop_reason::quiesced);
  }

  // --- between server groups

  void on_other(const envelope& e, effects& out) override {
    if (const auto* w = std::get_if<weights>(&e.body)) return take_answer(*w, out);
    const auto* u = std::get_if<user>(&e.body);
    const auto worker = worker_of(e.h.src);
    if (!u || u->type != note_type) return drop(drop_reason::unexpected);
    if (worker >= workers()) return drop(drop_reason::misaddressed);
    if (e.h.step <= noted_[worker]) return drop(drop_reason::repeated);
    noted_[worker] = e.h.step;
    if (master() || ++since_ < every_) return;
    since_ = 0;
    for (auto& b : blocks_.list()) send_increment(b, out);
  }

  void send_increment(shard_block& b, effects& out) {
    auto& s = syncs_[b.plan->id];
    if (s.waiting) return;
    s.waiting = true;
    ++s.number;
    read(
        b,
        [this, &b](effects& more) {
          auto& sync = syncs_[b.plan->id];
          sync.sent = b.value;
          subtract(
              b, sync.sent, sync.last,
              [this, &b](tensor delta, effects& then) {
                then.send({to(config_.plan->shard_of(*b.plan, 0)),
                           push{b.plan->id, 0, 1, std::move(delta), false, syncs_[b.plan->id].number}});
              },
              more);
        },
        out);
  }

  void subtract(const shard_block& of, const tensor& a, const tensor& b, std::function<void(tensor, effects&)> then, effects& out) {
    auto delta = std::make_shared<tensor>(tensor::declare(a.dims(), config_.type));
    tasks_.run([a, b, delta, frozen = config_.graph->params[of.plan->param].frozen](
                   task_context& c) { difference_of(c.dev, frozen, a, b, *delta); },
               {0, 3.0 * static_cast<double>(a.bytes()), "increment"},
               [delta, then = std::move(then)](effects& more) { then(*delta, more); }, out);
  }

  void on_push(const header& h, const push& p, shard_block& b, effects& out) override {
    const bool from_shard = index_of(h.src) < config_.plan->roles.size() && (*config_.plan)[h.src].does().owns_parameters;
    auto& taken = syncs_[b.plan->id].taken[from_shard ? (*config_.plan)[h.src].group : 0];
    if (!from_shard || !master()) return drop(drop_reason::misaddressed);
    if (p.increment < taken) return drop(drop_reason::repeated);
    if (p.increment > taken) out.shared({kind::add, place(b), std::make_shared<tensor>(p.sum), tasks_.expect([](effects&) {})});
    taken = p.increment;
    read(
        b,
        [this, &b, from = h.src, number = p.increment](effects& more) {
          more.send({to(from), weights{b.plan->id, b.value, number}});
        },
        out);
  }

  void take_answer(const weights& w, effects& out) {
    auto* b = blocks_.find(w.block);
    if (!b) return drop(drop_reason::misaddressed);
    if (!holds(w.value, b->plan->count, config_.type)) return drop(drop_reason::malformed);
    if (!syncs_[w.block].waiting || syncs_[w.block].number != w.increment || !syncs_[w.block].sent)
      return drop(drop_reason::unrequested);
    auto& s = syncs_[w.block];
    s.last = w.value;
    subtract(
        *b, w.value, std::exchange(s.sent, {}),
        [this, b](tensor delta, effects& more) {
          more.shared({kind::add, place(*b), std::make_shared<tensor>(std::move(delta)), tasks_.expect([this, b](effects& then) {
                         syncs_[b->plan->id].waiting = false;  // only now: the next read must contain this addition
                         advance_closing(then);
                       })});
        },
        out);
  }

  // Flush: sends the remaining changes to server group 0, then reads the array for the mode that
  // follows.
  void on_all_flushed(std::uint64_t, effects& out) override {
    fold_contributions(true, false, out);
    closing_ = closing::sending;
    rest_sent_ = master();
    advance_closing(out);
  }
  void advance_closing(effects& out) {
    if (closing_ != closing::sending || waiting()) return;
    if (!std::exchange(rest_sent_, true)) {
      for (auto& b : blocks_.list()) send_increment(b, out);
      return;
    }
    closing_ = closing::reading;
    read_all([this](effects&) { closing_ = closing::done; }, out);
  }
  bool waiting() const {
    for (const auto& s : syncs_)
      if (s.waiting) return true;
    return false;
  }
  bool quiet(std::uint64_t) override { return closing_ == closing::done && tasks_.size() == 0; }

  std::uint64_t every_, since_ = 0;
  std::vector<block_sync> syncs_;     // by block id
  std::vector<std::uint64_t> noted_;  // by worker: number of steps made
  enum class closing { sending, reading, done } closing_ = closing::done;
  bool rest_sent_ = false;
};

// The array is local to a node: the workers and shards of a group must be on one node.
void one_node_a_group(const job_plan& p) {
  for (const auto& g : p.groups)
    for (std::uint32_t w = g.first; w < g.first + g.count; ++w)
      for (const auto s : p.shards)
        if (p[s].group == g.server_group && p[s].node != p[p.workers[w]].node)
          throw option_error("topology",
                             "hogwild shares memory: " + p[p.workers[w]].name + " on node '" + p.nodes[p[p.workers[w]].node].name +
                                 "' and " + p[s].name + " on node '" + p.nodes[p[s].node].name +
                                 "' must be on one node; for several nodes set server_groups = worker_groups and colocated = true");
}

}  // namespace

sync_mode hogwild_mode() {
  return {
      .name = "hogwild",
      .doc =
          "Asynchronous without locks: the workers of a node add to one shared array. Several nodes (server groups) synchronise "
          "every sync_freq steps. Niu et al. 2011.",
      .specs = {integer_option("sync_freq", 10, "number of steps of a group's workers between two exchanges of server groups", 1)},
      .by_groups = true,
      .left = survivor_rule::newest,
      .check_statistics = [](const options&, const job_plan& p) -> expected<void> {
        if (p.workers.size() == 1) return {};
        return unexpected(error("every worker adds its own changes, so the old statistics would be decayed several times"));
      },
      .check =
          [](const options&, const job_spec&, const job_plan& p) {
            no_tree(p, "hogwild");
            no_replicas(p, "hogwild");
            one_node_a_group(p);
          },
      .make_worker = [](sync_config c) { return std::make_unique<hogwild_worker>(std::move(c)); },
      .make_shard = [](sync_config c) { return std::make_unique<hogwild_shard>(std::move(c)); }};
}

}  // namespace troupe
