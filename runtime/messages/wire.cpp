#include "runtime/messages/wire.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <utility>

#include "ops/region_of.hpp"
#include "runtime/base/field_archive.hpp"
#include "runtime/base/invariant.hpp"
#include "runtime/messages/wire_fields.hpp"

namespace troupe {
namespace {

template <class M>
constexpr bool stays_home = std::same_as<M, finished>;

enum tensor_state : std::uint8_t { state_empty, state_declared, state_backed };
constexpr std::size_t tensor_fixed_bytes = 4;

constexpr std::size_t aligned(std::size_t n) { return (n + wire_alignment - 1) / wire_alignment * wire_alignment; }

class writer : public field_writer<writer> {
 public:
  using field_writer::put;
  void put(const tensors& list) {
    invariant(list.size() <= wire_max_tensors, "a list of a message has at most wire_max_tensors tensors");
    put(static_cast<std::uint32_t>(list.size()));
    for (const auto& t : list) put(t);
  }
  void put(const tensor& t) {
    (*this)(!t           ? state_empty
            : t.backed() ? state_backed
                         : state_declared,
            t ? t.type() : dtype::f32, static_cast<std::uint8_t>(t.dims().rank()), std::uint8_t{0});
    for (int i = 0; i < t.dims().rank(); ++i) put(t.dims()[i]);
    if (t.backed() && t.bytes() > 0) payloads.push_back(&t);
  }

  std::vector<const tensor*> payloads;
};

// Reads fields from [begin, end) of a message, and the payloads after them.
class reader : public field_reader<reader> {
 public:
  reader(const std::uint8_t* data, std::size_t bytes, std::size_t begin, std::size_t end, std::shared_ptr<const void> owner,
         std::span<const wire_piece> elsewhere = {})
      : field_reader(data + begin, end - begin),
        data_(data),
        bytes_(bytes),
        payload_end_(end),
        owner_(std::move(owner)),
        elsewhere_(elsewhere) {}

  using field_reader::get;
  void get(tensors& list) { get_list(list, count(tensor_fixed_bytes, "a list has more tensors than allowed", wire_max_tensors)); }
  void get(tensor& t) {
    std::uint8_t state = 0, type = 0, rank = 0, zero = 0;
    (*this)(state, type, rank, zero);
    if (!error.empty()) return;
    if (state > state_backed) return fail("unknown tensor state");
    if (type > static_cast<std::uint8_t>(dtype::u8)) return fail("unknown dtype");
    if (rank > shape::max_rank) return fail("a tensor's rank is too large: " + std::to_string(rank));
    if (zero != 0) return fail("a reserved byte is not zero");
    if (state == state_empty && (rank != 0 || type != 0)) return fail("an empty tensor has a shape");
    const auto t_type = static_cast<dtype>(type);
    shape dims;
    if (!get_dims(rank, size_of(t_type), dims) || state == state_empty) return;
    t = state == state_declared ? tensor::declare(dims, t_type) : view(dims, t_type);
  }

  // Fails if bytes of the fields or of the payloads were not read.
  void end() {
    if (left_ != 0) fail("trailing bytes after the fields");
    if (payload_end_ - gone_ != bytes_ || !elsewhere_.empty()) fail("trailing bytes after the payload");
  }

 private:
  bool get_dims(int rank, std::size_t element, shape& dims) {
    // Zeros count as ones, so that the partial products in class shape cannot overflow either.
    auto bytes = static_cast<std::int64_t>(element);
    for (int i = 0; i < rank; ++i) {
      std::int64_t d = 0;
      get(d);
      if (!error.empty()) return false;
      if (d < 0) return fail("a tensor's extent is negative"), false;
      if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(d, 1), &bytes)) return fail("a tensor's size overflows"), false;
      dims.push_back(d);
    }
    return true;
  }
  tensor view(const shape& dims, dtype type) {
    const auto n = static_cast<std::size_t>(dims.count()) * size_of(type);
    if (n == 0) return tensor::adopt(owner_, data_, dims, type);
    const auto begin = aligned(payload_end_), here = begin - gone_;
    const bool stands_here = elsewhere_.empty() || elsewhere_.front().at != begin;
    if (here > bytes_ || (stands_here ? n : n % wire_alignment) > bytes_ - here)
      return fail("a tensor's payload ends early"), tensor{};
    for (auto i = payload_end_ - gone_; i < here; ++i)
      if (data_[i] != 0) return fail("padding is not zero"), tensor{};
    const auto lies = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % wire_alignment == 0; };
    payload_end_ = begin + n;
    if (stands_here) {
      if (!lies(data_)) return fail("the buffer is not aligned"), tensor{};
      return tensor::adopt(owner_, data_ + here, dims, type);
    }
    const auto& piece = elsewhere_.front();
    if (piece.bytes != n || !lies(piece.data)) return fail("a separate payload does not match its tensor"), tensor{};
    gone_ += n / wire_alignment * wire_alignment;
    elsewhere_ = elsewhere_.subspan(1);
    return tensor::adopt(piece.owner, static_cast<const std::uint8_t*>(piece.data), dims, type);
  }

  const std::uint8_t* data_;
  std::size_t bytes_;
  std::size_t payload_end_;  // end of the last payload so far, as an offset in the message
  std::shared_ptr<const void> owner_;
  std::span<const wire_piece> elsewhere_;  // pieces not used yet
  std::size_t gone_ = 0;                   // offset in the message minus offset in the buffer, after the pieces so far
};

template <class M>
message read_body(reader& r) {
  M body;
  if constexpr (!stays_home<M>) wire::fields(r, body);
  return body;
}

struct body_codec {
  message (*read)(reader&);
  bool stays_home;
};
constexpr std::size_t bodies = std::variant_size_v<message>;
static_assert(bodies <= 255);

template <std::size_t... I>
constexpr std::array<body_codec, bodies> make_codecs(std::index_sequence<I...>) {
  return {body_codec{read_body<std::variant_alternative_t<I, message>>, stays_home<std::variant_alternative_t<I, message>>}...};
}
constexpr auto codecs = make_codecs(std::make_index_sequence<bodies>{});

constexpr std::array<std::uint8_t, wire_alignment> zeros{};

}  // namespace

bool host_only(const message& m) { return codecs[m.index()].stays_home; }

std::vector<wire_part> encode(const envelope& e) {
  if (host_only(e.body)) return {};
  writer w;
  wire::fields(w, e.h);
  w(wire_version, static_cast<std::uint8_t>(e.body.index()), std::uint16_t{0}, std::uint32_t{0});
  std::visit(
      [&]<class M>(const M& body) {
        if constexpr (!stays_home<M>) wire::fields(w, body);
      },
      e.body);
  const auto length = static_cast<std::uint32_t>(w.out.size() - wire_prefix_bytes);
  std::memcpy(w.out.data() + wire_prefix_bytes - sizeof length, &length, sizeof length);
  if (!w.payloads.empty()) w.out.resize(aligned(w.out.size()));

  std::vector<wire_part> parts;
  parts.reserve(2 * w.payloads.size() + 1);
  const auto head = std::make_shared<const std::string>(std::move(w.out));
  parts.push_back({head->data(), head->size(), head, nullptr});
  for (const auto* t : w.payloads) {
    const auto before = parts.back().bytes;  // parts begin aligned
    if (const auto gap = aligned(before) - before; gap > 0) parts.push_back({zeros.data(), gap, nullptr, nullptr});
    parts.push_back({t->raw(), t->bytes(), t->owner(), region_of(*t), true});
  }
  return parts;
}

expected<void> decode(const void* data, std::size_t bytes, std::shared_ptr<const void> owner, envelope& out,
                      std::span<const wire_piece> elsewhere) {
  const auto refuse = [](std::string what) { return unexpected(error(std::move(what))); };
  if (bytes < wire_prefix_bytes) return refuse("the message is shorter than its prefix");
  const auto* p = static_cast<const std::uint8_t*>(data);
  envelope e;
  reader prefix(p, wire_prefix_bytes, 0, wire_prefix_bytes, nullptr);
  wire::fields(prefix, e.h);
  std::uint8_t version = 0, index = 0;
  std::uint16_t zero = 0;
  std::uint32_t length = 0;
  prefix(version, index, zero, length);
  if (version != wire_version)
    return refuse("wire version is " + std::to_string(version) + ", must be " + std::to_string(wire_version));
  if (index >= bodies) return refuse("unknown body " + std::to_string(index));
  if (codecs[index].stays_home) return refuse("a host-only message must not be sent between nodes");
  if (zero != 0) return refuse("a reserved byte is not zero");
  if (e.h.phase > 1) return refuse("unknown phase " + std::to_string(e.h.phase));
  if (length > bytes - wire_prefix_bytes) return refuse("the fields are longer than the message");
  reader body(p, bytes, wire_prefix_bytes, wire_prefix_bytes + length, std::move(owner), elsewhere);
  e.body = codecs[index].read(body);
  body.end();
  if (!body.error.empty()) return refuse(name_of(e.body) + (": " + body.error));
  out = std::move(e);
  return {};
}

}  // namespace troupe
