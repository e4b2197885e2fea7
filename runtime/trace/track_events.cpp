#include "runtime/trace/track_events.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/write_whole.hpp"
#include "runtime/trace/trace_file.hpp"
#include "runtime/trace/track_fields.hpp"

namespace troupe {
namespace {

constexpr std::size_t most_buffered = 256 << 10;

using namespace track_fields;

constexpr std::uint64_t sequence = 1;

}  // namespace

expected<track_event_file> track_event_file::create(const std::filesystem::path& file) {
  const int f = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (f < 0) return unexpected(error(file.string() + ": cannot be created: " + std::strerror(errno)));
  return track_event_file(f);
}

track_event_file::track_event_file(track_event_file&& o) noexcept
    : file_(std::exchange(o.file_, -1)),
      buffer_(std::move(o.buffer_)),
      written_(o.written_),
      tracks_(o.tracks_),
      processes_(o.processes_),
      event_names_(std::move(o.event_names_)),
      number_names_(std::move(o.number_names_)),
      begun_(o.begun_),
      failed_(std::move(o.failed_)) {}

track_event_file::~track_event_file() {
  if (file_ >= 0) static_cast<void>(finish());
}

track_event_file::track track_event_file::process(std::string_view name) {
  proto_message p;
  p.number(process_descriptor::pid, ++processes_).bytes(process_descriptor::process_name, name);
  return describe({}, name, &p, track_descriptor::process);
}

track_event_file::track track_event_file::track_in(track parent, std::string_view name) {
  return describe(parent, name, nullptr, 0);
}

track_event_file::track track_event_file::counter_in(track parent, std::string_view name, unit u) {
  proto_message c;
  if (u != unit::none) c.number(counter_descriptor::unit, static_cast<std::uint64_t>(u));
  return describe(parent, name, &c, track_descriptor::counter);
}

track_event_file::track track_event_file::describe(track parent, std::string_view name, const proto_message* kind,
                                                   std::uint32_t field) {
  const track made{++tracks_};
  proto_message d;
  d.number(track_descriptor::uuid, tracks_).bytes(track_descriptor::name, name);
  if (parent != track{}) d.number(track_descriptor::parent_uuid, static_cast<std::uint64_t>(parent));
  if (kind != nullptr) d.message(field, *kind);
  packet_.clear();
  packet(packet_.message(trace_packet::track_descriptor, d));
  return made;
}

void track_event_file::slice(track on, time_point begin, time_point end, std::string_view name, const track_details& d) {
  event(on, begin, type::begin, name, d);
  event(on, end, type::end, {}, {});
}

void track_event_file::instant(track on, time_point at, std::string_view name, const track_details& d) {
  event(on, at, type::instant, name, d);
}

void track_event_file::value(track counter, time_point at, std::int64_t v) {
  event_.clear();
  event_.number(track_event::type, static_cast<std::uint64_t>(type::counter))
      .number(track_event::track_uuid, static_cast<std::uint64_t>(counter))
      .number(track_event::counter_value, static_cast<std::uint64_t>(v));
  packet_.clear();
  packet_.number(trace_packet::timestamp, static_cast<std::uint64_t>(at.count())).message(trace_packet::track_event, event_);
  packet(packet_);
}

void track_event_file::event(track on, time_point at, type t, std::string_view name, const track_details& d) {
  added_.clear();  // names that are new
  event_.clear();
  event_.number(track_event::type, static_cast<std::uint64_t>(t)).number(track_event::track_uuid, static_cast<std::uint64_t>(on));
  if (!name.empty()) event_.number(track_event::name_iid, interned(interned_data::event_names, name, added_));
  const auto annotate = [&](std::string_view of, auto put) {
    if (of.empty()) return;
    annotation_.clear();
    put(annotation_.number(debug_annotation::name_iid, interned(interned_data::debug_annotation_names, of, added_)));
    event_.message(track_event::debug_annotations, annotation_);
  };
  for (const auto& [of, n] : d.numbers) annotate(of, [n = n](proto_message& a) { a.number(debug_annotation::uint_value, n); });
  for (const auto& [of, text] : d.texts)
    annotate(of, [text = text](proto_message& a) { a.bytes(debug_annotation::string_value, text); });
  if (d.flow != 0) event_.fixed(track_event::flow_ids, d.flow);
  packet_.clear();
  packet_.number(trace_packet::timestamp, static_cast<std::uint64_t>(at.count())).message(trace_packet::track_event, event_);
  if (!added_.encoded().empty()) packet_.message(trace_packet::interned_data, added_);
  packet(packet_);
}

std::uint64_t track_event_file::interned(std::uint32_t field, std::string_view text, proto_message& added) {
  auto& known = field == interned_data::event_names ? event_names_ : number_names_;
  if (const auto at = known.find(text); at != known.end()) return at->second;
  const auto number = known.size() + 1;
  known.emplace(text, number);
  added.message(field, proto_message{}.number(interned_name::iid, number).bytes(interned_name::name, text));
  return number;
}

void track_event_file::packet(const proto_message& content) {
  static const auto first = proto_message{}
                                .number(trace_packet::sequence_id, sequence)
                                .number(trace_packet::sequence_flags, trace_packet::state_cleared)
                                .number(trace_packet::first_packet_on_sequence, 1);
  static const auto later =
      proto_message{}.number(trace_packet::sequence_id, sequence).number(trace_packet::sequence_flags, trace_packet::needs_state);
  whole_.clear();
  whole_.bytes(trace::packet, content.encoded(), (std::exchange(begun_, true) ? later : first).encoded());
  buffer_ += whole_.encoded();
  if (buffer_.size() >= most_buffered) write();
}

void track_event_file::write() {
  if (!failed_ && buffer_.size() > max_trace_file - written_)
    failed_ =
        error("is full: a trace has at most " + std::to_string(max_trace_file >> 30) + " GiB, which it has; the rest is missing");
  if (!failed_) written_ += buffer_.size();
  if (!failed_ && write_whole(file_, buffer_) < buffer_.size())
    failed_ = error(std::string("cannot be written: ") + std::strerror(errno));
  buffer_.clear();
}

expected<void> track_event_file::finish() {
  write();
  if (const int f = std::exchange(file_, -1); f >= 0 && ::close(f) != 0 && !failed_)
    failed_ = error(std::string("cannot be written: ") + std::strerror(errno));
  if (failed_) return unexpected(*failed_);
  return {};
}

}  // namespace troupe
