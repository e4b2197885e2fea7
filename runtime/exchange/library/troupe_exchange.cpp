// The C interface: checks arguments, catches exceptions and stores the calling thread's last error.
#include "runtime/exchange/troupe_exchange.h"

#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "runtime/exchange/client/requests.hpp"
#include "runtime/exchange/client/session.hpp"
#include "runtime/exchange/hub/parts.hpp"

using namespace troupe::exchange;

struct troupe_exchange {
  std::unique_ptr<session> s;
  requests started;  // uses the session; destroyed before it
};

namespace {

static_assert(static_cast<int>(code::ok) == TROUPE_EXCHANGE_OK &&
              static_cast<int>(code::bad_argument) == TROUPE_EXCHANGE_BAD_ARGUMENT &&
              static_cast<int>(code::mismatch) == TROUPE_EXCHANGE_MISMATCH &&
              static_cast<int>(code::rank_taken) == TROUPE_EXCHANGE_RANK_TAKEN &&
              static_cast<int>(code::peer_lost) == TROUPE_EXCHANGE_PEER_LOST &&
              static_cast<int>(code::out_of_step) == TROUPE_EXCHANGE_OUT_OF_STEP &&
              static_cast<int>(code::too_large) == TROUPE_EXCHANGE_TOO_LARGE &&
              static_cast<int>(code::not_held) == TROUPE_EXCHANGE_NOT_HELD &&
              static_cast<int>(code::not_allowed) == TROUPE_EXCHANGE_TIMEOUT && codes == TROUPE_EXCHANGE_TIMEOUT + 1);
static_assert(static_cast<int>(element::f64) == TROUPE_EXCHANGE_FLOAT64 &&
              static_cast<int>(element::bf16) == TROUPE_EXCHANGE_BFLOAT16 &&
              static_cast<int>(element::i32) == TROUPE_EXCHANGE_INT32 && static_cast<int>(element::i64) == TROUPE_EXCHANGE_INT64 &&
              elements == TROUPE_EXCHANGE_INT64 + 1);
static_assert(static_cast<int>(reduction::mean) == TROUPE_EXCHANGE_MEAN &&
              static_cast<int>(reduction::min) == TROUPE_EXCHANGE_MIN && static_cast<int>(reduction::max) == TROUPE_EXCHANGE_MAX &&
              static_cast<int>(reduction::product) == TROUPE_EXCHANGE_PRODUCT && reductions == TROUPE_EXCHANGE_PRODUCT + 1);
static_assert(static_cast<int>(averaging_method::easgd) == TROUPE_EXCHANGE_EASGD &&
              static_cast<int>(averaging_method::easgd_sync) == TROUPE_EXCHANGE_EASGD_SYNC &&
              static_cast<int>(averaging_method::asgd) == TROUPE_EXCHANGE_ASGD && averaging_methods == TROUPE_EXCHANGE_ASGD + 1);
static_assert(static_cast<int>(collective_op::exchange) == TROUPE_EXCHANGE_CALL_EXCHANGE &&
              static_cast<int>(collective_op::all_reduce) == TROUPE_EXCHANGE_CALL_ALL_REDUCE &&
              static_cast<int>(collective_op::broadcast) == TROUPE_EXCHANGE_CALL_BROADCAST &&
              static_cast<int>(collective_op::centre) == TROUPE_EXCHANGE_CALL_CENTRE &&
              static_cast<int>(collective_op::reduce_scatter) == TROUPE_EXCHANGE_CALL_REDUCE_SCATTER &&
              static_cast<int>(collective_op::all_gather) == TROUPE_EXCHANGE_CALL_ALL_GATHER &&
              static_cast<int>(collective_op::gather) == TROUPE_EXCHANGE_CALL_GATHER &&
              static_cast<int>(collective_op::scatter) == TROUPE_EXCHANGE_CALL_SCATTER &&
              collective_ops == TROUPE_EXCHANGE_CALL_SCATTER + 1);

thread_local std::string last_error;

int remember(outcome o) {
  if (o.code != TROUPE_EXCHANGE_OK)
    last_error = std::string("[troupe_exchange] ") + troupe_exchange_error_name(o.code) + ": " + std::move(o.text);
  return o.code;
}

// Runs a call and catches its exceptions (mostly std::bad_alloc).
template <class F>
int guarded(F f) {
  try {
    try {
      return remember(f());
    } catch (const std::exception& e) {
      return remember({TROUPE_EXCHANGE_INTERNAL, e.what()});
    }
  } catch (...) {
    return TROUPE_EXCHANGE_INTERNAL;
  }
}

outcome bad(std::string text) { return {TROUPE_EXCHANGE_BAD_ARGUMENT, std::move(text)}; }

// A call on an open session; checks its handle and its timeout.
template <class F>
int on_session(troupe_exchange* x, std::int32_t timeout_ms, F f) {
  return guarded([&]() -> outcome {
    if (!x) return bad("the session is NULL");
    if (!x->s->of_this_process()) return {TROUPE_EXCHANGE_FORKED, "this session was opened before a fork, by another process"};
    if (timeout_ms <= 0) return bad("timeout_ms must be above 0");
    return f(*x->s, std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms));
  });
}

bool sound_name(const char* name) { return name && *name != 0 && *name != 1 && ::strnlen(name, max_name + 1) <= max_name; }
const char* const name_rule = "a name must have 1 to 200 bytes and must not begin with byte 1";

outcome wrong_arguments(std::int32_t buffer, const void* values, std::int32_t argument) {
  if (buffer < 0 || argument < 0) return bad("a buffer, a root or a reduction must not be negative");
  return values ? outcome{} : bad("the values are NULL");
}
begin begin_of(collective_op what, std::int32_t buffer, std::int32_t argument) {
  return {0, what, static_cast<std::uint32_t>(buffer), static_cast<std::uint32_t>(argument), meeting::with_values};
}

int on_buffer(troupe_exchange* x, collective_op what, std::int32_t buffer, void* values, std::uint64_t count, std::int32_t argument,
              std::int32_t timeout_ms) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) -> outcome {
    if (auto wrong = wrong_arguments(buffer, values, argument); wrong.code != 0) return wrong;
    return s.call(begin_of(what, buffer, argument), values, count, until);
  });
}

outcome start(troupe_exchange& x, begin b, void* values, std::uint64_t count, session::deadline until, std::int64_t& request) {
  const auto number = x.started.start([s = x.s.get(), b, values, count, until] { return s->call(b, values, count, until); });
  if (!number)
    return {TROUPE_EXCHANGE_TOO_LARGE,
            "the session is closing, or " + std::to_string(requests::most) + " requests have not been waited for"};
  request = *number;
  return {};
}

int on_shared(troupe_exchange* x, std::int32_t array, std::uint64_t count, std::int32_t lock, session::touch t,
              std::int32_t timeout_ms) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) -> outcome {
    if (!t.into && !t.from) return bad("the values are NULL");
    if (lock != 0 && lock != 1) return bad("lock is 0 or 1");
    t.locked = lock == 1;
    return s.on_shared(array, count, t, until);
  });
}

outcome open(const troupe_exchange_options* o, troupe_exchange** made) {
  if (!o || !made) return bad("options or session is NULL");
  *made = nullptr;
  if (o->struct_size != sizeof *o) return bad("options.struct_size differs from this library's: compile with its header");
  if (!o->address || !o->tls_dir) return bad("options.address and options.tls_dir are required");
  if (!sound_name(o->session)) return bad(name_rule);
  if (o->size < 1 || o->rank < TROUPE_EXCHANGE_ANY_RANK || o->rank >= o->size)
    return bad("rank must be from 0 to size - 1, or TROUPE_EXCHANGE_ANY_RANK");
  if (o->averaging_method < 0 || o->averaging_method >= averaging_methods)
    return bad("options.averaging_method must be TROUPE_EXCHANGE_AVERAGE, EASGD, EASGD_SYNC or ASGD");
  if (!(o->alpha >= 0 && o->alpha < 1)) return bad("options.alpha must be in [0, 1)");
  if (o->timeout_ms <= 0) return bad("timeout_ms must be above 0");
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(o->timeout_ms);
  session::place at{o->address, o->tls_dir, {}};
  at.what.session = o->session;
  at.what.rank = o->rank < 0 ? any_rank : static_cast<std::uint32_t>(o->rank);
  at.what.size = static_cast<std::uint32_t>(o->size);
  at.what.how = static_cast<averaging_method>(o->averaging_method);
  at.what.alpha = o->alpha;
  auto x = std::make_unique<troupe_exchange>();
  auto r = session::open(at, until, x->s);
  if (r.code == 0) *made = x.release();
  return r;
}

}  // namespace

int troupe_exchange_open(const troupe_exchange_options* options, troupe_exchange** session) {
  return guarded([&] { return open(options, session); });
}

int troupe_exchange_register(troupe_exchange* x, const char* name, int32_t type, uint64_t count, int32_t timeout_ms,
                             int32_t* buffer) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) -> outcome {
    if (!sound_name(name)) return bad(name_rule);
    if (type < 0 || type >= elements) return bad("type must be TROUPE_EXCHANGE_FLOAT32, FLOAT64, BFLOAT16, INT32 or INT64");
    if (!buffer || count == 0) return bad("count must be above 0, and buffer must not be NULL");
    return s.declare_buffer(name, static_cast<element>(type), count, until, *buffer);
  });
}

int troupe_exchange_exchange(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms) {
  return on_buffer(x, collective_op::exchange, buffer, values, count, 0, timeout_ms);
}

int troupe_exchange_centre(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms) {
  return on_buffer(x, collective_op::centre, buffer, values, count, 0, timeout_ms);
}

int troupe_exchange_all_reduce(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t reduction,
                               int32_t timeout_ms) {
  return on_buffer(x, collective_op::all_reduce, buffer, values, count, reduction, timeout_ms);
}

int troupe_exchange_broadcast(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms) {
  return on_buffer(x, collective_op::broadcast, buffer, values, count, root, timeout_ms);
}

int troupe_exchange_reduce_scatter(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t reduction,
                                   int32_t timeout_ms) {
  return on_buffer(x, collective_op::reduce_scatter, buffer, values, count, reduction, timeout_ms);
}

int troupe_exchange_all_gather(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t timeout_ms) {
  return on_buffer(x, collective_op::all_gather, buffer, values, count, 0, timeout_ms);
}

int troupe_exchange_gather(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms) {
  return on_buffer(x, collective_op::gather, buffer, values, count, root, timeout_ms);
}

int troupe_exchange_scatter(troupe_exchange* x, int32_t buffer, void* values, uint64_t count, int32_t root, int32_t timeout_ms) {
  return on_buffer(x, collective_op::scatter, buffer, values, count, root, timeout_ms);
}

int troupe_exchange_barrier(troupe_exchange* x, int32_t timeout_ms) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) {
    return s.call({0, collective_op::barrier, 0, 0, meeting::with_values}, nullptr, 0, until);
  });
}

int32_t troupe_exchange_rank(const troupe_exchange* x) { return x ? static_cast<int32_t>(x->s->rank()) : -1; }

int troupe_exchange_part(uint64_t count, int32_t rank, int32_t size, uint64_t* first, uint64_t* part_count) {
  return guarded([&]() -> outcome {
    if (size < 1 || rank < 0 || rank >= size) return bad("rank must be from 0 to size - 1");
    if (!first || !part_count) return bad("first and part_count must not be NULL");
    const auto part = part_of(count, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size));
    *first = part.first;
    *part_count = part.count;
    return {};
  });
}

int troupe_exchange_start(troupe_exchange* x, int32_t call, int32_t buffer, void* values, uint64_t count, int32_t argument,
                          int32_t timeout_ms, int64_t* request) {
  return on_session(x, timeout_ms, [&](session&, session::deadline until) -> outcome {
    if (call < 0 || call >= collective_ops || call == static_cast<int>(collective_op::barrier))
      return bad("call must be one of TROUPE_EXCHANGE_CALL_EXCHANGE, ...");
    if (!request) return bad("request must not be NULL");
    if (auto wrong = wrong_arguments(buffer, values, argument); wrong.code != 0) return wrong;
    return start(*x, begin_of(static_cast<collective_op>(call), buffer, argument), values, count, until, *request);
  });
}

int troupe_exchange_wait(troupe_exchange* x, int64_t request, int32_t timeout_ms) {
  return on_session(x, timeout_ms, [&](session&, session::deadline until) -> outcome {
    if (auto how = x->started.wait(request, until)) return *how;
    return {TROUPE_EXCHANGE_TIMEOUT, "the request is still in progress"};
  });
}

int troupe_exchange_test(troupe_exchange* x, int64_t request, int32_t* done) {
  return on_session(x, 1, [&](session&, session::deadline) -> outcome {
    if (!done) return bad("done must not be NULL");
    const auto is = x->started.done(request);
    if (!is) return bad("there is no such request");
    *done = *is ? 1 : 0;
    return {};
  });
}

int troupe_exchange_lock(troupe_exchange* x, const char* name, int32_t timeout_ms) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) {
    return sound_name(name) ? s.set_lock(name, true, until) : bad(name_rule);
  });
}

int troupe_exchange_unlock(troupe_exchange* x, const char* name, int32_t timeout_ms) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) {
    return sound_name(name) ? s.set_lock(name, false, until) : bad(name_rule);
  });
}

int troupe_exchange_share(troupe_exchange* x, const char* name, int32_t type, uint64_t count, const void* initial,
                          int32_t timeout_ms, int32_t* array) {
  return on_session(x, timeout_ms, [&](session& s, session::deadline until) -> outcome {
    if (!sound_name(name)) return bad(name_rule);
    if (type != TROUPE_EXCHANGE_FLOAT32 && type != TROUPE_EXCHANGE_FLOAT64)
      return bad("type must be TROUPE_EXCHANGE_FLOAT32 or TROUPE_EXCHANGE_FLOAT64");
    if (!array || !initial || count == 0) return bad("count must be above 0, and initial and array must not be NULL");
    return s.share(name, static_cast<element>(type), count, initial, until, *array);
  });
}

int troupe_exchange_shared_read(troupe_exchange* x, int32_t array, void* values, uint64_t count, int32_t lock, int32_t timeout_ms) {
  return on_shared(x, array, count, lock, {session::touch::kind::read, values, nullptr, 1, false}, timeout_ms);
}

int troupe_exchange_shared_write(troupe_exchange* x, int32_t array, const void* values, uint64_t count, int32_t lock,
                                 int32_t timeout_ms) {
  return on_shared(x, array, count, lock, {session::touch::kind::write, nullptr, values, 1, false}, timeout_ms);
}

int troupe_exchange_shared_add(troupe_exchange* x, int32_t array, const void* values, uint64_t count, double scale, int32_t lock,
                               int32_t timeout_ms) {
  return on_shared(x, array, count, lock, {session::touch::kind::add, nullptr, values, scale, false}, timeout_ms);
}

int troupe_exchange_close(troupe_exchange* x) {
  if (!x) return TROUPE_EXCHANGE_OK;
  return on_session(x, 1, [&](session& s, session::deadline) -> outcome {
    x->started.stop();
    s.end_calls();
    delete x;
    return {};
  });
}

const char* troupe_exchange_error_name(int c) {
  static constexpr const char* names[] = {"ok",           "bad_argument", "mismatch",      "rank_taken", "peer_lost",
                                          "out_of_step",  "too_large",    "not_held",      "timeout",    "unreachable",
                                          "disconnected", "forked",       "closed",        "internal",   "not_local",
                                          "holder_lost",  "not_allowed",  "no_certificate"};
  return c >= 0 && c < static_cast<int>(std::size(names)) ? names[c] : "unknown";
}

const char* troupe_exchange_error_text(void) { return last_error.c_str(); }
