// Labelled images as folders: FOLDER/CLASS/*.png, *.jpg, *.jpeg (in any case), at any depth below
// CLASS, as in torchvision's ImageFolder. The order is that of the bytes of the names, not the file
// system's: classes by name, in a class folders by path, in a folder files by name. Names that
// begin with a dot and files with other endings are skipped. Images in formats that cannot be read
// (.gif, .webp, ...) are an error, so that no job trains on part of a data set by mistake. Symbolic
// links are followed; a link to a folder above it is an error.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe::images {

struct class_folder {
  std::string name;
  std::vector<std::string> files;  // paths that begin with FOLDER; may be empty
};

// The message names the file or folder.
expected<std::vector<class_folder>> list_classes(const std::string& folder);
// All images below a folder; at least one.
expected<std::vector<std::string>> list_images(const std::string& folder);

}  // namespace troupe::images
