#include "runtime/node/models/caffe/wire.hpp"

#include <bit>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "runtime/base/number_text.hpp"
#include "runtime/node/models/caffe/schema.hpp"

namespace troupe::caffe {
namespace {

static_assert(std::endian::native == std::endian::little);

using wire_type = protozero::pbf_wire_type;
using field_kind = proto_field::kind;

// A mistake, thrown inside this file only.
struct damage {
  std::string what;
};

constexpr std::int64_t max_values = std::int64_t{1} << 31;  // of a blob: a message has at most 2 GiB

void check_blob(const blob& b) {
  if (b.dims.size() > 32) throw damage{"a blob has more than 32 axes"};
  std::int64_t count = 1;
  for (const auto d : b.dims) {
    if (d < 0 || (d > 0 && count > max_values / d)) throw damage{"a blob has the shape " + b.shape_text()};
    count *= d;
  }
  if (static_cast<std::size_t>(count) != b.values->size())
    throw damage{"a blob of shape " + b.shape_text() + " has " + std::to_string(b.values->size()) + " values"};
}

template <class T>
void append_packed(protozero::data_view v, std::vector<float>& to) {
  if (v.size() % sizeof(T) != 0) throw damage{"a blob ends within a number"};
  const auto n = v.size() / sizeof(T), at = to.size();
  to.resize(at + n);
  if constexpr (std::is_same_v<T, float>) {
    if (n > 0) std::memcpy(to.data() + at, v.data(), v.size());
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      T x;
      std::memcpy(&x, v.data() + i * sizeof(T), sizeof(T));
      to[at + i] = static_cast<float>(x);
    }
  }
}

protozero::pbf_reader& need(protozero::pbf_reader& in, wire_type type) {
  if (in.wire_type() != type) throw damage{"field " + std::to_string(in.tag()) + " has another type than in caffe.proto"};
  return in;
}

std::vector<std::int64_t> read_dims(protozero::pbf_reader in) {
  std::vector<std::int64_t> dims;
  while (in.next()) {
    if (in.tag() != 1) {
      in.skip();
    } else if (in.wire_type() == wire_type::varint) {
      dims.push_back(in.get_int64());
    } else {
      for (const auto d : need(in, wire_type::length_delimited).get_packed_int64()) dims.push_back(d);
    }
    if (dims.size() > 32) throw damage{"a blob has more than 32 axes"};
  }
  return dims;
}

blob read_blob(protozero::pbf_reader in) {
  blob b;
  auto values = std::make_shared<std::vector<float>>();
  std::int64_t old[4] = {0, 0, 0, 0};
  bool shaped = false;
  while (in.next()) {
    const auto tag = in.tag();
    const auto packed = in.wire_type() == wire_type::length_delimited;
    if (tag >= 1 && tag <= 4)
      old[tag - 1] = need(in, wire_type::varint).get_int64(), b.old_form = true;
    else if (tag == 5 && packed)
      append_packed<float>(in.get_view(), *values);
    else if (tag == 5)
      values->push_back(need(in, wire_type::fixed32).get_float());
    else if (tag == 7)
      b.dims = read_dims(need(in, wire_type::length_delimited).get_message()), shaped = true;
    else if (tag == 8 && packed)
      append_packed<double>(in.get_view(), *values);
    else if (tag == 8)
      values->push_back(static_cast<float>(need(in, wire_type::fixed64).get_double()));
    else
      in.skip();
  }
  if (shaped)
    b.old_form = false;
  else
    b.dims.assign(old, old + 4);
  b.values = std::move(values);
  check_blob(b);
  return b;
}

class net_reader {
 public:
  binary_net read(protozero::pbf_reader in) {
    nested(in, "NetParameter", out_.net, 1);
    return std::move(out_);
  }

 private:
  void nested(protozero::pbf_reader in, const std::string& type, proto_field& into, int depth) {
    if (depth >= max_depth) throw damage{"messages are nested more than " + std::to_string(max_depth) + " deep"};
    const auto* fields = message_named(type);
    while (in.next()) {
      const auto* f = fields ? fields->find(in.tag()) : nullptr;
      if (!f)
        unknown(in, into);
      else
        field(in, *f, into, depth);
    }
  }
  proto_field& add(proto_field& into, const std::string& name, field_kind what, std::string text) {
    if (++count_ > max_fields) throw damage{"it has more than " + std::to_string(max_fields) + " fields"};
    proto_field f;
    f.name = name, f.what = what, f.text = std::move(text);
    return into.fields.emplace_back(std::move(f));
  }
  void unknown(protozero::pbf_reader& in, proto_field& into) {
    add(into, "field " + std::to_string(in.tag()), field_kind::number, "");
    in.skip();
  }
  static std::string word_of(const field_type& f, std::int64_t number) {
    if (f.what == field_type::kind::flag) return number != 0 ? "true" : "false";
    const auto* word = f.what == field_type::kind::word ? enum_word(f.type, number) : nullptr;
    return word ? *word : number_text(number);
  }
  void field(protozero::pbf_reader& in, const field_type& f, proto_field& into, int depth) {
    using enum field_type::kind;
    const auto packed = in.wire_type() == wire_type::length_delimited;
    switch (f.what) {
      case text: add(into, f.name, field_kind::text, need(in, wire_type::length_delimited).get_string()); return;
      case kind_message:
        nested(need(in, wire_type::length_delimited).get_message(), f.type, add(into, f.name, field_kind::message, ""), depth + 1);
        return;
      case kind_blob:
        add(into, f.name, field_kind::blob, std::to_string(out_.blobs.size()));
        out_.blobs.push_back(read_blob(need(in, wire_type::length_delimited).get_message()));
        return;
      case real:
        if (packed)
          for (const auto v : in.get_packed_float()) add(into, f.name, field_kind::number, number_text(v));
        else
          add(into, f.name, field_kind::number, number_text(need(in, wire_type::fixed32).get_float()));
        return;
      default: break;
    }
    const auto what = f.what == integer ? field_kind::number : field_kind::word;
    if (packed)
      for (const auto v : in.get_packed_int64()) add(into, f.name, what, word_of(f, v));
    else
      add(into, f.name, what, word_of(f, need(in, wire_type::varint).get_int64()));
  }

  static constexpr auto kind_message = field_type::kind::message;
  static constexpr auto kind_blob = field_type::kind::blob;
  binary_net out_;
  std::size_t count_ = 0;
};

void write_blob(const blob& b, protozero::pbf_writer out) {
  std::string dims;
  if (!b.dims.empty()) protozero::pbf_writer(dims).add_packed_int64(1, b.dims.begin(), b.dims.end());
  out.add_message(7, dims);  // also if it is empty: a scalar
  out.add_bytes(5, reinterpret_cast<const char*>(b.values->data()), b.values->size() * sizeof(float));
}

std::int64_t integer_of(const std::string& text) {
  std::int64_t v = 0;
  if (!read_number(text, v)) throw damage{"'" + text + "' is no integer"};
  return v;
}

void write_fields(const proto_field& from, const std::string& type, const std::vector<blob>& blobs, protozero::pbf_writer& out) {
  using enum field_type::kind;
  const auto* fields = message_named(type);
  std::vector<std::int64_t> together;
  for (std::size_t i = 0; i < from.fields.size(); ++i) {
    const auto& f = from.fields[i];
    const auto* t = fields ? fields->find(f.name) : nullptr;
    if (!t) throw damage{"the schema has no " + type + "." + f.name};
    float single = 0;
    switch (t->what) {
      case text: out.add_string(t->number, f.text); break;
      case flag: out.add_bool(t->number, f.text == "true"); break;
      case word: out.add_int64(t->number, enum_number(t->type, f.text)); break;
      case real:
        if (!read_number(f.text, single)) throw damage{"'" + f.text + "' is no number"};
        out.add_float(t->number, single);
        break;
      case integer:
        if (!t->packed) {
          out.add_int64(t->number, integer_of(f.text));
          break;
        }
        together.push_back(integer_of(f.text));
        if (i + 1 < from.fields.size() && from.fields[i + 1].name == f.name) break;
        out.add_packed_int64(t->number, together.begin(), together.end());
        together.clear();
        break;
      case field_type::kind::message: {
        protozero::pbf_writer inner(out, t->number);
        write_fields(f, t->type, blobs, inner);
        break;
      }
      case field_type::kind::blob:
        write_blob(blobs.at(static_cast<std::size_t>(integer_of(f.text))), protozero::pbf_writer(out, t->number));
        break;
    }
  }
}

}  // namespace

std::string blob::shape_text() const {
  std::string s;
  for (const auto d : dims) s += (s.empty() ? "" : "x") + std::to_string(d);
  return s.empty() ? "scalar" : s;
}

const blob& binary_net::blob_of(const proto_field& f) const {
  std::size_t index = 0;
  const bool good = f.what == proto_field::kind::blob && read_number(f.text, index) && index < blobs.size();
  invariant(good, "a field of kind blob has the index of a blob");
  return blobs[index];
}

expected<binary_net, error> parse_binary_net(const void* data, std::size_t bytes) {
  try {
    return net_reader().read(protozero::pbf_reader(static_cast<const char*>(data), bytes));
  } catch (const protozero::exception& e) {
    return unexpected(error(std::string("is no .caffemodel, or it is damaged: ") + e.what()));
  } catch (const damage& d) {
    return unexpected(error("is no .caffemodel, or it is damaged: " + d.what));
  }
}

expected<std::string, error> binary_of(const binary_net& net) {
  constexpr std::size_t most = (std::size_t{1} << 31) - 1;
  std::size_t bytes = 0;
  for (const auto& b : net.blobs) bytes += b.values->size() * sizeof(float);
  if (bytes > most) return unexpected(error("the weights have more than 2 GiB, which a .caffemodel cannot hold"));
  std::string out;
  out.reserve(bytes + (std::size_t{1} << 16));
  try {
    protozero::pbf_writer to(out);
    write_fields(net.net, "NetParameter", net.blobs, to);
  } catch (const damage& d) {
    return unexpected(error(d.what));
  }
  if (out.size() > most) return unexpected(error("the net has more than 2 GiB, which a .caffemodel cannot hold"));
  return out;
}

}  // namespace troupe::caffe
