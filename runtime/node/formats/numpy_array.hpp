// Arrays that numpy.save and numpy.savez have written, for sources of examples.
//   in a folder   NAME.npy, read when it is used
//   in FILE.npz   the member NAME.npy (a zip archive, stored or compressed), kept in memory
// Errors: values that name the file and the array. Any bytes give an array or an error.
// Threads: an opened array is read-only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/npy_file.hpp"

namespace troupe {

struct numpy_array {
  std::string name;  // "mnist.npz: x_train", for messages
  npy_header header;
  std::shared_ptr<const random_bytes> bytes;
  std::uint64_t memory = 0;  // bytes that were allocated for it; 0: it is read when it is used

  std::int64_t rows() const { return header.extents.empty() ? 0 : header.extents[0]; }
  std::int64_t row_count() const;                                             // numbers in a row
  std::string row_text() const;                                               // "28x28"; "scalar" for one axis
  void read_row(std::int64_t row, std::uint8_t* out) const;                   // as in the file; throws std::runtime_error
  std::vector<double> numbers(std::int64_t first, std::int64_t count) const;  // of all, in order; likewise
};

// The array in bytes of a .npy file. `name`: for messages.
expected<numpy_array> numpy_array_of(std::string name, std::shared_ptr<const random_bytes> bytes);

// An error if `path` is neither a folder nor an .npz file that can be read.
expected<void> check_numpy_place(const std::string& path);
// `path`: a folder or an .npz file. `most`: bytes that a member of an .npz file may take.
expected<numpy_array> open_numpy(const std::string& path, const std::string& name, std::uint64_t most);

}  // namespace troupe
