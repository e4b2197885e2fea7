// Labelled images as folders: FOLDER/CLASS/*.png, *.jpg, *.jpeg (in any case), at any depth below
// CLASS; torchvision's ImageFolder. The order is that of bytes and not the file system's: classes
// by name, in a class folders by path, in a folder files by name. Names that begin with a dot and
// files with other endings are passed over; but images in formats that are not read (.gif, .webp,
// ...) are an error, so that nobody trains on part of a data set. Symbolic links are followed; one
// that leads back up is an error.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace troupe::images {

struct class_folder {
  std::string name;
  std::vector<std::string> files;  // paths that begin with FOLDER; may be empty
};

// The message names what it is about.
std::variant<std::vector<class_folder>, std::string> list_classes(const std::string& folder);

}  // namespace troupe::images
