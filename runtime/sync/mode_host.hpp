// The role around the sync role (worker sync or shard sync) of the mode in use. The worker and
// shard roles of a job are mode hosts. A mode host replaces its sync role when the coordinator
// sends `adopt`, at a boundary at which all workers have flushed.
//
// Live switch: coordinator -> flush (workers) -> ready{flushed} (worker -> shards -> coordinator)
// -> adopt (workers, shards) -> ready{adopted} (worker -> coordinator, when every stage has the
// weights of the boundary). Each switch begins a mode epoch. header.mode_epoch has its number
// in all messages between sync roles, and in the coordinator's `flush`, `grant` and `adopt`. A
// message of an older epoch is dropped; one of a newer epoch waits until this role has received its
// own `adopt`.
//
// If a job continues or begins with given weights (sync_config::continued), the shard sync is made
// when the coordinator has sent all its blocks.
//
// Invariant: a switch does not change a shard's blocks (values, rule states, and the number of
// updates that these have seen).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/sync/mode.hpp"

namespace troupe {

class mode_host final : public role {
 public:
  // `modes` must outlive the role (it is the job's table).
  mode_host(sync_config c, const mode_registry& modes, const std::string& mode);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;
  drop_counts dropped() const override;

 private:
  void make();
  void answer_nothing(const header& h, const quiesce& q, effects& out) const;
  void take_block(const restore_state& s, time_point now, effects& out);
  void take_adopt(const header& h, const adopt& a, time_point now, effects& out);
  void begin_epoch(const header& h, time_point now, effects& out);
  void hand_to_sync(const envelope& e, time_point now, effects& out);
  void tell_adopted(effects& out);

  sync_config config_;
  const mode_registry& modes_;
  const sync_mode* mode_;
  bool shard_;
  std::unique_ptr<role> sync_;  // null: blocks are still awaited
  std::size_t awaited_ = 0;     // number of blocks that the coordinator sends first
  std::map<std::uint32_t, block_content> restored_;
  std::uint8_t mode_epoch_ = 0;
  std::uint64_t adopting_ = 0;   // boundary + 1 until all layers of the worker's stages have been handed weights; else 0
  std::vector<bool> given_;      // by layer: it has been handed weights; true from the start if the worker sync gets no block of it
  std::vector<envelope> early_;  // messages that wait for blocks or for `adopt`
  drop_counts before_;           // of the sync roles of earlier modes
};

}  // namespace troupe
