// cluster_controller: files that clients upload for a job to start from (`troupe train --cluster
// --resume`, --weights).
//
//   checking    of the job alone: mistakes in it are found before anything travels
//   receiving   the head asks for one piece, the keeper writes it, the head asks for the next (a minute each, at most)
//   checking    again, with the file: the keeper makes the handover of it that the job begins with
//
// Invariants: one piece of a file is under way at a time, so memory does not grow with it; a file
// is no larger than one of this job can be; who is refused is told why, with the file's name as the
// user gave it; what had come of a file that is not wanted any more is removed.
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
  if (g.kind > given_file::checkpoint) return g.file + ": " + self_ + " does not know what this file is for";
  if (g.bytes == 0) return g.file + ": it is empty";
  const auto coming = std::count_if(jobs_.begin(), jobs_.end(), [](const auto& j) { return j.second.at == phase::receiving; });
  return coming < max_receiving ? std::string() : "files of " + std::to_string(coming) + " other jobs are under way";
}

// The job is sound as it is: now for its file.
void cluster_controller::receive(job& j, instant now, orders& out) {
  if (j.given.bytes > j.plan.room)
    return refuse_given(
        j,
        "it has " + std::to_string(j.given.bytes) + " bytes, and what belongs to this job at most " + std::to_string(j.plan.room),
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
    return refuse_given(*j, "it did not come as it was announced", out);
  j->received += m.bytes.size();
  j->deadline = now + piece_timeout;
  out.push_back(keep_piece{j->id, m.offset, m.bytes, j->given});
}

void cluster_controller::on_piece_kept(std::uint32_t id, const std::string& error, instant now, orders& out) {
  auto* j = find(id);
  if (!j || j->at != phase::receiving) return;
  if (!error.empty()) return refuse_given(*j, self_ + " cannot keep it: " + error, out);
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
    if (j.at == phase::receiving && now > j.deadline) refuse_given(j, "no piece of it came for 60 s", out);
  }
}

}  // namespace troupe::control
