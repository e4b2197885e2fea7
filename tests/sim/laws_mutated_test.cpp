// Robustness against messages of other builds, other jobs or attackers: every role gets malformed
// copies of real messages just before the real ones. They must have no effect, and the job must end
// with the same bits. Then messages with any field changed: the job may stop or end with an error,
// but no role crashes.
#include "runtime/messages/fits.hpp"
#include "tests/sim/chain_job.hpp"
#include "tests/sim/mode_checkers.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

using dice = std::mt19937_64;

// --- malformed tensors

tensor filled(const shape& s, dtype t) {
  auto x = tensor::allocate(*cpu(), s, t);
  cpu()->fill(0, x);
  x.freeze();
  return x;
}

// Returns a tensor with another number of elements or another type, or an empty one.
tensor unlike(const tensor& t, dice& g) {
  shape s = t.dims();
  const auto other = t.type() == dtype::f64 ? dtype::f32 : dtype::f64;
  switch (g() % 5) {
    case 0: return {};
    case 1: return filled(s, other);
    case 2: return filled(shape{}, t.type());  // one element
    case 3: return filled(shape{t.count() + 1 + static_cast<std::int64_t>(g() % 3)}, t.type());
    default: break;
  }
  if (s.rank() == 0) return filled(shape{2}, t.type());
  const auto axis = static_cast<int>(g() % static_cast<std::uint64_t>(s.rank()));
  s.set(axis, s[axis] + 1);
  return filled(s, t.type());
}
// The same, but never a tensor with the same type and number of elements.
tensor other_than(const tensor& t, dice& g) {
  auto x = unlike(t, g);
  while (x && x.type() == t.type() && x.count() == t.count()) x = unlike(t, g);
  return x;
}

void spoil(tensors& all, dice& g) {
  const auto n = all.size();
  if (n == 0 || g() % 4 == 0) return all.push_back(filled(shape{3}, dtype::f32));
  if (g() % 3 == 0) return all.pop_back();
  std::size_t at = g() % n;
  for (std::size_t k = 0; k < n && !all[at]; ++k) at = (at + 1) % n;
  all[at] = all[at] ? other_than(all[at], g) : filled(shape{3}, dtype::f32);
}

// --- malformed messages

void spoil_header(header& h, dice& g, const job_plan& p, bool ported) {
  switch (g() % (ported ? 5 : 2)) {
    case 0: h.src = role_id{static_cast<std::uint32_t>(p.roles.size() + g() % 5)}; break;
    case 1: h.src = no_role; break;
    case 2: h.port = static_cast<std::uint16_t>(1000 + g() % 60000); break;
    case 3: h.phase = static_cast<std::uint8_t>(2 + g() % 254); break;
    default: h.packet = 0x80000000u + static_cast<std::uint32_t>(g() % 1000), h.phase = 0; break;
  }
}

// size: one case for each kind of message
// Returns false if messages of this kind are not changed.
bool spoil(envelope& e, dice& g, const prepared_job& j) {
  const bool by_header = g() % 3 == 0;
  const auto& p = j.plan;
  return std::visit(overloaded{
                        [&](forward& f) {
                          by_header ? spoil_header(e.h, g, p, true) : void(f.value = other_than(f.value, g));
                          return true;
                        },
                        [&](backward& b) {
                          by_header ? spoil_header(e.h, g, p, true) : void(b.grad = other_than(b.grad, g));
                          return true;
                        },
                        [&](gradient& b) {
                          if (by_header && g() % 2) {
                            b.layer = g() % 2 ? static_cast<std::uint32_t>(j.graph.layers.size() + g() % 3) : 0x80000000u;
                          } else if (by_header && g() % 2) {
                            b.span = static_cast<std::uint32_t>(3 + 4 * (g() % 100));
                          } else if (by_header) {
                            g() % 2 ? spoil_header(e.h, g, p, false) : void(e.h.packet = 0x80000000u);
                          } else {
                            spoil(!b.stats.empty() && g() % 2 ? b.stats : b.grads, g);
                          }
                          return true;
                        },
                        [&](layer_weights& w) {
                          if (by_header && g() % 2)
                            w.layer = g() % 2 ? ~0u : static_cast<std::uint32_t>(j.graph.layers.size());
                          else
                            by_header ? spoil_header(e.h, g, p, false) : spoil(w.values, g);
                          return true;
                        },
                        [&](weights& w) {
                          by_header ? void(w.block = static_cast<std::uint32_t>(p.blocks.size() + g() % 3))
                                    : void(w.value = other_than(w.value, g));
                          return true;
                        },
                        [&](push& x) {
                          if (by_header && g() % 2)
                            x.block = static_cast<std::uint32_t>(p.blocks.size() + g() % 3);
                          else if (by_header)
                            spoil_header(e.h, g, p, false);
                          else
                            x.sum = other_than(x.sum, g);
                          return true;
                        },
                        [&](state& s) {
                          if (index_of(e.h.dst) == 0 && s.block >= p.blocks.size()) return false;  // carried state
                          if (by_header)
                            s.block = static_cast<std::uint32_t>(0x80000000u + g() % 3);
                          else if (!s.rule.empty() && g() % 2)
                            spoil(s.rule, g);
                          else
                            s.value = other_than(s.value, g);
                          return true;
                        },
                        [&](histogram& h) {
                          if (by_header)
                            g() % 2 ? void(h.block = static_cast<std::uint32_t>(p.blocks.size() + g() % 3))
                                    : spoil_header(e.h, g, p, false);
                          else
                            g() % 2 ? ++h.weight.count : ++h.weight.buckets.front().second;
                          return true;
                        },
                        [&](user& u) {
                          if (u.values.empty() || by_header) return false;
                          spoil(u.values, g);
                          return true;
                        },
                        [](auto&) { return false; },
                    },
                    e.body);
}

// Sends every role malformed copies of each message before the message itself.
struct spoiler final : mistake {
  dice g;
  std::map<std::string, std::uint64_t> announced;
  std::string changed;  // the first malformed message that had an effect
  explicit spoiler(std::uint64_t seed) : g(seed) {}
  void play(role& inner, role_id self, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    for (int k = 0; k < 2; ++k) {
      auto e = in;
      if (!spoil(e, g, j)) continue;
      ++announced[name_of(e.body)];
      const auto before = out.list().size();
      inner.on(e, now, out);
      if (out.list().size() != before && changed.empty())
        changed = std::string(name_of(e.body)) + " of step " + std::to_string(e.h.step) + " to " + j.plan[self].name;
    }
    inner.on(in, now, out);
  }
};

// --- jobs

std::shared_ptr<prepared_job> prepared_or_none(const job_spec& spec, const std::vector<node_spec>& nodes) {
  auto made = prepare_job(spec, shared_tables(), nodes);
  if (!made) return nullptr;
  return *made;
}

// Any net with any placement: gathering stages, edges with a wire format, layers split by feature.
std::shared_ptr<prepared_job> any_net(std::uint64_t seed) {
  random_net net(seed);
  auto spec = net.job();
  spec.train.finish.steps = 3;
  bool feature = false;
  if (seed % 2) net.place(spec, 4, feature);
  if (seed % 3 == 1) net.gather(spec, 0.7);
  if (seed % 3 == 1) spec.pipeline.sub_solvers = spec.pipeline.packets;
  if (seed % 5 == 0) spec.topology.workers_per_group = 2;
  if (seed % 10 == 0) spec.train.reducer = "tree";
  return prepared_or_none(spec, seed % 4 < 2 ? apart_nodes(4) : chain_nodes(4));
}

// batch_norm over the whole step: stages that exchange messages.
std::shared_ptr<prepared_job> joint_net(std::uint64_t seed) {
  auto spec = small_spec({.packets = 4, .workers = 1 + static_cast<std::uint32_t>(seed % 2), .sub_solvers = 4, .steps = 3});
  std::erase_if(spec.layers, [](const layer_spec& l) { return l.type == "dropout"; });
  spec.layers.insert(spec.layers.begin() + 1,
                     layer_of("bn", "batch_norm", {"conv1"}, with({{"stats", seed % 3 ? std::string("batch") : "packet"}})));
  spec.layers[2].inputs = {"bn"};
  for (auto& l : spec.layers)
    if (l.name == "score") l.inputs = {"sum"};
  spec.eval.every = 2;
  return prepared_or_none(spec, chain_nodes(2));
}

// Sends every kind of message that a host can request.
std::shared_ptr<prepared_job> with_histograms_and_best(std::shared_ptr<prepared_job> j) {
  if (j) j->keeps_best = true, j->histograms_every = 2;
  return j;
}

std::shared_ptr<prepared_job> any_job(std::uint64_t seed) {
  return with_histograms_and_best(seed % 4 == 3 ? joint_net(seed) : any_net(seed));
}

mode_run run_of(const std::shared_ptr<prepared_job>& j, std::uint64_t seed) {
  return {.job = j, .config = draw_world(seed, 0, cpu().get()), .limit = 4'000'000};
}

std::uint64_t total(const std::map<std::string, std::uint64_t>& announced) {
  std::uint64_t n = 0;
  for (const auto& [name, count] : announced) n += count;
  return n;
}

TEST(laws_mutated, malformed_messages_change_nothing) {
  std::map<std::string, std::uint64_t> announced;
  std::uint64_t ran = 0;
  for (auto seed = first_seed(); ran < seeds(150); ++seed) {
    const auto j = any_job(seed);
    if (!j) continue;
    ++ran;
    const auto calm = run(run_of(j, seed));
    ASSERT_EQ(calm.violation, "") << "seed " << seed;
    spoiler wrong(seed);
    auto r = run_of(j, seed);
    r.wrong = &wrong;
    const auto got = run(r);
    ASSERT_EQ(wrong.changed, "") << "seed " << seed;
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(differs(got, calm), "") << "seed " << seed;
    for (const auto& [name, n] : wrong.announced) announced[name] += n;
  }
  for (const char* name : {"forward", "backward", "gradient", "weights", "layer_weights", "push", "state", "histogram"})
    EXPECT_GT(announced[name], ran) << name;
  EXPECT_GT(announced["user"], 0u);
  std::printf("%llu malformed messages\n", static_cast<unsigned long long>(total(announced)));
}

// Every mode. In modes that depend on timing the result is the same too, because malformed messages
// take no virtual time.
TEST(laws_mutated, malformed_messages_change_nothing_in_any_mode) {
  const std::vector<mode_shape> modes{{.mode = "bsp"},
                                      {.mode = "bsp", .rule = "adam", .reducer = "tree"},
                                      {.mode = "ssp", .options = {{"staleness", "2"}}},
                                      {.mode = "sandblaster"},
                                      {.mode = "downpour", .options = {{"n_push", "2"}}},
                                      {.mode = "easgd", .options = {{"alpha", "0.2"}, {"tau", "2"}}},
                                      {.mode = "easgd", .options = {{"tau", "2"}, {"variant", "sync"}}, .rule = "momentum"},
                                      {.mode = "gossip", .options = {{"every", "2"}}, .rule = "momentum"},
                                      {.mode = "group_sync", .options = {{"sync_freq", "3"}}},
                                      {.mode = "hogwild"}};
  for (std::uint64_t k = 0; k < std::max<std::uint64_t>(seeds(60), modes.size()); ++k) {
    const auto seed = first_seed() + k;
    auto shape = draw_shape(seed, modes[k % modes.size()]);
    shape.workers = 2 + shape.workers % 4;
    shape.packets = 2 * shape.workers;
    shape.lr = 0.01;
    shape.steps = 6;
    shape.test = 11;
    shape.eval_every = 3;
    if (shape.mode == "group_sync" || shape.mode == "hogwild") shape.groups = shape.server_groups = shape.workers, shape.shards = 1;
    if (shape.mode == "downpour") shape.groups = shape.workers;
    const auto j = with_histograms_and_best(prepare_mode(shape));
    ASSERT_TRUE(j);
    const auto calm = run(run_of(j, seed));
    ASSERT_EQ(calm.violation, "") << "seed " << seed << " " << shape.mode;
    spoiler wrong(seed);
    auto r = run_of(j, seed);
    r.wrong = &wrong;
    const auto got = run(r);
    ASSERT_EQ(wrong.changed, "") << "seed " << seed << " " << shape.mode;
    ASSERT_EQ(got.violation, "") << "seed " << seed << " " << shape.mode;
    ASSERT_EQ(differs(got, calm), "") << "seed " << seed << " " << shape.mode;
    ASSERT_GT(total(wrong.announced), 100u);
  }
}

// --- messages with any field changed

// Sets any field of a header and of a body to any value. The changed message is sent before the
// real one, or instead of it. Tensors without values are left out: no host delivers them.
struct babbler final : mistake {
  dice g;
  std::uint64_t announced = 0;
  std::uint64_t rare;  // one message in `rare` is changed: with few changes the job runs longer before it stops
  explicit babbler(std::uint64_t seed) : g(seed), rare(3ull << seed % 6) {}

  std::uint64_t number() {
    switch (g() % 4) {
      case 0: return g() % 4;
      case 1: return ~0ull >> (g() % 64);
      case 2: return g() % 40;
      default: return g();
    }
  }
  void change(header& h, const job_plan& p) {
    switch (g() % 12) {
      case 0: h.src = role_id{static_cast<std::uint32_t>(g() % (p.roles.size() + 2))}; break;
      case 1: h.id = msg_id{number()}; break;
      case 2: h.step = number(); break;
      case 3: h.version = number(); break;
      case 4: h.step = h.version = number(); break;
      case 5: h.packet = static_cast<std::uint32_t>(number()); break;
      case 6: h.packets = static_cast<std::uint32_t>(number()); break;
      case 7: h.port = static_cast<std::uint16_t>(number()); break;
      case 8: h.phase = static_cast<std::uint8_t>(number()); break;
      case 9: h.mode_epoch = static_cast<std::uint8_t>(number()); break;
      default: h.flags = static_cast<std::uint8_t>(number()); break;
    }
  }
  void change_body(message& m, const prepared_job& j) {
    const auto of = [&](std::size_t n) { return static_cast<std::uint32_t>(g() % 2 ? g() % (n + 1) : number()); };
    std::visit(overloaded{
                   [&](forward& f) {
                     switch (g() % 3) {
                       case 0: f.value = unlike(f.value, g); break;
                       case 1: f.valid = static_cast<std::uint32_t>(number()); break;
                       default: f.first_example = static_cast<std::uint32_t>(number()); break;
                     }
                   },
                   [&](backward& b) { b.grad = unlike(b.grad, g); },
                   [&](gradient& x) {
                     switch (g() % 5) {
                       case 0: x.layer = of(j.graph.layers.size()); break;
                       case 4: x.lag = static_cast<std::uint32_t>(number()); break;
                       case 1: x.span = static_cast<std::uint32_t>(number()); break;
                       case 2: spoil(x.grads, g); break;
                       default: spoil(x.stats, g); break;
                     }
                   },
                   [&](layer_weights& w) { g() % 2 ? void(w.layer = of(j.graph.layers.size())) : spoil(w.values, g); },
                   [&](weights& w) {
                     switch (g() % 3) {
                       case 0: w.block = of(j.plan.blocks.size()); break;
                       case 1: w.increment = number(); break;
                       default: w.value = unlike(w.value, g); break;
                     }
                   },
                   [&](push& x) {
                     switch (g() % 5) {
                       case 0: x.block = of(j.plan.blocks.size()); break;
                       case 1: x.first = static_cast<std::uint32_t>(number()); break;
                       case 3: x.increment = number(); break;
                       case 2: x.span = static_cast<std::uint32_t>(number()); break;
                       default: x.sum = unlike(x.sum, g); break;
                     }
                   },
                   [&](user& u) {
                     if (!u.values.empty() && g() % 4 > 0) return spoil(u.values, g);
                     g() % 2 ? void(u.type = static_cast<std::uint32_t>(g() % 5)) : void(u.number = number());
                   },
                   [](auto&) {},
               },
               m);
  }
  void play(role& inner, role_id, const envelope& in, time_point now, effects& out, const prepared_job& j) override {
    const bool travels = std::holds_alternative<forward>(in.body) || std::holds_alternative<backward>(in.body) ||
                         std::holds_alternative<gradient>(in.body) || std::holds_alternative<layer_weights>(in.body) ||
                         std::holds_alternative<weights>(in.body) || std::holds_alternative<push>(in.body) ||
                         std::holds_alternative<credit>(in.body) || std::holds_alternative<user>(in.body);
    if (travels && g() % rare == 0) {
      auto e = in;
      for (auto n = 1 + g() % 2; n > 0; --n) g() % 2 ? change(e.h, j.plan) : change_body(e.body, j);
      if (has_values(e)) {
        ++announced;
        inner.on(e, now, out);
      }
      if (g() % 64 == 0) return;
    }
    inner.on(in, now, out);
  }
};

TEST(laws_mutated, no_role_crashes_on_messages_with_any_field_changed) {
  std::uint64_t announced = 0, ended = 0, ran = 0;
  for (auto seed = first_seed(); ran < seeds(300); ++seed) {
    const auto j = any_job(seed);
    if (!j) continue;
    ++ran;
    babbler wrong(seed);
    auto r = run_of(j, seed);
    r.wrong = &wrong;
    r.limit = 100'000;
    const auto got = run(r);
    announced += wrong.announced;
    ended += got.done ? 1 : 0;
  }
  EXPECT_GT(announced, 10 * ran);
  std::printf("%llu messages, %llu of %llu jobs ended nevertheless\n", static_cast<unsigned long long>(announced),
              static_cast<unsigned long long>(ended), static_cast<unsigned long long>(ran));
}

}  // namespace
}  // namespace troupe::testing
