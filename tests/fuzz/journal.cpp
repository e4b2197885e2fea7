// Fuzz target: the coordinator's journal. If the first byte is 'r', its lines get valid checksums.
#include "runtime/cluster/controller/journal.hpp"

#include "runtime/checksum/crc32c.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_journal(input in) {
  reader r(in);
  const bool right = r.number(1) == 'r';
  auto t = text(r.rest());
  if (right) {
    std::string all;
    for (std::size_t at = 0; at < t.size();) {
      const auto end = std::min(t.find('\n', at), t.size());
      const auto line = t.substr(at, end - at);
      const auto object = line.size() > 9 ? line.substr(9) : line;
      char digits[16];
      std::snprintf(digits, sizeof digits, "%08x ", crc32c(0, object.data(), object.size()));
      all += digits + object + "\n";
      at = end + 1;
    }
    t = std::move(all);
  }
  const auto read = control::read_journal(t);
  for (const auto& j : read.jobs) must(j.number <= read.last_number, "a job's number is larger than the last number");
}

std::vector<std::string> sound_journal() {
  control::unfinished_job j;
  j.what = {"job.toml", "[job]\nname = \"tiny\"\n", {"a=1"}};
  j.given = {control::given_file::checkpoint, "mine.safetensors", 1234};
  j.owner = "alice";
  std::string all;
  for (const std::uint32_t n : {1u, 2u}) {
    j.number = n;
    all += control::journal_queued(j) + control::journal_begun(n) + control::journal_kept(n, "/state/a") +
           control::journal_set(n, {{"train.dynamics.lr", 0.1, 31}}, true) +
           control::journal_changed(n, {{{"fc", {"n2"}, true}}, {"n3"}, "ssp", {{"staleness", "3"}}});
  }
  all += control::journal_over({1, "tiny", "alice", job_state::done, "/state/w", 5, {0, {5, done_event{.weights_sha256 = "ab"}}}});
  return {"r" + all, "x" + all};
}

const entry journal_entry({"journal", read_journal, sound_journal});

}  // namespace
}  // namespace troupe::fuzz
