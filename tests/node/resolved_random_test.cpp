// The resolved job file of random jobs, whose keys and values come from the tables of the reader: a
// new key takes part without a change here.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/node/same_job.hpp"

namespace troupe {
namespace {

using namespace job_test;
using names = std::vector<std::string>;

// Random overrides for the keys of the tables and for the options of entries.
class random_sets {
 public:
  explicit random_sets(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

  std::string value(const key_descriptor& k) {
    switch (k.kind) {
      case key_kind::whole: return whole(k.min, k.max);
      case key_kind::real: return real(k.min, k.max);
      case key_kind::reals: return below(2) ? real(k.min, k.max) : "[" + real(k.min, k.max) + ", " + real(k.min, k.max) + "]";
      case key_kind::flag: return below(2) ? "true" : "false";
      case key_kind::word: return toml_text(one_of(k.words));
      case key_kind::time: return toml_text(std::to_string(below(1000)) + one_of(names{"ms", "s", "min"}));
      case key_kind::steps_or_time:
        return below(2) ? std::to_string(1 + below(50)) : one_of(names{"\"7s\"", "\"never\"", "\"2h\""});
      case key_kind::bytes: return one_of(names{"12345", "\"3MiB\"", "\"1GB\""});
      case key_kind::text: return toml_text("/odd " + std::to_string(below(100)) + " \"\\é\t");
      default: return {};
    }
  }
  std::string value(const option_spec& s) {
    switch (s.kind) {
      case option_kind::boolean: return below(2) ? "true" : "false";
      case option_kind::integer:
        if (s.by_axis && below(2)) return "[" + whole(s.min, s.max) + ", " + whole(s.min, s.max) + "]";
        return !s.choices.empty() && below(2) ? toml_text(one_of(s.choices)) : whole(s.min, s.max);
      case option_kind::real: return real(s.min, s.max);
      case option_kind::text: return toml_text(s.choices.empty() ? "/t \"" + std::to_string(below(9)) : one_of(s.choices));
      case option_kind::integers: return "[" + whole(s.min, s.max) + ", " + whole(s.min, s.max) + "]";
      case option_kind::reals:
        return !s.choices.empty() && below(2) ? toml_text(one_of(s.choices)) : "[" + real(s.min, s.max) + "]";
      case option_kind::texts: return toml_text(names{"/x", "y \"z\""});
      case option_kind::table: return one_of(names{"{ kind = \"constant\", value = 0.5 }", "{ kind = \"msra\" }"});
    }
    return {};
  }
  // A table with a random entry and some of its options.
  template <class Registry>
  std::string entry(const char* word, const Registry& entries) {
    const auto name = one_of(entries.names());
    std::string s = "{ " + std::string(word) + " = " + toml_text(name);
    for (const auto& o : entries.find(name)->specs)
      if (!o.fallback || below(2)) s += ", " + o.name + " = " + value(o);
    return s + " }";
  }

 private:
  std::string whole(double min, double max) {
    const auto low = std::max(min, -100.0), high = std::min(max, low + 70);
    return std::to_string(static_cast<std::int64_t>(low) +
                          static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low) + 1)));
  }
  std::string real(double min, double max) {
    const auto low = std::max(min, -10.0), high = std::min(max, low + 20);
    return toml_text(low + (high - low) * std::uniform_real_distribution<double>(0, 1)(random_));
  }

  std::mt19937 random_;
};

// Paths of keys that hold a plain value ("train.dynamics.lr", "layer.ip1.wire"), with their
// descriptors.
std::vector<std::pair<std::string, key_descriptor>> plain_keys() {
  std::vector<std::pair<std::string, key_descriptor>> list;
  const std::set<key_kind> not_plain{key_kind::table, key_kind::tables, key_kind::entry, key_kind::texts};
  for (const auto& t : job_tables()) {
    const auto from = t.name.find_first_not_of('[');
    const auto table = t.name == "[[layer]]" ? "layer.ip1."
                       : t.name[0] == '['    ? t.name.substr(from, t.name.find(']') - from) + "."
                                             : "";
    for (const auto& k : t.entries)
      if (!not_plain.contains(k.kind) && k.name != "name") list.emplace_back(table + k.name, k);
  }
  return list;
}

TEST(resolved_job, is_read_as_the_same_job_for_random_jobs) {
  random_sets random(20);
  const auto& all = every_table();
  const auto text = text_of(sound_lines());
  const auto keys = plain_keys();
  std::set<std::string> used;
  int good = 0;
  for (int i = 0; i < 1500; ++i) {
    names set;
    const auto add = [&](const std::string& key, const std::string& value) { set.push_back(key + "=" + value); };
    if (random.below(3) == 0) add("train.sampler", random.entry("kind", all.samplers));
    if (random.below(3) == 0) add("eval.sampler", random.entry("kind", all.eval_samplers));
    if (random.below(3) == 0) add("train.dynamics", random.entry("rule", all.rules));
    if (random.below(3) == 0) add("train.dynamics.schedule", random.entry("kind", all.schedules));
    if (random.below(3) == 0) add("train.sync", random.entry("mode", all.modes));
    if (random.below(3) == 0) add("train.exchange", random.entry("reducer", all.reducers));
    if (random.below(3) == 0) add("train.sync.when", random.entry("kind", all.conditions));
    if (random.below(3) == 0) add("train.finish.custom", random.entry("kind", all.finishes));
    for (std::size_t n = random.below(3); n-- > 0;) {
      const auto& [key, descriptor] = random.one_of(keys);
      add(key, random.value(descriptor));
      if (key.ends_with("warmup.from") || key.ends_with("warmup.prefix")) add("train.dynamics.schedule.warmup.steps", "3");
      if (key.starts_with("train.average.") && key != "train.average.kind") add("train.average.kind", "ema");
      if (key.ends_with("exchange.fraction")) add("train.exchange.compress", "topk");
      if (key.ends_with("exchange.threshold")) add("layer.ip1.compress", "threshold");
      if (key.ends_with("dynamics.lr_scale")) add("train.dynamics.base_batch", "32");
      if (key.ends_with("base_batch")) add("train.dynamics.lr_scale", "sqrt");
    }
    auto spec = parse_job(text, "job.toml", all, set);
    if (!spec.has_value()) continue;
    ++good;
    for (const auto& s : set) used.insert(s.substr(0, s.find('=')));
    SCOPED_TRACE(joined(set, " "));
    expect_round_trip(*spec);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(good, 300);
  for (const auto& [key, descriptor] : keys) EXPECT_TRUE(used.contains(key)) << key << " was in no valid job";
}

}  // namespace
}  // namespace troupe
