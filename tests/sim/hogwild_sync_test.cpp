// The sync roles of hogwild without a world, with several server groups: additions and notes of a
// worker, and when a shard sends changes to the first group.
#include <gmock/gmock.h>

#include "tests/sim/lone_role.hpp"

namespace troupe::testing {
namespace {

using ::testing::IsEmpty;
using shared_kind = shared_effect::kind_of;

constexpr std::uint32_t note = 1;  // type of the worker's `user` message

// Two groups of one worker and two shards, each group on its own node.
std::shared_ptr<prepared_job> two_groups(std::uint32_t groups = 2) {
  return prepare_mode({.mode = "hogwild",
                       .options = {{"sync_freq", "3"}},
                       .workers = 2,
                       .shards = 2,
                       .layers = 2,
                       .groups = groups,
                       .server_groups = groups,
                       .lr = 0.5,
                       .together = groups == 1});
}

std::vector<std::pair<role_id, std::uint64_t>> notes(const std::vector<envelope>& sent) {
  std::vector<std::pair<role_id, std::uint64_t>> list;
  for (const auto& [h, u] : only<user>(sent))
    if (u.type == note) list.emplace_back(h.dst, h.step);
  return list;
}

TEST(hogwild_worker, notifies_its_groups_shards_when_all_layers_have_added_a_step) {
  const auto j = two_groups();
  lone_role w(j, j->plan.workers[1]);
  w.give_states(0);
  EXPECT_THAT(notes(w.give_gradient(0, 0, 1)), IsEmpty());
  const std::vector<std::pair<role_id, std::uint64_t>> first{{j->plan.shards[2], 1}, {j->plan.shards[3], 1}};
  EXPECT_EQ(notes(w.give_gradient(1, 0, 1)), first);
  EXPECT_THAT(notes(w.give_gradient(1, 1, 1)), IsEmpty());
  const std::vector<std::pair<role_id, std::uint64_t>> second{{j->plan.shards[2], 2}, {j->plan.shards[3], 2}};
  EXPECT_EQ(notes(w.give_gradient(0, 1, 1)), second);

  const auto alone = two_groups(1);
  lone_role other(alone, alone->plan.workers[1]);
  other.give_states(0);
  EXPECT_THAT(notes(other.give_gradients(0, 1)), IsEmpty()) << "there is no other group";
}

// Additions of other workers are in the weights of the next step and are not added again.
TEST(hogwild_worker, adds_its_steps_difference_and_continues_with_the_array) {
  const auto j = two_groups();
  lone_role w(j, j->plan.workers[1]);
  const auto place = [&](const param_block& b) { return static_cast<std::uint32_t>(j->plan.blocks.size()) + b.id; };
  for (const auto& b : j->plan.blocks) w.array[place(b)] = w.filled({b.count}, 8);
  w.give_states(2);
  for (std::uint64_t s = 0; s < 2; ++s) {
    const auto given = only<layer_weights>(w.give_gradients(s, 1));
    ASSERT_EQ(given.size(), 2u) << "one message per layer";
    for (const auto& [h, l] : given) {
      EXPECT_EQ(h.version, s + 1);
      for (const auto& t : l.values)
        EXPECT_EQ(w.first_of(t), 7.5 - 0.5 * static_cast<double>(s)) << "the array minus lr times the gradients";
    }
  }
  std::size_t adds = 0;
  for (const auto& [what, where] : w.touched) adds += what == shared_kind::add;
  EXPECT_EQ(adds, 2 * j->plan.blocks.size());
}

// A shard of the second group, whose blocks start at 0.
class second_group : public ::testing::Test {
 protected:
  second_group() {
    s.say({}, start{});
    for (auto& [place, value] : s.array) s.dev().fill(0, value);
  }
  std::vector<envelope> note_step(std::uint64_t step) { return s.say(from(j->plan.workers[1], step), user{note, {}, {}}); }
  // Adds `more` to every element, as the group's worker would.
  void add(double more) {
    for (auto& [place, value] : s.array) s.dev().axpy(1, s.filled(value.dims(), more), value);
  }
  // The first group's answer to push `number`: all its elements are `value`.
  std::vector<envelope> answer(std::uint64_t number, double value) {
    std::vector<envelope> sent;
    for (const auto& b : mine())
      for (auto& e : s.say(from(j->plan.shard_of(*b, 0)), weights{b->id, s.filled({b->count}, value), number})) sent.push_back(e);
    return sent;
  }
  std::vector<const param_block*> mine() const {
    std::vector<const param_block*> list;
    for (const auto& b : j->plan.blocks)
      if (j->plan.shard_of(b, 1) == s.self()) list.push_back(&b);
    return list;
  }
  // Expects one push per block to the first group, with the increment `value`.
  void expect_increments(const std::vector<envelope>& sent, std::uint64_t number, double value) {
    const auto pushes = only<push>(sent);
    ASSERT_EQ(pushes.size(), mine().size());
    for (const auto& [h, p] : pushes) {
      EXPECT_EQ(h.dst, j->plan.shard_of(j->plan.blocks[p.block], 0));
      EXPECT_EQ(p.increment, number);
      EXPECT_EQ(s.first_of(p.sum), value);
    }
  }
  void expect_array(double value) {
    for (const auto& [place, t] : s.array) EXPECT_EQ(s.first_of(t), value);
  }
  bool flushed(const std::vector<envelope>& sent) const {
    const auto all = only<ready>(sent);
    return std::any_of(all.begin(), all.end(), [](const auto& r) { return r.first.dst == role_id{0}; });
  }

  std::shared_ptr<prepared_job> j = two_groups();
  lone_role s{j, j->plan.shards[2]};
};

TEST_F(second_group, sends_changes_to_the_first_group_after_every_n_notes) {
  ASSERT_FALSE(mine().empty());
  add(4);
  EXPECT_THAT(note_step(1), IsEmpty());
  EXPECT_THAT(note_step(2), IsEmpty());
  EXPECT_THAT(note_step(2), IsEmpty()) << "a duplicate note is ignored";
  expect_increments(note_step(3), 1, 4);
  for (std::uint64_t step = 4; step < 8; ++step) EXPECT_THAT(note_step(step), IsEmpty()) << "the answer is still in flight";
  add(1);
  EXPECT_THAT(answer(1, 10), IsEmpty());
  expect_array(11);  // the first group's value plus additions here since then
  EXPECT_THAT(note_step(8), IsEmpty());
  expect_increments(note_step(9), 2, 1);
}

TEST_F(second_group, sends_remaining_changes_before_it_has_flushed) {
  add(4);
  for (std::uint64_t step = 1; step < 4; ++step) note_step(step);
  add(1);
  const auto word = s.say(from(j->plan.workers[1], 3), ready{ready::what_of::flushed, 1});
  EXPECT_THAT(only<push>(word), IsEmpty()) << "one increment at a time";
  EXPECT_FALSE(flushed(word));
  const auto rest = answer(1, 10);
  expect_increments(rest, 2, 1);
  EXPECT_FALSE(flushed(rest));
  EXPECT_TRUE(flushed(answer(2, 11)));
  expect_array(11);
}

// A checkpoint may be due at the begin of a plan, before the first values are written.
TEST(hogwild_first_group, answers_a_collect_only_when_its_first_values_are_written) {
  const auto j = two_groups();
  lone_role s(j, j->plan.shards[0]);
  s.hold();
  s.say({}, start{});
  EXPECT_THAT(s.say(from(role_id{0}, 0), collect{7, true}), IsEmpty());
  EXPECT_TRUE(s.touched.empty());
  const auto blocks =
      std::count_if(j->plan.blocks.begin(), j->plan.blocks.end(), [&](const auto& b) { return b.shard == s.self(); });
  std::int64_t answered = 0;
  for (const auto& [h, what] : only<state>(s.let_go())) answered += h.dst == role_id{0} && what.request == 7;
  EXPECT_EQ(answered, blocks);
}

TEST(hogwild_first_group, adds_an_increment_once_and_answers_its_copy) {
  const auto j = two_groups();
  lone_role s(j, j->plan.shards[0]);
  s.say({}, start{});
  const auto& b = *std::find_if(j->plan.blocks.begin(), j->plan.blocks.end(), [&](const auto& x) { return x.shard == s.self(); });
  s.dev().fill(5, s.array.at(b.id));
  const auto announced = [&](std::uint64_t number) {
    return only<weights>(s.say(from(j->plan.shard_of(b, 1)), push{b.id, 0, 1, s.filled({b.count}, 2), false, number}));
  };
  for (int again = 0; again < 2; ++again) {
    const auto answers = announced(1);
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].first.dst, j->plan.shard_of(b, 1));
    EXPECT_EQ(answers[0].second.increment, 1u);
    EXPECT_EQ(s.first_of(answers[0].second.value), 7);
  }
  EXPECT_EQ(s.first_of(announced(2).at(0).second.value), 9);
  EXPECT_THAT(announced(1), IsEmpty()) << "an older increment is not answered again";
}

}  // namespace
}  // namespace troupe::testing
