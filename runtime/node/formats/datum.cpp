#include "runtime/node/formats/datum.hpp"

#include <cstring>
#include <functional>
#include <protozero/pbf_reader.hpp>
#include <string>

namespace troupe {
namespace {

using wire = protozero::pbf_wire_type;
constexpr std::uint32_t field(protozero::pbf_tag_type number, wire type) { return protozero::tag_and_type(number, type); }

unexpected<error> damaged(const std::string& what) { return unexpected(error("its Datum is damaged: " + what)); }

std::span<const std::uint8_t> bytes_of(protozero::data_view v) {
  return {reinterpret_cast<const std::uint8_t*>(v.data()), v.size()};
}

// Calls `take` with each piece of float_data, little-endian. Throws protozero::exception.
void read_datum(std::span<const std::uint8_t> record, datum& d, const std::function<void(std::span<const std::uint8_t>)>& take) {
  protozero::pbf_reader in(reinterpret_cast<const char*>(record.data()), record.size());
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::varint): d.channels = in.get_int32(); break;
      case field(2, wire::varint): d.height = in.get_int32(); break;
      case field(3, wire::varint): d.width = in.get_int32(); break;
      case field(4, wire::length_delimited): d.data = bytes_of(in.get_view()); break;
      case field(5, wire::varint): d.label = in.get_int32(); break;
      case field(6, wire::length_delimited): take(bytes_of(in.get_view())); break;
      case field(6, wire::fixed32): {
        const float v = in.get_float();
        take({reinterpret_cast<const std::uint8_t*>(&v), sizeof v});
        break;
      }
      case field(7, wire::varint): d.encoded = in.get_uint64() != 0; break;  // get_bool() may read behind the record
      default: in.skip();
    }
}

}  // namespace

expected<datum> parse_datum(std::span<const std::uint8_t> record) {
  datum d;
  std::size_t bytes = 0;
  try {
    read_datum(record, d, [&](std::span<const std::uint8_t> piece) { bytes += piece.size(); });
  } catch (const protozero::exception& e) {
    return damaged(e.what());
  }
  d.floats = bytes / sizeof(float);
  if (bytes % sizeof(float) != 0) return damaged("float_data ends within a number");
  if (d.encoded) return d.data.empty() ? expected<datum>(damaged("it has no image")) : d;
  constexpr std::int64_t most = 1 << 20;
  for (const auto extent : {d.channels, d.height, d.width})
    if (extent < 1 || extent > most) return damaged("an extent is " + std::to_string(extent));
  const auto values = d.data.empty() ? d.floats : d.data.size();
  if ((!d.data.empty() && d.floats > 0) ||
      static_cast<std::uint64_t>(d.channels) * static_cast<std::uint64_t>(d.height) * static_cast<std::uint64_t>(d.width) != values)
    return damaged(std::to_string(values) + " values for " + std::to_string(d.channels) + "x" + std::to_string(d.height) + "x" +
                   std::to_string(d.width));
  return d;
}

void copy_floats(std::span<const std::uint8_t> record, float* out) {
  datum d;
  read_datum(record, d, [&](std::span<const std::uint8_t> piece) {
    if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
    out += piece.size() / sizeof(float);
  });
}

}  // namespace troupe
