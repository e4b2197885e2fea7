// A job whose placement users change while it runs, and that loses nodes, in the simulator: each
// plan generation has its own world, and only the coordinator's handover passes from one to the
// next.
#pragma once

#include <functional>
#include <optional>

#include "runtime/job/amend.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {

struct wish {
  std::uint64_t after = 0;  // the command is sent when this step is complete
  command what;
  duration later{};  // and this much later
};
inline command move_key(const std::string& layer, const std::string& node) { return {"move", layer, 0, {{"node", node}}}; }

struct moved_result : run_result {
  std::vector<std::string> moved, refused;  // texts of the wishes that were granted, and of those that were refused
  std::vector<std::string> unheard;         // why other commands were refused
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
      if (!why && wishes_[wished_].what.name == "lose") {
        lose(w, wishes_[wished_]);
      } else if (!why) {
        tell(w, {"handover", mode_text(*next_), 0, {}});
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
    tell(w, {"handover", mode_text(*next_), 0, {}});
  }

  // Crashes the nodes after `what.later`. 20 ms later the host reports this to the coordinator.
  void lose(sim::world& w, const wish& what) {
    auto question = what.what;
    question.name = "surviving_state";
    w.at(w.now() + what.later, [this, &w, nodes = what.what.options] {
      for (const auto& [key, name] : nodes)
        for (std::uint32_t n = 0; n < now_->plan.nodes.size(); ++n)
          if (now_->plan.nodes[n].name == name) w.crash(n);
    });
    w.at(w.now() + what.later + std::chrono::milliseconds(20), [&w, question] { tell(w, question); });
  }

  // Makes the next plan, or returns why there is none.
  std::optional<std::string> plan_for(const command& what) {
    auto a = amended(*now_, words_, what);
    if (const auto* why = std::get_if<std::string>(&a)) return *why;
    auto made = prepare_again(original_, std::get<amendments>(a));
    if (const auto* bad = std::get_if<diagnostics>(&made)) return bad->front().message;
    next_ = std::get<std::shared_ptr<prepared_job>>(made);
    wanted_ = std::get<amendments>(a);
    return std::nullopt;
  }

  void count_commands(const envelope& e) {
    if (const auto* c = std::get_if<command>(&e.body))
      out_.announced += c->name == "mode" || c->key.starts_with("train.sync.") ? 1 : 0;
  }

  void received(sim::world& w, const event_effect& e) {
    out_.events.push_back(e);
    out_.done = out_.done || e.kind == "done" || e.kind == "error";
    if (e.kind == "mode") set_mode(words_, e.text);
    if (e.kind == "refused" && e.values.empty()) out_.unheard.push_back(e.text);
    if (e.kind == "refused" && !e.values.empty() && wishes_[wished_].what.name == "lose") {
      out_.nothing_left = e.text;
    } else if (e.kind == "refused" && !e.values.empty()) {  // the handover
      out_.refused.push_back(e.text);
      next_.reset();
      ++wished_;
    }
    if (e.kind == "balance" && !next_) w.at(w.now(), [this, &w, what = balance_as(e)] { propose(w, what); });
    if (e.kind != "step") return;
    if (e.step != last_step_ + 1 && out_.first_uneven == 0) out_.first_uneven = e.step;
    last_step_ = e.step;
    w.at(w.now(), [this, &w, step = e.step] { look(w, step); });
  }

  void stored(const store_effect& s) {
    if (s.what == "weights") out_.weights = s.named;
    if (s.what == "best") out_.best.push_back(s);
    if (s.what != "handover") return;
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
