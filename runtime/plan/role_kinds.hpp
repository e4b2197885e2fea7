// The kinds of roles: one descriptor per kind. Code that depends on what a role does reads its
// descriptor (`role_plan::traits()`) instead of comparing kinds. A new kind needs a name here, a
// descriptor in role_kinds.cpp, its construction in runtime/job/casting.cpp, a case in each switch
// that the compiler names (cost/plan_memory.cpp, apps/commands/plan_roles.cpp), and the role
// itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe {

struct job_plan;
struct job_spec;
struct model_graph;
struct plan_draft;
struct plan_options;
struct role_plan;

enum class role_kind : std::uint8_t { coordinator, loader, stage, worker, shard, reducer, tester, data_server, replica };
const char* name_of(role_kind k);

// Whose gradients it adds: those of its own packets, or what others have added of theirs.
enum class role_sums : std::uint8_t { none, of_packets, of_others };

// A role's part in a job: whatever is not said, it does not.
struct role_duties {
  bool hosts_layers = false;     // it has layers, parts of them, sub-solvers and edges that lead to it
  bool loads = false;            // packets begin with it: edges lead from it to those that host layers
  bool reads_examples = false;   // `slots` packets of them at once
  bool owns_parameters = false;  // blocks of them lie with it
  role_sums adds = role_sums::none;
  bool passes_packets = false;  // packets, or gradients of them, go through it: where layers are placed it may be lost alone
  bool gives_way = false;       // what it computes is long, and waits for packets where others may (seat::gives_way)
};

// No member has a default: a descriptor that leaves one out does not compile.
struct role_traits {
  role_kind kind;
  const char* name;  // in plans and JSON
  // Roles of this kind as the plan lists them, each once.
  std::vector<role_id> (*listed)(const job_plan&);
  // Drawn behind everybody else, in the order of the rows. Null: an earlier step of make_plan draws
  // them (plan.cpp).
  void (*draw)(plan_draft&, const plan_options&);

  role_duties does;
  const char* gone;  // what nobody else has once it is lost, as the end of a sentence; null: it comes back
};

std::span<const role_traits> role_table();  // by role_kind
const role_traits& traits_of(role_kind k);

}  // namespace troupe
