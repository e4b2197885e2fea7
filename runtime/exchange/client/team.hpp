// Ranks of one machine that run rounds on large buffers in shared memory, without the daemon.
//
//   memory   a shared array of the session: a header page, one line of counters for each rank, two
//            slots of one chunk for each rank, two chunks of results
//   gather   Ranks wait here for a short time. When all have arrived, the round begins. If a rank
//            has waited too long, all ranks take this round to the hub (meeting::in_memory), and
//            ranks that arrive later follow. The hub then reports different calls, missing ranks
//            and expired deadlines, as for any other round. Until a round begins it can be
//            cancelled, and no values have changed.
//   round    Runs chunk by chunk. A chunk has a piece of every rank's part (parts.hpp). In a
//            reduction every rank lays the pieces of the others' parts into its slot. When all
//            have, rank r reduces the pieces of part r, in the hub's order (arithmetic.hpp), into
//            its own values, and into the results if other ranks get them. When all have, each rank
//            takes the results that it gets. The next chunk is laid while one is reduced, hence two
//            of each. Rounds without a reduction lay nothing; the ranks that give values write them
//            to the results.
//   cost     Each of p ranks moves (p - 1) / p of its values into and out of memory that stays in
//            the cache. Traffic of the next level: its own values.
//   failure  If a process ends or a deadline passes during a round, the values may be partly
//            updated; the error says so (peer_lost, out_of_step). The team is then over and is not
//            created again. It is also over when a rank has left.
//
// Trust: members are processes of one user (memory_file.hpp). No index or length is read from the
// memory. A member that writes invalid data can corrupt sums, or make others wait until their
// deadline.
// Threads: one call at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exchange/shared/shared_memory.hpp"
#include "runtime/node/memory_file/memory_file.hpp"

namespace troupe::exchange {

class team {
 public:
  using deadline = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t max_ranks = 64;
  static constexpr std::uint64_t worth = std::uint64_t{256} << 10;  // minimum size of a buffer in bytes; below, the hub is faster

  enum class ended : std::uint8_t {
    well,
    lost,   // a rank has left or its process has ended
    late,   // the deadline has passed
    called  // `stops` returned true
  };

  static std::uint64_t doubles(std::uint32_t ranks);  // length of the shared array, in f64

  // Keeps the memory. Requires fresh(): no former team has used it.
  team(std::unique_ptr<shared_array> memory, std::uint32_t rank, std::uint32_t ranks);
  ~team();  // marks this rank as left
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  bool fresh() const;
  void begin();       // rounds may follow; call when all ranks have entered
  bool over() const;  // no more rounds: a rank has left or its process has ended

  enum class met : std::uint8_t {
    here,      // all ranks have arrived: run() follows
    differ,    // all ranks have arrived, with different calls: no round
    elsewhere  // ask the hub; if it agrees, met_at_hub() and run() follow
  };
  met gather(std::uint64_t what, deadline until);  // `what` identifies the call
  void met_at_hub();
  void give_up();  // ends the team for all ranks
  // A gathered call on this rank's `values`. `stops` is polled during waits.
  struct work {
    exchange::begin call;
    element type = element::f32;
    void* values = nullptr;
    std::uint64_t count = 0;
  };
  ended run(const work& of, deadline until, const std::function<bool()>& stops);

 private:
  struct line;
  struct shared_header;
  struct chunk;
  shared_header& top() const;
  line& line_of(std::uint32_t rank) const;
  std::byte* slot(std::uint32_t rank, std::uint32_t parity) const;
  std::byte* results(std::uint32_t parity) const;
  void lay(const chunk& c) const;
  void give(const chunk& c) const;
  void put(const chunk& c, std::uint32_t part) const;
  void take(const chunk& c) const;
  ended wait_all(bool laid, std::uint32_t at_least, deadline until, const std::function<bool()>& stops) const;
  bool anybody_ended() const;
  void tell(std::uint32_t& word, std::uint32_t value) const;
  void open_gate() const;

  const std::unique_ptr<shared_array> memory_;
  const std::uint32_t rank_, ranks_;
  std::vector<memory_file::descriptor> processes_;  // by rank; readable once the process has ended
  std::uint32_t rounds_ = 0, chunks_ = 0;           // completed, modulo 2^32
  unsigned spins_ = 0;
};

}  // namespace troupe::exchange
