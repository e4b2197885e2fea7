// cluster_controller: files that clients upload for a job to start from (`troupe train --cluster
// --resume`, --weights).
//
//   checking    the job alone: its mistakes are found before the upload
//   receiving   the cluster controller requests one piece, the job executor writes it, and so on
//               (60 s per piece)
//   checking    again, with the file: the checker tests that the job can start from it
//
// Invariants: one piece of a file is in flight at a time, so memory does not grow with the file. A
// file is no larger than one of this job can be. A refusal names the reason and the file as the
// user gave it. A partly received file that is no longer needed is removed.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/pieces.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr auto piece_timeout = 60s;
constexpr std::ptrdiff_t max_receiving = 8;

}  // namespace

std::string cluster_controller::why_not_given(const given_file& g) const {
  if (g.kind == given_file::nothing) return {};
  if (g.kind > given_file::checkpoint) return g.file + ": " + self_ + " knows only weights and checkpoints";
  if (g.bytes == 0) return g.file + ": the file is empty";
  const auto coming = std::count_if(jobs_.begin(), jobs_.end(), [](const auto& j) { return j.second.at == phase::receiving; });
  return coming < max_receiving ? std::string()
                                : "files of " + std::to_string(coming) + " other jobs are being uploaded; try again later";
}

// The job is valid; starts the upload of its file.
void cluster_controller::receive(job& j, instant now, orders& out) {
  if (j.given.bytes > j.plan.room)
    return refuse_given(
        j,
        "the file has " + std::to_string(j.given.bytes) + " bytes; a file of this job has at most " + std::to_string(j.plan.room),
        out);
  j.at = phase::receiving;
  j.deadline = now + piece_timeout;
  out.push_back(to_peer{j.submitter, fetch{j.id, 0}});
}

void cluster_controller::take(const std::string& from, const piece& m, instant now, orders& out) {
  auto* j = find(m.job);
  if (!j || j->at != phase::receiving || j->submitter != from) return;
  if (!m.error.empty()) return refuse_given(*j, m.error, out);
  if (m.offset != j->received || m.bytes.empty() || m.bytes.size() > j->given.bytes - j->received)
    return refuse_given(*j, "upload rejected: chunk offset or size does not match the announced file", out);
  j->received += m.bytes.size();
  j->deadline = now + piece_timeout;
  out.push_back(keep_piece{j->id, m.offset, m.bytes, j->given});
}

void cluster_controller::on_piece_kept(std::uint32_t id, const std::string& error, instant now, orders& out) {
  auto* j = find(id);
  if (!j || j->at != phase::receiving) return;
  if (!error.empty()) return refuse_given(*j, self_ + " cannot store it: " + error, out);
  if (j->received < j->given.bytes) return out.push_back(to_peer{j->submitter, fetch{id, j->received}});
  ask_for_check(*j, now, out);
}

void cluster_controller::refuse_given(job& j, const std::string& why, orders& out) {
  const auto text = j.given.file + ": " + why;
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + " refused: " + text});
  answer_submitter(j, 0, {text}, out);
  out.push_back(drop_given{j.id});
  jobs_.erase(j.id);
}

void cluster_controller::refuse_late_pieces(instant now, orders& out) {
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    auto& j = (at++)->second;
    if (j.at == phase::receiving && now > j.deadline) refuse_given(j, "no piece of it was received for 60 s", out);
  }
}

}  // namespace troupe::control
