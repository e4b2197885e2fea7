// Fuzz target: lines of the REPL, and the requests and answers of the socket of a run.
#include "actors/repl/run_socket.hpp"
#include "actors/repl/words.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_repl_line(input in) {
  reader r(in);
  const auto kind = r.number(1) % 3;
  const auto text = fuzz::text(r.rest());
  if (kind == 0) {
    const auto words = repl_read_words(text);
    must(words.last_at <= text.size(), "the last word begins beyond the line");
    std::size_t bytes = 0;
    for (const auto& w : words.list) bytes += w.size();
    must(bytes <= text.size(), "the words are longer than the line");
    if (const auto commands = repl_read_commands(text)) {
      bytes = commands->size() - 1;
      for (const auto& c : *commands) bytes += c.size();
      must(bytes == text.size(), "commands have lost characters");
    }
  } else if (kind == 1) {
    if (const auto request = read_run_request(text)) {
      const auto again = read_run_request(to_line(*request));
      must(again && again->json == request->json, "a request that was read cannot be sent");
    }
  } else if (const auto reply = read_run_reply(text)) {
    const auto again = read_run_reply(to_line(*reply));
    must(again && again->how == reply->how, "an answer that was read cannot be sent");
  }
}

std::vector<std::string> sound_repl_lines() {
  std::vector<std::string> all;
  for (const char* line : {"submit F plugins=[\"lib a.so\"] name='x;y'; # it's", "move \"conv \\\" 1\" n2", "set a 0.1;status"})
    all.push_back(std::string(1, '\0') + line);
  all.push_back("\x01" + to_line(run_request{"watch loss every=2s", true}));
  all.push_back("\x02" + to_line(repl_reply{repl_reply::kind::failed, "job 1 is over", "_follow pause 1 2 3 4"}));
  return all;
}

const entry repl_line_entry({"repl_line", read_repl_line, sound_repl_lines});

}  // namespace
}  // namespace troupe::fuzz
