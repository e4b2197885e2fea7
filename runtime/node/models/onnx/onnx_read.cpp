// The fields' numbers are those of onnx/onnx.proto.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <protozero/pbf_reader.hpp>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/models/onnx/onnx_model.hpp"

namespace troupe::onnx {
namespace {

using protozero::pbf_reader;
using wire = protozero::pbf_wire_type;
constexpr std::uint32_t field(protozero::pbf_tag_type number, wire type) { return protozero::tag_and_type(number, type); }

constexpr std::size_t most_nodes = 100'000;
constexpr std::int64_t most_values = std::int64_t{1} << 40;

// Thrown inside this file only.
struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::size_t bytes_of_element(std::int32_t type) {
  switch (type) {
    case float32:
    case int32: return 4;
    case float64:
    case int64: return 8;
    case float16:
    case bfloat16: return 2;
    case uint8:
    case int8:
    case boolean: return 1;
    default: return 0;
  }
}

template <class T, class Range>
void append(std::vector<T>& to, const Range& packed) {
  for (const auto v : packed) to.push_back(static_cast<T>(v));
}

// A TensorProto before its values are checked.
struct draft_tensor {
  tensor_value made;
  std::vector<std::int64_t> int32s, int64s;
  std::vector<float> floats, doubles;
  protozero::data_view raw;
  bool has_raw = false, external = false;
  std::string location;  // of external values
  std::uint64_t offset = 0, length = 0;
  bool has_length = false;
};

// What a FLOAT16 stands for, exactly.
float half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float v = 0;
  if (exponent == 31)
    v = fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    v = std::ldexp(static_cast<float>(fraction), -24);
  else
    v = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits & 0x8000 ? -v : v;
}
float short_value(std::int32_t type, std::uint16_t bits) {
  return type == float16 ? half_value(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <class T>
T little(const char* at) {
  static_assert(std::endian::native == std::endian::little);
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

void take_raw(draft_tensor& d, std::size_t count) {
  auto& t = d.made;
  const char* at = d.raw.data();
  for (std::size_t i = 0; i < count; ++i) switch (t.type) {
      case float32: t.reals.push_back(little<float>(at + 4 * i)); break;
      case float64: t.reals.push_back(static_cast<float>(little<double>(at + 8 * i))); break;
      case float16:
      case bfloat16: t.reals.push_back(short_value(t.type, little<std::uint16_t>(at + 2 * i))); break;
      case int32: t.whole.push_back(little<std::int32_t>(at + 4 * i)); break;
      case int64: t.whole.push_back(little<std::int64_t>(at + 8 * i)); break;
      case int8: t.whole.push_back(little<std::int8_t>(at + i)); break;
      default: t.whole.push_back(little<std::uint8_t>(at + i)); break;
    }
}

// Other files, and how many bytes of each are taken, by their place in memory: a file has several
// spellings. Each tensor copies its part, so that small tensors of one large part would fill
// memory.
struct external_parts {
  const external_files& files;
  std::map<const std::uint8_t*, std::uint64_t> taken;
};

// The part of another file that has the values.
void take_external(draft_tensor& d, external_parts& files) {
  const auto wrong = [&](const std::string& what) { return refused("tensor " + in_quotes(d.made.name) + ": " + what); };
  if (!files.files) throw wrong("its values are in another file, which is not read here");
  if (d.location.empty()) throw wrong("its values are in another file, which it does not name");
  const auto file = files.files(d.location);
  if (!file) throw wrong("its values are in " + in_quotes(printable(d.location)) + ": " + file.error().text);
  if (d.offset > file->size() || (d.has_length && d.length > file->size() - d.offset))
    throw wrong("its values are beyond the end of " + in_quotes(printable(d.location)) + " (" + std::to_string(file->size()) +
                " bytes)");
  const auto bytes = d.has_length ? d.length : file->size() - d.offset;
  auto& taken = files.taken[file->data()];
  if (bytes > file->size() - taken)
    throw wrong("its values are in " + in_quotes(printable(d.location)) +
                ", of which the tensors take more bytes in all than it has: each tensor needs a part of its own");
  taken += bytes;
  d.raw = {reinterpret_cast<const char*>(file->data()) + d.offset, static_cast<std::size_t>(bytes)};
  d.has_raw = true;
}

// FLOAT16 and BFLOAT16 become FLOAT.
void widen(draft_tensor& d) {
  auto& t = d.made;
  if (t.type != float16 && t.type != bfloat16) return;
  for (const auto v : d.int32s) t.reals.push_back(short_value(t.type, static_cast<std::uint16_t>(v)));
  t.type = float32;
}

tensor_value finished(draft_tensor d, external_parts& files) {
  auto& t = d.made;
  const auto wrong = [&](const std::string& what) { return refused("tensor " + in_quotes(t.name) + ": " + what); };
  if (d.external) take_external(d, files);
  const auto size = bytes_of_element(t.type);
  if (size == 0) throw wrong("element type " + element_name(t.type) + " is not supported");
  std::int64_t count = 1;
  for (const auto e : t.dims) {
    if (e < 0) throw wrong("an extent is " + std::to_string(e));
    if (e != 0 && count > most_values / e) throw wrong("it has more than 2^40 values");
    count *= e;
  }
  const auto n = static_cast<std::size_t>(count);
  if (d.has_raw) {
    if (d.raw.size() != n * size)
      throw wrong("it has " + std::to_string(d.raw.size()) + " bytes for " + std::to_string(n) + " values of type " +
                  element_name(t.type));
    const bool real = is_real(t.type);
    t.reals.reserve(real ? n : 0), t.whole.reserve(real ? 0 : n);
    take_raw(d, n);
    if (size == 2) t.type = float32;
    return t;
  }
  widen(d);
  if (t.type == float32 && size == 4) t.reals = std::move(d.floats);
  if (t.type == float64) t.reals = std::move(d.doubles);
  if (t.type == int64) t.whole = std::move(d.int64s);
  if (!is_real(t.type) && t.type != int64) t.whole = std::move(d.int32s);
  const auto have = t.reals.size() + t.whole.size();
  if (have != n) throw wrong("it has " + std::to_string(have) + " values, its extents need " + std::to_string(n));
  return t;
}

void read_external_entry(pbf_reader in, draft_tensor& d) {
  std::string key, value;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited): key = in.get_string(); break;
      case field(2, wire::length_delimited): value = in.get_string(); break;
      default: in.skip();
    }
  const auto number = [&](std::uint64_t& to) {
    if (!read_number(value, to))
      throw refused("tensor " + in_quotes(d.made.name) + ": " + in_quotes(printable(value)) + " is no " + key);
  };
  if (key == "location") d.location = value;
  if (key == "offset") number(d.offset);
  if (key == "length") number(d.length), d.has_length = true;
}

tensor_value read_tensor(pbf_reader in, external_parts& files) {
  draft_tensor d;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::varint): d.made.dims.push_back(in.get_int64()); break;
      case field(1, wire::length_delimited): append(d.made.dims, in.get_packed_int64()); break;
      case field(2, wire::varint): d.made.type = in.get_int32(); break;
      case field(4, wire::fixed32): d.floats.push_back(in.get_float()); break;
      case field(4, wire::length_delimited): append(d.floats, in.get_packed_float()); break;
      case field(5, wire::varint): d.int32s.push_back(in.get_int32()); break;
      case field(5, wire::length_delimited): append(d.int32s, in.get_packed_int32()); break;
      case field(7, wire::varint): d.int64s.push_back(in.get_int64()); break;
      case field(7, wire::length_delimited): append(d.int64s, in.get_packed_int64()); break;
      case field(8, wire::length_delimited): d.made.name = in.get_string(); break;
      case field(9, wire::length_delimited): d.raw = in.get_view(), d.has_raw = true; break;
      case field(10, wire::fixed64): d.doubles.push_back(static_cast<float>(in.get_double())); break;
      case field(10, wire::length_delimited): append(d.doubles, in.get_packed_double()); break;
      case field(13, wire::length_delimited): read_external_entry(in.get_message(), d); break;
      case field(14, wire::varint): d.external |= in.get_int32() != 0; break;
      default: in.skip();
    }
  return finished(std::move(d), files);
}

attribute read_attribute(pbf_reader in, external_parts& files) {
  attribute a;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited): a.name = in.get_string(); break;
      case field(2, wire::fixed32): a.real = in.get_float(); break;
      case field(3, wire::varint): a.integer = in.get_int64(); break;
      case field(4, wire::length_delimited): a.text = in.get_string(); break;
      case field(5, wire::length_delimited): a.tensor = std::make_shared<tensor_value>(read_tensor(in.get_message(), files)); break;
      case field(7, wire::fixed32): a.reals.push_back(in.get_float()); break;
      case field(7, wire::length_delimited): append(a.reals, in.get_packed_float()); break;
      case field(8, wire::varint): a.integers.push_back(in.get_int64()); break;
      case field(8, wire::length_delimited): append(a.integers, in.get_packed_int64()); break;
      case field(9, wire::length_delimited): a.texts.push_back(in.get_string()); break;
      case field(20, wire::varint): a.kind = in.get_int32(); break;
      default: in.skip();
    }
  if (a.is(attribute_kind::tensor) && !a.tensor) throw refused("attribute " + in_quotes(a.name) + " has no tensor");
  return a;
}

node read_node(pbf_reader in, external_parts& files) {
  node n;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited): n.inputs.push_back(in.get_string()); break;
      case field(2, wire::length_delimited): n.outputs.push_back(in.get_string()); break;
      case field(3, wire::length_delimited): n.name = in.get_string(); break;
      case field(4, wire::length_delimited): n.op = in.get_string(); break;
      case field(5, wire::length_delimited): n.attributes.push_back(read_attribute(in.get_message(), files)); break;
      case field(7, wire::length_delimited): n.domain = in.get_string(); break;
      default: in.skip();
    }
  return n;
}

void read_shape(pbf_reader in, value_info& v) {
  v.shaped = true;
  while (in.next(1, wire::length_delimited)) {
    dimension d;
    pbf_reader dim = in.get_message();
    while (dim.next()) switch (dim.tag_and_type()) {
        case field(1, wire::varint): d.extent = dim.get_int64(); break;
        case field(2, wire::length_delimited): d.symbol = dim.get_string(); break;
        default: dim.skip();
      }
    v.dims.push_back(std::move(d));
  }
}

value_info read_value_info(pbf_reader in) {
  value_info v;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited): v.name = in.get_string(); break;
      case field(2, wire::length_delimited): {
        pbf_reader type = in.get_message();
        while (type.next(1, wire::length_delimited)) {
          pbf_reader of = type.get_message();
          while (of.next()) switch (of.tag_and_type()) {
              case field(1, wire::varint): v.type = of.get_int32(); break;
              case field(2, wire::length_delimited): read_shape(of.get_message(), v); break;
              default: of.skip();
            }
        }
        break;
      }
      default: in.skip();
    }
  return v;
}

graph read_graph(pbf_reader in, external_parts& files) {
  graph g;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited):
        if (g.nodes.size() == most_nodes) throw refused("the graph has more than " + with_commas(most_nodes) + " nodes");
        g.nodes.push_back(read_node(in.get_message(), files));
        break;
      case field(2, wire::length_delimited): g.name = in.get_string(); break;
      case field(5, wire::length_delimited): g.initializers.push_back(read_tensor(in.get_message(), files)); break;
      case field(11, wire::length_delimited): g.inputs.push_back(read_value_info(in.get_message())); break;
      case field(12, wire::length_delimited): g.outputs.push_back(read_value_info(in.get_message())); break;
      case field(15, wire::length_delimited): throw refused("the graph has sparse tensors, which are not supported");
      default: in.skip();
    }
  return g;
}

void read_metadata(pbf_reader in, model& m) {
  auto& entry = m.metadata.emplace_back();
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited): entry.first = in.get_string(); break;
      case field(2, wire::length_delimited): entry.second = in.get_string(); break;
      default: in.skip();
    }
}

void read_opset(pbf_reader in, model& m) {
  std::string domain;
  std::int64_t version = 0;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::length_delimited): domain = in.get_string(); break;
      case field(2, wire::varint): version = in.get_int64(); break;
      default: in.skip();
    }
  if (domain.empty() || domain == "ai.onnx") m.opset = std::max(m.opset, version);
}

model read_model(pbf_reader in, external_parts& files) {
  model m;
  bool any = false;
  while (in.next()) switch (in.tag_and_type()) {
      case field(1, wire::varint): m.ir_version = in.get_int64(); break;
      case field(2, wire::length_delimited): m.producer = in.get_string(); break;
      case field(3, wire::length_delimited): m.producer_version = in.get_string(); break;
      case field(6, wire::length_delimited): m.about = in.get_string(); break;
      case field(7, wire::length_delimited):
        if (any) throw refused("it has a second graph");
        m.graph = read_graph(in.get_message(), files), any = true;
        break;
      case field(8, wire::length_delimited): read_opset(in.get_message(), m); break;
      case field(14, wire::length_delimited): read_metadata(in.get_message(), m); break;
      case field(25, wire::length_delimited): throw refused("it has functions of its own, which are not supported");
      default: in.skip();
    }
  if (!any) throw refused("it is no ONNX model: it has no graph");
  if (m.opset == 0) throw refused("it does not say which operator set of ONNX it uses");
  if (m.opset < least_opset || m.opset > most_opset)
    throw refused("it uses operator set " + std::to_string(m.opset) + "; supported are " + std::to_string(least_opset) + " to " +
                  std::to_string(most_opset) + ": export it with opset_version=13");
  return m;
}

}  // namespace

std::string element_name(std::int32_t type) {
  static const char* names[] = {"UNDEFINED", "FLOAT",  "UINT8",     "INT8",       "UINT16",  "INT16",
                                "INT32",     "INT64",  "STRING",    "BOOL",       "FLOAT16", "DOUBLE",
                                "UINT32",    "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"};
  if (type < 0 || type >= static_cast<std::int32_t>(std::size(names))) return std::to_string(type);
  return names[type];
}

std::int64_t tensor_value::count() const {
  std::int64_t n = 1;
  for (const auto e : dims) n *= e;
  return n;
}

expected<model> parse_model(std::span<const std::uint8_t> bytes, const external_files& files) {
  external_parts parts{files, {}};
  try {
    return read_model(pbf_reader(reinterpret_cast<const char*>(bytes.data()), bytes.size()), parts);
  } catch (const protozero::exception& e) {
    return unexpected(error(std::string("it is no ONNX model, or damaged: ") + e.what()));
  } catch (const refused& e) {
    return unexpected(error(e.what()));
  }
}

}  // namespace troupe::onnx
