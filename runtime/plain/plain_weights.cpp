#include "runtime/plain/plain_weights.hpp"

#include <algorithm>

#include "ops/clip.hpp"
#include "ops/device.hpp"
#include "ops/rules/average.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/reduce/fold.hpp"

namespace troupe {

plain_weights::plain_weights(std::shared_ptr<const prepared_job> j, std::shared_ptr<device> d, std::vector<std::uint32_t> delays)
    : job_(std::move(j)),
      dev_(std::move(d)),
      rule_(make_rule(*job_)),
      rate_(make_rate(job_->spec, *job_->all)),
      delays_(std::move(delays)) {
  const auto states = rule_->states();
  const auto values = initial_weights(*job_, *dev_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& p = job_->graph.params[i];
    parameter mine;
    mine.value = values[i].second;
    mine.trained =
        p.spec.trainable && !p.frozen && job_->graph.layers[p.layer].wants_backward && job_->graph.layers[p.layer].in_train;
    for (const auto& s : states) {
      auto t = tensor::allocate(*dev_, p.spec.dims, job_->spec.parameter_type());
      const tensor* have = nullptr;
      for (const auto& [name, value] : given(*job_))
        if (name == p.full_name + "@" + s) have = &value;
      if (have)
        dev_->copy(*have, t);
      else if (s == average_state)
        dev_->copy(mine.value, t);
      else
        dev_->fill(0, t);
      mine.rule.push_back(std::move(t));
    }
    all_.push_back(std::move(mine));
  }
}

tensors plain_weights::of(const graph_layer& l, std::uint64_t step) const {
  tensors list;
  if (delays_.empty()) {
    for (auto p : l.params) list.push_back(all_[p].value);
    return list;
  }
  const auto back = std::min<std::uint64_t>(delays_[l.index], step - job_->first_step);
  for (auto p : l.params) list.push_back(versions_.at(step - back)[p]);
  return list;
}

void plain_weights::keep_version(std::uint64_t step) {
  if (delays_.empty()) return;
  auto& now = versions_[step];
  for (const auto& p : all_) {
    now.push_back(tensor::allocate(*dev_, p.value.dims(), p.value.type()));
    dev_->copy(p.value, now.back());
  }
  const auto most = *std::max_element(delays_.begin(), delays_.end());
  versions_.erase(versions_.begin(), versions_.lower_bound(step > most ? step - most : 0));
}

// Null if the layer has no gradients.
const tensors* plain_weights::sum_of(std::vector<packet_tree<tensors>>& sums, const graph_layer& l) const {
  return sums[l.index].find(root_of(job_->plan.packets));
}

double plain_weights::square_sum_of(const tensor& x) const {
  tensor sum = tensor::allocate(*dev_, shape{1}, dtype::f64);
  dev_->sum_squares(x, sum);
  return dev_->scalar(sum);
}

// The factor of clipping by norm, applied to every gradient. The norm is over all gradients of
// trained parameters.
double plain_weights::norm_clip(std::vector<packet_tree<tensors>>& sums) const {
  const double most = job_->spec.train.clip.norm;
  if (most <= 0) return 1.0;
  std::vector<double> squares;
  for (const auto& l : job_->graph.layers) {
    const auto* sum = sum_of(sums, l);
    for (std::size_t k = 0; sum && k < l.params.size(); ++k)
      if (trained(l.params[k])) squares.push_back(square_sum_of((*sum)[k]));
  }
  return norm_clip_factor(most, squares, 1.0 / job_->plan.packets);
}

void plain_weights::update(std::vector<packet_tree<tensors>>& sums, std::uint64_t step) {
  const auto& train = job_->spec.train;
  const double clip = norm_clip(sums);
  for (const auto& l : job_->graph.layers) {
    const auto* sum = sum_of(sums, l);
    if (!sum) continue;
    for (std::size_t k = 0; k < l.params.size(); ++k) {
      auto& mine = all_[l.params[k]];
      const auto& spec = job_->graph.params[l.params[k]].spec;
      if (!spec.trainable && !job_->graph.params[l.params[k]].frozen)
        fold_statistics(*dev_, spec, job_->plan.packets, mine.value, (*sum)[k], mine.value);
      if (!mine.trained) continue;
      rule_step in;
      in.step = step;
      in.updates = step;
      in.grad_scale = 1.0 / job_->plan.packets * clip;
      in.clip_value = train.clip.value;
      in.lr = rate_->lr(train.lr, step) * spec.lr_multiplier;
      in.decay = train.decay * spec.decay_multiplier;
      in.decay_l1 = train.decay_l1 * spec.decay_multiplier;
      rule_->update(*dev_, in, mine.value, (*sum)[k], mine.value, mine.rule, mine.rule);
    }
  }
}

std::vector<std::pair<std::string, tensor>> plain_weights::named() const {
  std::vector<std::pair<std::string, tensor>> list;
  for (std::size_t i = 0; i < all_.size(); ++i)
    list.emplace_back(job_->graph.params[i].full_name, brought_home(*dev_, all_[i].value));
  dev_->finish_task();
  return list;
}

}  // namespace troupe
