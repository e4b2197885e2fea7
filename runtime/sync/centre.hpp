// The shard sync of modes whose workers train on their own weights and periodically exchange with a
// centre (downpour, easgd). For each block, pushes and fetches are served one at a time, in
// order of arrival.
//
// Invariants:
//   * a worker's push of step t changes the block once: a push of the same or an earlier step of
//     that worker is dropped;
//   * the answer to a worker's fetch contains all pushes that the worker sent before the fetch.
#pragma once

#include <deque>

#include "runtime/sync/shard_sync.hpp"

namespace troupe {

class centre_shard : public shard_sync {
 public:
  role_status status() const override;

 protected:
  // `steps`: of an update that apply() begins with update_.take().
  explicit centre_shard(sync_config c, const update_list& steps = {replicate::make});
  // Starts to apply a push. The mode calls done(b) when the push has been applied; until then
  // nothing else is served for the block.
  virtual void apply(const header& h, const tensor& value, shard_block& b, effects& out) = 0;
  void done(shard_block& b, effects& out);
  // Returns true if this fetch must wait until the block has changed. Checked again after every
  // done().
  virtual bool hold(const header& h, const shard_block& b) const {
    (void)h, (void)b;
    return false;
  }

  void on_push(const header& h, const push& p, shard_block& b, effects& out) override;
  void on_fetch(const header& h, const fetch& f, shard_block& b, effects& out) override;
  void on_updated(shard_block& b, effects& out) override { done(b, out); }
  bool quiet(std::uint64_t step) override;

  struct request {
    header h;
    tensor value;  // of a push; empty: a fetch
  };
  struct line {
    std::deque<request> waiting;
    std::vector<request> held;          // fetches deferred by hold()
    std::vector<std::uint64_t> pushed;  // by worker: step of the last accepted push
    bool busy = false;                  // between apply() and done()
  };
  void serve(shard_block& b, effects& out);
  std::vector<line> lines_;  // by block id
};

}  // namespace troupe
