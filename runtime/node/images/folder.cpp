#include "runtime/node/images/folder.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace troupe::images {
namespace {

constexpr std::size_t max_depth = 32;
constexpr std::int64_t max_entries = 100'000'000;  // symbolic links can make a huge tree out of a few folders

constexpr std::array read_endings{".png", ".jpg", ".jpeg"};
constexpr std::array other_endings{".bmp", ".gif", ".webp", ".tif",  ".tiff", ".ppm", ".pgm",
                                   ".pbm", ".jp2", ".heic", ".avif", ".jxl",  ".jfif"};

// The file name's ending in lower case.
std::string ending_of(std::string_view name) {
  const auto dot = name.rfind('.');
  std::string s(dot == std::string_view::npos ? std::string_view{} : name.substr(dot));
  for (auto& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return s;
}

template <class List>
bool is_one_of(const std::string& s, const List& list) {
  return std::any_of(list.begin(), list.end(), [&](const char* e) { return s == e; });
}

struct closer {
  void operator()(DIR* d) const { ::closedir(d); }
};

struct inode {
  dev_t device;
  ino_t number;
  bool operator==(const inode& o) const { return device == o.device && number == o.number; }
};

// The names in one folder, sorted by their bytes.
struct content {
  std::vector<std::string> folders, files;
};

class walk {
 public:
  const std::string& error() const { return error_; }

  bool read(const std::string& folder, content& out) {
    const std::unique_ptr<DIR, closer> d(::opendir(folder.c_str()));
    if (!d) return fail(folder, std::string("cannot open the folder: ") + std::strerror(errno));
    for (;;) {
      errno = 0;
      const auto* e = ::readdir(d.get());  // thread-safe: no other thread uses this DIR
      if (!e) break;
      if (e->d_name[0] != '.' && !take(folder, e->d_name, out)) return false;
    }
    if (errno != 0) return fail(folder, std::string("cannot read the folder: ") + std::strerror(errno));
    std::sort(out.folders.begin(), out.folders.end());
    std::sort(out.files.begin(), out.files.end());
    return true;
  }

  // Appends the images below `folder`, as (folder, name).
  bool collect(const std::string& folder, std::vector<std::pair<std::string, std::string>>& out) {
    struct stat st {};
    if (::stat(folder.c_str(), &st) != 0) return fail(folder, std::strerror(errno));
    const inode here{st.st_dev, st.st_ino};
    if (std::find(above_.begin(), above_.end(), here) != above_.end()) return fail(folder, "a symbolic link to a folder above it");
    if (above_.size() >= max_depth) return fail(folder, "more than " + std::to_string(max_depth) + " folders deep");
    content c;
    if (!read(folder, c)) return false;
    for (auto& f : c.files) out.emplace_back(folder, std::move(f));
    above_.push_back(here);
    for (const auto& f : c.folders)
      if (!collect(folder + "/" + f, out)) return false;
    above_.pop_back();
    return true;
  }

 private:
  bool take(const std::string& folder, const std::string& name, content& out) {
    const auto path = folder + "/" + name;
    if (++entries_ > max_entries) return fail(path, "more than " + std::to_string(max_entries) + " files and folders");
    struct stat st {};
    const bool found = ::stat(path.c_str(), &st) == 0;  // follows links
    if (found && S_ISDIR(st.st_mode)) {
      out.folders.push_back(name);
      return true;
    }
    if (!found) return fail(path, std::strerror(errno));  // a dangling or circular link is an error: it may have been a class
    const auto ending = ending_of(name);
    if (is_one_of(ending, other_endings)) return fail(path, "only PNG and JPEG images can be read: convert it, or move it away");
    if (!is_one_of(ending, read_endings)) return true;
    if (!S_ISREG(st.st_mode)) return fail(path, "not a regular file");
    out.files.push_back(name);
    return true;
  }

  bool fail(const std::string& where, const std::string& what) {
    error_ = where + ": " + what;
    return false;
  }

  std::vector<inode> above_;
  std::int64_t entries_ = 0;
  std::string error_;
};

}  // namespace

expected<std::vector<class_folder>> list_classes(const std::string& folder) {
  walk w;
  content top;
  if (!w.read(folder, top)) return unexpected(w.error());
  std::vector<class_folder> out;
  for (auto& name : top.folders) {
    std::vector<std::pair<std::string, std::string>> found;
    if (!w.collect(folder + "/" + name, found)) return unexpected(w.error());
    std::sort(found.begin(), found.end());
    class_folder c{std::move(name), {}};
    for (const auto& [where, file] : found) c.files.push_back(where + "/" + file);
    out.push_back(std::move(c));
  }
  if (out.empty()) return unexpected(error(folder + ": no class folders found: put images into " + folder + "/CLASS/"));
  return out;
}

expected<std::vector<std::string>> list_images(const std::string& folder) {
  walk w;
  std::vector<std::pair<std::string, std::string>> found;
  if (!w.collect(folder, found)) return unexpected(w.error());
  if (found.empty()) return unexpected(error(folder + ": no images found (.png, .jpg, .jpeg)"));
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (const auto& [where, file] : found) out.push_back(where + "/" + file);
  return out;
}

}  // namespace troupe::images
