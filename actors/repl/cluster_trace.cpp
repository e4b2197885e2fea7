// `trace` of `troupe repl --cluster FILE`: the client's process reads the records of all nodes and
// writes the file.
#include "actors/control/client/cluster_recording.hpp"
#include "actors/control/client/node_links.hpp"
#include "actors/repl/command.hpp"

namespace troupe {
namespace {

class cluster_traces final : public repl_backend {
 public:
  explicit cluster_traces(cluster_spec c) : cluster_(std::move(c)) {}
  repl_view view() const override { return {}; }
  const repl_events& events() const override { return none_; }
  expected<command_id> tell(std::uint32_t, command) override { return unexpected(error("only traces")); }
  expected<std::uint32_t> submit(const repl_submission&) override { return unexpected(error("only traces")); }

  expected<void> start_trace(const std::string& file) override {
    if (now_) return unexpected(error("a trace is being written to " + now_->file().string() + "; stop it first"));
    auto begun = cluster_recording::start(file, cluster_);
    if (!begun) return unexpected(std::move(begun).error());
    now_ = *std::move(begun);
    return {};
  }
  expected<trace_summary> stop_trace() override {
    if (!now_) return unexpected(error("no trace is being written"));
    return std::exchange(now_, nullptr)->stop();
  }
  expected<trace_summary> write_latest(const std::string& file) override {
    node_links links(cluster_, std::chrono::seconds(3));
    if (links.connected() == 0) return unexpected(error("no node answers: " + links.troubles()));
    return troupe::write_latest(file, links, latest_span);
  }

 private:
  const cluster_spec cluster_;
  const repl_events none_;
  std::unique_ptr<cluster_recording> now_;
};

}  // namespace

repl_lines repl_with_traces(repl_lines answer, cluster_spec c, bool json) {
  const auto traces = std::make_shared<cluster_traces>(std::move(c));
  return [answer = std::move(answer), traces, json](const std::string& line, const std::string* text) {
    const auto words = repl_split(line);
    return !words.empty() && words[0] == "trace" ? repl_session(*traces, json).run(line) : answer(line, text);
  };
}

}  // namespace troupe
