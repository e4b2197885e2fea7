// What a client submitted, and how far it has been received. A value.
//
// Invariants: one piece of the file is in flight at a time, so memory does not grow with the file.
// Pieces arrive in order, and none exceeds the announced size. The client gets one answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/result.hpp"
#include "runtime/cluster/controller/orders.hpp"

namespace troupe::control {

// A client that waits for the answer to its submission.
struct waiting_client {
  std::string name;       // of its connection
  std::uint64_t ask = 0;  // returned in the answer
  bool follows = false;   // gets the job's events from then on
};

struct submission {
  // The job as the client wrote it, with the overrides that the check added. Empty once the job is
  // over: no further plan is made of it.
  job_text what;
  // The file that the job starts from: as announced, or found by the check. Kind `nothing`: none.
  given_file given;
  // Bytes of `given` on this node. 0: none, or the upload has not begun. Equal to its size: all.
  std::uint64_t received = 0;
  // It was read from the journal: its check succeeded before this daemon restarted, and no client
  // waits for an answer.
  bool restored = false;
  // Set from the submission until the answer, or until the client disconnects.
  std::optional<waiting_client> client;

  // Returns the client that waits, once.
  std::optional<waiting_client> take_client() { return std::exchange(client, std::nullopt); }
  bool awaited_by(const std::string& name) const { return client && client->name == name; }

  bool has_file() const { return given.kind != given_file::nothing; }
  bool complete() const { return received >= given.bytes; }
  // An error if this piece is not the next one of the file.
  expected<void> check(const piece& m) const {
    if (!m.error.empty()) return unexpected(error(m.error));
    if (m.offset != received || m.bytes.empty() || m.bytes.size() > given.bytes - received)
      return unexpected(error("upload rejected: chunk offset or size does not match the announced file"));
    return {};
  }
};

}  // namespace troupe::control
