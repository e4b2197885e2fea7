// The REPL: text commands that inspect and control a running node or cluster. Independent of CAF
// and of the terminal.
//
//   repl_session   takes one line, returns one reply; works on a `repl_backend`
//   repl_backend   the state that it reads and the commands that it sends (view.hpp)
//   repl_lines     answers lines: a session in this process, or the REPL actor of a daemon
//   run_repl       reads lines from the terminal (history, completion), `-c`, or stdin
//
// Exit codes: 0 success; 1 a command failed or the connection to the daemon was lost; 2 wrong usage
// or an unknown command (scripts and -c stop there); 128 + n signal n ended the REPL (signals.hpp):
// SIGTERM, SIGHUP, and SIGINT if lines do not come from a terminal.
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
#include "runtime/base/result.hpp"
#include "runtime/cluster/view/view.hpp"

namespace troupe {

class repl_signals;

class repl_session {
 public:
  repl_session(repl_backend& backend, bool json) : backend_(backend), json_(json) {}
  // `text`: contents of the file that `submit FILE` names. A session opens no files, because it may
  // run in a daemon.
  repl_reply run(const std::string& line, const std::string* text = nullptr);

 private:
  repl_backend& backend_;
  bool json_;
};

struct repl_command_help {
  std::string name, arguments, doc;
  std::vector<std::pair<std::string, std::string>> meanings = {};  // of the arguments
  std::vector<std::pair<std::string, std::string>> examples = {};  // a line, and what it does
};
const std::vector<repl_command_help>& repl_commands();
// The reply to `submit` after the job was checked. `job` 0: it is invalid, for the reasons in
// `messages`.
repl_reply submitted_reply(bool json, std::uint32_t job, const std::vector<std::string>& messages);

// The session and submitted_reply as functions, for a daemon's control plane, which does not depend
// on the commands.
repl_answers session_answers();

// Answers one line; `text` as in repl_session::run. A remote implementation replies kind::failed
// when its deadline passes.
using repl_lines = std::function<repl_reply(const std::string& line, const std::string* text)>;

// Wraps `answer`: if a line names a file and has no text, reads the file and passes its text on.
// For the client's process. If the file cannot be read, the reply is an error and `answer` is not
// called.
repl_lines repl_with_files(repl_lines answer, bool json);

// Sends a line, then the lines that the replies name as next. Calls `show` for every reply with a
// text and returns the last reply. `go_on` is called between two requests: it waits a short time,
// and ends the loop if it returns false.
repl_reply run_line(const repl_lines& lines, const std::string& line, const std::string* text,
                    const std::function<void(const repl_reply&)>& show, const std::function<bool()>& go_on);

// The backend of `troupe repl` without an address: runs jobs embedded in this process, one after
// the other. Its destructor stops the running job with a checkpoint. Checkpoints, and the weights
// of a completed job, are written to the current folder. `tell_person` gets a line for each
// checkpoint and when a job ends. `unsaved` is called if the weights or the last checkpoint could
// not be written there, `hung` if a task of a job did not end: the process must then end by _exit.
// Threads: any.
std::unique_ptr<repl_backend> make_embedded_backend(std::function<void(const std::string&)> tell_person,
                                                    std::function<void()> unsaved = {}, std::function<void()> hung = {});

// Connects to the REPL actor of a daemon. An error if it cannot be reached `within` this time.
expected<repl_lines> connect_repl(const cluster_address& where, bool json, std::chrono::milliseconds within);

// Wraps the lines of a daemon: `trace` reads the records of all nodes of the cluster from here and
// writes its file here. The file is completed by `trace stop`, or when the lines end.
repl_lines repl_with_traces(repl_lines answer, cluster_spec c, bool json);

struct repl_options {
  std::string prompt = "troupe> ";
  std::string commands;  // -c "cmd; cmd"; empty: terminal or stdin
  bool has_commands = false;
  bool json = false;
  bool check = false;  // repl_main() only parses the lines, with repl_checked()
  // Called with true before a request and with false after its reply is printed. For lines that
  // another thread prints: they must not come between a request and its reply (job_lines.hpp).
  std::function<void(bool)> answering = [](bool) {};
};
// Reads and answers lines until the end of input, `quit`, a signal that ends the REPL, or (if not
// at a terminal) the first line that fails. Returns the exit code.
int run_repl(const repl_lines& lines, const repl_options& o, repl_signals& signals);

// Parses a line without running it: its quotes, the command's name, and the number of arguments.
repl_reply repl_checked(const std::string& line, bool json);

// What `troupe repl` connects to. All empty: a session in this process.
struct repl_target {
  std::string address;  // HOST:PORT of a daemon, or a run
  std::string tls, cluster, node;
};
// `troupe repl`. Returns the exit code.
int repl_main(const repl_target& a, const repl_options& o);

}  // namespace troupe
