#include "runtime/trace/recording.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/trace/role_names.hpp"
#include "runtime/trace/timeline.hpp"

namespace troupe {

struct trace_recording::impl {
  static constexpr std::chrono::milliseconds every{50};

  impl(std::filesystem::path f, track_event_file&& to, const activity_recorder& r, std::string n)
      : file(std::move(f)), out(std::move(to)), from(r), node(std::move(n)), begun(r.now()) {
    static_cast<void>(from.read(read));  // the trace begins now
    thread = std::thread([this] { work(); });
  }

  void work() {
    std::unique_lock hold(lock);
    while (!stopping) {
      wake.wait_for(hold, every, [this] { return stopping; });
      take();
    }
  }
  void take() {
    auto more = from.read(read);
    lost += more.lost;
    names.set(node, from.names());
    std::stable_sort(more.all.begin(), more.all.end(), [](const activity& a, const activity& b) { return a.at < b.at; });
    for (const auto& a : more.all)
      if (a.at >= begun) lines.add(a, names.place(node, a), -begun);
  }

  const std::filesystem::path file;
  track_event_file out;
  const activity_recorder& from;
  const std::string node;
  const time_point begun;
  activity_recorder::position read;
  timeline lines{out};
  role_names names;
  std::uint64_t lost = 0;

  std::mutex lock;
  std::condition_variable wake;
  bool stopping = false;
  std::thread thread;
  std::optional<expected<trace_summary>> done;
};

trace_recording::trace_recording(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
trace_recording::~trace_recording() { static_cast<void>(stop()); }

expected<std::unique_ptr<trace_recording>> trace_recording::start(const std::filesystem::path& file, const activity_recorder& from,
                                                                  const std::string& node) {
  auto out = track_event_file::create(file);
  if (!out) return unexpected(std::move(out).error());
  return std::unique_ptr<trace_recording>(new trace_recording(std::make_unique<impl>(file, *std::move(out), from, node)));
}

const std::filesystem::path& trace_recording::file() const { return impl_->file; }

expected<trace_summary> trace_recording::stop() {
  auto& i = *impl_;
  if (i.done) return *i.done;
  {
    std::lock_guard hold(i.lock);
    i.stopping = true;
  }
  i.wake.notify_all();
  i.thread.join();
  const auto written = i.out.finish();
  i.done = written ? expected<trace_summary>(trace_summary{i.file.string(), i.lines.activities(), i.lost})
                   : unexpected(error(i.file.string() + ": " + written.error().text));
  return *i.done;
}

}  // namespace troupe
