#include "runtime/trace/recording.hpp"

#include <optional>
#include <utility>

#include "runtime/trace/recording_thread.hpp"

namespace troupe {

struct trace_recording::impl {
  impl(std::unique_ptr<trace_writer> to, const activity_recorder& r, std::string n)
      : out(std::move(to)), from(r), node(std::move(n)), begun(r.now()) {
    static_cast<void>(from.read(read));  // the trace begins now
    thread.emplace([this] { take(); });
  }

  void take() {
    auto more = from.read(read);
    out->lost(more.lost);
    out->name(node, from.names(), -begun);
    out->add(node, std::move(more.all), -begun);
  }

  const std::unique_ptr<trace_writer> out;
  const activity_recorder& from;
  const std::string node;
  const time_point begun;
  activity_recorder::position read;

  std::optional<expected<trace_summary>> done;
  std::optional<recording_thread> thread;  // last: it uses the others
};

trace_recording::trace_recording(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
trace_recording::~trace_recording() { static_cast<void>(stop()); }

expected<std::unique_ptr<trace_recording>> trace_recording::start(const std::filesystem::path& file, const activity_recorder& from,
                                                                  const std::string& node, const trace_job& job) {
  auto out = trace_writer::create(file);
  if (!out) return unexpected(std::move(out).error());
  (*out)->describe(job);
  return std::unique_ptr<trace_recording>(new trace_recording(std::make_unique<impl>(*std::move(out), from, node)));
}

const std::filesystem::path& trace_recording::file() const { return impl_->out->file(); }

expected<trace_summary> trace_recording::stop() {
  auto& i = *impl_;
  if (i.done) return *i.done;
  i.thread->stop();
  i.done = i.out->finish();
  return *i.done;
}

expected<trace_summary> write_latest(const std::filesystem::path& file, const activity_recorder& from, const std::string& node,
                                     duration span) {
  auto out = trace_writer::create(file);
  if (!out) return unexpected(std::move(out).error());
  const auto begin = from.now() - span;
  activity_recorder::position all;
  auto found = from.read(all);
  (*out)->name(node, from.names(), -begin);
  (*out)->add(node, std::move(found.all), -begin);
  return (*out)->finish();
}

}  // namespace troupe
