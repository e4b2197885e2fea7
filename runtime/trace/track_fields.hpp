// Numbers of the fields of Perfetto's published .proto files (protos/perfetto/trace) that trace
// files use. Private to runtime/trace/.
#pragma once

#include <cstdint>

namespace troupe::track_fields {

namespace trace {
inline constexpr std::uint32_t packet = 1;
}
namespace trace_packet {
inline constexpr std::uint32_t timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12, sequence_flags = 13,
                               track_descriptor = 60, first_packet_on_sequence = 87;
inline constexpr std::uint64_t state_cleared = 1, needs_state = 2;
}  // namespace trace_packet
namespace interned_data {
inline constexpr std::uint32_t event_names = 2, debug_annotation_names = 3;
}
namespace interned_name {
inline constexpr std::uint32_t iid = 1, name = 2;
}
namespace track_event {
inline constexpr std::uint32_t debug_annotations = 4, type = 9, name_iid = 10, track_uuid = 11, counter_value = 30, flow_ids = 47;
}
namespace debug_annotation {
inline constexpr std::uint32_t name_iid = 1, uint_value = 3, string_value = 6;
}
namespace track_descriptor {
inline constexpr std::uint32_t uuid = 1, name = 2, process = 3, parent_uuid = 5, counter = 8;
}
namespace process_descriptor {
inline constexpr std::uint32_t pid = 1, process_name = 6;
}
namespace counter_descriptor {
inline constexpr std::uint32_t unit = 3;
}

}  // namespace troupe::track_fields
