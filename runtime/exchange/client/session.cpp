#include "runtime/exchange/client/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "runtime/exchange/client/frames.hpp"
#include "runtime/exchange/hub/arithmetic.hpp"
#include "runtime/exchange/hub/parts.hpp"
#include "runtime/exchange/troupe_exchange.h"
#include "runtime/node/net/operator_options.hpp"

namespace troupe::exchange {
namespace {

// The number of a daemon's code in troupe_exchange.h. Only not_allowed differs: the library's own
// codes come before it.
int number_of(code c) { return c == code::not_allowed ? TROUPE_EXCHANGE_NOT_ALLOWED : static_cast<int>(c); }

outcome late(const char* what) { return {TROUPE_EXCHANGE_TIMEOUT, std::string("the deadline passed ") + what}; }

}  // namespace

net::callbacks session::callbacks_of() {
  net::callbacks c;
  c.on_peer_up = [this](const std::string& peer, std::uint64_t) {
    const std::lock_guard guard(lock_);
    line_.daemon = peer;
    line_.up = true;
    changed_.notify_all();
  };
  c.on_peer_down = [this](const std::string&, const coded_error& why) {
    const std::lock_guard guard(lock_);
    line_.down = true;
    line_.reason = why.message;
    changed_.notify_all();
  };
  c.on_frame = [this](const std::string& peer, net::frame&& f) -> expected<void, coded_error> {
    auto m = from_frame(f);
    if (!m) return unexpected(net::unreadable(peer, f, "it is not a valid exchange message"));
    take(std::move(*m));
    return {};
  };
  return c;
}

void session::take(message&& m) {
  const std::lock_guard guard(lock_);
  if (reply_.take(std::move(m))) changed_.notify_all();
}

outcome session::closed() { return {TROUPE_EXCHANGE_CLOSED, "another thread is closing this session"}; }

outcome session::lost() const { return {TROUPE_EXCHANGE_DISCONNECTED, "the connection to the daemon is lost: " + line_.reason}; }

outcome session::open(const place& at, deadline until, std::unique_ptr<session>& made) {
  const auto where = net::parse_address(at.address);
  if (!where) return {TROUPE_EXCHANGE_BAD_ARGUMENT, where.error().message};
  auto options = net::operator_options(at.tls_dir);
  if (!options) return {TROUPE_EXCHANGE_NO_CERTIFICATE, options.error().message};
  options->max_frame = max_frame;
  std::unique_ptr<session> s(new session);
  s->process_ = ::getpid();
  s->me_ = at.what;
  auto net = net::make_tcp_transport(std::move(*options), s->callbacks_of());
  if (!net)
    return {net.error().code == "bad_option" ? TROUPE_EXCHANGE_INTERNAL : TROUPE_EXCHANGE_NO_CERTIFICATE, net.error().message};
  s->net_ = std::move(*net);
  const auto within = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  s->net_->connect("", *where, std::max(within, std::chrono::milliseconds(1)));
  {
    std::unique_lock guard(s->lock_);
    s->changed_.wait_until(guard, until, [&] { return s->line_.up || s->line_.down; });
    if (!s->line_.up || s->line_.down)
      return {TROUPE_EXCHANGE_UNREACHABLE,
              "no daemon answers at " + at.address + (s->line_.reason.empty() ? "" : ": " + s->line_.reason)};
  }
  auto done =
      s->ask([&](std::uint64_t) { return at.what; }, {}, until, [&](const answer& a, const std::byte*) { s->me_.rank = a.value; });
  if (done.code == 0) made = std::move(s);
  return done;
}

session::~session() {
  if (!net_) return;
  bool there = false;
  {
    const std::lock_guard guard(lock_);
    there = line_.up && !line_.down;
  }
  if (there) send(leave{});
  net_->close();
  net_.reset();
}

bool session::of_this_process() const { return process_ == ::getpid(); }

void session::end_calls() {
  std::unique_lock guard(lock_);
  calls_.closing = true;
  changed_.notify_all();
  changed_.wait(guard, [this] { return calls_.inside == 0; });
}

bool session::send(const message& m) { return net_->send(line_.daemon, to_frame(m)); }

void session::send_pieces(std::uint64_t call, std::uint64_t bytes) {
  if (bytes == 0) return;
  {
    const std::lock_guard guard(lock_);
    upload_.leaving = true;
  }
  const std::shared_ptr<const void> owner(upload_.bytes.data(), [this](const void*) {
    const std::lock_guard guard(lock_);
    upload_.leaving = false;
    changed_.notify_all();
  });
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes)
    if (!send(
            piece{call,
                  at,
                  {owner, upload_.bytes.data() + at, static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, bytes - at))}}))
      return;
}

// Waits for this call's turn, then copies the values to send and makes space for the answer.
outcome session::prepare(std::unique_lock<std::mutex>& guard, const values& v, deadline until) {
  const auto free = [this] { return calls_.closing || line_.down || (!calls_.turn_taken && !upload_.leaving); };
  if (!changed_.wait_until(guard, until, free))
    return late(calls_.turn_taken ? "while another thread's call was in progress"
                                  : "before the values of an earlier call were sent");
  if (calls_.closing) return closed();
  if (line_.down) return lost();
  if (v.give_bytes != 0) {
    upload_.bytes.resize(v.give_bytes);
    std::memcpy(upload_.bytes.data(), v.give, v.give_bytes);
  }
  reply_.await(calls_.made++, v.max_back);
  calls_.turn_taken = true;
  return {};
}

outcome session::finish(std::unique_lock<std::mutex>& guard, deadline until) {
  changed_.wait_until(guard, until, [this] { return calls_.closing || line_.down || reply_.complete(); });
  reply_.stop();
  if (reply_.complete()) return {number_of(reply_.said().code), reply_.said().text};
  if (calls_.closing) return closed();
  if (line_.down) return lost();
  return late("and the call was cancelled");
}

outcome session::ask(const request& make, const values& v, deadline until,
                     const std::function<void(const answer&, const std::byte* back)>& done) {
  visit inside(*this);
  std::uint64_t number = 0;
  {
    std::unique_lock guard(lock_);
    if (auto r = prepare(guard, v, until); r.code != 0) return r;
    inside.turn = true;
    number = reply_.call();
  }
  send(make(number));
  send_pieces(number, v.give_bytes);
  outcome r;
  {
    std::unique_lock guard(lock_);
    r = finish(guard, until);
    if (r.code == 0 && done) done(reply_.said(), reply_.values());
  }
  if (r.code == TROUPE_EXCHANGE_TIMEOUT) send(cancel{number});
  return r;
}

outcome session::declare_buffer(const std::string& name, element type, std::uint64_t count, deadline until, std::int32_t& number) {
  return ask(
      [&](std::uint64_t call) {
        return declare{call, name, type, count};
      },
      {}, until,
      [&](const answer& a, const std::byte*) {
        if (buffers_.size() <= a.value) buffers_.resize(a.value + 1u);
        buffers_[a.value] = {name, type, count};
        number = static_cast<std::int32_t>(a.value);
      });
}

outcome session::call(begin b, void* mine, std::uint64_t count, deadline until) {
  buffer of;
  if (b.what != collective_op::barrier) {
    const std::lock_guard guard(lock_);
    if (b.buffer >= buffers_.size() || buffers_[b.buffer].count == 0)
      return {TROUPE_EXCHANGE_BAD_ARGUMENT, "buffer " + std::to_string(b.buffer) + " is not registered in this session"};
    of = buffers_[b.buffer];
    if (count != of.count)
      return {TROUPE_EXCHANGE_BAD_ARGUMENT,
              "buffer '" + of.name + "' is registered with " + std::to_string(of.count) + " values, not " + std::to_string(count)};
  }
  return of_team(b, of) ? call_team(b, of, mine, until) : call_hub(b, of, mine, until);
}

// asgd: a worker sends its change since it last received the centre. Before it has received the
// centre it sends its own values (b.argument = 1).
std::vector<std::byte> session::difference(begin& b, const void* mine) {
  const std::lock_guard guard(lock_);
  const auto& of = buffers_[b.buffer];
  const auto had = had_.find(b.buffer);
  b.argument = had == had_.end() ? 1 : 0;
  std::vector<std::byte> out(of.count * bytes_of(of.type));
  std::memcpy(out.data(), mine, out.size());
  if (had != had_.end()) push(of.type, out.data(), had->second.data(), of.count);
  return out;
}

// Writes the answer's values into `mine`. `back` is null if the answer has none, as for the
// exchange that creates the centre. Call with lock_ held.
void session::apply(const begin& b, void* mine, const std::byte* back) {
  const auto& of = buffers_[b.buffer];
  const auto bytes = of.count * bytes_of(of.type);
  if (b.what == collective_op::exchange && me_.how == averaging_method::asgd) {
    if (back) std::memcpy(mine, back, bytes);
    auto& had = had_[b.buffer];
    had.resize(bytes);
    std::memcpy(had.data(), mine, bytes);
  } else if (back && b.what == collective_op::exchange && me_.how != averaging_method::average) {
    push(of.type, mine, back, of.count);
  } else if (back) {
    const auto part = got(b, of.count, me_.rank, me_.size);
    std::memcpy(static_cast<std::byte*>(mine) + part.first * bytes_of(of.type), back, part.count * bytes_of(of.type));
  }
}

outcome session::call_hub(begin b, const buffer& of, void* mine, deadline until) {
  values v;
  const bool empty = b.what == collective_op::barrier || b.how == meeting::in_memory;
  std::vector<std::byte> added;
  if (!empty) {
    const auto gives = given(b, of.count, me_.rank, me_.size);
    const auto each = bytes_of(of.type);
    v = {static_cast<std::byte*>(mine) + gives.first * each, gives.count * each, got(b, of.count, me_.rank, me_.size).count * each};
    if (b.what == collective_op::exchange && me_.how == averaging_method::asgd) {
      added = difference(b, mine);
      v.give = added.data();
    }
  }
  outcome wrong;
  const auto r = ask(
      [&](std::uint64_t number) {
        b.call = number;
        return b;
      },
      v, until,
      [&](const answer& a, const std::byte* back) {
        if (empty) return;
        if (a.bytes != 0 && a.bytes != v.max_back)
          wrong = {TROUPE_EXCHANGE_INTERNAL, "the daemon's answer has an unexpected length: " + std::to_string(a.bytes) + " bytes"};
        else
          apply(b, mine, a.bytes == 0 ? nullptr : back);
      });
  return wrong.code != 0 ? wrong : r;
}

outcome session::set_lock(const std::string& name, bool taken, deadline until) {
  return ask(
      [&](std::uint64_t call) -> message {
        if (taken) return take_lock{call, name};
        return free_lock{call, name};
      },
      {}, until, {});
}

}  // namespace troupe::exchange
