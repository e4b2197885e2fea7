// Folders of images as data for `troupe new --data`: classes, splits, size and colours.
#include <algorithm>
#include <filesystem>

#include "apps/commands/prepare/new.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/images/folder.hpp"
#include "runtime/node/images/image_file.hpp"

namespace troupe::data_look {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_images = 200;

struct image_facts {
  std::int64_t height = 0, width = 0;  // of the first
  std::int64_t least = 0;              // side
  bool same = true, grey = true;
};

expected<image_facts> facts_of_images(const std::vector<std::string>& files) {
  image_facts f;
  const auto step = std::max<std::size_t>(files.size() / most_images, 1);
  for (std::size_t k = 0; k < files.size(); k += step) {
    const auto size = images::size_of_image_file(files[k]);
    if (!size) return unexpected(size.error().in(files[k]));
    const std::int64_t h = size->height, w = size->width;
    if (f.height == 0) f.height = h, f.width = w, f.least = std::min(h, w);
    f.same = f.same && h == f.height && w == f.width;
    f.least = std::min({f.least, h, w});
    if (!f.grey || k / step >= 20) continue;
    const auto read = images::read_image(files[k], 3);
    if (!read) return unexpected(read.error().in(files[k]));
    for (std::size_t p = 0; p + 2 < read->bytes.size(); p += 3)
      f.grey = f.grey && read->bytes[p] == read->bytes[p + 1] && read->bytes[p] == read->bytes[p + 2];
  }
  return f;
}

}  // namespace

expected<looked_at> look_at_images(const std::string& path) {
  looked_at out{"images", {}, {}};
  auto& v = out.values.values;
  v["path"] = path;
  const auto folder = [&](const char* name) { return fs::is_directory(fs::path(path) / name); };
  std::string train = path;
  if (folder("train")) {
    train = (fs::path(path) / "train").string();
    const char* test = nullptr;
    for (const char* name : {"test", "val", "valid", "validation"})
      if (!test && folder(name)) test = name;
    if (test && std::string(test) != "test") v["test_path"] = std::string(test);
    if (!test) v["test_fraction"] = test_share;
  } else {
    v["train_path"] = std::string(".");
    v["test_fraction"] = test_share;
  }
  const auto classes = images::list_classes(train);
  if (!classes) return unexpected(classes.error());
  std::vector<std::string> files, names;
  for (const auto& c : *classes) {
    names.push_back(c.name);
    files.insert(files.end(), c.files.begin(), c.files.end());
  }
  if (names.size() < 2 || files.empty())
    return unexpected(error(train + ": it has " + counted(names.size(), names.size() == 1 ? "folder with " : "folders with ") +
                            counted(files.size(), files.size() == 1 ? "image" : "images") + "; training needs two classes" +
                            "; put the images of each class into a folder of its own: " + train + "/CLASS/*.png or *.jpg"));
  const auto f = facts_of_images(files);
  if (!f) return unexpected(f.error());
  std::string size = std::to_string(f->height) + "x" + std::to_string(f->width);
  if (!f->same || std::max(f->height, f->width) > 96) {
    const std::int64_t side = f->least < 48 ? 32 : 64;
    v["size"] = side, v["resize"] = true;
    size += std::string(f->same ? "" : " and other sizes") + ", resized to " + std::to_string(side) + "x" + std::to_string(side);
  }
  if (f->grey) v["channels"] = std::int64_t{1};
  out.seen.push_back(counted(files.size(), "images of ") + size + (f->grey ? ", grey" : ", in colour"));
  const auto all = names.size();
  if (names.size() > 8) names.resize(8), names.emplace_back("...");
  out.seen.push_back("predicts one of " + counted(all, "classes, by folder: ") + joined(names));
  return out;
}

}  // namespace troupe::data_look
