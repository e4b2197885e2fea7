// Golden transcripts: the messages between the roles of a small job in sim::world without maths.
// TROUPE_REWRITE=1 rewrites the files; review their diff like code.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/sim/mode_job.hpp"

namespace troupe::testing {
namespace {

std::string ready_word(const ready& r) {
  switch (r.what) {
    case ready::what_of::copied: return "copied block " + std::to_string(r.block);
    case ready::what_of::flushed: return " settled";
    case ready::what_of::adopted: return " adopted";
    case ready::what_of::work_unit: return " packets " + std::to_string(r.first) + "+" + std::to_string(r.count);
  }
  return "";
}

std::string line_of(const envelope& e, const job_plan& p) {
  const auto name = [&](role_id r) { return r == no_role ? std::string("person") : p[r].name; };
  std::ostringstream s;
  s << name(e.h.src) << " -> " << name(e.h.dst) << "  " << name_of(e.body);
  std::visit(overloaded{
                 [&](const forward&) { s << " " << (e.h.phase == 0 ? "step " : "round ") << e.h.step << " packet " << e.h.packet; },
                 [&](const backward&) { s << " step " << e.h.step << " packet " << e.h.packet; },
                 [&](const gradient&) { s << " step " << e.h.step << " packet " << e.h.packet; },
                 [&](const push& b) {
                   s << (b.increment > 0 ? " increment " : " step ") << (b.increment > 0 ? b.increment : e.h.step) << " block "
                     << b.block << " packets " << b.first << "+" << b.span << " of " << b.sum.count();
                 },
                 [&](const weights& b) {
                   s << (b.increment > 0 ? " increment " : " version ") << (b.increment > 0 ? b.increment : e.h.version)
                     << " block " << b.block;
                 },
                 [&](const layer_weights&) { s << " version " << e.h.version; },
                 [&](const grant& g) { s << " until " << g.until; },
                 [&](const evaluate& v) { s << " round " << v.round << " version " << e.h.version; },
                 [&](const report&) { s << (e.h.phase == 0 ? " step " : " round ") << e.h.step << " packet " << e.h.packet; },
                 [&](const collect&) { s << " version " << e.h.version; },
                 [&](const state& b) { s << " version " << e.h.version << " block " << b.block; },
                 [&](const fetch& f) { s << " step " << e.h.step << " version " << e.h.version << " block " << f.block; },
                 [&](const ready& r) { s << ready_word(r) << " step " << e.h.step; },
                 [&](const flush&) { s << " step " << e.h.step; },
                 [&](const work_unit& x) { s << " step " << x.step << " packets " << x.first << "+" << x.count; },
                 [&](const user& u) { s << " type " << u.type << " step " << e.h.step; },
                 [&](const auto&) {},
             },
             e.body);
  return s.str();
}

void compare(const std::shared_ptr<prepared_job>& j, const std::string& name) {
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

  const std::string file = std::string(TROUPE_SOURCE_DIR) + "/tests/sim/golden/" + name + ".txt";
  if (std::getenv("TROUPE_REWRITE")) std::ofstream(file) << log;
  std::ifstream in(file);
  std::stringstream want;
  want << in.rdbuf();
  EXPECT_EQ(log, want.str()) << "if the change is intended, rewrite with TROUPE_REWRITE=1 and review the diff";
}

// Two workers on two nodes, one shard, a net of one layer and a loss: short enough to review.
TEST(transcript, bsp_matches_the_golden_file) {
  auto spec = small_spec({.packets = 2, .workers = 2, .steps = 2});
  std::erase_if(spec.layers, [](const layer_spec& l) { return l.name != "score" && l.name != "loss"; });
  spec.layers[0].inputs = {"data"};
  std::vector<node_spec> nodes(2);
  nodes[0].name = "n1", nodes[1].name = "n2";
  auto made = prepare_job(spec, shared_tables(), nodes);
  if (!made) FAIL() << made.error().front().to_string();
  const auto j = *made;
  compare(j, "bsp");
}

// The other modes: two workers on their own nodes, one layer with parameters.
struct transcript_case {
  const char* name;
  mode_shape shape;
};

class transcripts : public ::testing::TestWithParam<transcript_case> {};

TEST_P(transcripts, match_the_golden_file) {
  auto shape = GetParam().shape;
  shape.layers = 1;
  shape.columns = 4;
  const auto j = prepare_mode(shape);
  ASSERT_TRUE(j);
  compare(j, GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(
    every, transcripts,
    ::testing::Values(
        transcript_case{"ssp", {.mode = "ssp", .options = {{"staleness", "1"}}, .steps = 3}},
        transcript_case{"downpour", {.mode = "downpour", .options = {{"n_push", "2"}, {"n_fetch", "2"}}, .groups = 2, .steps = 3}},
        transcript_case{"easgd", {.mode = "easgd", .options = {{"alpha", "0.5"}, {"tau", "2"}}, .steps = 2}},
        transcript_case{
            "eamsgd",
            {.mode = "eamsgd", .options = {{"alpha", "0.5"}, {"tau", "2"}, {"variant", "sync"}}, .steps = 2, .rule = "nesterov"}},
        transcript_case{"gossip", {.mode = "gossip", .steps = 2}},
        transcript_case{"sandblaster", {.mode = "sandblaster", .packets = 4, .steps = 2}},
        transcript_case{"group_sync",
                        {.mode = "group_sync", .options = {{"sync_freq", "2"}}, .groups = 2, .server_groups = 2, .steps = 3}},
        transcript_case{"hogwild", {.mode = "hogwild", .steps = 2, .together = true}},
        transcript_case{"tree", {.mode = "bsp", .steps = 2, .reducer = "tree"}}),
    [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace troupe::testing
