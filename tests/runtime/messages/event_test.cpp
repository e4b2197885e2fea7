// The flat form of events, which messages between daemons and the journal carry.
#include "runtime/messages/event.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string why_not(const flat_event& flat) {
  const auto read = event_of(flat);
  return read ? std::string() : read.error().text;
}

template <class K>
K read_as(const flat_event& flat) {
  const auto read = event_of(flat);
  const auto* e = read ? &*read : nullptr;
  if (!e || !e->is<K>()) {
    ADD_FAILURE() << why_not(flat);
    return {};
  }
  return *e->as<K>();
}

template <std::size_t... I>
std::vector<event_effect> one_of_each(std::index_sequence<I...>) {
  return {event_effect{I, std::variant_alternative_t<I, job_event_kind>{}}...};
}

TEST(flat_event, every_kind_has_an_id_of_its_own_and_is_read_back) {
  std::set<std::string> ids;
  for (const auto& e : one_of_each(std::make_index_sequence<std::variant_size_v<job_event_kind>>())) {
    EXPECT_TRUE(ids.insert(name_of(e).id).second) << name_of(e).id;
    const auto read = event_of(flatten(e));
    ASSERT_TRUE(read.has_value()) << name_of(e).id;
    EXPECT_EQ(read->what.index(), e.what.index());
    EXPECT_EQ(read->step, e.step);
  }
}

TEST(flat_event, leaves_out_values_that_are_absent) {
  EXPECT_THAT(flatten({3, step_event{.loss = 2}}).values,
              ElementsAre(Pair("loss", 2.0), Pair("examples_per_s", 0.0), Pair("step_seconds", 0.0)));
  EXPECT_THAT(flatten({3, step_event{.loss = 2, .lr = 0.5, .skipped = 1}}).values,
              ElementsAre(Pair("loss", 2.0), Pair("lr", 0.5), Pair("examples_per_s", 0.0), Pair("step_seconds", 0.0),
                          Pair("skipped", 1.0)));
  EXPECT_THAT(flatten({3, checkpoint_event{}}).texts, IsEmpty());
}

TEST(flat_event, keeps_every_field_of_a_done_event) {
  done_event d{how_ended::stopped, 20, 1.5, 0.75, 3.25, "ab", 8, 4294967297u, {"no space", "late"}, "runs/1"};
  const auto back = read_as<done_event>(flatten({20, d}));
  EXPECT_TRUE(back.stopped());
  EXPECT_EQ(back.steps, 20u);
  EXPECT_EQ(back.epochs, 1.5);
  EXPECT_EQ(back.test_accuracy, 0.75);
  EXPECT_EQ(back.seconds, 3.25);
  EXPECT_EQ(back.weights_sha256, "ab");
  EXPECT_EQ(back.packets, 8u);
  EXPECT_EQ(back.tcp_bytes, 4294967297u);
  EXPECT_THAT(back.alerts, ElementsAre("no space", "late"));
  EXPECT_EQ(back.run, "runs/1");
}

TEST(flat_event, keeps_the_role_of_a_failure) {
  const role_failure what{"worker0/conv1", "no such file"};
  const auto back = read_as<error_event>(flatten({3, error_event{what.text(), "n2", "/post", what}}));
  ASSERT_TRUE(back.role);
  EXPECT_EQ(back.role->role, "worker0/conv1");
  EXPECT_EQ(back.role->reason, "no such file");
  EXPECT_EQ(back.message, "role worker0/conv1: no such file");
  EXPECT_EQ(back.where, "n2");
  EXPECT_FALSE(read_as<error_event>(flatten({3, error_event{"role is a word"}})).role);
}

TEST(flat_event, keeps_values_that_share_a_list_with_other_metrics) {
  const auto back = read_as<eval_event>(flatten({9, eval_event{0.5, {{"top5", 0.9}, {"seconds", 2}}, 0.25}}));
  EXPECT_EQ(back.accuracy, 0.5);
  EXPECT_EQ(back.loss, 0.25);
  EXPECT_THAT(back.others, ElementsAre(Pair("top5", 0.9), Pair("seconds", 2.0)));
}

TEST(flat_event, keeps_staleness_histograms_settings_modes_and_packets) {
  const std::vector<staleness_entry> entries{{"odd name", {{0, 30}, {12, 10}}}, {"b", {{2, 5}}}};
  EXPECT_EQ(read_as<staleness_event>(flatten({9, staleness_event{entries}})).parameters, entries);
  value_histogram h{3, 1, 0, -1, 2, 1, 5, {{static_cast<std::uint16_t>(bucket_of(0)), 3}}};
  const auto back = read_as<histogram_event>(flatten({9, histogram_event{true, "conv1.weight", h}}));
  EXPECT_TRUE(back.gradient);
  EXPECT_EQ(back.parameter, "conv1.weight");
  EXPECT_EQ(back.values, h);
  EXPECT_EQ(read_as<set_event>(flatten({9, set_event{{"train.dynamics.lr", 0.5}}})).setting,
            (std::pair<std::string, double>{"train.dynamics.lr", 0.5}));
  const mode_choice m{"ssp", {{"staleness", "3"}, {"pull", ""}}};
  EXPECT_EQ(read_as<mode_event>(flatten({9, mode_event{m}})).mode, m);
  EXPECT_EQ(read_as<balance_event>(flatten({9, balance_event{{12, 4}}})).packets, (std::vector<std::uint32_t>{12, 4}));
  EXPECT_EQ(message_of({9, balance_event{{12, 4}}}), "packets by the speed of the workers: 12, 4");
}

TEST(flat_event, is_refused_when_the_kind_is_unknown_or_a_count_is_not_whole) {
  EXPECT_EQ(why_not({"sung", 1}), "unknown kind of event 'sung'");
  EXPECT_EQ(why_not({"refused", 1}), "");
  EXPECT_EQ(why_not({"alert", 1}), "");
  for (const double bad : {-1.0, 0.5, 1e300, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THAT(why_not({"done", 1, {{"steps", bad}}}), HasSubstr("'steps' of the event 'done' is not a whole number")) << bad;
  EXPECT_EQ(why_not({"done", 1, {{"epochs", std::nan("")}, {"unknown", -1}}, {{"also", "unknown"}}}), "");
}

TEST(flat_event, has_its_kind_id_where_several_kinds_share_a_name) {
  EXPECT_STREQ(name_of({1, checkpoint_lost_event{}}).name, "alert");
  EXPECT_EQ(flatten({1, checkpoint_lost_event{}}).kind, "checkpoint_lost");
  EXPECT_STREQ(name_of({1, handover_refused_event{}}).name, "refused");
  EXPECT_EQ(flatten({1, handover_refused_event{"busy"}}).kind, "handover_refused");
}

TEST(event, only_done_preempted_and_error_end_a_job) {
  std::set<std::string> last;
  for (const auto& e : one_of_each(std::make_index_sequence<std::variant_size_v<job_event_kind>>()))
    if (ends_job(e)) last.insert(name_of(e).name);
  EXPECT_THAT(last, ElementsAre("done", "error", "preempted"));
}

}  // namespace
}  // namespace troupe
