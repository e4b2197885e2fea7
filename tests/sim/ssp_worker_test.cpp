// The worker sync of ssp without a world, message by message.
#include "tests/sim/lone_role.hpp"

namespace troupe::testing {
namespace {

class lone_worker {
 public:
  explicit lone_worker(std::int64_t staleness) : role_(job_with(staleness)) {}

  std::vector<envelope> weights_of(const param_block& b, std::uint64_t version) {
    header h;
    h.src = b.shard;
    h.version = version;
    return role_.say(h, weights{b.id, role_.filled({b.count}, 0)});
  }
  std::vector<envelope> gradient_of(std::uint32_t layer, std::uint64_t step) { return role_.give_gradient(layer, step, 0); }
  const job_plan& plan() const { return role_.plan(); }
  std::uint32_t layer_of_block(const param_block& b) const { return role_.job().graph.params[b.param].layer; }

 private:
  static lone_role job_with(std::int64_t staleness) {
    shape_of_job s;
    s.packets = s.workers = 2;
    auto spec = small_spec(s);
    const auto* mode = shared_tables()->modes.find("ssp");
    spec.train.sync = {"ssp", checked(with({{"staleness", option_value(staleness)}}), mode->specs), {}};
    node_spec here;
    here.name = "local";
    const auto j = prepare_job(spec, shared_tables(), {here}).value();
    return {j, j->plan.workers[0]};
  }
  lone_role role_;
};

// Returns the oldest version that a fetch of block `b` among `sent` accepts; null if there is no
// such fetch.
std::optional<std::uint64_t> asked_for(const std::vector<envelope>& sent, std::uint32_t block) {
  for (const auto& e : sent)
    if (const auto* f = std::get_if<fetch>(&e.body); f && f->block == block) return e.h.version;
  return std::nullopt;
}

// An answer that was in flight when the worker continued has no newer version and is too old for
// the step that the worker needs now. The worker must fetch again, otherwise it waits without end.
TEST(ssp_worker, fetches_again_when_an_answer_has_no_newer_version) {
  lone_worker w(1);
  const auto& first = w.plan().blocks.front();
  const auto layer = w.layer_of_block(first);
  std::vector<param_block> blocks;
  for (const auto& b : w.plan().blocks)
    if (w.layer_of_block(b) == layer) blocks.push_back(b);
  for (const auto& b : blocks) w.weights_of(b, 0);
  const auto after_0 = w.gradient_of(layer, 0);
  ASSERT_EQ(asked_for(after_0, first.id), 0u) << "version 0 is new enough for step 1";
  EXPECT_FALSE(asked_for(w.gradient_of(layer, 1), first.id)) << "one fetch at a time";
  const auto answered = w.weights_of(first, 0);
  EXPECT_EQ(asked_for(answered, first.id), 1u) << "step 2 needs version 1";
}

}  // namespace
}  // namespace troupe::testing
