// The kinds of roles: one descriptor per kind. Code that depends on what a role does reads its
// descriptor (`role_plan::traits()`) instead of comparing kinds. A new kind needs a name here, a
// descriptor in role_kinds.cpp, its construction in runtime/job/casting.cpp, a case in each switch
// that the compiler names (cost/plan_memory.cpp, apps/commands/look/plan_roles.cpp), and the role
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

// Which gradients a role adds: those of its own packets, or sums received from other roles.
enum class role_sums : std::uint8_t { none, of_packets, of_others };

// The duties of a role. A duty that its descriptor does not set is not one of the kind.
struct role_duties {
  bool hosts_layers = false;     // it has layers, parts of layers, sub-solvers and incoming edges
  bool loads = false;            // packets start at it: it has edges to roles that host layers
  bool reads_examples = false;   // of `slots` packets at once
  bool owns_parameters = false;  // it holds blocks of them
  role_sums adds = role_sums::none;
  bool passes_packets = false;  // packets, or gradients of packets, pass through it
  bool gives_way = false;       // its long tasks wait while sub-solvers have queued tasks (seat::gives_way)
};

// No member has a default: a descriptor that leaves one out does not compile.
struct role_traits {
  role_kind kind;
  const char* name;  // in plans and JSON
  // Roles of this kind in the plan, each once.
  std::vector<role_id> (*listed)(const job_plan&);
  // Adds roles of this kind after all others, in the order of the table. Null: an earlier step of
  // make_plan adds them (plan.cpp).
  void (*draw)(plan_draft&, const plan_options&);

  role_duties does;
};

std::span<const role_traits> role_table();  // by role_kind
const role_traits& traits_of(role_kind k);

}  // namespace troupe
