// Plugin with a synchronisation mode: elastic averaging (Zhang et al. 2015, Algorithm 1) with a
// pull that fades. In its k-th exchange a worker moves by alpha / (1 + k / fade) of its distance to
// the centre, so that workers first agree and then explore.
//
// Worker sync: every `tau` steps fetches the centre c of a layer; d = pull (w - c); w -= d; pushes
// d.
// Shard sync: c += d.
// Invariant: w plus c is the same before and after an exchange.
#include <algorithm>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/sync/centre.hpp"
#include "runtime/sync/local.hpp"

namespace {

using namespace troupe;

class fading_worker final : public local_worker {
 public:
  explicit fading_worker(sync_config c)
      : local_worker(std::move(c)),
        tau_(static_cast<std::uint64_t>(config_.mode.integer("tau"))),
        alpha_(config_.mode.real("alpha")),
        fade_(config_.mode.real("fade")) {}

 private:
  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override { ask_due(layer, step + 1, tau_, out); }
  void on_due(std::uint32_t layer, std::uint64_t done, bool due, effects& out) override {
    if (due)
      fetch_layer(layer, done, out);
    else
      go_on(layer, done, out);
  }

  void on_centre(std::uint32_t layer, std::uint64_t step, tensors centre, effects& out) override {
    const auto& params = layer_at(layer).params;
    const double pull = alpha_ / (1.0 + static_cast<double>(step / tau_) / fade_);
    auto next = std::make_shared<tensors>(), moved = std::make_shared<tensors>();
    for (auto p : params) {
      next->push_back(tensor::declare(replicas_[p].value.dims(), config_.type));
      moved->push_back(tensor::declare(replicas_[p].value.dims(), config_.type));
    }
    busy_[layer] = true;
    tasks_.run(
        [plan = config_.plan, params, blocks = layers_[layer].blocks, mine = values_of(layer), pull, centre = std::move(centre),
         next, moved](task_context& c) {
          join_blocks(c.dev, *plan, params, blocks, centre, *moved);
          for (std::size_t i = 0; i < mine.size(); ++i) {
            auto& d = (*moved)[i];
            (*next)[i].back(c.dev);
            c.dev.apply(binary::subtract, mine[i], d, (*next)[i]);
            c.dev.copy((*next)[i], d);
            c.dev.scale(pull, d);
            c.dev.apply(binary::subtract, mine[i], d, (*next)[i]);
          }
        },
        {0, 0, "fading"},
        [this, layer, step, next, moved](effects& more) {
          const auto& of_layer = layer_at(layer).params;
          for (std::size_t i = 0; i < of_layer.size(); ++i) replicas_[of_layer[i]].value = (*next)[i];
          push_layer(layer, step, *moved, more);
          exchanged(layer);
          release(layer, more);
          go_on(layer, step, more);
        },
        out);
  }

  void on_flush(std::uint64_t, effects& out) override { contribute(1.0, out); }

  std::uint64_t tau_;
  double alpha_, fade_;
};

class fading_shard final : public centre_shard {
 public:
  explicit fading_shard(sync_config c) : centre_shard(std::move(c)) {}

 private:
  void apply(const header&, const tensor& value, shard_block& b, effects& out) override {
    auto next = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    tasks_.run(
        [&b, value, next](task_context& c) {
          next->back(c.dev);
          c.dev.copy(b.value, *next);
          c.dev.axpy(1.0, value, *next);
        },
        {0, 0, "centre"},
        [this, &b, next](effects& more) {
          b.value = *next;
          done(b, more);
        },
        out);
  }
  void on_all_flushed(std::uint64_t, effects& out) override { fold_contributions(true, false, out); }
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  sync_mode m;
  m.name = "fading";
  m.doc = "Elastic averaging whose pull fades with the number of exchanges. After Zhang, Choromanska, LeCun 2015.";
  m.specs = {real_option("alpha", 0.5, "the first pull, in [0, 1)", 0.0, 0.999),
             integer_option("tau", 4, "steps between two exchanges", 1),
             real_option("fade", 100.0, "exchanges after which the pull is halved", 1e-9)};
  m.takes_when = true;
  m.make_worker = [](sync_config c) { return std::make_unique<fading_worker>(std::move(c)); };
  m.make_shard = [](sync_config c) { return std::make_unique<fading_shard>(std::move(c)); };
  t.modes.add(std::move(m));
}
