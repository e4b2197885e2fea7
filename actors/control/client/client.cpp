#include "actors/control/client/client.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "actors/control/client/client_link.hpp"
#include "runtime/cluster/admission.hpp"
#include "runtime/cluster/pieces.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/record/second_place.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using end = cluster_outcome::end;
constexpr auto look_every = 100ms;
constexpr auto check_timeout = 65s;  // the daemon reads the job and opens its data
constexpr auto piece_timeout = 5s;
constexpr auto dial_timeout = 2s;  // per attempt to reconnect

std::uint64_t bytes_of(const std::string& file) {
  std::error_code ec;
  const auto n = file.empty() ? 0 : std::filesystem::file_size(file, ec);
  return ec ? 0 : n;
}

struct run {
  const cluster_submission& what;
  const std::function<void(const job_event&)>& on_event;
  const std::atomic<bool>& detach;
  std::unique_ptr<client_link> connection;
  cluster_outcome result{};
  std::set<std::pair<std::string, std::uint64_t>>
      notified{};           // events but steps: after a reconnection the daemon repeats all of them
  std::uint64_t step = 0;   // the last step event
  bool again = false;       // after a reconnection: old events may be repeated
  bool told = false;        // on_accepted was called
  std::string preempted{};  // the result if the daemon of a preempted job does not return
  std::string received{};   // hash of the weights that were fetched

  cluster_outcome end_with(end how, std::string message = {}) {
    result.how = how;
    if (!message.empty()) result.messages.push_back(std::move(message));
    return result;
  }
  client_link& link() const { return *connection; }

  void note_job(const control::submitted& s) {
    result.job = s.job;
    result.number = control::number_of(s.job);
    if (what.on_accepted && !std::exchange(told, true))
      what.on_accepted({result.number, s.ahead, s.first_step, s.last_step, s.steps_per_epoch, s.batch, s.head});
  }

  // nullopt: no answer in time, the connection is lost, or the caller detaches.
  std::optional<control::submitted> asked_to_follow(std::uint32_t number) {
    (void)link().send(control::follow{number});
    const auto late = std::chrono::steady_clock::now() + piece_timeout;
    while (!link().lost() && !detach && std::chrono::steady_clock::now() < late) {
      auto m = link().receive(look_every);
      if (auto* s = m ? std::get_if<control::submitted>(&*m) : nullptr) return std::move(*s);
    }
    return std::nullopt;
  }

  cluster_outcome attach() {
    result.number = what.attach;
    const auto s = asked_to_follow(what.attach);
    if (detach) return end_with(end::detached);
    if (!s && link().lost()) return lost();
    if (!s) return end_with(end::failed, link().daemon() + " did not answer in 5 s");
    if (s->job == 0) {
      result.messages = s->messages;
      return end_with(end::refused);
    }
    note_job(*s);
    return follow();
  }

  // Reconnects to the daemon and follows the job again. Returns the outcome if that fails, else
  // nullopt.
  std::optional<cluster_outcome> follow_again() {
    const auto why = link().why_lost();
    const auto until = std::chrono::steady_clock::now() + what.wait_for_daemon;
    while (std::chrono::steady_clock::now() < until) {
      if (detach) return end_with(end::detached);
      auto made = client_link::open(what.where, dial_timeout);
      if (!made) {
        if (made.error().code != "unreachable") return end_with(end::failed, made.error().message);
        std::this_thread::sleep_for(look_every);
        continue;
      }
      connection = std::move(*made);
      const auto s = asked_to_follow(result.number);
      if (!s) continue;
      if (s->job == 0) return end_with(end::failed, why + "; then: " + (s->messages.empty() ? "" : s->messages.front()));
      again = s->job == result.job;
      note_job(*s);
      return std::nullopt;
    }
    return preempted.empty() ? end_with(end::failed, why) : end_with(end::preempted, preempted);
  }

  // Returns true if the event has been reported before.
  bool is_old(const event_effect& e) {
    if (!e.is<step_event>()) return !notified.emplace(name_of(e).id, e.step).second && again;
    if (again && e.step <= step) return true;
    step = e.step;
    return false;
  }

  cluster_outcome lost() { return end_with(end::failed, link().why_lost()); }

  cluster_outcome submit() {
    const auto bytes = bytes_of(what.given);
    const auto within = check_timeout + control::time_for(bytes);
    const control::given_file given{static_cast<std::uint8_t>(what.from), what.given, bytes};
    if (const auto sent = link().send(control::submit{{what.file, what.text, what.overrides}, what.follow, 1, given}); !sent)
      return end_with(end::failed, sent.error().message);
    auto deadline = std::chrono::steady_clock::now() + within;
    while (true) {
      auto m = link().receive(look_every);
      if (const auto* f = m ? std::get_if<control::fetch>(&*m) : nullptr) {
        (void)link().send(control::read_piece(*f, what.given, "pieces of " + what.given));
        deadline = std::chrono::steady_clock::now() + within;
        continue;
      }
      if (const auto* s = m ? std::get_if<control::submitted>(&*m) : nullptr) {
        if (s->job == 0) {
          result.messages = s->messages;
          return end_with(end::refused);
        }
        note_job(*s);
        return what.follow ? follow() : end_with(end::accepted);
      }
      if (link().lost()) return lost();
      if (detach) return end_with(end::detached);
      if (std::chrono::steady_clock::now() > deadline) return end_with(end::failed, link().daemon() + " did not answer in 65 s");
    }
  }

  cluster_outcome follow() {
    while (true) {
      if (detach) return end_with(end::detached);
      auto m = link().receive(look_every);
      if (!m) {
        if (!link().lost()) continue;
        if (auto over = follow_again()) return *over;
        continue;
      }
      auto* s = std::get_if<control::said>(&*m);
      if (!s || s->job != result.job) continue;
      auto read = control::to_event(*s);
      if (!read) return end_with(end::failed, link().daemon() + " sent an event that cannot be read: " + read.error().text);
      const auto e = *std::move(read);
      if (is_old(e.event)) continue;
      const auto* done = e.event.as<done_event>();
      if (done) result.messages.insert(result.messages.end(), done->alerts.begin(), done->alerts.end());
      if (done && !what.out.empty()) {
        // Fetches the weights before `done` is reported: their file exists when the caller sees the
        // event.
        if (auto fetched = fetch_weights(done->weights_sha256); !fetched) result.messages.push_back(fetched.error().text);
      }
      if (on_event) on_event(e);
      if (done) return end_with(result.messages.empty() ? end::done : end::failed);
      if (const auto* bad = e.event.as<error_event>()) return end_with(end::failed, bad->message);
      const auto* p = e.event.as<preempted_event>();
      if (!p) continue;
      preempted = "preempted: " + p->message + (p->file.empty() ? "" : "; its checkpoint is " + p->file + " on " + link().daemon());
      if (!p->alerts.empty()) return end_with(end::failed, p->alerts.front());
      if (p->goes_on.empty()) return end_with(end::preempted, preempted);
    }
  }

  expected<std::string, fetch_error> fetch_only() {
    result.number = what.attach;
    const auto s = asked_to_follow(what.attach);
    if (!s) return unexpected(fetch_error{link().lost() ? link().why_lost() : link().daemon() + " did not answer in 5 s"});
    if (s->job == 0) return unexpected(fetch_error{s->messages.empty() ? "refused" : s->messages.front(), true});
    note_job(*s);
    if (auto fetched = fetch_weights({}); !fetched) return unexpected(fetch_error{fetched.error().text, received.empty()});
    return received;
  }

  // `sha256`: the announced one; empty: not known.
  expected<void> fetch_weights(const std::string& sha256) {
    const auto failed = [](const std::string& why) { return unexpected(error("cannot fetch the weights: " + why)); };
    std::string bytes;
    std::uint64_t total = 0;
    do {
      (void)link().send(control::fetch{result.job, bytes.size()});
      const auto deadline = std::chrono::steady_clock::now() + piece_timeout;
      std::optional<control::piece> p;
      while (!p) {
        auto m = link().receive(look_every);
        if (auto* got = m ? std::get_if<control::piece>(&*m) : nullptr) p = std::move(*got);
        if (!p && (link().lost() || std::chrono::steady_clock::now() > deadline))
          return failed(link().lost() ? link().why_lost() : link().daemon() + " did not answer in 5 s");
      }
      if (!p->error.empty()) return failed(p->error);
      if (p->bytes.empty() || p->offset != bytes.size()) return failed("a piece is missing or out of order");
      total = p->total;
      bytes += p->bytes;
    } while (bytes.size() < total);
    return save(std::make_shared<const std::string>(std::move(bytes)), sha256);
  }

  expected<void> save(const std::shared_ptr<const std::string>& bytes, const std::string& sha256) {
    // Tests only that the file is valid and holds the announced weights; the tensors are not used,
    // so alignment does not matter.
    const auto parsed = parse_safetensors(bytes, bytes->data(), bytes->size());
    if (!parsed) return unexpected(error("the received weights are damaged: " + parsed.error().to_string()));
    received = weights_sha256(parsed->named);
    if (!sha256.empty() && received != sha256) return unexpected(error("the received weights do not match the announced checksum"));
    second_place elsewhere;
    const auto kept = write_or_elsewhere(elsewhere, what.out, [&](const std::string& path) -> expected<void, record_error> {
      return write_file_atomically(path, {{bytes->data(), bytes->size()}}).transform_error([&](const error& e) {
        return record_error{path, {}, e.text};
      });
    });
    if (kept.trouble) return unexpected(error(kept.trouble->to_string()));
    return {};
  }
};

}  // namespace

cluster_address coordinator_of(const cluster_spec& c) {
  for (const auto& n : c.nodes)
    if (std::find(n.roles.begin(), n.roles.end(), "coordinator") != n.roles.end()) return {c.name, c.tls_dir, n.address, n.name};
  return {c.name, c.tls_dir, {}, {}};
}

expected<std::string, fetch_error> fetch_from_cluster(const cluster_submission& what) {
  try {
    auto link = client_link::open(what.where, what.reach_timeout);
    if (!link) return unexpected(fetch_error{link.error().message, link.error().code != "unreachable"});
    const std::function<void(const job_event&)> ignored;
    const std::atomic<bool> no{false};
    return run{what, ignored, no, std::move(*link)}.fetch_only();
  } catch (const std::exception& e) {
    return unexpected(fetch_error{e.what()});
  }
}

cluster_outcome run_on_cluster(const cluster_submission& what, const std::function<void(const job_event&)>& on_event,
                               const std::atomic<bool>& detach) {
  cluster_outcome failed;
  try {
    auto link = client_link::open(what.where, what.reach_timeout);
    if (!link) {
      failed.messages.push_back(link.error().message);
      failed.how = link.error().code == "unreachable" ? end::failed : end::refused;
      return failed;
    }
    run one{what, on_event, detach, std::move(*link)};
    return what.attach != 0 ? one.attach() : one.submit();
  } catch (const std::exception& e) {
    failed.messages.push_back(e.what());
    return failed;
  }
}

}  // namespace troupe
