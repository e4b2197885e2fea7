// The stock finish conditions, and when they end a job:
//
//   epochs, steps     at a step that is known in advance
//   time              at the first step that completes after the given time
//   target_accuracy   at the first evaluation that reaches it
//   patience          after this many consecutive evaluations without a new best accuracy or loss
#include "runtime/coordinator/finish.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/option_specs.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/coordinator/compared_measure.hpp"

namespace troupe {

namespace {

struct at_step final : finish_condition {
  std::uint64_t last;
  explicit at_step(std::uint64_t n) : last(n) {}
  std::optional<std::uint64_t> last_step() const override { return last; }
};

struct time_limit final : finish_condition {
  double limit;
  explicit time_limit(double seconds) : limit(seconds) {}
  bool after_step(const finish_facts& f) override { return f.seconds >= limit; }
};

struct target final : finish_condition {
  double wanted;
  explicit target(double accuracy) : wanted(accuracy) {}
  bool after_evaluation(const finish_facts& f) override { return f.accuracy >= wanted; }
};

struct patience final : finish_condition {
  std::int64_t most, without_better = 0;
  compared_measure measure;
  double best = -std::numeric_limits<double>::infinity();  // more is better
  patience(std::int64_t n, const std::string& measure_) : most(n), measure(measure_) {}
  bool after_evaluation(const finish_facts& f) override {
    const double now = measure.of(f.loss, f.accuracy);
    without_better = now > best ? 0 : without_better + 1;
    if (now > best) best = now;
    return without_better >= most;
  }
  std::string memory() const override { return number_text(without_better) + " " + number_text(best); }
  void recall(const std::string& text) override {
    const auto blank = text.find(' ');
    std::int64_t count = 0;
    double before = 0;
    if (blank == std::string::npos || !read_number(text.substr(0, blank), count) || !read_number(text.substr(blank + 1), before))
      return;
    if (count < 0 || std::isnan(before)) return;
    without_better = std::min(count, most);
    best = before;
  }
};

constexpr std::uint64_t finish_steps_limit = INT64_MAX;

std::uint64_t count(const options& o, const char* key) { return static_cast<std::uint64_t>(o.integer(key)); }

// A count with the same bounds as the job file's own integer keys.
option_spec whole(std::string name, std::string doc) {
  return bounded(option_of(std::move(name), option_kind::integer, std::nullopt, std::move(doc)), 1);
}

options one(const char* key, option_value v) {
  options o;
  o.values.emplace(key, std::move(v));
  return o;
}

}  // namespace

void add_stock_finishes(finish_registry& r) {
  r.add({.name = "epochs",
         .doc = "after the given number of passes over the training data",
         .specs = {whole("count", "number of passes")},
         .make = [](const options& o, const finish_context& c) {
           if (c.steps_per_epoch > 0 && count(o, "count") > finish_steps_limit / c.steps_per_epoch)
             throw option_error("count", number_text(count(o, "count")) + " epochs of " + number_text(c.steps_per_epoch) +
                                             " steps are more than " + number_text(finish_steps_limit) + " steps");
           return std::make_unique<at_step>(count(o, "count") * c.steps_per_epoch);
         }});
  r.add({.name = "steps",
         .doc = "after the given number of steps",
         .specs = {whole("count", "number of steps")},
         .make = [](const options& o, const finish_context&) { return std::make_unique<at_step>(count(o, "count")); }});
  r.add({.name = "time",
         .doc = "at the first step that completes after the given time",
         .specs = {bounded(option_of("seconds", option_kind::real, std::nullopt, "seconds since the run began"), 0.0)},
         .make = [](const options& o, const finish_context&) { return std::make_unique<time_limit>(o.real("seconds")); }});
  r.add({.name = "target_accuracy",
         .doc = "at the first evaluation whose accuracy reaches a value",
         .specs = {bounded(option_of("value", option_kind::real, std::nullopt, "the accuracy"), 0.0, 1.0)},
         .make = [](const options& o, const finish_context&) { return std::make_unique<target>(o.real("value")); },
         .needs_evaluations = true,
         .needs_accuracy = [](const options&) { return true; }});
  r.add({.name = "patience",
         .doc = "after the given number of consecutive evaluations without a better accuracy or loss",
         .specs = {whole("evaluations", "number of evaluations"),
                   choice_option("measure", {"auto", "accuracy", "loss"},
                                 "what is compared; auto: the accuracy if the model has one, else the loss")},
         .make = [](const options& o,
                    const finish_context&) { return std::make_unique<patience>(o.integer("evaluations"), o.text("measure")); },
         .needs_evaluations = true,
         .needs_accuracy = [](const options& o) { return o.text("measure") == "accuracy"; }});
}

finish_conditions make_finish(const finish_spec& s, const finish_registry& rows, const finish_context& c) {
  finish_conditions all;
  const auto add = [&](const char* row, options given) {
    const auto& type = *rows.find(row);
    try {
      all.push_back(type.make(check_options(given, type.specs), c));
    } catch (const option_error& e) {
      throw option_error(std::string("finish.") + row, e.what());
    }
    all.back()->kind = row;
  };
  if (s.epochs) add("epochs", one("count", *s.epochs));
  if (s.steps) add("steps", one("count", *s.steps));
  if (s.target_accuracy) add("target_accuracy", one("value", *s.target_accuracy));
  if (s.patience) add("patience", {{{"evaluations", *s.patience}, {"measure", s.measure}}});
  if (s.seconds) add("time", one("seconds", *s.seconds));
  if (s.custom) {
    try {
      all.push_back(rows.find(s.custom->kind)->make(s.custom->values, c));
    } catch (const option_error& e) {
      throw option_error("finish.custom." + e.key, e.what());
    }
    all.back()->kind = s.custom->kind;
  }
  return all;
}

std::uint64_t last_step_of(const finish_conditions& all) {
  std::uint64_t last = 0;
  for (const auto& f : all)
    if (const auto at = f->last_step()) last = last == 0 ? *at : std::min(last, *at);
  return last;
}

bool after_step(const finish_conditions& all, const finish_facts& f) {
  bool end = false;
  for (const auto& c : all) end = c->after_step(f) || end;
  return end;
}

bool after_evaluation(const finish_conditions& all, const finish_facts& f) {
  bool end = false;
  for (const auto& c : all) end = c->after_evaluation(f) || end;
  return end;
}

std::map<std::string, std::string> memory_of(const finish_conditions& all) {
  std::map<std::string, std::string> memory;
  for (const auto& c : all)
    if (auto text = c->memory(); !text.empty()) memory[c->kind] = std::move(text);
  return memory;
}

void recall(const finish_conditions& all, const std::map<std::string, std::string>& memory) {
  for (const auto& c : all)
    if (const auto at = memory.find(c->kind); at != memory.end()) c->recall(at->second);
}

}  // namespace troupe
