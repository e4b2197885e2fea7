// One control message of every type with all fields set, in the order of the variant.
#pragma once

#include <string>
#include <vector>

#include "runtime/cluster/messages.hpp"

namespace troupe::control {

inline std::vector<message> message_samples() {
  return {join{"127.0.0.1:1", "openblas", 1, 2, 3},
          joined{"no"},
          submit{{"f", std::string("a\0b", 3), {"x=1", "y=2"}}, true, 7, {given_file::checkpoint, "c", 1ull << 33}},
          submitted{7, 8, {"m1", "m2"}, 3, 10, 500, 40, 64, {"net\tlenet", "data\tidx"}},
          prepare{1, {"f", "t", {}}, "hash", {{"n1", "a", 2}, {"n2", "b", 3}}, true, 40, "alice"},
          prepared{1, "e", "n3"},
          trouble{1, "n3", "m", role_failure{"worker0", "why"}},
          end_job{4, "n2", "out of luck", 7},
          ended{4, 1ull << 40, "/state/post-mortem/job-4"},
          leaving{false},
          report{1,
                 2,
                 {{1, 2, "r", "w", 3, 4, 5, 6, 7, 8, 0.5, 0.25, {"forward", 9, 10, 11, true, 61.5}, {}, 4}},
                 {{"n2", "shm", "why", 1, 2, 3}},
                 {{0, "H100", "", 1ull << 36, 1ull << 30, 3, 4, 5, 97.5, 40, 61, 350.25}, {2, "", "lost"}},
                 1ull << 31},
          said{1, "done", "finished", 9, {{"loss", -0.5}}, {{"sha", "x"}}},
          follow{3},
          fetch{3, 4},
          piece{3, 4, 5, std::string(1000, '\xfe'), {}},
          ask{1, true, "line", "text", "alice", 2},
          answer{1, 2, "text", "next", true},
          revise{{1, {"f", "t", {}}, "hash", {{"n1", "a", 2}}, false, 0, "alice"},
                 3,
                 {{"fc6", {"n1", "n2"}, true}},
                 {"n3"},
                 "ssp",
                 {{"staleness", "3"}},
                 {12, 4}},
          revised{1, 2, "e", "n3"},
          swap{1, 2, 3},
          swapped{1, 2, 3, "e"},
          forget{1, 2},
          inject{3, 10000, 50, "alice", "2026-01-02T03:04:05Z"},
          look{1, true, 100, {5, 6}, 7},
          looked{1,
                 "no",
                 2,
                 3,
                 {4, 5},
                 6,
                 true,
                 {{-7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                 {"forward"},
                 {{11, 12, {"coordinator", ""}}},
                 {13, 14, {}, {}, {}, 15},
                 {{16, "lenet", {{"coordinator", "n1"}}, {{"conv1", {"data"}, false}}}}}};
}

}  // namespace troupe::control
