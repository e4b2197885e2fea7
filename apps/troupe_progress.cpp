#include "apps/troupe_progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "actors/control/client/client.hpp"
#include "apps/troupe_registry.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/coordinator/staleness.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using json_object = nlohmann::ordered_json;

double value_of(const event_effect& e, const char* name, double otherwise = 0) {
  for (const auto& [n, v] : e.values)
    if (n == name) return v;
  return otherwise;
}

std::string text_of(const event_texts& texts, const char* name) {
  for (const auto& [n, v] : texts)
    if (n == name) return v;
  return {};
}

// Staleness over all parameters, in one line; the REPL's `staleness` shows each parameter.
std::string staleness_line(const event_effect& e) {
  double sum = 0, reads = 0;
  std::uint64_t oldest = 0;
  for (const auto& entry : staleness_of(e)) {
    sum += entry.mean() * static_cast<double>(entry.count());
    reads += static_cast<double>(entry.count());
    if (!entry.reads.empty()) oldest = std::max(oldest, entry.reads.rbegin()->first);
  }
  if (reads == 0) return "staleness: no data";
  return "staleness: weights were " + fixed(sum / reads, 2) + " clocks old on average, " + std::to_string(oldest) + " at most";
}

// A value in JSON; counts are integers.
json_object number(const std::string& name, double v) {
  const bool count = name == "steps" || name == "packets" || name == "skipped" || name.ends_with("_bytes");
  if (count && std::isfinite(v)) return static_cast<std::int64_t>(v);
  return v;
}

int terminal_width() {
  winsize w{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

}  // namespace

void loss_trend::add(std::uint64_t step, double loss) {
  constexpr std::size_t kept = 10;   // averages over outliers
  if (!std::isfinite(loss)) return;  // of a skipped step
  if (!first_) {
    first_ = loss;
    first_step_ = step;
    return;
  }
  last_.push_back(loss);
  if (last_.size() > kept) last_.pop_front();
}

std::string loss_trend::warning() const {
  if (last_.empty()) return {};
  const auto end = std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(last_.size());
  if (end <= *first_ + std::max(1.0, std::abs(*first_))) return {};
  char text[128];
  std::snprintf(text, sizeof text, "the loss did not fall: %.3g at step %llu, %.3g at the end", *first_,
                static_cast<unsigned long long>(first_step_), end);
  return text;
}

progress::progress(const output& out, run_extent e)
    : out_(out), extent_(e), terminal_(!out.json() && isatty(STDOUT_FILENO)), step_(e.first_step), marked_step_(e.first_step) {
  marked_ = clock::now();
}

progress::~progress() { erase(); }

void progress::json(const event_effect& e, const event_texts& texts) const {
  // to_json() has the special form of these kinds.
  if (e.kind == "mode" || e.kind == "staleness") return out_.object(json_object::parse(to_json({0, e, texts})));
  json_object o{{"event", e.kind}};
  if (e.kind == "error") {
    o["where"] = text_of(texts, "where");
    o["message"] = e.text;
    if (const auto folder = text_of(texts, "post_mortem"); !folder.empty()) o["post_mortem"] = folder;
    return out_.object(o);
  }
  if (e.kind != "done") o["step"] = e.step;
  for (const auto& [name, v] : e.values) {
    if (e.kind == "done" && name == "packets")
      for (const auto& [n, t] : texts) o[n] = t;
    o[name] = number(name, v);
  }
  if (e.kind != "done")
    for (const auto& [n, t] : texts) o[n] = t;
  if (!e.text.empty() && e.kind != "done") o["message"] = e.text;
  out_.object(o);
}

void progress::event(const event_effect& e, const event_texts& texts) {
  if (e.kind == "step") trend_.add(e.step, value_of(e, "loss"));
  if (e.kind == "done")
    if (auto words = trend_.warning(); !words.empty()) show({"warning", e.step, {}, std::move(words)}, {});
  show(e, texts);
}

void progress::show(const event_effect& e, const event_texts& texts) {
  if (out_.json()) return json(e, texts);
  if (e.kind == "step") return step(e);
  if (e.kind == "eval") {
    const auto accuracy = value_of(e, "accuracy", -1);
    step_ = marked_step_ = e.step;
    marked_ = clock::now();  // excludes the evaluation from the rate
    line("step " + with_commas(e.step) + "  evaluation" + (accuracy < 0 ? "" : ": accuracy " + fixed(accuracy, 4)) + "  loss " +
         fixed(value_of(e, "loss"), 4));
  } else if (e.kind == "staleness") {
    line("step " + with_commas(e.step) + "  " + staleness_line(e));
  } else if (e.kind == "checkpoint") {
    line("step " + with_commas(e.step) + "  checkpoint " + text_of(texts, "file"));
  } else if (e.kind == "moved") {
    line("step " + with_commas(e.step) + "  " + e.text + " in " + fixed(value_of(e, "ms"), 0) + " ms");
  } else if (e.kind == "done") {
    const auto accuracy = value_of(e, "test_accuracy", -1);
    line(std::string(e.text == "stopped" ? "stopped" : "done") + ": " + with_commas(e.step) + " steps, " +
         fixed(value_of(e, "epochs"), 2) + " epochs" + (accuracy < 0 ? "" : ", test accuracy " + fixed(accuracy, 4)) + ", " +
         fixed(value_of(e, "seconds"), 1) + " s");
    line(weights_line(text_of(texts, "weights_sha256")));
  } else if (e.kind == "warning") {
    erase();
    out_.remark(e.text);
  } else if (e.kind == "error") {
    erase();
    const auto where = text_of(texts, "where");
    out_.remark((where.empty() ? "" : where + ": ") + e.text);
    if (const auto folder = text_of(texts, "post_mortem"); !folder.empty()) out_.remark("post-mortem: " + folder);
  } else {
    auto text = "step " + with_commas(e.step) + "  " + e.kind + (e.text.empty() ? "" : ": " + e.text);
    if (e.text.empty())
      for (const auto& [key, value] : e.values) text += " " + key + " = " + number_text(value);
    line(text);
  }
}

void progress::step(const event_effect& e) {
  step_ = e.step;
  loss_ = value_of(e, "loss");
  const auto now = clock::now();
  if (now - shown_ < (terminal_ ? 100ms : 1000ms)) return;
  measure(e, now);
  shown_ = now;
  if (terminal_)
    draw();
  else
    line(numbers());
}

void progress::measure(const event_effect& e, clock::time_point now) {
  if (extent_.batch == 0) return void(rate_ = value_of(e, "examples_per_s"));  // unknown batch: use the job's own rate
  const double took = std::chrono::duration<double>(now - marked_).count();
  const auto fresh = static_cast<double>(step_ - marked_step_) * static_cast<double>(extent_.batch) / std::max(took, 1e-9);
  if (!has_rate_) rate_ = fresh;
  if (took < 0.5) return;
  rate_ = has_rate_ ? 0.5 * rate_ + 0.5 * fresh : fresh;
  has_rate_ = true;
  marked_ = now;
  marked_step_ = step_;
}

std::string progress::eta() const {
  if (extent_.last_step <= step_ || rate_ <= 0) return {};
  return "  ETA " + clock_text(static_cast<double>(extent_.last_step - step_) * static_cast<double>(extent_.batch) / rate_);
}

std::string progress::numbers() const {
  std::string s;
  if (const auto per_epoch = extent_.steps_per_epoch; per_epoch > 0) {
    s = "epoch " + with_commas((step_ > 0 ? step_ - 1 : 0) / per_epoch + 1);
    if (extent_.last_step > 0) s += "/" + with_commas((extent_.last_step + per_epoch - 1) / per_epoch);
    s += "  ";
  }
  s += "step " + with_commas(step_);
  if (extent_.last_step > 0) s += "/" + with_commas(extent_.last_step);
  return s + "  loss " + fixed(loss_, 4) + "  " + with_commas(static_cast<std::uint64_t>(std::llround(rate_))) + " examples/s" +
         eta();
}

void progress::line(const std::string& text) {
  erase();
  out_.text(text + "\n");
}

void progress::draw() {
  auto text = numbers();
  const auto width = static_cast<std::size_t>(terminal_width() - 1);
  if (extent_.last_step > extent_.first_step && width > text.size() + 14) {
    const auto room = std::min<std::size_t>(width - text.size() - 4, 40);
    const auto full = static_cast<std::size_t>(static_cast<double>(room) * static_cast<double>(step_ - extent_.first_step) /
                                               static_cast<double>(extent_.last_step - extent_.first_step));
    text += "  [" + std::string(std::min(full, room), '#') + std::string(room - std::min(full, room), '.') + "]";
  }
  out_.text("\r\033[K" + text.substr(0, width));
  drawn_ = true;
}

void progress::erase() {
  if (drawn_) out_.text("\r\033[K");
  drawn_ = false;
}

}  // namespace troupe
