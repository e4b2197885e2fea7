// Sends REPL lines to the REPL actor of a daemon.
#include "actors/control/client/client_link.hpp"
#include "actors/repl/command.hpp"
#include "actors/repl/signals.hpp"
#include "runtime/cluster/answer_pieces.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using kind = repl_reply::kind;

class remote_lines {
 public:
  remote_lines(cluster_address where, bool json) : where_(std::move(where)), json_(json) {}

  expected<void> connect(std::chrono::milliseconds within) {
    auto made = client_link::open(where_, within);
    if (!made) return unexpected(error(made.error().message));
    link_ = std::move(*made);
    return {};
  }

  repl_reply run(const std::string& line, const std::string* text) {
    const control::ask a{++asked_, json_, line, text ? *text : std::string()};
    // Reconnects if the daemon was restarted.
    if (link_->lost())
      if (const auto again = connect(3s); !again) return {kind::failed, repl_error_text(json_, again.error().text)};
    if (const auto sent = link_->send(a); !sent) return {kind::failed, repl_error_text(json_, sent.error().message)};
    const auto within = text ? 70s : 10s;  // with a text: the daemon checks the submission and opens its data
    const auto deadline = std::chrono::steady_clock::now() + within;
    control::answer_pieces pieces;
    while (std::chrono::steady_clock::now() < deadline) {
      auto m = link_->receive(100ms);
      const auto* r = m ? std::get_if<control::answer>(&*m) : nullptr;
      if (r && r->how <= static_cast<std::uint8_t>(kind::quit))
        if (auto whole = pieces.take(*r, a.id))
          return {static_cast<kind>(whole->how), std::move(whole->text), std::move(whole->next)};
      if (link_->lost()) return lost();
      if (repl_signals::ends() != 0)
        return {kind::failed, repl_error_text(json_, "interrupted; " + link_->daemon() + " may still execute the command")};
    }
    return {kind::failed, repl_error_text(json_, link_->daemon() + " did not answer in time")};
  }

 private:
  repl_reply lost() const { return {kind::failed, repl_error_text(json_, link_->why_lost())}; }

  cluster_address where_;
  bool json_;
  std::unique_ptr<client_link> link_;
  std::uint64_t asked_ = 0;
};

}  // namespace

expected<repl_lines> connect_repl(const cluster_address& where, bool json, std::chrono::milliseconds within) {
  auto remote = std::make_shared<remote_lines>(where, json);
  if (auto connected = remote->connect(within); !connected) return unexpected(std::move(connected).error());
  return repl_with_files([remote](const std::string& line, const std::string* text) { return remote->run(line, text); }, json);
}

}  // namespace troupe
