// The shard half of modes whose workers step by themselves and now and then exchange with a centre
// (downpour, easgd): questions and pushes for a block are served one after the other, in the order
// they came.
// Invariants: a worker's push of step t changes the block once (a push of the same or an earlier
// step of that worker is ignored); a worker's question is answered with a value that has all pushes
// this worker sent before it.
#pragma once

#include <deque>

#include "runtime/sync/shard_sync.hpp"

namespace troupe {

class centre_shard : public shard_sync {
 public:
  role_status status() const override;

 protected:
  explicit centre_shard(sync_config c);
  // Begins to apply a push; done(b) when it has been.
  virtual void apply(const header& h, const tensor& value, shard_block& b, effects& out) = 0;
  void done(shard_block& b, effects& out);
  // Must this question wait until the block has changed?
  virtual bool hold(const header& h, const shard_block& b) const {
    (void)h, (void)b;
    return false;
  }

  void on_push(const header& h, const push& p, shard_block& b, effects& out) override;
  void on_fetch(const header& h, const fetch& f, shard_block& b, effects& out) override;
  void on_join(const header& h, shard_block& b, effects& out) override;
  void on_updated(shard_block& b, effects& out) override { done(b, out); }
  bool quiet(std::uint64_t step) override;
  std::uint64_t wanted_from(std::uint32_t worker, const shard_block& b) const override;

  struct request {
    header h;
    tensor value;  // empty: a question
    bool join = false;
  };
  struct line {
    std::deque<request> waiting;
    std::vector<request> held;
    std::vector<std::uint64_t> pushed;  // by worker: step of the last push taken
    bool busy = false;
  };
  void serve(shard_block& b, effects& out);
  std::vector<line> lines_;  // by block id
};

}  // namespace troupe
