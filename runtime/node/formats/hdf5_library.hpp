// The part of the HDF5 library that the source hdf5 calls. The library is loaded at its first use,
// so that Troupe neither needs it nor brings its dependencies. It trusts its files: all calls are
// made in a child process (child_process.hpp), which has one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/result.hpp"

namespace troupe::hdf5 {

using id = std::int64_t;  // hid_t since version 1.10; < 0: the call failed
using extent = unsigned long long;

constexpr unsigned read_only = 0;
constexpr id whole = 0, usual = 0;  // H5S_ALL, H5P_DEFAULT and H5E_DEFAULT
constexpr int integers = 0, floats = 1, virtual_layout = 3;

// size: one member for each function
struct library {
  int (*silence)(id stack, void* report, void* client);  // H5Eset_auto2
  id (*open_file)(const char* path, unsigned flags, id access);
  int (*close_file)(id);
  id (*open_dataset)(id in, const char* name, id access);
  int (*close_dataset)(id);
  id (*space_of)(id dataset);
  id (*type_of)(id dataset);
  id (*creation_of)(id dataset);
  int (*read)(id dataset, id memory_type, id memory_space, id file_space, id transfer, void* out);
  int (*close_space)(id);
  int (*rank)(id space);
  int (*extents)(id space, extent* now, extent* most);
  int (*close_type)(id);
  int (*class_of)(id type);
  std::size_t (*size_of)(id type);
  int (*sign_of)(id type);  // of integers: 0 = unsigned
  int (*close_list)(id);
  int (*layout)(id creation);
  int (*external_files)(id creation);
  std::ptrdiff_t (*file_name)(id object, char* out, std::size_t bytes);

  // Types of numbers in memory.
  id f4, f8, i1, i2, i4, i8, u1, u2, u4;
};

// Errors name the package to install. Thread-safe.
expected<library*> open_library();

}  // namespace troupe::hdf5
