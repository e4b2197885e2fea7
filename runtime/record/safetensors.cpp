#include "runtime/record/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string_view>

#include "runtime/record/file_io.hpp"
#include "runtime/record/paced.hpp"
#include "runtime/record/safetensors_header.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t max_header = 100'000'000;  // the format's own limit
constexpr std::size_t header_alignment = 64;     // the format requires 8
constexpr std::size_t first_read = 64 << 10;     // has the whole header of most files
constexpr std::string_view sealed_prefix = R"({"__metadata__":{"sha256":")";
constexpr std::size_t digest_digits = 64;
constexpr const char* header_key = "sha256";
const std::string tensor_prefix = "sha256/";

using entry = detail::safetensors_entry;
using verdict = expected<void, record_error>;

unexpected<record_error> wrong(std::string tensor, std::string message) {
  return unexpected(record_error{{}, std::move(tensor), std::move(message)});
}

// Positions of `named` in the order of their data: largest element size first, so that every tensor
// is aligned to its elements.
std::vector<std::size_t> data_order(const named_tensors& named) {
  std::vector<std::size_t> order(named.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return size_of(named[a].second.type()) > size_of(named[b].second.type()); });
  return order;
}

// Bytes of a tensor by its shape. Empty if that overflows.
std::optional<std::uint64_t> bytes_of(const shape& dims, const detail::safetensors_type& type) {
  auto n = static_cast<std::int64_t>(type.bits);
  bool none = false;
  for (int i = 0; i < dims.rank(); ++i) {
    none = none || dims[i] == 0;  // the other extents must not overflow either
    if (__builtin_mul_overflow(n, std::max<std::int64_t>(dims[i], 1), &n)) return std::nullopt;
  }
  return none ? 0 : (static_cast<std::uint64_t>(n) + 7) / 8;
}

verdict check_writable(const named_tensors& named, const metadata_map& metadata) {
  std::set<std::string_view> seen;
  for (const auto& [name, t] : named) {
    if (!t.backed()) return wrong(name, "has no data");
    if (!bytes_of(t.dims(), detail::safetensors_type_of(t.type()))) return wrong(name, "its size overflows");
    if (!detail::printable(name)) return wrong({}, "a tensor's name has control characters");
    if (name == "__metadata__") return wrong(name, "the name is reserved");
    if (!seen.insert(name).second) return wrong(name, "the name is given twice");
  }
  for (const auto& [key, value] : metadata)
    if (key == header_key || key.rfind(tensor_prefix, 0) == 0) return wrong({}, "metadata '" + key + "' is reserved");
  return {};
}

std::string entry_text(const tensor& t, std::size_t begin) {
  std::string s = R"({"dtype":")" + std::string(detail::safetensors_type_of(t.type()).name) + R"(","shape":[)";
  for (int i = 0; i < t.dims().rank(); ++i) {
    if (i > 0) s += ',';
    s += std::to_string(t.dims()[i]);
  }
  return s + R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(begin + t.bytes()) + "]}";
}

void write_length(std::string& head, std::size_t n) {
  for (std::size_t i = 0; i < length_bytes; ++i, n >>= 8) head[i] = static_cast<char>(n & 255);
}

// Length and header, with the header's digest at its beginning.
expected<std::string, record_error> header_text(const named_tensors& named, const metadata_map& metadata) {
  std::vector<std::size_t> begin(named.size());
  std::size_t at = 0;
  for (auto i : data_order(named)) {
    begin[i] = at;
    at += named[i].second.bytes();
  }
  std::string meta, entries;
  for (const auto& [key, value] : metadata) {
    const auto k = detail::quoted(key), v = detail::quoted(value);
    if (!k || !v) return wrong({}, "a key or value of the metadata is not UTF-8");
    meta += "," + *k + ":" + *v;
  }
  for (std::size_t i = 0; i < named.size(); ++i) {
    const auto& [name, t] = named[i];
    const auto key = detail::quoted(name), sum_key = detail::quoted(tensor_prefix + name);
    if (!key) return wrong(name, "the name is not UTF-8");
    meta += "," + *sum_key + ":\"" + sha256_hex(t.raw(), t.bytes()) + "\"";
    entries += "," + *key + ":" + entry_text(t, begin[i]);
  }
  std::string text(length_bytes, '\0');
  text += sealed_prefix;
  text += std::string(digest_digits, '0') + "\"" + meta + "}" + entries + "}";
  while (text.size() % header_alignment != 0) text += ' ';
  const auto n = text.size() - length_bytes;
  if (n > max_header) return wrong({}, "the header would have " + std::to_string(n) + " bytes, the limit is 100,000,000");
  write_length(text, n);
  const auto digest = sha256_hex(text.data() + length_bytes, n);
  std::memcpy(text.data() + length_bytes + sealed_prefix.size(), digest.data(), digest_digits);
  return text;
}

// Checks the header's own digest, if there is one.
verdict check_seal(std::string_view text, integrity check) {
  if (text.substr(0, sealed_prefix.size()) != sealed_prefix || text.size() < sealed_prefix.size() + digest_digits) {
    if (check == integrity::required) return wrong({}, "the header has no checksum");
    return {};
  }
  const auto stored = text.substr(sealed_prefix.size(), digest_digits);
  const std::string zeros(digest_digits, '0');
  sha256 h;
  h.update(text.data(), sealed_prefix.size());
  h.update(zeros.data(), zeros.size());
  const auto rest = text.substr(sealed_prefix.size() + digest_digits);
  h.update(rest.data(), rest.size());
  const auto digest = h.finish();
  if (hex_of(digest.data(), digest.size()) != stored) return wrong({}, "the header is damaged: its checksum differs");
  return {};
}

// Each tensor's range fits its shape, and together they cover [0, data_bytes) exactly.
verdict check_ranges(const std::vector<entry>& entries, std::uint64_t data_bytes) {
  std::vector<const entry*> order;
  for (const auto& e : entries) {
    const auto n = bytes_of(*e.dims, *e.type);
    if (!n) return wrong(e.name, "its size overflows");
    if (e.offsets[1] < e.offsets[0]) return wrong(e.name, "data_offsets end before they begin");
    if (e.offsets[1] - e.offsets[0] != *n)
      return wrong(e.name, "data_offsets span " + std::to_string(e.offsets[1] - e.offsets[0]) + " bytes, its shape needs " +
                               std::to_string(*n));
    order.push_back(&e);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offsets < b->offsets; });
  std::uint64_t end = 0;
  for (const auto* e : order) {
    if (e->offsets[0] < end) return wrong(e->name, "overlaps the tensor before it");
    if (e->offsets[0] > end) return wrong(e->name, std::to_string(e->offsets[0] - end) + " unused bytes before it");
    if (e->offsets[1] > data_bytes)
      return wrong(e->name, "truncated: its data ends at byte " + std::to_string(e->offsets[1]) + ", the file's at " +
                                std::to_string(data_bytes));
    end = e->offsets[1];
  }
  if (end < data_bytes) return wrong({}, std::to_string(data_bytes - end) + " bytes after the last tensor");
  return {};
}

verdict check_sum(const entry& e, const std::uint8_t* data, const metadata_map& metadata, integrity check) {
  const auto stored = metadata.find(tensor_prefix + e.name);
  if (stored == metadata.end()) {
    if (check == integrity::required) return wrong(e.name, "has no checksum");
    return {};
  }
  if (sha256_hex(data, e.offsets[1] - e.offsets[0]) != stored->second) return wrong(e.name, "damaged: its checksum differs");
  return {};
}

// For a type that Troupe reads.
tensor tensor_of(const entry& e, const std::uint8_t* data, const std::shared_ptr<const void>& owner) {
  if (e.type->small) {
    const auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(e.dims->count()) + 1);
    detail::widen(*e.type, data, static_cast<std::size_t>(e.dims->count()), values->data());
    return tensor::adopt(values, values->data(), *e.dims, dtype::f32);
  }
  const auto own = *e.type->own;
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(own) == 0) return tensor::adopt(owner, data, *e.dims, own);
  // Only in files of tools that do not order tensors by element size.
  const auto n = static_cast<std::size_t>(e.offsets[1] - e.offsets[0]);
  const auto copy = std::make_shared<std::vector<double>>(n / sizeof(double) + 1);
  std::memcpy(copy->data(), data, n);
  return tensor::adopt(copy, copy->data(), *e.dims, own);
}

// The length of the header of a file of `bytes` bytes, of which `data` has the first 8.
expected<std::size_t, record_error> header_length(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return wrong({}, "it is an empty file");
  if (bytes < length_bytes)
    return wrong({}, "truncated: " + std::to_string(bytes) + " bytes, the length of the header alone takes 8");
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) n |= std::uint64_t{data[i]} << (8 * i);
  if (n > max_header)
    return wrong({},
                 "this is no safetensors file: its header would have " + std::to_string(n) + " bytes, the limit is 100,000,000");
  if (n > bytes - length_bytes)
    return wrong(
        {}, "truncated: the header takes " + std::to_string(n) + " bytes, the file has " + std::to_string(bytes - length_bytes));
  return static_cast<std::size_t>(n);
}

// The header in `text`, of a file that has `data_bytes` bytes after it.
expected<detail::safetensors_header, record_error> checked_header(std::string_view text, std::size_t data_bytes, integrity check) {
  if (auto e = check_seal(text, check); !e) return unexpected(std::move(e).error());
  detail::safetensors_header h;
  if (record_error e; !detail::parse_header(text.data(), text.size(), h, e)) return unexpected(std::move(e));
  if (auto e = check_ranges(h.entries, data_bytes); !e) return unexpected(std::move(e).error());
  return h;
}

metadata_map without_sums(metadata_map m) {
  std::erase_if(m, [](const auto& kv) { return kv.first == header_key || kv.first.rfind(tensor_prefix, 0) == 0; });
  return m;
}

std::string_view header_of(const std::uint8_t* data, std::size_t length) {
  return {reinterpret_cast<const char*>(data) + length_bytes, length};
}

verdict parse(const std::shared_ptr<const void>& owner, const std::uint8_t* data, std::size_t bytes, integrity check,
              safetensors_content& out) {
  const auto length = header_length(data, bytes);
  if (!length) return unexpected(length.error());
  auto h = checked_header(header_of(data, *length), bytes - length_bytes - *length, check);
  if (!h) return unexpected(std::move(h).error());
  const auto* values = data + length_bytes + *length;
  for (const auto& e : h->entries)
    if (auto ok = check_sum(e, values + e.offsets[0], h->metadata, check); !ok) return ok;
  for (const auto& e : h->entries) {
    if (e.type->read())
      out.named.emplace_back(e.name, tensor_of(e, values + e.offsets[0], owner));
    else
      out.left_out.emplace_back(e.name, e.type->name);
  }
  out.metadata = without_sums(std::move(h->metadata));
  return {};
}

// Reads a second time only if the header is longer than `first` bytes.
expected<metadata_map, record_error> metadata_in(const std::string& path, std::size_t first, integrity check) {
  const auto file = read_file(path, first);
  if (!file) return wrong({}, file.error().text);
  const auto* data = static_cast<const std::uint8_t*>(file->data.get());
  const auto length = header_length(data, file->of_file);
  if (!length) return unexpected(length.error());
  const auto head = length_bytes + *length;
  if (head > file->bytes) return metadata_in(path, head, check);
  auto h = checked_header(header_of(data, *length), file->of_file - head, check);
  if (!h) return unexpected(std::move(h).error());
  return without_sums(std::move(h->metadata));
}

}  // namespace

std::string record_error::to_string() const {
  std::string s = file;
  if (!tensor.empty()) s += (s.empty() ? "tensor '" : ": tensor '") + tensor + "'";
  return s.empty() ? message : s + ": " + message;
}

expected<void, record_error> write_safetensors(const std::string& path, const named_tensors& named, const metadata_map& metadata) {
  return write_safetensors(path, named, metadata, before_write());
}

expected<void, record_error> write_safetensors(const std::string& path, const named_tensors& named, const metadata_map& metadata,
                                               const before_write& before) {
  const auto located = [&](record_error e) {
    e.file = path;
    return e;
  };
  if (auto e = check_writable(named, metadata); !e) return unexpected(located(std::move(e).error()));
  auto head = header_text(named, metadata);
  if (!head) return unexpected(located(std::move(head).error()));
  const auto& text = *head;
  std::vector<file_part> parts{{text.data(), text.size()}};
  for (auto i : data_order(named)) parts.push_back({named[i].second.raw(), named[i].second.bytes()});
  if (auto fine = write_file_atomically(path, parts, before); !fine)
    return unexpected(record_error{path, {}, std::move(fine).error().text});
  return {};
}

expected<std::string, record_error> safetensors_bytes(const named_tensors& named, const metadata_map& metadata) {
  if (auto e = check_writable(named, metadata); !e) return unexpected(std::move(e).error());
  auto bytes = header_text(named, metadata);
  if (!bytes) return bytes;
  for (auto i : data_order(named)) bytes->append(static_cast<const char*>(named[i].second.raw()), named[i].second.bytes());
  return bytes;
}

expected<safetensors_content, record_error> parse_safetensors(std::shared_ptr<const void> owner, const void* data,
                                                              std::size_t bytes, integrity check) {
  safetensors_content out;
  if (auto e = parse(owner, static_cast<const std::uint8_t*>(data), bytes, check, out); !e) return unexpected(std::move(e).error());
  return out;
}

expected<safetensors_content, record_error> read_safetensors(const std::string& path, integrity check) {
  auto file = read_file(path);
  if (!file) return unexpected(record_error{path, {}, std::move(file).error().text});
  const auto& f = *file;
  auto r = parse_safetensors(f.data, f.data.get(), f.bytes, check);
  if (!r) r.error().file = path;
  return r;
}

expected<metadata_map, record_error> read_safetensors_metadata(const std::string& path, integrity check) {
  auto r = metadata_in(path, first_read, check);
  if (!r) r.error().file = path;
  return r;
}

}  // namespace troupe
