#include "runtime/cluster/messages.hpp"

#include "runtime/base/field_archive.hpp"

namespace troupe::control {
namespace {

// An optional value is a bool, then the value if there is one.
struct writer : field_writer<writer> {
  using field_writer::put;
  template <class T>
  void put(const std::optional<T>& v) {
    put(v.has_value());
    if (v) put(*v);
  }
};
struct reader : field_reader<reader> {
  using field_reader::field_reader;
  using field_reader::get;
  template <class T>
  void get(std::optional<T>& v) {
    bool has = false;
    get(has);
    v.reset();
    if (!has) return;
    T value{};
    get(value);
    v = std::move(value);
  }
};

template <std::size_t I = 0>
std::optional<message> decode_as(std::size_t index, reader& in) {
  if constexpr (I == std::variant_size_v<message>) {
    return std::nullopt;
  } else {
    if (index != I) return decode_as<I + 1>(index, in);
    std::variant_alternative_t<I, message> m;
    in.get(m);
    if (!in.complete()) return std::nullopt;
    return message(std::move(m));
  }
}

}  // namespace

std::string encode(const message& m) {
  writer w;
  std::visit([&](const auto& x) { w.put(x); }, m);
  return std::move(w.out);
}

std::optional<message> decode(std::uint16_t type, const char* data, std::size_t bytes) {
  if (type == 0 || bytes > max_message) return std::nullopt;
  reader in(data, bytes);
  return decode_as(type - 1u, in);
}

}  // namespace troupe::control

template class troupe::one_of<troupe::control::message_kinds>;
