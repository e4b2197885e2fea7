// Which packets a loader loads, and in which order: training packets that it may load, then those
// of evaluation.
//   training    its worker's range of every step below the grant; with `dynamic`, the packets of
//               the work units, in the order of arrival
//   evaluation  this loader's packets of every round. A round at version v comes after all packets
//               of steps < v, except for a tester (its version is the round number) and with
//               `dynamic` (the coordinator sends the round when it is due).
// Invariant: grants, work units and rounds that arrive twice or late have no effect.
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
    std::uint32_t packet = 0, packets = 0;  // the packet; the number of packets of the round
  };

  packet_agenda(std::shared_ptr<const job_plan> plan, role_id loader, std::uint64_t first_step, bool dynamic);

  void grant_until(std::uint64_t step);
  bool deal(const work_unit& p);  // with `dynamic`; returns false if it has no new packet
  bool has_begun_round(std::uint64_t round) const { return round <= last_round_; }  // rounds count from 1 and begin in order
  void begin_round(std::uint64_t round, std::uint64_t version, std::uint32_t packets);

  // Each packet is returned once. Nullopt: none may be loaded now.
  std::optional<training> next_training();
  std::optional<evaluation> next_evaluation();  // call it only when next_training() returns nullopt

  void clear();

  std::uint64_t next_step() const { return next_step_; }
  std::uint64_t granted() const { return granted_; }

 private:
  bool evaluates(std::uint32_t packet) const;
  void advance(evaluation& round) const;

  std::shared_ptr<const job_plan> plan_;
  bool tester_ = false;  // evaluates in parallel with training: all packets of a round
  std::uint32_t worker_ = 0;
  packet_range range_;
  bool dynamic_ = false;
  std::uint64_t next_step_ = 0, granted_ = 0;
  std::uint32_t next_in_range_ = 0;
  std::deque<training> work_units_;    // packets received and not yet returned
  std::uint64_t work_unit_step_ = 0;   // of the latest work unit
  std::vector<bool> work_unit_taken_;  // packets of that step that have been received
  std::uint64_t last_round_ = 0;
  std::deque<evaluation> rounds_;  // each with its next packet
};

}  // namespace troupe
