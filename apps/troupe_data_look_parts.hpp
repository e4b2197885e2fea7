// Readers of `troupe new --data`, one for each kind of data (troupe_data_look.hpp), and what they
// share. Only those files include this header.
#pragma once

#include <cstdint>
#include <string>

#include "apps/troupe_data_look.hpp"

namespace troupe::data_look {

// Rows of a table, or labels of an array, that are looked at.
inline constexpr std::size_t most_records = 20000;
// Different values of a label that names classes: numbers that may be values too, and others.
inline constexpr std::size_t most_classes_of_numbers = 20, most_named_classes = 1000;
inline constexpr double test_share = 0.2;

std::string lower(std::string s);
std::string counted(std::size_t n, const char* what);  // "20,000 rows"

// Each: the source for the file or folder `path`, and its options. Errors name the file.
expected<looked_at> look_at_table(const std::string& path, const std::string& label);
expected<looked_at> look_at_arrays(const std::string& path);  // an .npz file, or a folder of .npy files
expected<looked_at> look_at_images(const std::string& path);

}  // namespace troupe::data_look
