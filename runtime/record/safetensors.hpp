// Named tensors in a file in the safetensors format (github.com/huggingface/safetensors): u64
// little-endian length of the header, the header (JSON, padded with spaces), then the tensors'
// bytes without gaps. Other tools can read these files.
//
// Troupe adds checksums in __metadata__, as the format allows:
//   "sha256"          the first entry: of the header's text with these 64 digits as zeros
//   "sha256/<tensor>" of the tensor's bytes
// so that a flipped bit is detected and located. They are checked whenever present, and not
// returned as metadata.
//
// Element types: F64, F32, BF16, I32 and U8 are types of Troupe; F16 and floats of 8 bits become
// f32, which has all their values. Tensors of the other types of the format (integers, BOOL, ...),
// which no weights have, are checked and left out.
//
// Invariants of accepted files: header <= 100 MB; known dtypes; rank <= 6; every tensor's bytes are
// shape x dtype; the tensors cover the data exactly, without gap or overlap; names are unique.
// Entries are returned in the order of the header, and the writer keeps the given order (offsets
// are by descending element size, so that every tensor is aligned to its elements).
// Errors: values that name file and tensor. No content is executed, and every length is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

using named_tensors = std::vector<std::pair<std::string, tensor>>;
using metadata_map = std::map<std::string, std::string>;

struct record_error {
  std::string file;
  std::string tensor;  // empty: the error is not about one tensor
  std::string message;
  std::string to_string() const;  // "FILE: tensor 'conv1.weight': checksum ..."
};

struct safetensors_content {
  metadata_map metadata;
  named_tensors named;  // frozen; views of the file's bytes in memory, except those of converted types
  // Names and dtypes ("I64") of tensors that are left out.
  std::vector<std::pair<std::string, std::string>> left_out = {};
};

enum class integrity : std::uint8_t {
  when_present,  // files of other tools have no checksums
  required,      // checkpoints
};

// Atomic (write_file_atomically).
expected<void, record_error> write_safetensors(const std::string& path, const named_tensors& named,
                                               const metadata_map& metadata = {});

// The bytes of such a file. Errors do not name a file.
expected<std::string, record_error> safetensors_bytes(const named_tensors& named, const metadata_map& metadata = {});

expected<safetensors_content, record_error> read_safetensors(const std::string& path, integrity check = integrity::when_present);

// The metadata alone. Checks the header, its checksum, and that the file has the bytes of all
// tensors, with the errors of read_safetensors, but reads none of these bytes: a flipped bit in
// them is not detected. Use it where no tensor is used.
expected<metadata_map, record_error> read_safetensors_metadata(const std::string& path, integrity check = integrity::when_present);

// The same as read_safetensors for bytes in memory, which `owner` keeps alive and which must not
// change.
expected<safetensors_content, record_error> parse_safetensors(std::shared_ptr<const void> owner, const void* data,
                                                              std::size_t bytes, integrity check = integrity::when_present);

}  // namespace troupe
