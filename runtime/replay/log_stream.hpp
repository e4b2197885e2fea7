// The log of the messages that the roles of one node receive (delivery_log.hpp), written to a file
// while they run. The file of a killed process can be read: it names every role, and has all
// messages but those in the unfinished chunk of each role, at most 2 KiB.
//
//   "troupe messages, stream 2\n"
//   records: u32 role, u32 kind (0: a chunk, 1: the role has ended), u32 length, CRC32C of role to
//            length, bytes (the chunk, or why the role failed), CRC32C of the bytes; little-endian
//   The first records are an empty chunk for each role.
//
// The length has a checksum of its own, so that a record that is cut by the end of the file is told
// from one that is damaged.
// Errors: values. Reading accepts any bytes; a cut last record is no error, a damaged one is.
// Threads: log_stream: any; reading: no state.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/replay/delivery_log.hpp"

namespace troupe::replay {

class log_stream {
 public:
  // `on_error` is called once, with the first error of add() or ended(), after which nothing more
  // is written.
  explicit log_stream(std::function<void(const std::string&)> on_error) : on_error_(std::move(on_error)) {}
  ~log_stream();
  log_stream(const log_stream&) = delete;
  log_stream& operator=(const log_stream&) = delete;

  // Creates the file for these roles, readable by its owner only; an older one is replaced.
  expected<void> open(const std::string& file, const std::vector<role_id>& roles);
  void add(role_id r, std::string_view chunk) { put(r, 0, chunk); }
  // The role has ended. `failure`: why; empty: it did not fail.
  void ended(role_id r, std::string_view failure) { put(r, 1, failure); }

 private:
  void put(role_id r, std::uint32_t kind, std::string_view bytes);

  const std::function<void(const std::string&)> on_error_;
  std::mutex lock_;
  int fd_ = -1;  // -1: not open, or after an error
  std::string name_;
};

// Returns the logs of the roles, in the order of their ids. A role whose end was not recorded is
// `cut`. An error, with the offset of the record, if bytes differ from those that were written.
expected<std::vector<role_part>> read_stream(std::string_view bytes);

}  // namespace troupe::replay
