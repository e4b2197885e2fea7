#include "runtime/record/handover_record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

const std::string set_prefix = "set.";
const std::string updates_prefix = "updates.";
const std::string finish_prefix = "finish.";

std::string setting_text(const set_value& s) { return number_text(s.from) + " " + number_text(s.value) + " " + s.key; }

bool read_setting(const std::string& text, set_value& s) {
  const auto first = text.find(' ');
  const auto second = first == std::string::npos ? first : text.find(' ', first + 1);
  if (second == std::string::npos) return false;
  s.key = text.substr(second + 1);
  return read_number(text.substr(0, first), s.from) && read_number(text.substr(first + 1, second - first - 1), s.value);
}

bool read_flag(const std::string& text, bool& flag) {
  flag = text == "1";
  return flag || text == "0";
}

best_evaluation& best_of(handover& h) { return h.best ? *h.best : h.best.emplace(); }

// Sets `rest` to the text after `prefix`. Returns false if `key` does not begin with `prefix`.
bool behind(const std::string& key, const std::string& prefix, std::string& rest) {
  if (!key.starts_with(prefix)) return false;
  rest = key.substr(prefix.size());
  return true;
}

// Returns false if the text is malformed. Unknown keys are of a later Troupe and are ignored.
bool read(const std::string& key, const std::string& text, handover& h, std::map<std::uint64_t, set_value>& settings) {
  std::string name;
  if (key == "evaluated") return read_number(text, h.evaluated);
  if (key == "rounds") return read_number(text, h.rounds);
  if (key == "accuracy") return read_number(text, h.accuracy);
  if (key == "seconds") return read_number(text, h.seconds);
  if (key == "best.step") return read_number(text, best_of(h).step);
  if (key == "best.accuracy") return read_number(text, best_of(h).accuracy.emplace());
  if (key == "best.loss") return read_number(text, best_of(h).loss);
  if (key == "paused") return read_flag(text, h.paused);
  if (key == "mode") return h.mode = text, true;
  if (behind(key, updates_prefix, name)) return read_number(text, h.updates[name]);
  if (behind(key, finish_prefix, name)) return h.finish[name] = text, true;
  if (!behind(key, set_prefix, name)) return true;
  std::uint64_t index = 0;
  return read_number(name, index) && read_setting(text, settings[index]);
}

}  // namespace

void put_handover(checkpoint& c, const handover& h, named_tensors named) {
  c.step = c.sampler_position = h.step;
  c.named = std::move(named);
  // If the job went back to an earlier step, its last evaluation may be of a later one.
  c.progress = {{"evaluated", number_text(std::min(h.evaluated, h.step))},
                {"rounds", number_text(h.rounds)},
                {"accuracy", number_text(h.accuracy)},
                {"seconds", number_text(h.seconds)},
                {"paused", h.paused ? "1" : "0"}};
  if (!h.mode.empty()) c.progress["mode"] = h.mode;
  if (h.best) {
    c.progress["best.step"] = number_text(h.best->step);
    if (h.best->accuracy) c.progress["best.accuracy"] = number_text(*h.best->accuracy);
    c.progress["best.loss"] = number_text(h.best->loss);
  }
  for (std::size_t i = 0; i < h.settings.size(); ++i) c.progress[set_prefix + number_text(i)] = setting_text(h.settings[i]);
  for (const auto& [param, n] : h.updates) c.progress[updates_prefix + param] = number_text(n);
  for (const auto& [kind, memory] : h.finish) c.progress[finish_prefix + kind] = memory;
}

expected<void> check_handover(const handover& h) {
  constexpr std::uint64_t most = INT64_MAX;  // as in the job file; the sum of two does not wrap
  std::string why;
  const auto at_most = [&](const std::string& key, std::uint64_t number, std::uint64_t limit, const char* of_what) {
    if (number > limit && why.empty())
      why = "metadata '" + key + "' is " + number_text(number) + ", but " + of_what + " is at most " + number_text(limit);
  };
  const auto real = [&](const std::string& key, double number, bool good) {
    if (!(std::isfinite(number) && good) && why.empty())
      why = "metadata '" + key + "' is " + number_text(number) + ", which is out of range";
  };
  at_most("troupe.step", h.step, most, "a step");
  at_most("progress.evaluated", h.evaluated, h.step, "the step of the last evaluation");
  at_most("progress.rounds", h.rounds, most, "a number of evaluations");
  real("progress.accuracy", h.accuracy, true);
  real("progress.seconds", h.seconds, h.seconds >= 0);
  if (h.best) {
    at_most("progress.best.step", h.best->step, most, "a step");
    real("progress.best.accuracy", h.best->accuracy.value_or(0), true);
  }
  for (std::size_t i = 0; i < h.settings.size(); ++i) {
    const auto key = "progress." + set_prefix + number_text(i);
    real(key, h.settings[i].value, true);
    at_most(key, h.settings[i].from, most, "a step");
  }
  for (const auto& [param, n] : h.updates) at_most("progress." + updates_prefix + param, n, most, "a number of updates");
  if (!why.empty()) return unexpected(error(why));
  return {};
}

expected<handover> handover_of(checkpoint c) {
  handover h;
  h.step = h.evaluated = c.step;
  std::map<std::uint64_t, set_value> settings;
  for (const auto& [key, text] : c.progress)
    if (!read(key, text, h, settings)) return unexpected(error("progress." + key));
  for (auto& [index, s] : settings) h.settings.push_back(std::move(s));
  h.named = std::move(c.named);
  return h;
}

}  // namespace troupe
