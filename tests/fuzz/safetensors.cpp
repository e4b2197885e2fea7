// Fuzz target: safetensors files, with and without Troupe's checksums, and their headers alone.
#include <memory>

#include "runtime/record/safetensors.hpp"
#include "tests/fuzz/as_file.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::fuzz {
namespace {

void read_safetensors_bytes(input in) {
  const auto owner = std::make_shared<const std::string>(text(in));
  const as_file file(in);
  for (const auto check : {integrity::when_present, integrity::required}) {
    const auto r = parse_safetensors(owner, owner->data(), owner->size(), check);
    const auto metadata = read_safetensors_metadata(file.path(), check);
    must(metadata || !metadata.error().message.empty(), "its header is refused without a reason");
    if (!r) {
      must(!r.error().message.empty(), "refused without a reason");
      continue;
    }
    must(metadata && *metadata == r->metadata, "the header alone is read differently");
    std::size_t bytes = 0;
    for (const auto& [name, t] : r->named) bytes += static_cast<std::size_t>(t.count()) * size_of(t.type());
    must(bytes <= owner->size(), "the tensors are larger than the file");
  }
}

std::vector<std::string> sound_safetensors() {
  const auto foreign = [](const std::string& header, std::size_t data) {
    std::string s(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) s[i] = static_cast<char>(header.size() >> (8 * i));
    return s + header + std::string(data, '\1');
  };
  test::temp_dir dir;
  auto values = std::make_shared<std::vector<float>>(6, 1.5f);
  const auto t = tensor::adopt(values, values->data(), shape{2, 3}, dtype::f32);
  must(write_safetensors(dir.file("w"), {{"conv1.weight", t}, {"conv1.weight@momentum", t}}, {{"format", "pt"}, {"step", "7"}})
           .has_value(),
       "a file cannot be written");
  return {
      text(test::read_bytes(dir.file("w"))),
      foreign(R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
              11),
      foreign(R"({"__metadata__":{"a":"\u00e9"},"w":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})", 2)};
}

const entry safetensors_entry({"safetensors", read_safetensors_bytes, sound_safetensors});

}  // namespace
}  // namespace troupe::fuzz
