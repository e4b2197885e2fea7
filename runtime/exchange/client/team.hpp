// Ranks of one machine whose values meet in shared memory: rounds on large buffers without the
// daemon.
//
//   memory   a shared array of the session's. A page of words, of which each rank writes its own line; for each rank two slots of a chunk;
//            two chunks of results
//   to meet  ranks gather here for a moment. When all have come the round begins. When somebody has waited in vain all of them go to the hub
//            with this round (verb::team), and whoever comes later follows: who calls what, who is missing and whose deadline has passed is
//            for the hub to say, as of any other round. Until a round has begun it can be taken back, and nobody's values have changed.
//   a round  chunk by chunk. A chunk has a piece of every rank's part (parts.hpp). In a sum every rank lays the pieces of others' parts into its slot;
//            when all have, rank r adds the pieces of part r, in the hub's order (arithmetic.hpp), into its own values, and into the results if
//            others get it; when all have, each takes what it gets. While a chunk is added the next one is laid down, so two of each. In rounds
//            without sums nothing is laid, and whoever gives values puts them into the results.
//   cost     of p ranks each moves (p - 1) / p of its values in and out of memory that stays in the cache; bytes of the next level: its own values
//   an end   of a process in the middle of a round, or a deadline, leaves values that are done in part: that is said (peer_lost, out_of_step),
//            and the team is over for good. It is over, too, when a rank has left.
//
// Trust: members are processes of one user (memory_file.hpp). No index or length is taken from the
// memory; who writes nonsense there spoils sums, or makes others wait until their deadline.
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
  static constexpr std::uint64_t worth = std::uint64_t{256} << 10;  // bytes of a buffer from which on it pays

  enum class ended : std::uint8_t {
    well,
    lost,   // a rank's process has ended, or left
    late,   // the deadline
    called  // `stops` said so
  };

  static std::uint64_t doubles(std::uint32_t ranks);  // of f64 in the shared array

  // The memory is kept. Nobody has used it for rounds before: fresh().
  team(std::unique_ptr<shared_array> memory, std::uint32_t rank, std::uint32_t ranks);
  ~team();  // says that this rank has left
  team(const team&) = delete;
  team& operator=(const team&) = delete;

  bool fresh() const;
  void begin();       // all ranks are here: from now on rounds
  bool over() const;  // rounds cannot be any more: somebody has ended, or left

  enum class met : std::uint8_t {
    here,      // all are: reduce() follows
    differ,    // all are, and do not want the same: nothing follows
    elsewhere  // ask the hub; when it says yes, met_at_hub(), and reduce() follows
  };
  met gather(std::uint64_t what, deadline until);  // `what` tells one call from another
  void met_at_hub();
  void give_up();  // for everybody
  // A call that has been gathered for, on this rank's `values`. `stops` is asked now and then.
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
  std::vector<memory_file::descriptor> processes_;  // readable when they have ended
  std::uint32_t rounds_ = 0, chunks_ = 0;           // done so far, modulo 2^32
  unsigned spins_ = 0;
};

}  // namespace troupe::exchange
