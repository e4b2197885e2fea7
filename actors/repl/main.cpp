// `troupe repl`: connects to a daemon or a run, or starts the embedded backend.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "actors/repl/job_lines.hpp"
#include "actors/repl/repl.hpp"
#include "actors/repl/run_socket.hpp"
#include "actors/repl/signals.hpp"
#include "actors/repl/tables.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

// The daemon that the command line selects.
expected<cluster_address> target_of(const repl_target& a) {
  if (a.cluster.empty()) {
    if (a.tls.empty())
      return unexpected(
          error("no certificates given: use --tls DIR, or --cluster FILE with a cluster file that names their folder"));
    return cluster_address{{}, a.tls, a.address.empty() ? "127.0.0.1:7701" : a.address, {}};
  }
  auto read = read_cluster_file(a.cluster);
  if (!read) return unexpected(all_of(read.error()));
  const auto& c = *read;
  auto where = coordinator_of(c);
  std::vector<std::string> names;
  for (const auto& n : c.nodes) {
    names.push_back(n.name);
    if (n.name == a.node || (a.node.empty() && n.address == a.address)) where = {c.name, c.tls_dir, n.address, n.name};
  }
  if (!a.node.empty() && where.node != a.node)
    return unexpected(error(a.cluster + " has no node " + in_quotes(a.node) + did_you_mean(a.node, names)));
  if (a.node.empty() && !a.address.empty() && where.address != a.address) where = {c.name, c.tls_dir, a.address, {}};
  if (!a.tls.empty()) where.tls_dir = a.tls;
  return where;
}

}  // namespace

namespace {

// Runs jobs in this process.
int run_embedded(repl_options o) {
  bool unsaved = false, hung = false;  // written by the thread that runs jobs, read after that thread has ended
  // At a prompt, the line takes the place of the prompt, which is drawn again below it.
  const bool at_prompt = !o.has_commands && !o.json && ::isatty(STDIN_FILENO) != 0 && ::isatty(STDERR_FILENO) != 0;
  job_lines shown([at_prompt](const std::string& line) {
    std::fprintf(stderr, "%s%s\n", at_prompt ? "\r\x1b[K" : "", printable(line, line_breaks::kept).c_str());
    if (at_prompt) repl_signals::ask_to_redraw();
  });
  o.answering = [&](bool on) { shown.answering(on); };
  auto here =
      make_embedded_backend([&](const std::string& line) { shown.add(line); }, [&] { unsaved = true; }, [&] { hung = true; });
  repl_session session(*here, o.json);
  repl_signals signals;
  const auto lines = [&](const std::string& line, const std::string* text) { return session.run(line, text); };
  int code = run_repl(repl_with_files(lines, o.json), o, signals);
  signals.end_at_once();
  here.reset();  // stops the running job
  if (unsaved) code = std::max(code, 1);
  if (hung) {  // a thread still runs a task: what it uses must exist until the process ends
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

// The socket of the run that a user names.
expected<std::filesystem::path> socket_of(const std::string& run) {
  const auto found = find_run(default_runs_folder(), run);
  if (!found) return unexpected(error(found.error().to_string()));
  return run_socket_file(*found);
}

bool is_address(const std::string& text) {
  const auto colon = text.rfind(':');
  return colon != std::string::npos && colon + 1 < text.size() &&
         text.find_first_not_of("0123456789", colon + 1) == std::string::npos && !std::filesystem::exists(text);
}

}  // namespace

int repl_main(const repl_target& a, const repl_options& o) {
  const auto fail = [&](int code, const std::string& why) {
    auto* where = o.json ? stdout : stderr;
    const auto text = repl_error_text(o.json, why);
    std::fprintf(where, "%s\n", o.json ? text.c_str() : printable(text, line_breaks::kept).c_str());
    return code;
  };
  if (o.check) {
    repl_signals signals;
    return run_repl([&](const std::string& line, const std::string*) { return repl_checked(line, o.json); }, o, signals);
  }
  if (a.address.empty() && a.tls.empty() && a.cluster.empty() && a.node.empty()) {
    return run_embedded(o);
  }
  const bool to_run = !a.address.empty() && !is_address(a.address);
  if (to_run && (!a.tls.empty() || !a.cluster.empty() || !a.node.empty()))
    return fail(2, in_quotes(a.address) + " is not HOST:PORT; a run takes neither --tls nor --cluster nor --node");
  if (to_run) {
    const auto file = socket_of(a.address);
    if (!file) return fail(2, file.error().text);
    const auto lines = connect_run(*file, o.json);
    if (!lines)
      return fail(1, "cannot connect to run " + in_quotes(a.address) + ": " + lines.error().text + " (" + file->string() + ")");
    repl_signals signals;
    return run_repl(*lines, o, signals);
  }
  const auto where = target_of(a);
  if (!where) return fail(2, where.error().text);
  auto lines = connect_repl(*where, o.json, std::chrono::seconds(8));
  if (!lines) return fail(1, lines.error().text + (a.cluster.empty() ? "" : "; try: troupe doctor --cluster " + a.cluster));
  if (auto cluster = a.cluster.empty() ? unexpected(diagnostics{}) : read_cluster_file(a.cluster)) {
    if (!a.tls.empty()) cluster->tls_dir = a.tls;
    lines = repl_with_traces(*std::move(lines), *std::move(cluster), o.json);
  }
  repl_signals signals;
  return run_repl(*lines, o, signals);
}

}  // namespace troupe
