#include <limits>
#include <protozero/pbf_writer.hpp>

#include "runtime/node/models/onnx/onnx_model.hpp"

namespace troupe::onnx {
namespace {

using protozero::pbf_writer;

void write_tensor(pbf_writer out, const tensor_value& t) {
  for (const auto e : t.dims) out.add_int64(1, e);
  out.add_int32(2, t.type);
  out.add_string(8, t.name);
  if (is_real(t.type))
    out.add_bytes(9, reinterpret_cast<const char*>(t.reals.data()), t.reals.size() * sizeof(float));
  else
    out.add_bytes(9, reinterpret_cast<const char*>(t.whole.data()), t.whole.size() * sizeof(std::int64_t));
}

void write_attribute(pbf_writer out, const attribute& a) {
  out.add_string(1, a.name);
  if (a.is(attribute_kind::real)) out.add_float(2, a.real);
  if (a.is(attribute_kind::integer)) out.add_int64(3, a.integer);
  if (a.is(attribute_kind::text)) out.add_bytes(4, a.text);
  for (const auto v : a.integers) out.add_int64(8, v);
  for (const auto& v : a.texts) out.add_bytes(9, v);
  out.add_int32(20, a.kind);
}

void write_node(pbf_writer out, const node& n) {
  for (const auto& i : n.inputs) out.add_string(1, i);
  for (const auto& o : n.outputs) out.add_string(2, o);
  out.add_string(3, n.name);
  out.add_string(4, n.op);
  for (const auto& a : n.attributes) write_attribute(pbf_writer(out, 5), a);
}

void write_value_info(pbf_writer out, const value_info& v) {
  out.add_string(1, v.name);
  pbf_writer type(out, 2);
  pbf_writer tensor(type, 1);
  tensor.add_int32(1, v.type);
  pbf_writer extents(tensor, 2);
  for (const auto& d : v.dims) {
    pbf_writer one(extents, 1);
    if (d.extent >= 0)
      one.add_int64(1, d.extent);
    else
      one.add_string(2, d.symbol);
  }
}

void write_opset(pbf_writer out, std::int64_t version) {
  out.add_string(1, "");
  out.add_int64(2, version);
}

void write_metadata(pbf_writer out, const std::pair<std::string, std::string>& entry) {
  out.add_string(1, entry.first);
  out.add_string(2, entry.second);
}

void write_graph(pbf_writer out, const graph& g) {
  for (const auto& n : g.nodes) write_node(pbf_writer(out, 1), n);
  out.add_string(2, g.name);
  for (const auto& t : g.initializers) write_tensor(pbf_writer(out, 5), t);
  for (const auto& v : g.inputs) write_value_info(pbf_writer(out, 11), v);
  for (const auto& v : g.outputs) write_value_info(pbf_writer(out, 12), v);
}

}  // namespace

expected<std::string> model_bytes(const model& m) {
  std::size_t values = 0;
  for (const auto& t : m.graph.initializers) values += t.reals.size() * sizeof(float) + t.whole.size() * sizeof(std::int64_t);
  // Readers of protobuf accept less than 2 GiB.
  if (values > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) - (std::size_t{1} << 24))
    return unexpected(error("the weights have " + std::to_string(values) + " bytes; an ONNX file holds less than 2 GiB"));
  std::string bytes;
  pbf_writer out(bytes);
  out.add_int64(1, m.ir_version);
  out.add_string(2, m.producer);
  if (!m.about.empty()) out.add_string(6, m.about);
  write_graph(pbf_writer(out, 7), m.graph);
  write_opset(pbf_writer(out, 8), m.opset);
  for (const auto& entry : m.metadata) write_metadata(pbf_writer(out, 14), entry);
  return bytes;
}

}  // namespace troupe::onnx
