#include "actors/control/client/cluster_recording.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "actors/control/client/cluster_records.hpp"
#include "runtime/trace/recording_thread.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
constexpr auto reach_timeout = 3s;
constexpr auto reach_again_timeout = 500ms;
constexpr int questions_at_first = 8;

}  // namespace

struct cluster_recording::impl {
  impl(std::unique_ptr<trace_writer> to, std::unique_ptr<node_links> l)
      : out(std::move(to)), links(std::move(l)), records(*links, std::chrono::steady_clock::now()) {
    records.read(nullptr);  // the trace begins now
    records.align(questions_at_first);
    thread.emplace([this] {
      links->reconnect(reach_again_timeout);
      records.align(1);
      records.read(out.get());
    });
  }

  const std::unique_ptr<trace_writer> out;
  const std::unique_ptr<node_links> links;
  cluster_records records;
  std::optional<expected<trace_summary>> done;
  std::optional<recording_thread> thread;  // last: it uses the others
};

cluster_recording::cluster_recording(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
cluster_recording::~cluster_recording() { static_cast<void>(stop()); }

expected<std::unique_ptr<cluster_recording>> cluster_recording::start(const std::filesystem::path& file, const cluster_spec& c,
                                                                      const trace_job& job) {
  auto links = std::make_unique<node_links>(c, reach_timeout);
  if (links->connected() == 0) return unexpected(error("no node answers: " + links->troubles()));
  auto out = trace_writer::create(file);
  if (!out) return unexpected(std::move(out).error());
  (*out)->describe(job);
  return std::unique_ptr<cluster_recording>(new cluster_recording(std::make_unique<impl>(*std::move(out), std::move(links))));
}

const std::filesystem::path& cluster_recording::file() const { return impl_->out->file(); }

expected<trace_summary> cluster_recording::stop() {
  auto& i = *impl_;
  if (i.done) return *i.done;
  i.thread->stop();
  i.done = i.out->finish();
  if (*i.done) (*i.done)->notes = i.records.notes();
  return *i.done;
}

expected<trace_summary> write_latest(const std::filesystem::path& file, node_links& from, std::chrono::seconds span) {
  auto out = trace_writer::create(file);
  if (!out) return unexpected(std::move(out).error());
  cluster_records records(from, std::chrono::steady_clock::now() - span);
  records.align(questions_at_first);
  records.read(out->get());
  auto written = (*out)->finish();
  if (written) written->notes = records.notes();
  return written;
}

}  // namespace troupe
