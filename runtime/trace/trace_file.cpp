#include "runtime/trace/trace_file.hpp"

#include <fstream>
#include <map>
#include <unordered_map>
#include <utility>

#include "runtime/base/proto_reader.hpp"
#include "runtime/trace/track_fields.hpp"

namespace troupe {
namespace {

using namespace track_fields;

class trace_reader {
 public:
  expected<trace_file> read(std::string_view bytes) {
    proto_reader in(bytes);
    while (in.next())
      if (in.field() == trace::packet && !packet(in.bytes())) return damaged();
    if (in.failed()) return damaged();
    return std::move(out_);
  }

 private:
  struct event {
    std::uint64_t type = 0, track = 0, name = 0;
    trace_file::slice what;
    std::map<std::string, std::string> texts;
  };
  using names = std::unordered_map<std::uint64_t, std::string>;

  static expected<trace_file> damaged() { return unexpected(error("is not a trace of Troupe, or it is damaged")); }

  bool packet(std::string_view bytes) {
    std::string_view happened, described, interned;
    std::uint64_t at = 0;
    proto_reader in(bytes);
    while (in.next()) switch (in.field()) {
        case trace_packet::timestamp: at = in.number(); break;
        case trace_packet::track_event: happened = in.bytes(); break;
        case trace_packet::track_descriptor: described = in.bytes(); break;
        case trace_packet::interned_data: interned = in.bytes(); break;
        default: break;
      }
    if (in.failed() || !learn(interned)) return false;
    if (!described.empty() && !describe(described)) return false;
    return happened.empty() || happen(happened, time_point(static_cast<std::int64_t>(at & INT64_MAX)));
  }

  bool learn(std::string_view bytes) {
    proto_reader in(bytes);
    while (in.next()) {
      std::uint64_t iid = 0;
      std::string_view name;
      proto_reader one(in.bytes());
      while (one.next()) one.field() == interned_name::iid ? void(iid = one.number()) : void(name = one.bytes());
      if (one.failed()) return false;
      (in.field() == interned_data::event_names ? event_names_ : number_names_)[iid] = name;
    }
    return !in.failed();
  }

  bool describe(std::string_view bytes) {
    std::uint64_t uuid = 0, parent = 0;
    trace_file::track t;
    proto_reader in(bytes);
    while (in.next()) switch (in.field()) {
        case track_descriptor::uuid: uuid = in.number(); break;
        case track_descriptor::name: t.name = in.bytes(); break;
        case track_descriptor::parent_uuid: parent = in.number(); break;
        default: break;
      }
    const auto above = tracks_.find(parent);
    t.process = above == tracks_.end() ? t.name : out_.tracks[above->second].process;
    tracks_[uuid] = static_cast<std::uint32_t>(out_.tracks.size());
    out_.tracks.push_back(std::move(t));
    return !in.failed();
  }

  bool happen(std::string_view bytes, time_point at) {
    event e;
    proto_reader in(bytes);
    while (in.next()) switch (in.field()) {
        case track_event::type: e.type = in.number(); break;
        case track_event::track_uuid: e.track = in.number(); break;
        case track_event::name_iid: e.name = in.number(); break;
        case track_event::debug_annotations:
          if (!annotate(in.bytes(), e)) return false;
          break;
        default: break;
      }
    if (in.failed()) return false;
    const auto track = tracks_.find(e.track);
    if (track == tracks_.end()) return false;
    if (e.type == 1) {  // a slice begins
      e.what.track = track->second;
      e.what.begin = at;
      e.what.name = number_of(event_names_[e.name]);
      open_[e.track].push_back(e.what);
    } else if (e.type == 2) {
      auto& stack = open_[e.track];
      if (stack.empty()) return false;
      stack.back().end = at;
      out_.slices.push_back(stack.back());
      stack.pop_back();
    } else if (e.type == 3 && event_names_[e.name] == trace_job::name) {
      out_.job = {e.texts["text"], e.texts["nodes"]};
    }
    return true;
  }

  bool annotate(std::string_view bytes, event& e) {
    std::uint64_t name = 0, number = 0;
    std::string_view text;
    proto_reader in(bytes);
    while (in.next()) switch (in.field()) {
        case debug_annotation::name_iid: name = in.number(); break;
        case debug_annotation::uint_value: number = in.number(); break;
        case debug_annotation::string_value: text = in.bytes(); break;
        default: break;
      }
    const auto& of = number_names_[name];
    if (of == "step") e.what.step = number, e.what.of_packet = true;
    if (of == "packet") e.what.packet = number;
    if (of == "bytes") e.what.bytes = number;
    if (!text.empty()) e.texts[of] = text;
    return !in.failed();
  }

  std::uint32_t number_of(const std::string& name) {
    const auto [at, isnew] = numbers_.try_emplace(name, static_cast<std::uint32_t>(out_.names.size()));
    if (isnew) out_.names.push_back(name);
    return at->second;
  }

  trace_file out_;
  std::unordered_map<std::uint64_t, std::uint32_t> tracks_;  // by uuid
  names event_names_, number_names_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::uint64_t, std::vector<trace_file::slice>> open_;  // by track
};

}  // namespace

expected<trace_file> read_trace(std::string_view bytes) { return trace_reader().read(bytes); }

expected<trace_file> read_trace_file(const std::filesystem::path& file) {
  std::error_code ec;
  const auto size = std::filesystem::file_size(file, ec);
  if (ec) return unexpected(error(ec.message()).in(file.string()));
  if (size > max_trace_file) return unexpected(error("is larger than 4 GiB").in(file.string()));
  std::ifstream in(file, std::ios::binary);
  std::string bytes(size, '\0');
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return unexpected(error("cannot be read").in(file.string()));
  auto read = read_trace(bytes);
  if (!read) return unexpected(error(file.string() + " " + read.error().text));
  return read;
}

}  // namespace troupe
