// What a loader is to load, and in which order: training packets that it may load, then those of
// evaluation.
//   training    its worker's range of every step below the grant; or, with `dynamic`, the packets that portions name, as they came
//   evaluation  of every round, the packets that are this loader's; a round at version v comes after every packet of steps < v, but for
//               a tester, whose version is the round, and with `dynamic`, where the coordinator says when
// Twice: grants, portions and rounds may be told twice and late; the second changes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/messages/control.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

class packet_agenda {
 public:
  struct training {
    std::uint64_t step = 0;
    std::uint32_t packet = 0;
  };
  struct evaluation {
    std::uint64_t round = 0, version = 0;
    std::uint32_t packet = 0, packets = 0;  // which, and how many the round has
  };

  packet_agenda(std::shared_ptr<const job_plan> plan, role_id loader, std::uint64_t first_step, bool dynamic);

  void grant_until(std::uint64_t step);
  bool deal(const work_unit& p);  // with `dynamic`; false if it has no packet that is new
  void resume_at(std::uint64_t step) { next_step_ = step; }
  bool has_begun_round(std::uint64_t round) const { return round <= last_round_; }  // they are counted from 1, and come in order
  void begin_round(std::uint64_t round, std::uint64_t version, std::uint32_t packets);

  // Each packet is given once; none: nothing may be loaded now.
  std::optional<training> next_training();
  std::optional<evaluation> next_evaluation();  // to be asked when there is nothing to train

  // Rounds of versions that are behind the grant.
  void forget_rounds();
  void clear();

  std::uint64_t next_step() const { return next_step_; }
  std::uint64_t granted() const { return granted_; }

 private:
  bool evaluates(std::uint32_t packet) const;
  void advance(evaluation& round) const;

  std::shared_ptr<const job_plan> plan_;
  bool tester_ = false;  // evaluates beside training: all packets of a round
  std::uint32_t worker_ = 0;
  packet_range range_;
  bool dynamic_ = false;
  std::uint64_t next_step_ = 0, granted_ = 0;
  std::uint32_t next_in_range_ = 0;
  std::deque<training> work_units_;    // named and not given
  std::uint64_t work_unit_step_ = 0;   // of the latest portion
  std::vector<bool> work_unit_taken_;  // packets of that step that have been named
  std::uint64_t last_round_ = 0;
  std::deque<evaluation> rounds_;  // each with the packet that is next
};

}  // namespace troupe
