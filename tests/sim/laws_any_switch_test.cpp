// Invariant of mode switches: a job executes or refuses every mode command at any step, for any
// placement of layers and roles, and ends. If all its modes equal bsp bit for bit, its weights
// equal those of the job without commands. The accuracy that it reports at its end is that of the
// written weights.
#include <cmath>
#include <map>

#include "tests/sim/mode_run.hpp"
#include "tests/sim/moving.hpp"
#include "tests/sim/random_net.hpp"
#include "tests/sim/written_weights.hpp"

namespace troupe::testing {
namespace {

using text_pairs = std::vector<std::pair<std::string, std::string>>;

std::vector<node_spec> nodes_of(std::uint32_t count, bool all_roles) {
  std::vector<node_spec> list(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    list[i].name = "n" + std::to_string(i + 1);
    if (i > 0 && !all_roles) list[i].roles = {"worker", "server"};
  }
  return list;
}

struct chosen_mode {
  std::string name;
  text_pairs options;
};

// Draws a mode with options; some draws are invalid.
chosen_mode draw_mode(random_net& net) {
  const auto n = [&](std::int64_t least, std::int64_t most) { return std::to_string(net.draw(least, most)); };
  const auto elastic = [&]() -> text_pairs {
    text_pairs o{{"tau", n(1, 4)}, {"alpha", net.chance(0.5) ? "auto" : "0.25"}};
    if (net.chance(0.4)) o.emplace_back("variant", "sync");
    return o;
  };
  switch (net.draw(0, 12)) {
    case 0:
    case 1: return {"bsp", {}};
    case 2:
    case 3: return {"ssp", {{"staleness", net.chance(0.1) ? "inf" : n(0, 3)}}};
    case 4: return {"downpour", {{"n_push", n(1, 2)}, {"n_fetch", n(1, 2)}}};
    case 5: return {"downpour", {}};
    case 6: return {"hogwild", {{"sync_freq", n(1, 4)}}};
    case 7: return {"easgd", elastic()};
    case 8: return {"eamsgd", elastic()};
    case 9: return {"group_sync", {{"sync_freq", n(1, 4)}}};
    case 10: return {"sandblaster", {{"portion", n(1, 2)}}};
    case 11: return {"gossip", {{"every", n(1, 4)}}};
    default: break;
  }
  static const chosen_mode wrong[] = {{"easdg", {}},           {"easgd", {{"tau", "0"}}},   {"easgd", {{"alpha", "1.5"}}},
                                      {"bsp", {{"tau", "1"}}}, {"gossip", {{"every", ""}}}, {"ssp", {{"staleness", "-1"}}}};
  return wrong[net.draw(0, 5)];
}

struct drawn {
  std::shared_ptr<prepared_job> job, alone;  // alone: the same job in bsp; null: bsp is not possible
  std::vector<wish> moves, words;
  bool feature = false;
  std::uint32_t nodes = 1;
};

std::shared_ptr<prepared_job> made_of(const job_spec& j, const std::vector<node_spec>& nodes) {
  auto made = prepare_job(j, shared_tables(), nodes);
  const auto* ok = made ? &*made : nullptr;
  return ok ? *ok : nullptr;
}

void draw_training(job_spec& j, random_net& net) {
  static const char* rules[] = {"sgd", "momentum", "adam", "nesterov", "nesterov"};
  const std::string rule = rules[net.draw(0, 4)];
  j.train.rule = {rule, checked({}, shared_tables()->rules.find(rule)->specs), {}};
  j.train.lr = 1e-4;  // no squared loss may diverge for any draw
  j.train.finish.steps = net.draw(8, 20);
  j.train.clip.norm = net.chance(0.1) ? 0.05 : 0.0;
  j.eval.every = net.chance(0.5) ? net.draw(1, 8) : 0;
  if (net.chance(0.1)) j.train.reducer = "tree";
  if (net.chance(0.1)) {
    const auto& specs = shared_tables()->conditions.find("every")->specs;
    j.train.when = choice{"every", checked(with({{"steps", net.draw(1, 4)}}), specs), {}};
  }
  if (net.chance(0.1)) j.pipeline.weights = net.chance(0.5) ? "latest" : "stash";
  if (net.chance(0.2)) j.data.values.values["test_examples"] = std::int64_t{0};  // no tester
}

void draw_topology(job_spec& j, random_net& net) {
  auto& t = j.topology;
  t.worker_groups = net.chance(0.4) ? net.draw(1, std::min<std::int64_t>(3, j.pipeline.packets)) : 1;
  t.workers_per_group = net.draw(1, std::max<std::int64_t>(1, j.pipeline.packets / t.worker_groups));
  t.server_groups = net.chance(0.2) ? t.worker_groups : 1;
  t.servers_per_group = net.draw(1, 3);
  t.colocated = t.server_groups > 1 || net.chance(0.5);
}

command draw_move(random_net& net, const job_spec& j, std::uint32_t nodes) {
  const auto node = "n" + std::to_string(net.draw(1, nodes));
  if (net.chance(0.3)) return net.chance(0.5) ? command{drain_command{node}} : command{add_node_command{node}};
  return move_key(j.layers[static_cast<std::size_t>(net.draw(0, static_cast<std::int64_t>(j.layers.size()) - 1))].name, node);
}

void draw_words(drawn& d, random_net& net, const job_spec& j) {
  const auto steps = *j.train.finish.steps;
  const auto when = [&] { return static_cast<std::uint64_t>(net.draw(0, steps - 1)); };
  const auto later = [&] { return net.chance(0.5) ? duration{} : duration(net.draw(0, 3'000'000)); };
  if (net.chance(0.3))
    for (auto n = net.draw(1, 2); n > 0; --n) d.moves.push_back({when(), draw_move(net, j, d.nodes)});
  for (auto n = net.draw(1, 5); n > 0; --n) {
    const auto m = draw_mode(net);
    static const char* keys[] = {"staleness", "tau", "every", "n_push", "portion"};
    if (net.chance(0.1))
      d.words.push_back({when(), {set_option_command{keys[net.draw(0, 4)], std::to_string(net.draw(0, 3))}}});
    else
      d.words.push_back({when(), {mode_command{{m.name, m.options}}}, later()});
  }
  if (net.chance(0.3))
    d.words.push_back({when(), net.chance(0.5) ? command{eval_command{}, 1} : command{checkpoint_command{}}, later()});
  if (net.chance(0.2) && d.moves.empty()) {
    const auto at = when();
    const auto from = later();
    d.words.push_back({at, {pause_command{}}, from});
    d.words.push_back({at, {resume_command{}}, from + duration(net.draw(1, 4'000'000))});
  }
  const auto by_step = [](const wish& a, const wish& b) { return a.after < b.after; };
  std::stable_sort(d.moves.begin(), d.moves.end(), by_step);
  std::stable_sort(d.words.begin(), d.words.end(), by_step);
}

drawn draw_job(std::uint64_t seed) {
  random_net net(seed * 977 + 5);
  drawn d;
  d.nodes = static_cast<std::uint32_t>(net.draw(1, 4));
  const auto nodes = nodes_of(d.nodes, net.chance(0.5));
  auto j = net.job();
  draw_training(j, net);
  if (net.chance(0.5))
    net.place(j, d.nodes, d.feature);
  else
    draw_topology(j, net);
  const auto first = draw_mode(net);
  draw_words(d, net, j);
  auto other = j;
  j.train.when.reset();
  d.alone = made_of(j, nodes);
  const auto* m = shared_tables()->modes.find(first.name);
  try {
    if (m) other.train.sync = {first.name, options_from_text(first.options, m->specs), {}};
    d.job = made_of(other, nodes);
  } catch (const option_error&) {
  }
  if (!d.job) d.job = d.alone;
  if (d.job) return d;
  // The draw suits no mode: use the simplest settings that keep the placement.
  j.train.reducer = "server";
  j.train.clip.norm = 0;
  j.pipeline.weights = "drain";
  j.topology.worker_groups = j.topology.server_groups = 1;
  d.job = d.alone = made_of(j, nodes);
  return d;
}

// Returns true if the mode's weights equal those of bsp bit for bit.
bool as_bsp(const std::string& mode, const job_plan& p) {
  if (mode.starts_with("bsp") || mode.starts_with("sandblaster") || mode == "ssp staleness=0") return true;
  if (mode.starts_with("group_sync")) return p.groups.size() == 1;
  return mode == "downpour n_fetch=1 n_push=1" && p.groups.size() == 1;
}

double largest_difference(const run_result& a, const run_result& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    double most = 1e-3, off = 0;
    for (std::int64_t k = 0; k < a.weights[i].second.count(); ++k) {
      const auto x = a.weights[i].second.data<double>()[k], y = b.weights.at(i).second.data<double>()[k];
      most = std::max(most, std::abs(x));
      off = std::max(off, std::abs(x - y));
    }
    worst = std::max(worst, off / most);
  }
  return worst;
}

std::string described(const drawn& d, const moved_result& got) {
  const auto& j = d.job->spec;
  std::string s = "mode " + mode_text(*d.job) + ", " + std::to_string(d.nodes) + " nodes, rule " + j.train.rule.kind + ", groups " +
                  std::to_string(j.topology.worker_groups) + " x " + std::to_string(j.topology.workers_per_group) + ", servers " +
                  std::to_string(j.topology.server_groups) + " x " + std::to_string(j.topology.servers_per_group) + ", packets " +
                  std::to_string(j.pipeline.packets) + ", sub-solvers " + std::to_string(j.pipeline.sub_solvers) + ", eval every " +
                  std::to_string(j.eval.every) + ", " + j.precision + (d.job->plan.placed ? ", placed" : "") + "\n";
  for (const auto& l : j.layers) {
    s += l.name + " " + l.type + " " + l.partition;
    for (const auto& p : l.place) s += " " + p;
    s += "; ";
  }
  for (const auto* list : {&d.moves, &d.words})
    for (const auto& w : *list) {
      s += "\nat " + std::to_string(w.after) + "+" + std::to_string(w.later.count()) + ": " + name_of(w.what);
      if (const auto* m = w.what.as<mode_command>()) s += " " + m->mode.text();
    }
  for (const auto& e : got.events)
    if (!e.is<step_event>()) s += "\n" + std::to_string(e.step) + " " + name_of(e).name + " " + message_of(e);
  return s;
}

// Runs a drawn job and checks it. `kinds` counts the modes and features that occurred.
void check(const drawn& d, std::uint64_t seed, std::map<std::string, std::uint64_t>& kinds) {
  static const std::shared_ptr<device> dev = make_cpu_device();
  auto c = draw_world(seed, seed % 2 ? 0 : d.nodes - 1, dev.get());
  const auto got = run_moved(d.job, d.moves, c, d.words);
  const auto about = [&] { return "seed " + std::to_string(seed) + "\n" + described(d, got); };
  ASSERT_TRUE(got.done && !got.weights.empty()) << about();
  ASSERT_EQ(got.error(), "") << about();
  const auto steps = *d.job->spec.train.finish.steps;
  ASSERT_EQ(std::count_if(got.events.begin(), got.events.end(), [](const event_effect& e) { return e.is<step_event>(); }), steps)
      << about();
  ASSERT_EQ(got.first_uneven, 0u) << about();
  bool exact = as_bsp(mode_text(*d.job), d.job->plan);
  std::uint64_t taken = 0;
  for (const auto& e : got.events) {
    if (!e.is<mode_event>()) continue;
    ++taken;
    exact = exact && as_bsp(message_of(e), d.job->plan);
    ++kinds[message_of(e).substr(0, message_of(e).find(' '))];
    kinds["placed"] += d.job->plan.placed ? 1 : 0;
  }
  ASSERT_EQ(got.announced, taken + got.unheard.size()) << "a command without an answer, " << about();
  for (const auto& why : got.unheard) ASSERT_NE(why, "") << about();
  kinds["refused"] += got.unheard.size();
  kinds["moved"] += taken > 0 ? got.moved.size() : 0;
  // Every boundary empties the pipeline; with other weight rules this changes the versions that
  // steps use.
  if (exact && d.alone && d.job->plan.groups.size() == 1 && d.job->plan.rule == weight_rule::drain) {
    const auto want = run_in_world(d.alone, draw_world(seed, 0, dev.get()));
    const bool same_cut = !d.feature || got.moved.empty();
    if (same_cut) {
      ASSERT_TRUE(got.bytes() == want.bytes()) << "weights differ from bsp, " << about();
    } else if (d.job->spec.precision == "f64") {
      ASSERT_LT(largest_difference(got, want), 1e-6) << about();
    }
    kinds["as bsp"] += taken > 0 ? 1 : 0;
  }
  ASSERT_EQ(untrue_of_the_written(*d.job, got, dev.get()), "") << about();
}

TEST(laws_any_switch, every_mode_command_is_executed_or_refused_and_the_job_ends) {
  std::map<std::string, std::uint64_t> kinds;
  for (const auto seed : law_seeds(300)) {
    const auto d = draw_job(seed);
    if (!d.job) {
      ++kinds["nothing"];
      continue;
    }
    check(d, seed, kinds);
    if (HasFatalFailure()) return;
  }
  for (const auto& [kind, times] : kinds) std::printf("%s %llu  ", kind.c_str(), static_cast<unsigned long long>(times));
  std::printf("\n");
  if (seeds(300) < 300) return;
  EXPECT_LT(kinds["nothing"], seeds(300) / 4);
  for (const char* k :
       {"bsp", "ssp", "downpour", "hogwild", "easgd", "eamsgd", "group_sync", "gossip", "placed", "refused", "moved", "as bsp"})
    EXPECT_GT(kinds[k], 0u) << k;
}

// A placed layer has its own worker sync, which handles only the layer's blocks; the workers' syncs
// handle all others.
TEST(laws_any_switch, job_with_a_placed_layer_can_switch_to_its_own_mode) {
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config c;
  c.dev = dev.get();
  shape_of_job s;
  s.workers = 2, s.shards = 2, s.steps = 12, s.rule = "adam";
  auto spec = small_spec(s);
  const auto whole = made_of(spec, nodes_of(2, true));
  for (auto& l : spec.layers)
    if (l.name == "score" || l.name == "relu1") l.place = {"n2"};  // relu1: a worker sync without blocks
  const auto placed = made_of(spec, nodes_of(2, true));
  ASSERT_TRUE(whole && placed && placed->plan.placed);
  const auto want = run_in_world(whole, c);
  const std::vector<wish> again{{4, {mode_command{{"bsp"}}}}};
  const auto got = run_moved(placed, {}, c, again);
  ASSERT_TRUE(got.done);
  EXPECT_EQ(std::count_if(got.events.begin(), got.events.end(), [](const event_effect& e) { return e.is<mode_event>(); }), 1);
  EXPECT_TRUE(got.bytes() == want.bytes());
  const auto moved = run_moved(whole, {{2, move_key("score", "n2")}}, c, {{7, {mode_command{{"bsp"}}}}});
  ASSERT_TRUE(moved.done);
  EXPECT_EQ(std::count_if(moved.events.begin(), moved.events.end(), [](const event_effect& e) { return e.is<mode_event>(); }), 1);
  EXPECT_TRUE(moved.bytes() == want.bytes());
}

// The last steps are granted before the command arrives: no step is left for the new mode.
TEST(laws_any_switch, switch_is_refused_if_the_job_ends_first) {
  const std::shared_ptr<device> dev = make_cpu_device();
  sim::world_config c;
  c.dev = dev.get();
  const auto got = run_moved(prepare({.workers = 2, .steps = 5}), {}, c, {{4, {mode_command{{"ssp", {{"staleness", "1"}}}}}}});
  ASSERT_TRUE(got.done);
  EXPECT_EQ(got.unheard, std::vector<std::string>{"the job ended at step 5, before the switch to mode 'ssp'"});
}

}  // namespace
}  // namespace troupe::testing
