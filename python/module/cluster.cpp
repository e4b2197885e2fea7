// Jobs of a cluster: submits one, or follows one again, over the operators' TLS connection.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "actors/control/client/client.hpp"
#include "python/module/job.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe::python {
namespace {

cluster_address address_of(const std::string& file) {
  const auto cluster = read_cluster_file(file);
  if (!cluster) throw job_error(cluster.error());
  return coordinator_of(*cluster);
}

// Runs run_on_cluster() on a thread of its own and hands its events to the caller's thread, which
// so can look for Ctrl-C.
class follower {
 public:
  explicit follower(cluster_submission s) : what_(std::move(s)) {
    what_.on_accepted = [this](const accepted_job& j) {
      put({{"event", "accepted"}, {"number", j.number}, {"ahead", j.ahead}, {"last_step", j.last_step}, {"head", j.head}});
    };
    thread_ = std::thread([this] {
      auto end = run_on_cluster(
          what_, [this](const job_event& e) { put(event_object(e.event, event_form::session)); }, detach_);
      const std::lock_guard guard(lock_);
      end_ = std::move(end);
      news_.notify_one();
    });
  }
  ~follower() {
    detach_ = true;
    thread_.join();
  }
  follower(const follower&) = delete;
  follower& operator=(const follower&) = delete;

  // The caller holds the GIL. Returns the outcome; calls `on_event` on this thread.
  cluster_outcome follow(const py::object& on_event) {
    for (;;) {
      std::deque<nlohmann::ordered_json> events;
      bool over = false;
      {
        const py::gil_scoped_release free;
        std::unique_lock guard(lock_);
        news_.wait_for(guard, std::chrono::milliseconds(200), [this] { return end_ || !events_.empty(); });
        events.swap(events_);
        over = end_.has_value();
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      for (const auto& e : events)
        if (!on_event.is_none()) on_event(object_of(e));
      if (over && events.empty()) return *end_;
    }
  }

 private:
  void put(nlohmann::ordered_json o) {
    const std::lock_guard guard(lock_);
    events_.push_back(std::move(o));
    news_.notify_one();
  }

  cluster_submission what_;
  std::atomic<bool> detach_{false};
  std::mutex lock_;
  std::condition_variable news_;
  std::deque<nlohmann::ordered_json> events_;
  std::optional<cluster_outcome> end_;
  std::thread thread_;
};

cluster_outcome followed(cluster_submission s, const py::object& on_event) {
  auto begun = std::make_unique<follower>(std::move(s));
  try {
    return begun->follow(on_event);
  } catch (...) {
    const py::gil_scoped_release free;  // the destructor waits for the thread
    begun.reset();
    throw;
  }
}

py::dict run(const py::dict& d, const py::object& on_event) {
  cluster_submission s;
  s.where = address_of(d["cluster"].cast<std::string>());
  s.attach = d["number"].cast<std::uint32_t>();
  s.follow = d["follow"].cast<bool>();
  s.out = d["out"].cast<std::string>();
  if (s.attach == 0) {
    auto what = text_of_job(d);
    s.file = what.file, s.text = what.text, s.overrides = what.overrides;
    const auto weights = d["weights"].cast<std::string>(), resume = d["resume"].cast<std::string>();
    if (!weights.empty()) s.from = cluster_submission::beginning::weights;
    if (!resume.empty()) s.from = cluster_submission::beginning::checkpoint;
    s.given = weights + resume;
  }
  const auto end = followed(std::move(s), on_event);
  const char* words[] = {"done", "failed", "refused", "detached", "accepted", "preempted"};
  std::string text;
  for (const auto& m : end.messages) text += (text.empty() ? "" : "\n") + m;
  if (end.how == cluster_outcome::end::refused) throw job_error(text);
  if (end.how == cluster_outcome::end::failed) throw training_error(text.empty() ? "the job has failed" : text, {}, {});
  py::dict result;
  result["state"] = words[static_cast<std::size_t>(end.how)];
  result["number"] = end.number;
  result["messages"] = end.messages;
  return result;
}

std::string fetch(const std::string& cluster, std::uint32_t number, const std::string& out) {
  cluster_submission s;
  s.where = address_of(cluster);
  s.attach = number;
  s.out = out;
  const py::gil_scoped_release free;
  auto hash = fetch_from_cluster(s);
  if (!hash) throw job_error(hash.error().text);
  return *std::move(hash);
}

}  // namespace

void bind_cluster(py::module_& m) {
  m.def("run_on_cluster", &run);
  m.def("fetch_from_cluster", &fetch);
}

}  // namespace troupe::python
