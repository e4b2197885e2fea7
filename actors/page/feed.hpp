// The WebSocket of the page: what the server sends to each open page, and the lines that pages
// send.
//
// Server to page, JSON objects:
//   {"t":"state","state":{...}}        first
//   {"t":"patch","patch":{...}}        a merge patch (delta.hpp) for the state
//   {"t":"events","events":[{...}]}    new events of jobs, as in docs/events.schema.json, with the
//                                      job's number as `job` and the event's as `n`
//   {"t":"reply","id":1,"how":"ok","text":"...","more":false}
//                                      to a line; "more": another reply follows
//
// Page to server: {"id":1,"line":"pause 3"}; with "json":true the reply's text has a JSON object
// per line. {"cancel":1} drops a line whose reply has not come.
//
// A page gets the next message when the system has taken the last one; the patch then goes from the
// state that the page has to the newest one. So a slow page misses intermediate states, and costs
// the memory of one state and one message.
//
// Threads: one at a time, except where noted.  Errors: of a line, as its reply; a page that sends
// anything else is closed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "actors/page/rights.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/node/http/server.hpp"

namespace troupe {

class page_feed {
 public:
  static constexpr std::size_t max_lines = 8;           // of one page without a reply
  static constexpr std::size_t max_steps_at_once = 64;  // step events of a job in one message; others are left out

  page_feed(repl_backend& backend, page_role role) : backend_(backend, role), role_(role) {}

  void opened(const std::shared_ptr<http::socket>& s) { pages_.push_back({s, {}, 0, {}}); }
  void received(const std::shared_ptr<http::socket>& s, const std::string& text);
  void closed(const std::shared_ptr<http::socket>& s);
  // Continues lines whose answer is not complete. Called every `repl_ask_every`.
  void answer_lines();
  // Sends what is new to the pages that have taken their last message.
  void send_news();
  std::size_t pages() const { return pages_.size(); }
  // Whether the system has taken all messages to all pages.
  bool settled() const;
  // Certificates of this node that the state shows, with the second since 1970 at which each
  // expires. Any thread.
  void show_expiries(std::map<std::string, std::int64_t> expiries);

 private:
  using state = std::shared_ptr<const nlohmann::json>;
  using text = std::shared_ptr<const std::string>;
  struct asked_line {
    std::uint64_t id = 0;
    bool json = false;
    std::string line;  // the next one to run
  };
  struct page {
    std::shared_ptr<http::socket> socket;
    state seen;                // what it shows; null: nothing yet
    std::uint64_t events = 0;  // number of the newest event that it has
    std::deque<asked_line> lines;
  };
  struct news {
    text events;  // null: none
    std::uint64_t newest = 0;
  };

  state newest_state(const repl_view& v);
  page* page_of(const std::shared_ptr<http::socket>& s);
  bool run(page& p, asked_line& a);
  text state_text(const page& p, const state& newest) const;
  news events_after(std::uint64_t number, const std::vector<repl_job>& jobs) const;

  page_backend backend_;
  page_role role_;
  std::deque<page> pages_;
  std::mutex lock_;
  std::map<std::string, std::int64_t> expiries_;  // guarded by lock_
};

}  // namespace troupe
