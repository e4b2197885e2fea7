// A job that people re-place while it runs, in the simulator: each plan has a world of its own, and what the coordinator hands over is all
// that passes from one to the next.
#pragma once

#include "runtime/job/amend.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {

struct wish {
  std::uint64_t after = 0;  // said when this step is complete
  command what;
  duration later{};  // or so much later
};
inline command move_word(const std::string& layer, const std::string& node) { return {"move", layer, 0, {{"node", node}}}; }

struct moved_result : run_result {
  std::vector<std::string> moved, refused;  // wishes, as people are told of them
  std::vector<std::string> unheard;         // why other words were refused
  std::uint64_t told = 0;                   // words about the mode that have reached a coordinator
  std::vector<std::uint64_t> at;            // the steps of the first
  std::uint64_t first_uneven = 0;           // a step that did not follow the one before; 0: none
};

// Wishes in the order of their steps; those whose time has passed come as soon as the next plan runs. `also`: other words, by step.
inline moved_result run_moved(const std::shared_ptr<prepared_job>& original, const std::vector<wish>& wishes, sim::world_config c,
                              const std::vector<wish>& also = {}) {
  moved_result out;
  amendments words;
  std::shared_ptr<const prepared_job> now = original;
  std::shared_ptr<prepared_job> next;
  std::size_t wished = 0, said = 0;
  std::uint64_t last_step = 0;
  while (!out.done) {
    sim::world w(c);
    bool handed = false;
    next.reset();
    amendments wanted;
    const auto tell = [&](command what) {
      envelope e;
      e.h.dst = role_id{0};
      e.body = std::move(what);
      w.inject(std::move(e));
    };
    const auto look = [&](std::uint64_t step) {
      for (; said < also.size() && also[said].after <= step; ++said)
        w.at(w.now() + also[said].later, [&tell, what = also[said].what] { tell(what); });
      while (!next && wished < wishes.size() && wishes[wished].after <= step) {
        auto a = amended(*now, words, wishes[wished].what);
        const auto* why = std::get_if<std::string>(&a);
        if (!why) {
          auto made = prepare_again(original, std::get<amendments>(a));
          if (const auto* bad = std::get_if<diagnostics>(&made)) {
            out.refused.push_back(bad->front().message);
          } else {
            next = std::get<std::shared_ptr<prepared_job>>(made);
            wanted = std::get<amendments>(a);
            tell({"handover", mode_text(*next), 0, {}});
            continue;
          }
        } else {
          out.refused.push_back(*why);
        }
        ++wished;
      }
    };
    w.on_deliver = [&](const envelope& e, time_point) {
      if (const auto* said_now = std::get_if<command>(&e.body))
        out.told += said_now->name == "mode" || said_now->key.starts_with("train.sync.") ? 1 : 0;
    };
    w.on_event = [&](const event_effect& e) {
      out.events.push_back(e);
      out.done = out.done || e.kind == "done" || e.kind == "error";
      if (e.kind == "mode") set_mode(words, e.text);
      if (e.kind == "refused" && e.values.empty()) out.unheard.push_back(e.text);
      if (e.kind == "refused" && !e.values.empty()) {  // the handover
        out.refused.push_back(e.text);
        next.reset();
        ++wished;
      }
      if (e.kind != "step") return;
      if (e.step != last_step + 1 && out.first_uneven == 0) out.first_uneven = e.step;
      last_step = e.step;
      w.at(w.now(), [&, step = e.step] { look(step); });
    };
    w.on_store = [&](const store_effect& s) {
      if (s.what == "weights") out.weights = s.named;
      if (s.what != "handover") return;
      handed = true;
      continue_at(*next, s.step, s.with, s.named);
      out.at.push_back(s.step);
    };
    for (const auto& r : now->plan.roles) w.add(r.id, r.node, make_role(now, r.id), r.device);
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    w.inject(go);
    look(now->first_step);
    EXPECT_TRUE(w.run(5'000'000, [&] { return out.done || handed; })) << "no end, seed " << c.seed;
    if (!out.done && !handed) {
      ADD_FAILURE() << "the world fell silent, seed " << c.seed;
      break;
    }
    if (out.done) break;
    const auto mode = words;
    words = wanted;
    words.mode = mode.mode, words.mode_options = mode.mode_options;
    out.moved.push_back(done_text(wishes[wished++].what));
    now = next;
    ++c.seed;
  }
  return out;
}

}  // namespace troupe::testing
