// Bytes and messages that no correct client sends: every input is answered, memory stays within its
// limit, and no state remains.
#include <set>

#include "runtime/data/random.hpp"
#include "tests/runtime/exchange/exchange_desk.hpp"
#include "tests/runtime/exchange/exchange_samples.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::exchange::testing {
namespace {

// The input lives as long as the message, since a piece refers to it.
std::optional<message> decode_text(std::uint16_t type, const std::string& s) {
  const auto copy = std::make_shared<const std::string>(s);
  return decode(type, std::as_bytes(std::span(copy->data(), copy->size())), copy);
}

TEST(exchange_wire, decode_inverts_encode_for_every_message) {
  for (const auto& m : message_samples()) {
    const auto e = encode(m);
    const auto back = decode_text(e.type, joined(e));
    ASSERT_TRUE(back) << m.index();
    EXPECT_EQ(back->index(), m.index());
    EXPECT_EQ(joined(encode(*back)), joined(e));
    EXPECT_FALSE(decode_text(e.type, joined(e).substr(0, e.head.size() - std::min<std::size_t>(1, e.head.size()))) &&
                 !e.head.empty());
  }
  const auto o = std::get<open_session>(*decode_text(first_type, joined(encode(message_samples()[0]))));
  EXPECT_EQ(o.session, "run");
  EXPECT_EQ(o.alpha, 0.5);
  EXPECT_EQ(o.size, 2u);
  EXPECT_FALSE(decode_text(static_cast<std::uint16_t>(first_type - 1), ""));
  EXPECT_FALSE(decode_text(static_cast<std::uint16_t>(first_type + std::variant_size_v<message>), ""));
}

TEST(exchange_wire, rejects_a_length_beyond_the_input) {
  std::string s(8, '\1');                   // call
  s += std::string("\xff\xff\xff\xff", 4);  // 4 GiB of name
  EXPECT_FALSE(decode_text(encode(take_lock{}).type, s + "data"));
  auto long_name = encode(take_lock{1, std::string(max_name, 'x')});
  EXPECT_TRUE(decode_text(long_name.type, long_name.head));
  long_name.head[8]++;
  EXPECT_FALSE(decode_text(long_name.type, long_name.head + "x"));
  EXPECT_FALSE(decode_text(encode(piece{}).type, std::string(16 + piece_bytes + 1, 'x')));
}

TEST(exchange_wire, mutated_messages_are_decoded_or_rejected) {
  std::vector<encoded> seeds;
  for (const auto& m : message_samples()) seeds.push_back(encode(m));
  counter_rng rng(16);
  const auto inputs = test::fuzz_inputs(1000000);
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < inputs; ++i) {
    const auto& e = seeds[rng.draw_below(seeds.size())];
    auto s = joined(e);
    for (auto n = rng.draw_below(3) + 1; n > 0; --n) {
      const auto bits = rng.next();
      const auto at = s.empty() ? 0 : rng.draw_below(s.size());
      if ((bits & 7) == 0)
        s.resize(at);
      else if ((bits & 7) == 1)
        s.insert(at, 1, static_cast<char>(bits >> 8));
      else if (!s.empty())
        s[at] = static_cast<char>(bits & 8 ? 0xff : bits >> 8);
    }
    const auto type =
        static_cast<std::uint16_t>(rng.draw_below(8) ? e.type : first_type + rng.draw_below(std::variant_size_v<message> + 3));
    const auto m = decode_text(type, s);
    if (!m) continue;
    ++accepted;
    ASSERT_EQ(joined(encode(*m)), s) << "input " << i;
  }
  EXPECT_GT(accepted, inputs / 100);
  EXPECT_LT(accepted, inputs);
}

message some_message(counter_rng& rng, std::uint64_t& call, std::uint64_t share_id) {
  static const std::vector<std::byte> bytes(64, std::byte{1});
  const auto n = [&](std::uint64_t below) { return static_cast<std::uint32_t>(rng.draw_below(below)); };
  const std::string name(1, static_cast<char>('a' + n(3)));
  const auto number = rng.draw_below(30) == 0 ? call : ++call;
  switch (n(15)) {
    case 0: return open_session{protocol, name, n(4), n(4), static_cast<averaging_method>(n(3)), n(2) * 0.5};
    case 1: return declare{number, name, static_cast<element>(n(2)), n(9)};
    case 2: return take_lock{number, name};
    case 3: return free_lock{number, name};
    case 4: return cancel{call};
    case 5: return n(6) ? message(cancel{call}) : message(leave{});
    case 6:
    case 7: return piece{call, n(3) * 8u, {nullptr, bytes.data(), n(8) * 8u}};
    case 8: return share{number, name, static_cast<element>(n(2)), n(9)};
    case 9: return filled{n(4) ? share_id : n(5), static_cast<contents>(n(2))};
    case 10: return n(20) ? message(share{number, name, element::f32, 4}) : message(shared_at{});
    default: return begin{number, static_cast<collective_op>(n(5)), n(3), n(3)};
  }
}

// A hub with clients that send random messages and die at random.
class rude_company {
 public:
  explicit rude_company(std::uint64_t seed) : seed_(seed), rng_(seed), hub_(few()) {}

  void step() {
    const auto who = "c" + std::to_string(rng_.draw_below(6));
    hub_effects out;
    // Most clients begin with a valid open_session, so that many join.
    if (!calls_.contains(who) && rng_.draw_below(3)) {
      calls_[who] = 0;
      hub_.on(who,
              open_session{protocol, "a", static_cast<std::uint32_t>(who[1] - '0') % 3, 3, static_cast<averaging_method>(seed_ % 3),
                           0.5},
              out);
    } else if (rng_.draw_below(60) == 0) {
      hub_.on_gone(who, "gone", out);
      forget(who);
    } else {
      hub_.on(who, some_message(rng_, calls_[who], offered_[who]), out);
    }
    ASSERT_LE(hub_.reserved(), few().bytes);
    ASSERT_LE(hub_.shares(), few().shares);
    for (const auto& e : out) ASSERT_NO_FATAL_FAILURE(receive(e));
  }

  void all_leave() {
    for (int i = 0; i < 6; ++i) {
      hub_effects out;
      hub_.on_gone("c" + std::to_string(i), "gone", out);
      for (const auto& e : out)
        if (const auto* u = std::get_if<unshare_effect>(&e)) held_.erase(u->id);
    }
    ASSERT_TRUE(held_.empty()) << "unused shared memory is kept";
    ASSERT_EQ(hub_.shares(), 0u);
    ASSERT_EQ(hub_.clients(), 0u);
    ASSERT_EQ(hub_.groups(), 0u);
    ASSERT_EQ(hub_.reserved(), 0u);
  }

  std::uint64_t answers = 0, drops = 0, shares = 0;

 private:
  static hub_limits few() {
    hub_limits l;
    l.bytes = 4000;
    l.shares = 2;
    return l;
  }
  void forget(const std::string& who) {
    calls_.erase(who);
    answered_.erase(who);
  }
  void receive(const hub_effects::value_type& e) {
    if (const auto* d = std::get_if<drop_effect>(&e)) {
      ++drops;
      forget(d->who);
    }
    if (const auto* u = std::get_if<unshare_effect>(&e)) held_.erase(u->id);
    if (const auto* x = std::get_if<share_effect>(&e)) {
      ++shares;
      offered_[x->to] = x->what.id;
      held_.insert(x->what.id);
      ASSERT_TRUE(answered_[x->to].insert(x->what.call).second) << "a call has two answers";
    }
    const auto* s = std::get_if<send_effect>(&e);
    const auto* a = s ? std::get_if<answer>(&s->what) : nullptr;
    if (!a || a->call == 0) return;
    ++answers;
    ASSERT_TRUE(answered_[s->to].insert(a->call).second) << "a call has two answers";
  }

  const std::uint64_t seed_;
  counter_rng rng_;
  hub hub_;
  std::map<std::string, std::uint64_t> calls_;
  std::map<std::string, std::set<std::uint64_t>> answered_;
  std::map<std::string, std::uint64_t> offered_;  // the last share that a client was handed
  std::set<std::uint64_t> held_;                  // the memory that the host would have allocated
};

// 200 seeds: a call has at most one answer, the limit holds, and no state remains.
TEST(exchange_soak, the_hub_survives_random_messages) {
  std::uint64_t answers = 0, drops = 0, shares = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    rude_company all(seed);
    for (int i = 0; i < 3000; ++i) ASSERT_NO_FATAL_FAILURE(all.step());
    ASSERT_NO_FATAL_FAILURE(all.all_leave());
    answers += all.answers, drops += all.drops, shares += all.shares;
  }
  EXPECT_GT(answers, 10000u);
  EXPECT_GT(drops, 1000u);
  EXPECT_GT(shares, 1000u);
}

}  // namespace
}  // namespace troupe::exchange::testing
