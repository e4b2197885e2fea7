// Reads a trace file (runtime/trace/track_events.hpp) for tests, with a reader of protobuf's wire
// format of its own. Fails the test if the bytes are not a trace: wrong lengths, a track or name
// that was not described before, or slices that do not nest.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::testing_trace {

struct proto_field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // varint, fixed64
  std::string_view bytes;   // length-delimited
};

inline std::vector<proto_field> fields_of(std::string_view in) {
  std::vector<proto_field> out;
  const auto varint = [&](std::uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
      const auto c = static_cast<unsigned char>(in.front());
      in.remove_prefix(1);
      v |= std::uint64_t{c & 0x7fu} << shift;
      if (c < 0x80) return true;
    }
    return false;
  };
  while (!in.empty()) {
    std::uint64_t key = 0;
    proto_field f;
    bool fine = varint(key);
    f.number = static_cast<std::uint32_t>(key >> 3);
    switch (key & 7) {
      case 0: fine = fine && varint(f.value); break;
      case 1:
        fine = fine && in.size() >= 8;
        if (fine) std::memcpy(&f.value, in.data(), 8), in.remove_prefix(8);
        break;
      case 2: {
        std::uint64_t n = 0;
        fine = fine && varint(n) && n <= in.size();
        if (fine) f.bytes = in.substr(0, n), in.remove_prefix(n);
        break;
      }
      default: fine = false;
    }
    if (!fine) {
      ADD_FAILURE() << "field " << f.number << " is damaged";
      return out;
    }
    out.push_back(f);
  }
  return out;
}

struct trace_track {
  std::uint64_t uuid = 0, parent = 0;
  std::string name;
  bool process = false, counter = false;
};
struct trace_slice {
  std::string track, name;  // track: the names from the process down, "local/stage conv1"
  std::int64_t begin = 0, end = 0;
  std::uint64_t flow = 0;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::string, std::string> texts;
};

struct trace_contents {
  std::map<std::uint64_t, trace_track> tracks;
  std::vector<trace_slice> slices, instants;                                           // in order of time
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> counters;  // by track
  std::string path(std::uint64_t uuid) const {
    const auto& t = tracks.at(uuid);
    return t.parent == 0 ? t.name : path(t.parent) + "/" + t.name;
  }
  std::vector<trace_slice> named(const std::string& name) const {
    std::vector<trace_slice> out;
    std::copy_if(slices.begin(), slices.end(), std::back_inserter(out), [&](const trace_slice& s) { return s.name == name; });
    return out;
  }
};

class trace_reader {
 public:
  static trace_contents read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return of(std::string(std::istreambuf_iterator<char>(in), {}));
  }
  static trace_contents of(const std::string& bytes) {
    trace_reader r;
    bool first = true;
    for (const auto& packet : fields_of(bytes)) {
      EXPECT_EQ(packet.number, 1u);
      r.take(packet.bytes, std::exchange(first, false));
    }
    return r.finish();
  }

 private:
  struct event {
    std::int64_t at = 0;
    std::uint64_t type = 0, track = 0;
    trace_slice what;
    std::int64_t value = 0;
  };

  void take(std::string_view packet, bool first) {
    std::int64_t at = -1;
    std::string_view track_event, descriptor;
    for (const auto& f : fields_of(packet)) {
      if (f.number == 8) at = static_cast<std::int64_t>(f.value);
      if (f.number == 11) track_event = f.bytes;
      if (f.number == 60) descriptor = f.bytes;
      if (f.number == 12) learn(f.bytes);
      EXPECT_TRUE(f.number != 10 || f.value == 1) << "the packet's sequence";
      EXPECT_TRUE(f.number != 13 || f.value == (first ? 1u : 2u)) << "sequence_flags";
    }
    if (!descriptor.empty()) describe(descriptor);
    if (!track_event.empty()) happen(track_event, at);
  }
  void learn(std::string_view interned) {
    for (const auto& f : fields_of(interned)) {
      std::uint64_t iid = 0;
      std::string name;
      for (const auto& g : fields_of(f.bytes)) g.number == 1 ? void(iid = g.value) : void(name = g.bytes);
      EXPECT_TRUE(names_[f.number].emplace(iid, name).second) << "name " << iid << " is given twice";
    }
  }
  void describe(std::string_view bytes) {
    trace_track t;
    for (const auto& f : fields_of(bytes)) {
      if (f.number == 1) t.uuid = f.value;
      if (f.number == 2) t.name = f.bytes;
      if (f.number == 5) t.parent = f.value;
      t.process = t.process || f.number == 3;
      t.counter = t.counter || f.number == 8;
    }
    EXPECT_TRUE(t.parent == 0 || out_.tracks.contains(t.parent)) << t.name;
    EXPECT_EQ(t.parent == 0, t.process) << t.name;
    EXPECT_TRUE(out_.tracks.emplace(t.uuid, t).second) << t.name;
  }
  void happen(std::string_view bytes, std::int64_t at) {
    event e;
    e.at = at;
    for (const auto& f : fields_of(bytes)) {
      if (f.number == 9) e.type = f.value;
      if (f.number == 11) e.track = f.value;
      if (f.number == 10) e.what.name = name(2, f.value);
      if (f.number == 30) e.value = static_cast<std::int64_t>(f.value);
      if (f.number == 47) e.what.flow = f.value;
      if (f.number == 4) annotate(f.bytes, e.what);
    }
    EXPECT_GE(at, 0) << e.what.name << " has no time";
    EXPECT_TRUE(out_.tracks.contains(e.track)) << e.what.name << " on unknown track " << e.track;
    EXPECT_EQ(e.type == 4, out_.tracks[e.track].counter) << out_.tracks[e.track].name;
    events_.push_back(std::move(e));
  }
  void annotate(std::string_view bytes, trace_slice& s) {
    std::string of;
    for (const auto& f : fields_of(bytes)) {
      if (f.number == 1) of = name(3, f.value);
      if (f.number == 3) s.numbers[of] = f.value;
      if (f.number == 6) s.texts[of] = f.bytes;
    }
  }
  std::string name(std::uint32_t field, std::uint64_t iid) {
    EXPECT_TRUE(names_[field].contains(iid)) << "name " << iid << " is not known";
    return names_[field][iid];
  }

  // As trace_processor: sorts by time, those of equal time stay in the file's order.
  trace_contents finish() {
    std::stable_sort(events_.begin(), events_.end(), [](const event& a, const event& b) { return a.at < b.at; });
    std::map<std::uint64_t, std::vector<std::size_t>> open;
    for (auto& e : events_) {
      e.what.track = out_.path(e.track);
      e.what.begin = e.what.end = e.at;
      auto& stack = open[e.track];
      if (e.type == 1) {
        stack.push_back(out_.slices.size());
        out_.slices.push_back(e.what);
      } else if (e.type == 2) {
        EXPECT_FALSE(stack.empty()) << "an end without a begin on " << e.what.track;
        if (!stack.empty()) out_.slices[stack.back()].end = e.at, stack.pop_back();
      } else if (e.type == 3) {
        out_.instants.push_back(e.what);
      } else {
        EXPECT_EQ(e.type, 4u);
        out_.counters[e.what.track].emplace_back(e.at, e.value);
      }
      EXPECT_LE(stack.size(), 1u) << "slices overlap on " << e.what.track;
    }
    for (const auto& [track, stack] : open) EXPECT_TRUE(stack.empty()) << "a slice without an end on " << out_.path(track);
    return std::move(out_);
  }

  trace_contents out_;
  std::vector<event> events_;
  std::map<std::uint32_t, std::map<std::uint64_t, std::string>> names_;  // by field of InternedData
};

}  // namespace troupe::testing_trace
