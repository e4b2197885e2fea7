// Reads the files that commands name. The client's process reads them, never a daemon.
#include "actors/repl/command.hpp"
#include "runtime/node/config/job_file.hpp"

namespace troupe {
namespace {

// The file that the line names, as in `submit FILE ...`. Empty if the command takes no file.
std::string file_of_line(const std::string& line) {
  const auto arguments = repl_split(line);
  const auto* entry = arguments.size() > 1 ? find_repl_command(arguments[0]) : nullptr;
  return entry && entry->takes_file ? arguments[1] : std::string();
}

}  // namespace

repl_lines repl_with_files(repl_lines answer, bool json) {
  return [answer = std::move(answer), json](const std::string& line, const std::string* text) {
    const auto file = text ? std::string() : file_of_line(line);
    if (file.empty()) return answer(line, text);
    const auto failed = [&](const std::string& why) {
      return repl_reply{repl_reply::kind::failed, repl_error_text(json, why), {}};
    };
    const auto read = read_config_text(file);
    if (!read) return failed(read.error().front().to_string());
    const auto& whole = *read;
    return whole.empty() ? failed(file + ": the file is empty") : answer(line, &whole);
  };
}

}  // namespace troupe
