// `troupe serve NET.troupe|RUN...`: predictions over HTTP.
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "actors/supervision/stop_signals.hpp"
#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/predict/net_file.hpp"
#include "runtime/node/serving/predict_server.hpp"

namespace troupe {
namespace {

struct serve_arguments {
  std::vector<std::string> nets;
  std::string address = "127.0.0.1:8080", certificate, key, token, run_dir;
  bool load_plugins = false;
  double deadline_ms = 2;
  std::int64_t batch = 64, resized_pixels = most_request_pixels;
  unsigned threads = 1;
};

diagnostics diagnostics_of(const record_error& e) { return {{{e.file}, e.message}}; }

// The net of a run as `troupe export` would write it, with its best weights.
expected<std::shared_ptr<prepared_job>, diagnostics> net_of_run(const std::filesystem::path& folder, bool load_plugins,
                                                                const output& out) {
  job_arguments a;
  a.file = run_job_file(folder).string();
  a.load_plugins = load_plugins;
  auto job = load_job(a);
  if (!job) return unexpected(std::move(job).error());
  const auto weights = weights_of_run(folder, out);
  if (!weights) return unexpected(diagnostics_of(weights.error()));
  if (const auto from = begin_from_weights(**job, *weights); !from) return unexpected(diagnostics_of(from.error()));
  auto bytes = net_file_bytes(**job, given(**job), net_weights::f32);
  if (!bytes) return unexpected(std::move(bytes).error());
  const auto owner = std::make_shared<const std::string>(*std::move(bytes));
  return read_net_file(owner, owner->data(), owner->size(), folder.string());
}

expected<std::vector<served_net>, diagnostics> open_nets(const serve_arguments& a, const output& out) {
  std::vector<served_net> nets;
  for (const auto& word : a.nets) {
    const auto run = run_named(word, a.run_dir);
    if (!run) return unexpected(diagnostics_of(run.error()));
    if (run->empty() && word.ends_with(".toml"))
      return unexpected(diagnostics{{{word}, "a job file has no weights: name a run, or a net file that `troupe export` wrote"}});
    auto job = run->empty() ? open_net_file(word) : net_of_run(*run, a.load_plugins, out);
    if (!job) return unexpected(std::move(job).error());
    const std::filesystem::path name = run->empty() ? std::filesystem::path(word).stem() : run->filename();
    nets.push_back({name.string(), *std::move(job)});
  }
  return nets;
}

int run_serve(const serve_arguments& a, const output& out) {
  const auto where = net::parse_address(a.address);
  if (!where) return out.wrong("--address", where.error().message);
  predict_server_options o;
  o.where = *where;
  o.certificate = a.certificate, o.key = a.key;
  o.threads = a.threads;
  o.batching.most = a.batch;
  o.resized_pixels = a.resized_pixels;
  o.batching.deadline = std::chrono::microseconds(static_cast<std::int64_t>(1000 * a.deadline_ms));
  o.log = [&out](const std::string& line) { out.remark(line); };
  if (!a.token.empty()) {
    auto token = http::read_token(a.token);
    if (!token) return out.wrong("--token", token.error().message);
    o.token = *std::move(token);
  }
  auto nets = open_nets(a, out);
  if (!nets) return out.wrong(nets.error());
  // Before the server is open, so that a signal that follows the first line of output ends it.
  std::mutex lock;
  std::condition_variable news;
  bool asked = false;
  const stop_signals watch([&](int) {
    const std::lock_guard guard(lock);
    asked = true;
    news.notify_one();
  });
  const auto server = predict_server::open(*std::move(nets), o);
  if (!server)
    return server.error().code == "bad_net" ? out.wrong("", server.error().message) : out.failed(a.address, server.error().message);
  if (out.json()) out.object({{"event", "serving"}, {"url", (*server)->url()}, {"nets", a.nets}});
  out.text("serves " + joined(a.nets) + " at " + (*server)->url() + "; Ctrl-C ends it\n");
  std::unique_lock guard(lock);
  news.wait(guard, [&] { return asked; });
  return exit_done;
}

void add_options(CLI::App& c, serve_arguments& a) {
  c.add_option("NET", a.nets, "Net files (.troupe), made by `troupe export`, or runs: number, name or folder")
      ->required()
      ->option_text("...");
  c.add_option("--address", a.address, "Address to serve at; port 0: a free port (default: 127.0.0.1:8080)")
      ->option_text("HOST:PORT");
  c.add_option("--deadline", a.deadline_ms, "Milliseconds that a request waits for others, to be computed together (default: 2)")
      ->option_text("MS")
      ->check(CLI::Range(0.0, 10000.0));
  c.add_option("--batch", a.batch, "Examples that are computed together at most (default: 64)")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}));
  c.add_option("--resized-pixels", a.resized_pixels,
               "Pixels of the images of one request that are resized, together (default: 67108864)")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  threads_option(c, a.threads, "1");
  file_option(c, "--certificate", a.certificate, "Certificate (PEM), for an address that other machines reach");
  file_option(c, "--key", a.key, "Its private key (PEM)");
  file_option(c, "--token", a.token, "File with the bearer token that requests must have, mode 0600");
  load_plugins_option(c, a.load_plugins, "a run's job.toml");
  runs_folder_option(c, a.run_dir);
  json_option(c);
}

}  // namespace

cli_command serve_command() {
  return make_command<serve_arguments>("serve", "Serve predictions of nets over HTTP",
                                       "  troupe serve lenet.troupe --threads 2\n"
                                       "  troupe serve 7                       # run 7, with its best weights\n"
                                       "  curl --data-binary @photo.png http://127.0.0.1:8080/predict\n"
                                       "Answers are JSON. Requests that arrive within the deadline are computed together.",
                                       add_options, run_serve);
}

}  // namespace troupe
