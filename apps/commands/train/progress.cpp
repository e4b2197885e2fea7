#include "apps/commands/train/progress.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "actors/control/client/client.hpp"
#include "apps/cli/registry.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Staleness over all parameters, in one line; the REPL's `staleness` shows each parameter.
std::string staleness_line(const staleness_event& e) {
  double sum = 0, reads = 0;
  std::uint64_t oldest = 0;
  for (const auto& entry : e.parameters) {
    sum += entry.mean() * static_cast<double>(entry.count());
    reads += static_cast<double>(entry.count());
    if (!entry.reads.empty()) oldest = std::max(oldest, entry.reads.rbegin()->first);
  }
  if (reads == 0) return "staleness: no data";
  return "staleness: weights were " + fixed(sum / reads, 2) + " clocks old on average, " + std::to_string(oldest) + " at most";
}

// A number as in a job file: "0.01", "2.5e-05".
std::string short_number(double x) { return general_text(x, 4); }

constexpr double loss_memory = 0.95;  // weight of the past in the mean loss

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
  return "the loss did not fall: " + general_text(*first_, 3) + " at step " + std::to_string(first_step_) + ", " +
         general_text(end, 3) + " at the end";
}

progress::progress(const output& out, run_extent e) : out_(out), screen_(out.json() ? screen{} : screen::of_stdout()) {
  begun_ = clock::now();
  extent(e);
}

progress::~progress() { erase(); }

void progress::extent(run_extent e) {
  extent_ = e;
  step_ = marked_step_ = e.first_step;
  marked_ = clock::now();
}

void progress::head(const std::vector<head_line>& lines) {
  for (const auto& l : lines) line(labelled(screen_, l.label, l.text));
}

void progress::event(const event_effect& e) {
  if (const auto* s = e.as<step_event>()) trend_.add(e.step, s->loss);
  summary_.event(e);
  if (e.is<done_event>())
    if (auto words = trend_.warning(); !words.empty()) show({e.step, warning_event{std::move(words)}});
  show(e);
}

void progress::show(const event_effect& e) {
  if (out_.json()) return out_.object(event_object(e, event_form::command));
  const auto here = "step " + with_commas(e.step) + "  ";
  std::visit(overloaded{
                 [&](const step_event& s) { step(e.step, s); },
                 [&](const done_event& d) { show_done(e.step, d); },
                 [&](const eval_event& v) {
                   step_ = marked_step_ = e.step;
                   marked_ = clock::now();  // excludes the evaluation from the rate
                   line(here + "evaluation" + (v.accuracy ? ": accuracy " + fixed(*v.accuracy, 4) : "") + "  loss " +
                        fixed(v.loss, 4) + (summary_.improved() ? screen_.painted("  best so far", tint::good) : "") + "\n");
                 },
                 [&](const staleness_event& s) { line(here + staleness_line(s) + "\n"); },
                 [&](const checkpoint_event& c) { line(here + "checkpoint " + printable(c.file) + "\n"); },
                 [&](const moved_event& m) { line(here + printable(m.message) + " in " + fixed(m.ms, 0) + " ms\n"); },
                 [&](const warning_event& w) { remark(w.message); },
                 [&](const error_event& bad) {
                   erase();
                   out_.remark((bad.where.empty() ? "" : bad.where + ": ") + bad.message);
                   if (!bad.post_mortem.empty()) out_.remark("post-mortem: " + bad.post_mortem);
                 },
                 [&](const set_event& s) {
                   line(here + "set " + s.setting.first + " = " + number_text(s.setting.second) +
                        (s.rate_differs() ? "; the rate of that step is " + number_text(*s.rate) : "") + "\n");
                 },
                 [&](const auto&) {
                   const auto flat = flatten(e);
                   auto text = here + name_of(e).name + (flat.message.empty() ? "" : ": " + flat.message);
                   if (flat.message.empty())
                     for (const auto& [key, value] : flat.values) text += " " + key + " = " + number_text(value);
                   line(printable(text, line_breaks::kept) + "\n");
                 },
             },
             e.what);
}

void progress::show_done(std::uint64_t step, const done_event& e) {
  erase();
  out_.drawn(screen_.painted(e.stopped() ? "stopped" : "done", e.stopped() ? tint::warning : tint::good) + ": " +
             with_commas(step) + " steps, " + fixed(e.epochs, 2) + " epochs" +
             (e.test_accuracy ? ", test accuracy " + fixed(*e.test_accuracy, 4) : "") + ", " + fixed(e.seconds, 1) + " s\n");
  out_.text(weights_line(e.weights_sha256) + "\n");
  const auto steps = step > extent_.first_step ? static_cast<double>(step - extent_.first_step) : 0;
  out_.drawn(summary_.text(screen_, steps * static_cast<double>(extent_.batch), e.seconds, ending_));
}

void progress::step(std::uint64_t step, const step_event& e) {
  step_ = step;
  lr_ = e.lr.value_or(-1);
  if (step <= trained_) loss_ = loss_weight_ = 0;  // the job has gone back: the mean is of steps that did not happen
  trained_ = step;
  if (std::isfinite(e.loss)) {
    loss_ = loss_memory * loss_ + (1 - loss_memory) * e.loss;
    loss_weight_ = loss_memory * loss_weight_ + (1 - loss_memory);
  }
  const auto now = clock::now();
  if (now - shown_ < pause(now)) return;
  measure(e, now);
  shown_ = now;
  if (screen_.redraws)
    draw();
  else
    out_.text(numbers(200) + "\n");
}

// The time between two progress lines.
progress::clock::duration progress::pause(clock::time_point now) const {
  if (screen_.redraws) return 100ms;
  return std::clamp<clock::duration>((now - begun_) / 50, 1s, 5min);
}

void progress::measure(const step_event& e, clock::time_point now) {
  if (extent_.batch == 0 || extent_.far) return void(rate_ = e.examples_per_s);
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
  if (extent_.last_step <= step_ || extent_.batch == 0 || rate_ <= 0) return {};
  return "ETA " + clock_text(static_cast<double>(extent_.last_step - step_) * static_cast<double>(extent_.batch) / rate_);
}

// The numbers of the line. What does not fit into `columns` is left out: the learning rate first,
// then the epoch, the speed and the time left.
std::string progress::numbers(std::size_t columns) const {
  enum field { epoch, steps, loss, speed, lr, left_over, fields };
  std::array<std::string, fields> text;
  if (const auto per_epoch = extent_.steps_per_epoch; per_epoch > 0) {
    text[epoch] = "epoch " + with_commas((step_ > 0 ? step_ - 1 : 0) / per_epoch + 1);
    if (extent_.last_step > 0) text[epoch] += "/" + with_commas((extent_.last_step + per_epoch - 1) / per_epoch);
  }
  text[steps] = "step " + with_commas(step_);
  if (extent_.last_step > 0) text[steps] += "/" + with_commas(extent_.last_step);
  text[loss] = "loss " + (loss_weight_ > 0 ? fixed(loss_ / loss_weight_, 4) : std::string("nan"));
  text[speed] = with_commas(static_cast<std::uint64_t>(std::llround(rate_))) + " examples/s";
  if (lr_ >= 0) text[lr] = "lr " + short_number(lr_);
  text[left_over] = eta();
  const auto all = [&] {
    std::string s;
    for (const auto& t : text)
      if (!t.empty()) s += (s.empty() ? "" : "  ") + t;
    return s;
  };
  for (const auto f : {lr, epoch, speed, left_over}) {
    if (all().size() <= columns) break;
    text[f].clear();
  }
  return all().substr(0, columns);
}

// "  [####....]" in at most `columns`; empty if there is too little room, or no known end.
std::string progress::bar(std::size_t columns) const {
  if (extent_.last_step <= extent_.first_step || columns < 14) return {};
  const auto room = std::min<std::size_t>(columns - 4, 40);
  const auto part = static_cast<double>(step_ - std::min(step_, extent_.first_step)) /
                    static_cast<double>(extent_.last_step - extent_.first_step);
  const auto full = std::min(room, static_cast<std::size_t>(static_cast<double>(room) * part));
  return "  [" + std::string(full, '#') + std::string(room - full, '.') + "]";
}

// Prints whole lines above the line of the progress.
void progress::line(const std::string& text) {
  const bool redraw = drawn_ > 0;
  erase();
  out_.drawn(text);
  if (redraw) draw();
}

void progress::remark(const std::string& text) {
  const bool redraw = drawn_ > 0;
  erase();
  out_.remark(text);
  if (redraw) draw();
}

void progress::draw() {
  const auto columns = screen::columns() - 1;  // the last column is left free: some terminals wrap there
  auto text = numbers(columns);
  text += bar(columns - text.size());
  out_.drawn(erasure() + text);
  drawn_ = text.size();
}

void progress::erase() { out_.drawn(erasure()); }

// The control sequence that removes the line, also if the terminal has become narrower and the line
// takes several rows.
std::string progress::erasure() {
  if (drawn_ == 0) return {};
  const auto above = (drawn_ - 1) / std::max<std::size_t>(screen::columns(), 1);
  drawn_ = 0;
  return above > 0 ? "\r\033[" + std::to_string(above) + "A\033[J" : "\r\033[K";
}

}  // namespace troupe
