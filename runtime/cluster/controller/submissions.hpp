// Submissions until they are queued jobs: their checks, the uploads of files that jobs start from
// (`troupe train --cluster --resume`, --weights), and the queue.
//
//   checking    the checker reads and plans the job; the client gets the mistakes (60 s)
//   receiving   the controller requests one piece of the file, the job executor writes it, and so
//               on (60 s per piece); then checking again, with the file
//   queued      jobs run one after the other
//
// Invariants: all jobs that are not over stay within a budget of jobs and bytes (admission.hpp).
// One check runs at a time; the others wait here, so that a check whose client has gone costs
// nothing. A submission is answered within 60 s plus the time for its file. A file is no larger
// than one of this job can be. A refusal names the reason and the file as the user gave it. A
// partly received file that is no longer needed is removed. A restored job that is refused fails,
// since its check succeeded before.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/controlled_job.hpp"

namespace troupe::control {

class submissions {
 public:
  // `tag` makes job ids of two incarnations of this daemon differ. `state` outlives this.
  submissions(controller_state& state, std::uint16_t tag) : state_(state), numbers_(tag) {}

  // A client submits a job. `owner`: its name.
  void submit(const std::string& owner, const std::string& from, const control::submit& m, instant now, orders& out);
  // A restored job is checked again, in its turn.
  void check_again(controlled_job& j, instant now, orders& out);
  // The check of this job has ended. Queues the job, requests its file, or refuses it.
  void checked(std::uint32_t job, control::checked c, instant now, orders& out);
  // Begins the next check, if none is under way.
  void next_check(orders& out);
  void take(const std::string& from, const piece& m, instant now, orders& out);
  void piece_kept(std::uint32_t job, const expected<void>& kept, instant now, orders& out);
  void watch_deadlines(instant now, orders& out);  // at every tick
  // Refuses all that are not queued yet, and new ones from then on: this daemon shuts down.
  void close(instant now, orders& out);
  // Drops submissions of a client that has gone; their numbers are not known to any client.
  void disconnected(const std::string& client, instant now, orders& out);

  // --- the queue
  std::optional<std::uint32_t> next_in_queue();  // removes it
  void leave_queue(std::uint32_t job) { std::erase(queue_, job); }
  // Adds what a client prints about the job before its events.
  void describe(const controlled_job& j, submitted& s) const;

  job_numbers& numbers() { return numbers_; }

 private:
  expected<void> admit(const control::submit& m) const;
  void ask_for_check(controlled_job& j, instant now, orders& out);
  void receive(controlled_job& j, instant now, orders& out);
  void accept(controlled_job& j, instant now, orders& out);
  void answer(controlled_job& j, std::uint32_t number, std::vector<std::string> messages, orders& out) const;
  void refuse(controlled_job& j, std::vector<std::string> messages, instant now, orders& out);
  void refuse_file(controlled_job& j, const std::string& why, orders& out);

  controller_state& state_;
  job_numbers numbers_;
  std::deque<std::uint32_t> waiting_;  // ids of jobs that wait for their check; some may be gone
  std::uint32_t under_way_ = 0;        // job under check; 0: none
  std::deque<std::uint32_t> queue_;    // ids of checked jobs in their order
};

}  // namespace troupe::control
