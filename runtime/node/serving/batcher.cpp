#include "runtime/node/serving/batcher.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {

// size: a queue, its thread, and what they count
struct batcher::impl {
  struct waiting {
    std::vector<float> examples;
    std::int64_t n = 0;
    done call;
    std::chrono::steady_clock::time_point came;
  };

  impl(net_runner& r, batcher_options o)
      : net(r),
        options(o),
        most_waiting(most_waiting_examples(o, static_cast<std::size_t>(r.example().count()) * sizeof(float))),
        thread([this] { work(); }) {}
  ~impl() {
    {
      const std::lock_guard guard(lock);
      over = true;
    }
    news.notify_one();
    thread.join();
    for (auto& w : queue) w.call(unexpected(error("the server is ending")));
  }

  void work() {
    for (;;) {
      std::vector<waiting> batch;
      {
        std::unique_lock guard(lock);
        news.wait(guard, [this] { return over || !queue.empty(); });
        if (over) return;
        news.wait_until(guard, queue.front().came + options.deadline, [this] { return over || examples_waiting >= options.most; });
        if (over) return;
        batch = next_batch();
      }
      compute(batch);
    }
  }

  // The caller holds `lock`.
  std::vector<waiting> next_batch() {
    std::vector<waiting> batch;
    std::int64_t n = 0;
    while (!queue.empty() && (batch.empty() || n + queue.front().n <= options.most)) {
      n += queue.front().n;
      batch.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    examples_waiting -= n;
    ++counts.passes;
    return batch;
  }

  void compute(std::vector<waiting>& batch) {
    const auto each = static_cast<std::size_t>(net.positions() * net.width());
    std::int64_t n = 0;
    for (const auto& w : batch) n += w.n;
    std::vector<float> all;
    if (batch.size() > 1) {
      all.reserve(static_cast<std::size_t>(n * net.example().count()));
      for (const auto& w : batch) all.insert(all.end(), w.examples.begin(), w.examples.end());
    }
    std::vector<float> out(static_cast<std::size_t>(n) * each);
    const auto ok = net.run(batch.size() > 1 ? all.data() : batch[0].examples.data(), n, out.data());
    const float* at = out.data();
    for (auto& w : batch) {
      const auto* end = at + static_cast<std::size_t>(w.n) * each;
      w.call(ok ? outputs(std::vector<float>(at, end)) : outputs(unexpected(ok.error())));
      at = end;
    }
  }

  net_runner& net;
  const batcher_options options;
  const std::int64_t most_waiting;
  mutable std::mutex lock;  // protects the members below
  std::condition_variable news;
  std::deque<waiting> queue;
  std::int64_t examples_waiting = 0;
  batcher_counts counts;
  bool over = false;
  std::thread thread;
};

std::int64_t most_waiting_examples(const batcher_options& o, std::size_t example_bytes) {
  const auto fit = static_cast<std::int64_t>(o.most_waiting_bytes / std::max<std::size_t>(example_bytes, 1));
  return std::min(o.most_waiting, std::max(o.most, fit));
}

batcher::batcher(net_runner& net, batcher_options o) : impl_(std::make_unique<impl>(net, o)) {}
batcher::~batcher() = default;

bool batcher::submit(std::vector<float> examples, std::int64_t n, done d) {
  auto& me = *impl_;
  {
    const std::lock_guard guard(me.lock);
    if (me.examples_waiting > 0 && me.examples_waiting + n > me.most_waiting) {
      ++me.counts.refused;
      return false;
    }
    me.queue.push_back({std::move(examples), n, std::move(d), std::chrono::steady_clock::now()});
    me.examples_waiting += n;
    ++me.counts.requests;
    me.counts.examples += static_cast<std::uint64_t>(n);
  }
  me.news.notify_one();
  return true;
}

batcher_counts batcher::counts() const {
  const std::lock_guard guard(impl_->lock);
  return impl_->counts;
}

}  // namespace troupe
