// A job whose placement users change while it runs, and that loses nodes, in the simulator: each
// plan generation has its own world, and only the coordinator's handover passes from one to the
// next.
#pragma once

#include <functional>
#include <optional>

#include "runtime/base/result.hpp"
#include "runtime/job/amend.hpp"
#include "tests/sim/small_job.hpp"
#include "tests/valid_events.hpp"

namespace troupe::testing {

struct wish {
  std::uint64_t after = 0;  // the command is sent when this step is complete
  command what;
  duration later{};  // and this much later
};
inline command move_key(const std::string& layer, const std::string& node) { return {move_command{layer, node}}; }

struct moved_result : run_result {
  std::vector<std::string> moved, refused;  // texts of the wishes that were granted, and of those that were refused
  std::vector<std::string> unheard;         // why other commands without an id were refused
  std::uint64_t announced = 0;              // commands about the mode that reached a coordinator
  std::vector<std::uint64_t> at;            // the steps of the granted wishes
  std::uint64_t first_uneven = 0;           // the first step that did not follow its predecessor; 0: none
  std::vector<store_effect> best;           // stores of the best weights, over all plans
  std::string nothing_left;                 // why the job could not continue after node failures; empty: it could
};

// The job's run over all its plan generations. Wishes are in the order of their steps; a wish whose
// step has passed is sent as soon as the next plan runs.
class moving_run {
 public:
  moving_run(std::shared_ptr<prepared_job> original, std::vector<wish> wishes, std::vector<wish> also)
      : original_(std::move(original)), wishes_(std::move(wishes)), also_(std::move(also)), now_(original_) {}

  // `of_plan` changes the configuration of the world of each plan, counted from 0.
  moved_result run(sim::world_config c, const std::function<void(std::size_t, sim::world_config&)>& of_plan = {}) {
    while (!out_.done) {
      if (of_plan) of_plan(out_.moved.size(), c);
      sim::world w(c);
      if (!one_plan(w, c.seed) || out_.done) break;
      const auto mode = words_;
      words_ = wanted_;
      words_.mode = mode.mode, words_.mode_options = mode.mode_options;
      out_.moved.push_back(done_text(proposed_ ? *proposed_ : wishes_[wished_++].what));
      proposed_.reset();
      now_ = next_;
      ++c.seed;
    }
    return std::move(out_);
  }

 private:
  // Returns false if the job neither ended nor handed over.
  bool one_plan(sim::world& w, std::uint64_t seed) {
    handed_ = false;
    next_.reset();
    wanted_ = {};
    w.on_deliver = [this](const envelope& e, time_point) { count_commands(e); };
    w.on_event = [&](const event_effect& e) { received(w, e); };
    w.on_store = [this](const store_effect& s) { stored(s); };
    for (const auto& r : now_->plan.roles) w.add(r.id, r.node, make_role(now_, r.id), r.device);
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    w.inject(go);
    look(w, now_->first_step);
    const auto over = [this] { return out_.done || handed_ || !out_.nothing_left.empty(); };
    EXPECT_TRUE(w.run(5'000'000, over)) << "the job did not end, seed " << seed;
    if (!out_.nothing_left.empty()) return false;
    if (out_.done || handed_) return true;
    auto& coordinator = *w.find(role_id{0});
    ADD_FAILURE() << "no events are left, seed " << seed << ": the coordinator waits for " << coordinator.status().waits_for;
    return false;
  }

  static void tell(sim::world& w, command what) {
    envelope e;
    e.h.dst = role_id{0};
    e.body = std::move(what);
    w.inject(std::move(e));
  }

  // Sends the commands that are due at this step.
  void look(sim::world& w, std::uint64_t step) {
    for (; said_ < also_.size() && also_[said_].after <= step; ++said_)
      w.at(w.now() + also_[said_].later, [&w, what = also_[said_].what] { tell(w, what); });
    while (!next_ && wished_ < wishes_.size() && wishes_[wished_].after <= step) {
      const auto why = plan_for(wishes_[wished_].what);
      if (!why && wishes_[wished_].what.is<lose_command>()) {
        lose(w, wishes_[wished_]);
      } else if (!why) {
        tell(w, {handover_command{mode_of(*next_)}});
      } else {
        out_.refused.push_back(*why);
        ++wished_;
      }
    }
  }

  // Does what hosts do with the coordinator's proposal.
  void propose(sim::world& w, const command& what) {
    if (next_) return;
    if (const auto why = plan_for(what)) return out_.refused.push_back(*why);
    proposed_ = what;
    tell(w, {handover_command{mode_of(*next_)}});
  }

  // Ends the nodes after `what.later`. 20 ms later the host reports this to the coordinator.
  void lose(sim::world& w, const wish& what) {
    const auto nodes = what.what.as<lose_command>()->nodes;
    w.at(w.now() + what.later, [this, &w, nodes] {
      for (const auto& name : nodes)
        for (std::uint32_t n = 0; n < now_->plan.nodes.size(); ++n)
          if (now_->plan.nodes[n].name == name) w.die(n);
    });
    w.at(w.now() + what.later + std::chrono::milliseconds(20), [&w, nodes] { tell(w, command{surviving_state_command{nodes}}); });
  }

  // Makes the next plan, or returns why there is none.
  std::optional<std::string> plan_for(const command& what) {
    auto a = amended(*now_, words_, what);
    if (!a) return a.error().text;
    auto made = prepare_again(original_, *a);
    if (!made) return made.error().front().message;
    next_ = *made;
    wanted_ = *a;
    return std::nullopt;
  }

  void count_commands(const envelope& e) {
    if (const auto* c = std::get_if<command>(&e.body))
      out_.announced += c->is<mode_command>() || c->is<set_option_command>() ? 1 : 0;
  }

  void received(sim::world& w, const event_effect& e) {
    valid_events::expect_valid(e);
    out_.events.push_back(e);
    out_.done = out_.done || e.is<done_event>() || e.is<error_event>();
    if (const auto* m = e.as<mode_event>()) set_mode(words_, m->mode);
    if (e.is<refused_event>() && e.answers.empty()) out_.unheard.push_back(message_of(e));
    if (e.is<handover_refused_event>() && wishes_[wished_].what.is<lose_command>()) {
      out_.nothing_left = message_of(e);
    } else if (e.is<handover_refused_event>()) {
      out_.refused.push_back(message_of(e));
      next_.reset();
      ++wished_;
    }
    if (const auto* b = e.as<balance_event>(); b && !next_)
      w.at(w.now(), [this, &w, what = command{balance_command{b->packets}}] { propose(w, what); });
    if (!e.is<step_event>()) return;
    if (e.step != last_step_ + 1 && out_.first_uneven == 0) out_.first_uneven = e.step;
    last_step_ = e.step;
    w.at(w.now(), [this, &w, step = e.step] { look(w, step); });
  }

  void stored(const store_effect& s) {
    if (s.what == store_effect::kind_of::weights) out_.weights = s.named;
    if (s.what == store_effect::kind_of::best) out_.best.push_back(s);
    if (s.what != store_effect::kind_of::handover) return;
    handed_ = true;
    continue_at(*next_, s.step, s.with, s.named);
    out_.at.push_back(s.step);
  }

  const std::shared_ptr<prepared_job> original_;
  const std::vector<wish> wishes_, also_;
  std::shared_ptr<const prepared_job> now_;
  std::shared_ptr<prepared_job> next_;  // the plan of the requested handover
  amendments words_, wanted_;           // of the current plan; of the next
  std::optional<command> proposed_;     // the request, if it is the coordinator's
  bool handed_ = false;
  std::size_t wished_ = 0, said_ = 0;
  std::uint64_t last_step_ = 0;
  moved_result out_;
};

// `also`: other commands, by step.
inline moved_result run_moved(const std::shared_ptr<prepared_job>& original, const std::vector<wish>& wishes, sim::world_config c,
                              const std::vector<wish>& also = {}) {
  return moving_run(original, wishes, also).run(std::move(c));
}

}  // namespace troupe::testing
