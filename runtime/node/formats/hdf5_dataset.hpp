// Datasets of HDF5 files as arrays in memory, for sources of examples. Several files are joined
// along the first axis, as Caffe's HDF5Data layer does.
// The HDF5 library trusts its files, so a child process reads each file (child_process.hpp). Its
// death is an error.
// Errors: values that name the file and the dataset. A dataset whose numbers are in other files
// (external storage, external links, virtual datasets) is refused, because a node may read only
// the files that the job names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/formats/numpy_array.hpp"

namespace troupe {

// The HDF5 files that `path` names: itself, or those of a text file with a path in each line.
// Relative paths are below the text file's folder. Does not open the listed files.
expected<std::vector<std::string>> hdf5_files(const std::string& path);

// `most`: bytes that the dataset may take over all files.
expected<numpy_array> open_hdf5(const std::vector<std::string>& files, const std::string& dataset, std::uint64_t most);

}  // namespace troupe
