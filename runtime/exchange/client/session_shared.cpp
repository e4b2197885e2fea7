// Shared arrays of a session. The hub is asked once, by share(); reads and writes send no message.
#include <utility>

#include "runtime/exchange/client/session.hpp"
#include "runtime/exchange/troupe_exchange.h"

namespace troupe::exchange {

// Sets `number` to the array of this name, or to -1 if the session has none.
outcome session::find_shared(const std::string& name, element type, std::uint64_t count, std::int32_t& number) const {
  number = -1;
  for (std::size_t k = 0; k < shared_.size(); ++k) {
    if (shared_[k]->name != name) continue;
    if (shared_[k]->type != type || shared_[k]->count != count)
      return {TROUPE_EXCHANGE_MISMATCH, "shared array '" + name + "' is already shared in this session with another type or count"};
    number = static_cast<std::int32_t>(k);
  }
  return {};
}

// Asks the hub for the memory of this name and maps it. The first rank fills it from `initial`; if
// that is null, the zeros remain.
outcome session::map_shared(const std::string& name, element type, std::uint64_t count, const void* initial, deadline until,
                            std::unique_ptr<shared_array>& made) {
  std::optional<shared_at> where;
  auto r = ask(
      [&](std::uint64_t call) {
        return exchange::share{call, name, type, count};
      },
      {}, until, [&](const answer&, const std::byte*) { where = reply_.where(); });
  if (r.code != 0) return r;
  if (!where) return {TROUPE_EXCHANGE_INTERNAL, "the daemon's answer has no location of the memory"};
  const bool first = where->now == contents::empty;
  try {
    auto mapped = shared_array::map(*where, type, count);
    if (!mapped) {
      if (first) send(filled{where->id, contents::empty});
      return {TROUPE_EXCHANGE_NOT_LOCAL, mapped.error().text};
    }
    made = *std::move(mapped);
  } catch (...) {  // std::bad_alloc: the other ranks must not wait for this one
    if (first) send(filled{where->id, contents::empty});
    throw;
  }
  if (first && initial) made->write(initial);
  if (first) send(filled{where->id, contents::full});
  return {};
}

outcome session::share(const std::string& name, element type, std::uint64_t count, const void* initial, deadline until,
                       std::int32_t& number) {
  const visit inside(*this);
  {
    const std::lock_guard guard(lock_);
    if (calls_.closing) return closed();
    if (line_.down) return lost();
    auto r = find_shared(name, type, count, number);
    if (r.code != 0 || number >= 0) return r;
  }
  auto made = std::make_unique<shared>();
  made->name = name;
  made->type = type;
  made->count = count;
  auto r = map_shared(name, type, count, initial, until, made->memory);
  if (r.code != 0) return r;
  const std::lock_guard guard(lock_);
  r = find_shared(name, type, count, number);  // another thread may have added it meanwhile
  if (r.code != 0 || number >= 0) return r;
  number = static_cast<std::int32_t>(shared_.size());
  shared_.push_back(std::move(made));
  return {};
}

outcome session::on_shared(std::int32_t array, std::uint64_t count, const touch& t, deadline until) {
  const visit inside(*this);
  shared* a = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (calls_.closing) return closed();
    if (line_.down) return lost();  // without the daemon no further rank can map this memory
    if (array < 0 || static_cast<std::size_t>(array) >= shared_.size())
      return {TROUPE_EXCHANGE_BAD_ARGUMENT, "array " + std::to_string(array) + " is not shared in this session"};
    a = shared_[static_cast<std::size_t>(array)].get();
  }
  if (count != a->count)
    return {TROUPE_EXCHANGE_BAD_ARGUMENT,
            "shared array '" + a->name + "' is shared with " + std::to_string(a->count) + " values, not " + std::to_string(count)};
  auto& m = *a->memory;
  if (t.locked) switch (m.lock(until)) {
      case taken::yes: break;
      case taken::late: return {TROUPE_EXCHANGE_TIMEOUT, "the lock of shared array '" + a->name + "' was held until the deadline"};
      case taken::orphaned:
        return {TROUPE_EXCHANGE_HOLDER_LOST, "a process died while it held the lock of shared array '" + a->name +
                                                 "': the lock is free again; the process's last write may be incomplete"};
      case taken::broken: return {TROUPE_EXCHANGE_INTERNAL, "the lock of shared array '" + a->name + "' is damaged"};
    }
  switch (t.what) {
    case touch::kind::read: m.read(t.into); break;
    case touch::kind::write: m.write(t.from); break;
    case touch::kind::add: m.add(t.from, t.scale); break;
  }
  if (t.locked) m.unlock();
  return {};
}

}  // namespace troupe::exchange
