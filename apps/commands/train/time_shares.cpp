#include "apps/commands/train/time_shares.hpp"

#include <algorithm>
#include <cmath>

#include "apps/cli/output.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds sample_every{100};

// The state of one worker in a sample.
struct worker_state {
  bool computes = false, reads = false, packets = false;
  std::array<bool, wait_kinds> stage_waits{}, loader_waits{};

  bool stages(wait_kind k) const { return stage_waits[static_cast<std::size_t>(k)]; }
  bool loader(wait_kind k) const { return loader_waits[static_cast<std::size_t>(k)]; }
};

time_shares::use use_of(const worker_state& w) {
  using use = time_shares::use;
  if (w.computes) return use::computing;
  if (!w.packets && (w.reads || w.loader(wait_kind::data))) return use::data;
  if (w.stages(wait_kind::weights)) return use::weights;
  for (const auto k : {wait_kind::credit, wait_kind::inputs, wait_kind::gradients})
    if (w.stages(k)) return use::messages;
  if (w.packets || w.loader(wait_kind::credit)) return use::messages;
  if (w.reads || w.loader(wait_kind::data)) return use::data;
  for (const auto k : {wait_kind::grant, wait_kind::answers, wait_kind::user})
    if (w.loader(k)) return use::others;
  return use::idle;
}

}  // namespace

time_shares::time_shares(const job_plan& p) : seats_(p.roles.size()), workers_(p.ranges.size()) {
  for (const auto& r : p.roles) {
    if (r.tester || r.worker >= workers_ || index_of(r.id) >= seats_.size()) continue;
    const auto is = r.does().loads                           ? part::loader
                    : r.does().hosts_layers                  ? part::stage
                    : r.does().adds == role_sums::of_packets ? part::worker
                                                             : part::none;
    seats_[index_of(r.id)] = {is, r.worker};
  }
}

void time_shares::add(const std::vector<role_published>& roles, double seconds) {
  if (roles.empty() || workers_ == 0) return;
  std::vector<worker_state> states(workers_);
  double busy = 0;
  for (const auto& r : roles) {
    busy += r.busy_seconds;
    if (index_of(r.id) >= seats_.size()) continue;
    const auto& seat = seats_[index_of(r.id)];
    if (seat.is == part::none) continue;
    auto& w = states[seat.worker];
    const bool runs = r.task.serial > 0;
    const auto waits = static_cast<std::size_t>(r.status.waits);
    if (seat.is == part::loader) {
      w.reads = w.reads || runs;
      w.loader_waits[waits] = true;
    } else {
      w.computes = w.computes || runs;
      w.packets = w.packets || (seat.is == part::stage && r.status.in_flight + r.status.queued > 0);
      w.stage_waits[waits] = true;
    }
  }
  for (const auto& w : states) ++counts_[static_cast<std::size_t>(use_of(w))];
  if (!std::exchange(any_, true)) first_busy_ = busy, first_at_ = seconds;
  last_busy_ = busy, last_at_ = seconds;
}

double time_shares::share(use u) const {
  std::uint64_t all = 0;
  for (const auto n : counts_) all += n;
  return all == 0 ? 0 : static_cast<double>(counts_[static_cast<std::size_t>(u)]) / static_cast<double>(all);
}

double time_shares::busy() const {
  return last_at_ > first_at_ ? std::max(0.0, last_busy_ - first_busy_) / (last_at_ - first_at_) : 0;
}

std::string time_shares::text() const {
  if (!any_) return {};
  std::vector<std::pair<double, const char*>> waits{{share(use::data), "for data"},
                                                    {share(use::weights), "for weights"},
                                                    {share(use::messages), "for threads and messages"},
                                                    {share(use::others), "for the coordinator"}};
  std::stable_sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto percent = [](double x) { return fixed(100 * x, 0) + " %"; };
  std::string s = "computing " + percent(share(use::computing));
  bool first = true;
  for (const auto& [x, what] : waits) {
    if (x < 0.005) continue;
    s += std::string(first ? ", waiting " : ", ") + what + " " + percent(x);
    first = false;
  }
  if (share(use::idle) >= 0.005) s += ", idle " + percent(share(use::idle));
  if (busy() > 0) s += "; " + fixed(busy(), 1) + " tasks at once";
  return s;
}

time_sampler::time_sampler(const job_plan& p, std::function<std::vector<role_published>()> take)
    : shares_(p), take_(std::move(take)) {
  thread_ = std::thread([this] {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock held(lock_);
    while (!wake_.wait_for(held, sample_every, [this] { return over_; })) {
      held.unlock();
      auto roles = take_();
      shares_.add(roles, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      held.lock();
    }
  });
}

time_sampler::~time_sampler() { stop(); }

void time_sampler::stop() {
  {
    const std::lock_guard held(lock_);
    over_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string time_sampler::text() const { return shares_.text(); }

}  // namespace troupe
