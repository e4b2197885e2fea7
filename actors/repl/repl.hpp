// The REPL: what a person may ask of and tell a running node or cluster. Free of CAF and of the
// terminal.
//
//   repl_session   one line in, one reply out; works on a `repl_backend`
//   repl_backend   what it looks at and tells (actors/view/view.hpp)
//   repl_lines     where lines are answered: a session in this process, or the REPL actor of a daemon
//   run_repl       the terminal (history, completion), `-c`, or a script on stdin
//
// Exit codes: 0, 1 a command failed or the daemon was lost, 2 wrong usage or an unknown command
// (scripts and -c stop there), 128 + n signal n ended the REPL (signals.hpp): SIGTERM, SIGHUP, and
// SIGINT where lines do not come from a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/control/client/client.hpp"
#include "actors/shell/node_host.hpp"
#include "actors/view/view.hpp"

namespace troupe {

class repl_signals;

class repl_session {
 public:
  repl_session(repl_backend& backend, bool json) : backend_(backend), json_(json) {}
  // `text`: of the file that `submit FILE` names. A session opens no file: it may answer a client
  // of a daemon.
  repl_reply run(const std::string& line, const std::string* text = nullptr);

 private:
  repl_backend& backend_;
  bool json_;
};

struct repl_command_help {
  std::string name, arguments, doc;
};
const std::vector<repl_command_help>& repl_commands();
// What `submit` says once the job has been checked.
repl_reply submitted_reply(bool json, std::uint32_t job, const std::vector<std::string>& messages);

// The same for a daemon's control plane, which knows no commands.
repl_answers session_answers();

// Answers one line; `text` as above. A remote one has a deadline and answers kind::failed after it.
using repl_lines = std::function<repl_reply(const std::string& line, const std::string* text)>;

// Reads the file that a line names, where the line comes without its text, and has `answer` answer
// the line with the text. For the process of the person who types; what cannot be read is an error
// and `answer` is not called.
repl_lines repl_with_files(repl_lines answer, bool json);

// Asks a line and whatever its replies say must be asked next. `show` gets every reply with a text;
// the last one is returned. `go_on` is called between two askings: it waits a little, and ends the
// matter when it returns false.
repl_reply run_line(const repl_lines& lines, const std::string& line, const std::string* text,
                    const std::function<void(const repl_reply&)>& show, const std::function<bool()>& go_on);

// A job that runs embedded in this process: published state of `host`, with `jobs` supplied by
// whoever runs them, who puts what they say into `events`.
std::unique_ptr<repl_backend> make_local_backend(node_host& host, std::function<std::vector<repl_job>()> jobs,
                                                 std::shared_ptr<const repl_events> events);

// Jobs of this process, one after the other, each run embedded: what `troupe repl` without an
// address talks to. The backend ends the running job (with a checkpoint beside it) when it is
// destroyed. `tell_person` gets a line when a job ends, and of each checkpoint. A job that is done
// leaves its weights beside its checkpoints. `unsaved` is called when these weights, or that last
// checkpoint, are not where they belong. Any thread.
std::unique_ptr<repl_backend> make_embedded_backend(std::function<void(const std::string&)> tell_person,
                                                    std::function<void()> unsaved = {});

// The REPL actor of a daemon. An empty function and `error` when it cannot be reached.
repl_lines connect_repl(const cluster_address& where, bool json, std::chrono::milliseconds within, std::string& error);

struct repl_options {
  std::string prompt = "troupe> ";
  std::string commands;  // -c "cmd; cmd"; empty: terminal or stdin
  bool has_commands = false;
  bool json = false;
};
// Reads and answers lines until the end of input, `quit`, a signal that ends the REPL, or (not at a
// terminal) the first line that fails. Returns the exit code.
int run_repl(const repl_lines& lines, const repl_options& o, repl_signals& signals);

// `troupe repl [HOST:PORT] [--tls DIR] [--cluster FILE] [--node N] [-c "cmd; cmd"] [--json]`:
// parses what follows `repl`.
int repl_main(const std::vector<std::string>& arguments);

}  // namespace troupe
