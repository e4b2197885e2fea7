// Mode `easgd`: elastic averaging SGD (Zhang, Choromanska, LeCun 2015: Algorithm 1 asynchronous,
// section 3 synchronous). Mode `eamsgd`: the same with Nesterov's momentum in the workers
// (Algorithm 2).
//
// Worker sync. Each worker has its own weights w and steps with the job's rule on its own packets.
// Every tau steps (or when the job's sync condition is due), layer by layer, it fetches the centre
// c, computes d = alpha (w - c), sets w -= d, pushes d, and continues without waiting.
//
// Shard sync. Holds the centre c. async: each push is applied at once, c += d, in order of arrival.
// sync: all fetches of exchange k are answered with the same c. When the differences of all N
// workers have arrived, they are added to c in worker order, so c moves by beta = N alpha towards
// the mean. A fetch of exchange k + 1 waits until then.
//
// Messages per exchange, worker and block: one fetch, one weights, one push. Bytes: the block down
// and up.
//
// Invariants:
//   * the sum of all w plus c is the same before and after an exchange: the difference that leaves
//     w enters c, once;
//   * a worker's difference enters the centre once per exchange: a second push of the same step is
//     dropped;
//   * with alpha = 0 every worker trains alone.
//
// Evaluation, checkpoints and the final weights use the centre.
#include <algorithm>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/sync/centre.hpp"
#include "runtime/sync/local.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

struct elastic_policy {
  double alpha = 0.5;
  std::uint64_t tau = 10;
  bool together = false;  // variant "sync"
};

elastic_policy elastic_policy_of(const options& o, const job_plan& p) {
  elastic_policy e;
  const auto& alpha = o.values.find("alpha")->second;
  e.alpha = std::holds_alternative<std::string>(alpha) ? 0.9 / static_cast<double>(p.workers.size()) : std::get<double>(alpha);
  e.tau = static_cast<std::uint64_t>(o.integer("tau"));
  e.together = o.text("variant") == "sync";
  return e;
}

class elastic_worker final : public local_worker {
 public:
  elastic_worker(sync_config c, elastic_policy p) : local_worker(std::move(c)), policy_(p) {}

 private:
  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override { ask_due(layer, step + 1, policy_.tau, out); }
  void on_due(std::uint32_t layer, std::uint64_t done, bool due, effects& out) override {
    due ? fetch_layer(layer, done, out) : go_on(layer, done, out);
  }

  void on_centre(std::uint32_t layer, std::uint64_t step, tensors centre, effects& out) override {
    auto next = std::make_shared<tensors>();
    auto moved = std::make_shared<tensors>();  // by block
    task_cost cost{0, 0, "exchange"};
    for (auto p : layer_at(layer).params) {
      next->push_back(tensor::declare(replicas_[p].value.dims(), config_.type));
      cost.bytes += 6.0 * static_cast<double>(next->back().bytes());
    }
    for (auto id : layers_[layer].blocks) moved->push_back(tensor::declare({block_at(id).count}, config_.type));
    busy_[layer] = true;
    tasks_.run(
        [plan = config_.plan, graph = config_.graph, params = layer_at(layer).params, blocks = layers_[layer].blocks,
         mine = values_of(layer), alpha = policy_.alpha, centre = std::move(centre), next, moved](task_context& c) {
          for (std::size_t i = 0; i < params.size(); ++i) {
            (*next)[i].back(c.dev);
            c.dev.copy(mine[i], (*next)[i]);
          }
          for (std::size_t k = 0; k < moved->size(); ++k) {
            const auto& b = plan->blocks[blocks[k]];
            const auto i = static_cast<std::size_t>(std::find(params.begin(), params.end(), b.param) - params.begin());
            auto w = (*next)[i].slice(b.begin, {b.count});
            auto& d = (*moved)[k];
            d.back(c.dev);
            if (graph->params[b.param].frozen) {
              c.dev.fill(0, d);
              continue;
            }
            c.dev.apply(binary::subtract, w, centre[k], d);
            c.dev.scale(alpha, d);
            c.dev.axpy(-1.0, d, w);
          }
        },
        cost,
        [this, layer, step, next, moved](effects& more) {
          const auto& params = layer_at(layer).params;
          for (std::size_t i = 0; i < params.size(); ++i) replicas_[params[i]].value = (*next)[i];
          for (std::size_t k = 0; k < moved->size(); ++k) {
            const auto id = layers_[layer].blocks[k];
            auto h = to(shard_of(id));
            h.step = step;
            more.send({h, push{id, 0, 1, (*moved)[k]}});
          }
          exchanged(layer);
          release(layer, more);
          go_on(layer, step, more);
        },
        out);
  }

  void on_flush(std::uint64_t, effects& out) override { contribute(1.0, out); }

  elastic_policy policy_;
};

class elastic_shard final : public centre_shard {
 public:
  elastic_shard(sync_config c, elastic_policy p) : centre_shard(std::move(c)), policy_(p), moved_(lines_.size()) {}

 private:
  void apply(const header& h, const tensor& value, shard_block& b, effects& out) override {
    if (!policy_.together) return add(b, {value}, out);
    auto& moved = moved_[b.plan->id];
    moved[worker_of(h.src)] = value;
    if (moved.size() < workers()) return done(b, out);
    tensors all;
    for (auto& [worker, t] : moved) all.push_back(std::move(t));
    moved.clear();
    add(b, std::move(all), out);
  }

  // A fetch by a worker whose difference has already arrived belongs to the next exchange; the
  // centre has not moved yet.
  bool hold(const header& h, const shard_block& b) const override {
    return policy_.together && moved_[b.plan->id].count(worker_of(h.src)) > 0;
  }

  void add(shard_block& b, tensors moved, effects& out) {
    b.updating = true;
    b.next = lent(std::make_shared<block_update>());
    b.next->value = tensor::declare({b.plan->count}, config_.type);
    b.next->updates = b.updates;  // only the centre moves; rule states are in the workers
    const auto bytes = static_cast<double>(b.next->value.bytes()) * (1.0 + 2.0 * static_cast<double>(moved.size()));
    tasks_.run(
        [was = b.value, next = b.next.lend(), moved = std::move(moved),
         frozen = config_.graph->params[b.plan->param].frozen](task_context& c) {
          next->value.back(c.dev);
          c.dev.copy(was, next->value);
          for (const auto& d : moved)
            if (!frozen) c.dev.axpy(1.0, d, next->value);
        },
        {0, bytes, "centre"},
        [this, &b](effects& more) {
          b.next.give_back();
          update_.take({.block = &b}, more);
        },
        out);
  }

  void on_all_flushed(std::uint64_t, effects& out) override { fold_contributions(true, false, out); }

  elastic_policy policy_;
  std::vector<std::map<std::uint32_t, tensor>> moved_;  // sync: by block id, worker; added in this order
};

sync_mode elastic(const char* name, const char* doc, bool momentum) {
  auto alpha = real_option("alpha", 0.0,
                           "fraction of their difference by which worker and centre move towards each other, in [0, 1); \"auto\": "
                           "0.9 / number of workers",
                           0.0);
  alpha.choices = {"auto"};
  alpha.fallback = std::string("auto");
  return {
      .name = name,
      .doc = doc,
      .specs = {alpha, integer_option("tau", 10, "number of steps between two exchanges; not used if `when` is set", 1),
                choice_option(
                    "variant", {"async", "sync"},
                    "async: each worker exchanges on its own; sync: all workers exchange at the same steps, with the same centre")},
      .takes_when = true,
      .left = survivor_rule::newest,
      .check =
          [name, momentum](const options& o, const job_spec& j, const job_plan& p) {
            const auto e = elastic_policy_of(o, p);
            if (!(e.alpha >= 0 && e.alpha < 1)) throw option_error("alpha", "alpha must be at least 0 and less than 1");
            one_centre(p, name);
            if (e.together && j.train.when)
              throw option_error("variant",
                                 "variant = \"sync\" exchanges every tau steps, the same for all workers: it takes no `when`");
            if (momentum && j.train.rule.kind != "nesterov")
              throw option_error("", "eamsgd steps with Nesterov's momentum: set rule = \"nesterov\" in dynamics");
          },
      .make_worker =
          [](sync_config c) {
            const auto p = elastic_policy_of(c.mode, *c.plan);
            return std::make_unique<elastic_worker>(std::move(c), p);
          },
      .make_shard =
          [](sync_config c) {
            const auto p = elastic_policy_of(c.mode, *c.plan);
            return std::make_unique<elastic_shard>(std::move(c), p);
          }};
}

}  // namespace

sync_mode easgd_mode() {
  return elastic("easgd",
                 "Elastic averaging SGD: workers train on their own weights, and every tau steps a worker and a common centre move "
                 "towards each other. Zhang, Choromanska, LeCun 2015.",
                 false);
}
sync_mode eamsgd_mode() {
  return elastic(
      "eamsgd",
      "Elastic averaging SGD (easgd) with Nesterov's momentum in the workers. Zhang, Choromanska, LeCun 2015, Algorithm 2.", true);
}

}  // namespace troupe
