// Whether a job is stuck, and what holds it up: the roots of the waits (waits.hpp), and for how
// long they may last. Pure.
//
// Stuck are: a silent node that is needed, a failed role for which others wait, and a root that has
// lasted longer than stuck_after(). A pause by a user does not count.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/repl/waits.hpp"

namespace troupe {

// Seconds. `usual_step`: the median time of a step of the job; nullopt: unknown, as before its
// second step.
double stuck_after(std::optional<double> usual_step);

struct diagnosis {
  struct cause {
    wait_root root;
    bool stuck = false;
  };
  struct silent_node {
    std::string name, why;
    bool needed = false;  // it has roles of a running job, or is the coordinator's
  };
  std::vector<cause> causes;
  std::vector<silent_node> silent;  // nodes that do not answer
  std::optional<double> usual_step;
  std::size_t roles = 0;  // 0: no job runs, or the active one waits for its nodes or is ending
  bool stuck() const;
};

// `v`: nodes that do not answer have the state "silent" and the reason as note; their roles are in
// the view, with empty states.
diagnosis diagnose(const repl_view& v, std::optional<double> usual_step);

std::string diagnosis_text(const repl_view& v, const diagnosis& d);
nlohmann::ordered_json diagnosis_object(const repl_view& v, const diagnosis& d);

}  // namespace troupe
