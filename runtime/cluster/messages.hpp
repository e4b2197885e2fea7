// The messages of the control plane, between daemons and clients, and their wire format. They are
// frames of a connection that is separate from the data plane: the type is the index of the
// alternative + 1, the payload has the fields in order; strings and lists are a u32 count and the
// elements; numbers are little-endian. A submission may hold a job file of 1 MiB, a piece of a file
// has at most 60 KiB. No message exceeds `max_message`: its sender cuts one that would, and
// admission (admission.hpp) refuses a job with too much text.
//
//   client -> coordinator's daemon  submit, follow, fetch; answered by submitted, said..., piece
//   coordinator's daemon -> client  fetch, for the file that a submitted job starts from; answered
//                                   by piece
//   client -> any daemon            ask, answered by answer..., answer; look, answered by looked
//   node -> coordinator's daemon    join, prepared, trouble, ended, report, leaving, ask, revised,
//                                   swapped
//   coordinator's daemon -> node    joined, prepare, end_job, answer, revise, swap, forget, inject
//
// A message does not contain its sender: the transport knows it from the certificate. decode()
// accepts any bytes and returns a message or nullopt; the memory that it takes is proportional to
// the input.
// size: a struct for each message
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "ops/one_of.hpp"
#include "runtime/cluster/view/gpus.hpp"
#include "runtime/messages/drops.hpp"
#include "runtime/messages/event_kinds.hpp"

namespace troupe::control {

constexpr std::uint32_t protocol = 19;
constexpr std::size_t max_message = std::size_t{2} << 20;
constexpr std::size_t piece_bytes = 60 << 10;
constexpr std::size_t longest_line = 64 << 10;  // of `ask`, without its text

struct join {
  std::string data_address, numerics;
  std::uint32_t protocol = 0, abi = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t job = 0,
                plan_generation =
                    0;  // the plan whose roles it has retained since the coordinator's daemon fell silent; job 0: none
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.data_address, s.numerics, s.protocol, s.abi, s.incarnation, s.job, s.plan_generation);
  }
};
struct joined {
  std::string refusal;     // empty: accepted
  std::uint32_t ends = 0;  // not 0: end the roles of this job, then join again
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.refusal, s.ends);
  }
};

// A job as the client submitted it. Every node makes the same plan from it.
struct job_text {
  std::string file, text;
  std::vector<std::string> overrides;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.file, s.text, s.overrides);
  }
};
// A file on the client's machine that the job starts from.
struct given_file {
  enum kinds : std::uint8_t { nothing, weights, checkpoint };
  std::uint8_t kind = nothing;
  std::string file;  // as the user named it, for messages
  std::uint64_t bytes = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.kind, s.file, s.bytes);
  }
};
struct submit {
  job_text what;
  bool follow = true;
  std::uint64_t ask = 0;  // returned in `submitted`
  given_file given = {};  // fetched piece by piece once the job is valid
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.what, s.follow, s.ask, s.given);
  }
};
struct submitted {
  std::uint64_t ask = 0;
  std::uint32_t job = 0;                                                        // 0: refused
  std::vector<std::string> messages;                                            // why it was refused
  std::uint32_t ahead = 0;                                                      // jobs that run or wait before this one
  std::uint64_t first_step = 0, last_step = 0, steps_per_epoch = 0, batch = 0;  // batch 0: not known (any more)
  std::vector<std::string> head = {};                                           // lines of job_head(), as text_of(head_line)
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.ask, s.job, s.messages, s.ahead, s.first_step, s.last_step, s.steps_per_epoch, s.batch, s.head);
  }
};

struct place {
  std::string node, data_address;
  std::uint64_t incarnation = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.node, s.data_address, s.incarnation);
  }
};
struct prepare {
  std::uint32_t job = 0;
  job_text what;
  std::string plan_hash;
  std::vector<place> places;  // of the nodes of the plan
  bool continued = false;     // shards and sequence slots start from the coordinator role's state, at step `from`
  std::uint64_t from = 0;
  std::string owner = {};  // the client that submitted the job; what a node keeps for the job is the owner's
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.what, s.plan_hash, s.places, s.continued, s.from, s.owner);
  }
};
struct prepared {
  std::uint32_t job = 0;
  std::string error;      // empty: roles are spawned, and the node is connected with all others
  std::string peer = {};  // the unreachable node, if that is the error
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.error, s.peer);
  }
};
// A failure that this node has noticed in a running job. `node`: the node at fault, a peer or the
// sender itself.
struct trouble {
  std::uint32_t job = 0;
  std::string node, message;
  std::optional<role_failure> role = {};  // of the sender, if a role has failed
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.node, s.message, s.role);
  }
};
struct end_job {
  std::uint32_t job = 0;
  // Set if the job has failed, so that every node writes a post-mortem; else empty.
  std::string where = {}, error = {};
  std::uint64_t step = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.where, s.error, s.step);
  }
};
struct ended {
  std::uint32_t job = 0;
  std::uint64_t tcp_bytes = 0;   // that this node sent to others for this job
  std::string post_mortem = {};  // folder on this node; empty: none
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.tcp_bytes, s.post_mortem);
  }
};
struct leaving {  // this daemon shuts down: move or stop the job that uses it
  bool yes = true;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.yes);
  }
};

// State of a node: last published by its roles, and the counters of the data plane.
struct task_entry {  // of running_task
  std::string kind;
  std::uint64_t serial = 0, step = 0;
  std::uint32_t packet = 0;
  bool of_packet = false;
  double seconds = 0, usual = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.kind, s.serial, s.step, s.packet, s.of_packet, s.seconds, s.usual);
  }
};
struct role_entry {
  std::uint32_t job = 0, id = 0;
  std::string name, waits_for;
  std::uint64_t step = 0, version = 0, messages = 0;
  std::uint32_t queued = 0, in_flight = 0, credit = 0;
  double busy = 0, age = 0;
  task_entry task = {};
  std::array<std::uint64_t, drop_reasons> dropped = {};  // by drop_reason
  std::uint8_t waits = 0;                                // wait_kind
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.id, s.name, s.waits_for, s.step, s.version, s.messages, s.queued, s.in_flight, s.credit, s.busy, s.age,
                    s.task, s.dropped, s.waits);
  }
};
struct link_entry {  // of repl_link
  std::string peer, by, why_not;
  std::uint64_t bytes_in = 0, bytes_out = 0, shared_in = 0;
  double round_trip = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.peer, s.by, s.why_not, s.bytes_in, s.bytes_out, s.shared_in, s.round_trip);
  }
};
inline constexpr std::size_t max_links_shown = 64;  // the busiest of those that are up
struct report {
  std::uint64_t tcp_in = 0, tcp_out = 0;
  std::vector<role_entry> roles;
  std::vector<link_entry> links = {};
  std::vector<repl_gpu> gpus = {};  // that the node's `devices` name
  std::uint64_t memory = 0;         // bytes that the daemon has in memory; 0: unknown
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.tcp_in, s.tcp_out, s.roles, s.links, s.gpus, s.memory);
  }
};

// An event of a job (flat_event, runtime/messages/event.hpp), sent to its followers.
struct said {
  std::uint32_t job = 0;
  std::string kind, text;
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::pair<std::string, std::string>> texts;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.kind, s.text, s.step, s.values, s.texts);
  }
};
struct follow {
  std::uint32_t job = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job);
  }
};
// Transfer of a safetensors file in pieces; the receiver requests each one. A client fetches the
// final weights of a job, the coordinator's daemon fetches the file that a job starts from.
struct fetch {
  std::uint32_t job = 0;
  std::uint64_t offset = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.offset);
  }
};
struct piece {
  std::uint32_t job = 0;
  std::uint64_t offset = 0, total = 0;
  std::string bytes, error;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.offset, s.total, s.bytes, s.error);
  }
};

// A line for the REPL actor, and its answer. `text`: content of the file that the line names; empty
// if it names none.
struct ask {
  std::uint64_t id = 0;
  bool json = false;
  std::string line, text;
  // Set by a node that forwards a client's line: the client's name and role. Ignored if a client
  // sets them.
  std::string whose = {};
  std::uint8_t role = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.id, s.json, s.line, s.text, s.whose, s.role);
  }
};
struct answer {
  std::uint64_t id = 0;
  std::uint8_t how = 0;  // repl_reply::kind
  std::string text, next;
  bool more = false;  // the next answer with this id continues the text (answer_pieces.hpp)
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.id, s.how, s.text, s.next, s.more);
  }
};

// The next plan of a running job: the changes since it began (runtime/job/amend.hpp).
struct placing {
  std::string layer;
  std::vector<std::string> place;
  bool whole = false;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.layer, s.place, s.whole);
  }
};
struct revise {  // make this plan and connect to its nodes; the running plan continues
  prepare what;
  std::uint32_t plan_generation = 0;  // of this plan; later ones are larger, the first plan has 0
  std::vector<placing> layers;
  std::vector<std::string> without;
  std::string mode;
  std::vector<std::pair<std::string, std::string>> mode_options;
  std::vector<std::uint32_t> packets = {};
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.what, s.plan_generation, s.layers, s.without, s.mode, s.mode_options, s.packets);
  }
};
struct revised {
  std::uint32_t job = 0, plan_generation = 0;
  std::string error;      // empty: ready
  std::string peer = {};  // as in `prepared`
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.plan_generation, s.error, s.peer);
  }
};
struct swap {  // training has stopped at this step: end the roles of the old plan, begin those of this one (if made here)
  std::uint32_t job = 0, plan_generation = 0;
  std::uint64_t step = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.plan_generation, s.step);
  }
};
struct swapped {
  std::uint32_t job = 0, plan_generation = 0;
  std::uint64_t tcp_bytes = 0;  // of a node that the new plan does not use
  std::string error;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.plan_generation, s.tcp_bytes, s.error);
  }
};
struct forget {  // that plan was dropped
  std::uint32_t job = 0, plan_generation = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.plan_generation);
  }
};
struct inject {  // a user injects this fault
  std::uint8_t what = 0;
  std::uint64_t lasts_ms = 0, by_ms = 0;
  std::string who, until;  // for the log
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.what, s.lasts_ms, s.by_ms, s.who, s.until);
  }
};

// What a node knows about its own roles: their state, and the record of what they did
// (runtime/trace/recorder.hpp). Every daemon answers by itself, also while the coordinator's daemon
// does not.
struct look {
  std::uint64_t id = 0;
  bool state = false;                    // wants `state` and `plans`
  std::uint32_t most = 0;                // activities wanted, at most max_activities
  std::vector<std::uint64_t> read = {};  // position in the record: that of an earlier answer; empty: the oldest activity
  std::int64_t named_since = 0;          // wants the names of plans that are newer (activity_names::since)
  // Number of a job whose recording (runtime/node/post_mortem.hpp) is wanted; 0: none. `file`
  // empty: wants `files`; else wants `bytes` of this file from `offset` on.
  std::uint32_t recording_of = 0;
  std::string file = {};
  std::uint64_t offset = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.id, s.state, s.most, s.read, s.named_since, s.recording_of, s.file, s.offset);
  }
};
inline constexpr std::uint32_t max_activities = 16384;
inline constexpr std::size_t max_recording_piece = std::size_t{512} << 10;
struct recorded_file {
  std::string name;  // relative, e.g. "job-7-lenet-17/recording/plan-0-from-step-0/plan.json"
  std::uint64_t bytes = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.name, s.bytes);
  }
};
struct activity_entry {  // of activity; `what` of a task: index in looked::task_kinds
  std::int64_t at = 0;
  std::uint8_t kind = 0, what = 0;
  std::uint32_t job = 0, role = 0, peer = 0;
  std::uint64_t id = 0, value = 0, step = 0;
  std::uint32_t packet = 0, size = 0;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.at, s.kind, s.what, s.job, s.role, s.peer, s.id, s.value, s.step, s.packet, s.size);
  }
};
struct names_entry {  // of activity_names
  std::int64_t since = 0;
  std::uint32_t job = 0;
  std::vector<std::string> roles;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.since, s.job, s.roles);
  }
};
struct layer_entry {  // of repl_layer
  std::string name;
  std::vector<std::string> inputs;
  bool in_train = true;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.name, s.inputs, s.in_train);
  }
};
struct plan_entry {  // a plan of which this node hosts roles
  std::uint32_t job = 0;
  std::string name;                                        // of the job
  std::vector<std::pair<std::string, std::string>> roles;  // all of the plan: name and node
  std::vector<layer_entry> layers;
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.job, s.name, s.roles, s.layers);
  }
};
// size: the parts of an answer that a client may ask for
struct looked {
  std::uint64_t id = 0;
  std::string refusal = {};       // why there is no answer; empty: there is one
  std::uint64_t incarnation = 0;  // of the daemon; positions and times are of this one
  std::int64_t now = 0;           // time of the record's clock, nanoseconds
  std::vector<std::uint64_t> read = {};
  std::uint64_t lost = 0;  // activities that were overwritten before they were read
  bool more = false;       // more activities wait
  std::vector<activity_entry> activities = {};
  std::vector<std::string> task_kinds = {};
  std::vector<names_entry> names = {};
  report state = {};
  std::vector<plan_entry> plans = {};
  std::vector<recorded_file> files = {};
  std::string bytes = {};
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.id, s.refusal, s.incarnation, s.now, s.read, s.lost, s.more, s.activities, s.task_kinds, s.names, s.state,
                    s.plans, s.files, s.bytes);
  }
};

struct message_kinds {
  using variant = std::variant<join, joined, submit, submitted, prepare, prepared, trouble, end_job, ended, leaving, report, said,
                               follow, fetch, piece, ask, answer, revise, revised, swap, swapped, forget, inject, look, looked>;
};
using message = one_of<message_kinds>;

std::string encode(const message& m);
std::optional<message> decode(std::uint16_t type, const char* data, std::size_t bytes);

}  // namespace troupe::control

extern template class troupe::one_of<troupe::control::message_kinds>;
