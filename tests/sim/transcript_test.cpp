// Golden transcripts: what the roles of a small job say to each other, message by message, in sim::world without maths.
// TROUPE_REWRITE=1 writes them anew; the difference is to be read like code.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

std::string line_of(const envelope& e, const job_plan& p) {
  const auto name = [&](role_id r) { return r == no_role ? std::string("person") : p[r].name; };
  std::ostringstream s;
  s << name(e.h.src) << " -> " << name(e.h.dst) << "  " << name_of(e.body);
  std::visit(overloaded{
                 [&](const forward&) { s << " " << (e.h.phase == 0 ? "step " : "round ") << e.h.step << " packet " << e.h.packet; },
                 [&](const backward&) { s << " step " << e.h.step << " packet " << e.h.packet; },
                 [&](const gradient&) { s << " step " << e.h.step << " packet " << e.h.packet; },
                 [&](const push& b) {
                   s << " step " << e.h.step << " block " << b.block << " packets " << b.first << "+" << b.span << " of "
                     << b.sum.count();
                 },
                 [&](const weights& b) { s << " version " << e.h.version << " block " << b.block; },
                 [&](const layer_weights&) { s << " version " << e.h.version; },
                 [&](const grant& g) { s << " until " << g.until; },
                 [&](const evaluate& v) { s << " round " << v.round << " version " << e.h.version; },
                 [&](const report&) { s << (e.h.phase == 0 ? " step " : " round ") << e.h.step << " packet " << e.h.packet; },
                 [&](const collect&) { s << " version " << e.h.version; },
                 [&](const state& b) { s << " version " << e.h.version << " block " << b.block; },
                 [&](const auto&) {},
             },
             e.body);
  return s.str();
}

// Two workers on two nodes, one shard, a net of two layers and a loss: short enough to be read.
TEST(transcript, bsp) {
  auto spec = small_spec({.packets = 2, .workers = 2, .steps = 2});
  std::erase_if(spec.layers, [](const layer_spec& l) { return l.name != "score" && l.name != "loss"; });
  spec.layers[0].inputs = {"data"};
  std::vector<node_spec> nodes(2);
  nodes[0].name = "n1", nodes[1].name = "n2";
  auto made = prepare_job(spec, shared_tables(), nodes);
  if (auto* bad = std::get_if<diagnostics>(&made)) FAIL() << bad->front().to_string();
  const auto j = std::get<std::shared_ptr<prepared_job>>(made);
  sim::world w(sim::world_config{});
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
  std::string log;
  w.on_deliver = [&](const envelope& e, time_point) {
    if (!std::holds_alternative<finished>(e.body)) log += line_of(e, j->plan) + "\n";
  };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  ASSERT_TRUE(w.run(100'000));

  const std::string file = TROUPE_SOURCE_DIR "/tests/sim/golden/bsp.txt";
  if (std::getenv("TROUPE_REWRITE")) std::ofstream(file) << log;
  std::ifstream in(file);
  std::stringstream want;
  want << in.rdbuf();
  EXPECT_EQ(log, want.str()) << "rewrite with TROUPE_REWRITE=1 and read the difference";
}

}  // namespace
}  // namespace troupe::testing
