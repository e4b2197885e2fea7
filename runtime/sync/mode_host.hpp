// One half of the mode in use, and the switch to another. The worker's and the shard's roles of a
// job are mode hosts; the half inside changes when the coordinator says `adopt`, at a boundary
// where all workers have settled.
//
// A switch: coordinator -> settle (workers) -> ready{settled} (shards) -> adopt (all) ->
// ready{adopted} (workers, when every stage has the weights of the boundary). Each switch begins an
// era, whose number is in every message of the parameter plane (header.flags, high byte): what
// comes from the era before is late and dropped, what comes from the next waits for our own
// `adopt`.
//
// A worker that has been restarted begins in the job's first mode and asks the shards where to go
// on; a shard of a later era answers with the `adopt` of that era, and the worker asks again in its
// mode.
//
// Where roles are restarted one by one and the mode stays the same, so do the halves: a stage that
// is made anew may still ask for versions of before the boundary, which a new half would not have.
//
// Where a job goes on or begins with given weights (sync_config::continued) a shard's half is made
// when the coordinator has sent all its blocks.
//
// Invariant: a shard's blocks pass from half to half unchanged (values, states of the rule, how
// many updates those have seen).
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
  bool same_mode(const sync_mode* next, const options& o) const;
  void answer_nothing(const header& h, const quiesce& q, effects& out) const;
  void take_block(const header& h, const restore_state& s, time_point now, effects& out);
  void take_adopt(const header& h, const adopt& a, time_point now, effects& out);
  void begin_epoch(const header& h, time_point now, effects& out);
  void hand_to_sync(const envelope& e, time_point now, effects& out);
  void tell_adopted(effects& out);

  sync_config config_;
  const mode_registry& modes_;
  const sync_mode* mode_;
  bool shard_;
  std::unique_ptr<role> sync_;  // none: blocks are still awaited
  std::size_t awaited_ = 0;     // blocks
  std::map<std::uint32_t, block_content> restored_;
  std::uint8_t mode_epoch_ = 0;
  std::uint64_t adopting_ = 0;  // boundary + 1 until all layers of our stages have been given weights
  std::vector<bool> given_;     // by layer; those of which our half gets nothing have it from the beginning
  std::vector<envelope> early_;
  drop_counts before_;                  // of the sync roles of earlier modes
  bool joining_ = false;                // restarted, and our half has not yet joined
  std::optional<envelope> last_adopt_;  // shard: for those who come back
};

}  // namespace troupe
