// Which kind of data a file or folder is.
#include "apps/commands/prepare/new.hpp"

#include <filesystem>
#include <stdexcept>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {
namespace fs = std::filesystem;
}

namespace data_look {

std::string lower(std::string s) {
  for (auto& c : s) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return s;
}

std::string counted(std::size_t n, const char* what) { return with_commas(n) + " " + what; }

namespace {

expected<looked_at> look_at_folder(const std::string& path) {
  const auto has = [&](const char* name) { return fs::exists(fs::path(path) / name); };
  if (has("x_train.npy") || has("X_train.npy") || has("data.npy")) return look_at_arrays(path);
  if (has("train-images-idx3-ubyte") || has("train-images-idx3-ubyte.gz")) {
    looked_at out{"idx", {}, {"images in MNIST's format"}};
    out.values.values["path"] = path;
    return out;
  }
  return look_at_images(path);
}

expected<looked_at> look_at_text(const std::string& path) {
  looked_at out{"text", {}, {"a text, for a model that predicts the next character"}};
  out.values.values["path"] = path;
  out.values.values["sequence"] = std::int64_t{50};
  return out;
}

// How files of this ending become data. Empty: unknown.
std::string what_to_do_with(const std::string& ending) {
  struct remedy {
    const char *ending, *text;
  };
  constexpr const char *unpack = "; unpack it and name the folder", *save = "; save the sheet as .csv",
                       *folder = "; put the images of each class into a folder of its own, and name the folder of these";
  static constexpr remedy remedies[] = {{".zip", unpack}, {".gz", unpack},  {".tgz", unpack}, {".tar", unpack},
                                        {".7z", unpack},  {".xlsx", save},  {".xls", save},   {".ods", save},
                                        {".png", folder}, {".jpg", folder}, {".jpeg", folder}};
  for (const auto& r : remedies)
    if (ending == r.ending) return r.text;
  return {};
}

}  // namespace
}  // namespace data_look

expected<looked_at> look_at_data(const std::string& path, const std::string& label) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return unexpected(error(path + ": there is no such file or folder"));
  const auto ending = data_look::lower(fs::path(path).extension().string());
  const bool table = ending == ".csv" || ending == ".tsv";
  if (!label.empty() && !table) return unexpected(error(path + ": --label names a column of a .csv or .tsv file"));
  try {
    if (fs::is_directory(path, ec)) return data_look::look_at_folder(path);
    if (table) return data_look::look_at_table(path, label);
    if (ending == ".npz") return data_look::look_at_arrays(path);
    if (ending == ".txt") return data_look::look_at_text(path);
  } catch (const std::runtime_error& e) {  // a file that cannot be read
    return unexpected(error(e.what()));
  }
  if (ending == ".npy")
    return unexpected(
        error(path + ": an array without labels; save both with numpy.savez(\"data.npz\", x_train=..., y_train=...)"));
  return unexpected(
      error(path + ": it is no folder of images, .csv, .tsv, .npz or .txt file" + data_look::what_to_do_with(ending)));
}

}  // namespace troupe
