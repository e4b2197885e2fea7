// HDF5 files as h5py writes them.
#pragma once

#include <string>

namespace troupe::hdf5_test {

// data u1 [4, 3, 4] = 0, 1, 2, ...; label i4 [4]; not chunked
std::string contiguous();
// data f4 [2, 3, 2], a gzip chunk for each example
std::string chunked();
// as contiguous, of big-endian floats in chunks [2, 3, 4] with shuffle, gzip and checksums; libver
// = "latest"
std::string latest();

}  // namespace troupe::hdf5_test
