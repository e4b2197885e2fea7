// Mistakes that a host or the protocol of the control plane could have, planted in a simulated
// cluster: each one violates an invariant of the fleet once faults hit the job.
#pragma once

#include "tests/recovery/laws.hpp"

namespace troupe::recovery {

enum class planted : std::uint8_t {
  none,
  fence_off,            // roles receive messages of earlier plans
  report_lost,          // the coordinator does not get the reports of nodes that have made a plan
  ready_early,          // a node reports the next plan ready before it has made it
  swapped_early,        // a node confirms a plan before it has the plan's roles
  lost_handover,        // the state that a plan hands over is lost
  old_handover,         // the next plan gets the state of the handover before
  roles_stay,           // a node does not end its roles when it has lost the coordinator
  trouble_lost,         // a lost data connection is not reported
  silence_ignored,      // the coordinator does not learn that a node is lost
  begin_lost,           // a plan after the first one is never begun
  begins_twice,         // a recovered plan begins twice
  swap_lost,            // one node is not told to swap
  forget_lost,          // nodes are not told that a plan was dropped
  recovery_unsaid,      // a recovery is not reported
  last_event_again,     // the job's last event is sent twice after a recovery
  journal_without_job,  // the line of an accepted job is not written
  journal_without_end,  // the line of a job's end is not written
  checkpoint_reported,  // a checkpoint is reported saved, and is lost
  end
};

inline const char* name_of(planted p) {
  constexpr const char* all[] = {"none",
                                 "fence_off",
                                 "report_lost",
                                 "ready_early",
                                 "swapped_early",
                                 "lost_handover",
                                 "old_handover",
                                 "roles_stay",
                                 "trouble_lost",
                                 "silence_ignored",
                                 "begin_lost",
                                 "begins_twice",
                                 "swap_lost",
                                 "forget_lost",
                                 "recovery_unsaid",
                                 "last_event_again",
                                 "journal_without_job",
                                 "journal_without_end",
                                 "checkpoint_reported"};
  return all[static_cast<std::size_t>(p)];
}

template <class M>
const M* message_in(const auto& order) {
  const auto* to = std::get_if<control::to_peer>(&order);
  return to ? std::get_if<M>(&to->what) : nullptr;
}

// What happened before in a run, for mistakes that need it.
struct planted_state {
  std::uint32_t generation = 0;  // of the newest plan that nodes were told to make
  std::uint32_t skipped = 0;     // the plan of which one node was not told to swap
  std::optional<store_effect> handed;
};

inline void mistake_of_controller(planted p, planted_state& s, control::orders& all) {
  for (const auto& o : all)
    if (const auto* r = message_in<control::revise>(o)) s.generation = r->plan_generation;
  const auto leave_out = [&](auto which) { std::erase_if(all, which); };
  const auto journal = [](const control::order& o, const char* what) {
    const auto* l = std::get_if<control::journal_line>(&o);
    return l && l->line.find(what) != std::string::npos;
  };
  switch (p) {
    case planted::begin_lost:
      return leave_out([&](const auto& o) { return s.generation > 0 && std::holds_alternative<control::begin_job>(o); });
    case planted::begins_twice:
      for (std::size_t i = 0; i < all.size() && s.generation > 0; ++i)
        if (std::holds_alternative<control::begin_job>(all[i])) {
          const auto again = all[i];
          all.insert(all.begin() + static_cast<std::ptrdiff_t>(i++), again);
        }
      return;
    case planted::swap_lost:
      return leave_out([&](const auto& o) {
        const auto* w = message_in<control::swap>(o);
        return w && s.skipped != w->plan_generation && (s.skipped = w->plan_generation, true);
      });
    case planted::forget_lost: return leave_out([](const auto& o) { return message_in<control::forget>(o) != nullptr; });
    case planted::recovery_unsaid:
      return leave_out([](const auto& o) {
        const auto* f = std::get_if<control::followed_event>(&o);
        return f && f->what.event.template is<recovered_event>();
      });
    case planted::last_event_again:
      for (std::size_t i = 0; i < all.size() && s.generation > 0; ++i)
        if (const auto* e = message_in<control::said>(all[i]); e && e->kind == "done") {
          const auto again = all[i];
          all.insert(all.begin() + static_cast<std::ptrdiff_t>(i++), again);
        }
      return;
    case planted::journal_without_job: return leave_out([&](const auto& o) { return journal(o, "\"is\":\"queued\""); });
    case planted::journal_without_end: return leave_out([&](const auto& o) { return journal(o, "\"is\":\"over\""); });
    default: return;
  }
}

inline void mistake_of_member(planted p, control::member_orders& all) {
  if (p == planted::roles_stay) std::erase_if(all, [](const auto& o) { return std::holds_alternative<control::end_roles>(o); });
  if (p == planted::trouble_lost)
    std::erase_if(all, [](const auto& o) {
      const auto* r = message_in<control::revised>(o);
      return message_in<control::trouble>(o) || (r && !r->error.empty());
    });
  if (p != planted::ready_early && p != planted::swapped_early) return;
  control::member_orders early;
  for (const auto& o : all) {
    if (const auto* m = std::get_if<control::make_plan_order>(&o); m && p == planted::ready_early)
      early.push_back(control::to_peer{"n1", control::revised{m->what.what.job, m->what.plan_generation, {}, {}}});
    if (const auto* w = std::get_if<control::swap_roles>(&o); w && p == planted::swapped_early)
      early.push_back(control::to_peer{"n1", control::swapped{w->what.job, w->what.plan_generation, 0, {}}});
  }
  all.insert(all.end(), early.begin(), early.end());
}

inline void plant(fleet_config& c, planted p) {
  const auto s = std::make_shared<planted_state>();
  c.no_fence = p == planted::fence_off;
  if (p == planted::none) return;
  c.wrong.of_controller = [p, s](std::uint32_t, control::orders& all) { mistake_of_controller(p, *s, all); };
  c.wrong.of_member = [p](std::uint32_t, control::member_orders& all) { mistake_of_member(p, all); };
  if (p == planted::report_lost)
    c.wrong.takes = [](std::uint32_t, control::message& m) { return !std::holds_alternative<control::revised>(m); };
  if (p == planted::silence_ignored) c.wrong.hears_end = [](std::uint32_t node, std::uint32_t) { return node != 0; };
  c.wrong.keeps = [p, s](std::uint32_t, store_effect& e) {
    if (p == planted::checkpoint_reported) return e.what != store_effect::kind_of::checkpoint;
    if (e.what != store_effect::kind_of::handover) return true;
    if (p == planted::lost_handover) return false;
    if (p == planted::old_handover) {
      const auto now = e;
      if (s->handed) e = *s->handed;
      s->handed = now;
    }
    return true;
  };
}

}  // namespace troupe::recovery
