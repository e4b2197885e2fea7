#include "runtime/record/checkpoint.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/data/file_place.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/paced.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

const std::string name_prefix = "checkpoint-";
const std::string name_end = ".safetensors";
const std::string key_prefix = "troupe.";
const std::string progress_prefix = "progress.";
const std::string made_with_prefix = "made_with.";
const std::string format = "1";

// The number n of "checkpoint-<n>-step-<step>.safetensors".
std::optional<std::uint64_t> sequence_of(const std::string& name) {
  if (name.rfind(name_prefix, 0) != 0 || name.size() < name_end.size() ||
      name.compare(name.size() - name_end.size(), name_end.size(), name_end) != 0)
    return std::nullopt;
  const auto end = name.find('-', name_prefix.size());
  std::uint64_t n = 0;
  if (end == std::string::npos || !read_number(name.substr(name_prefix.size(), end - name_prefix.size()), n)) return std::nullopt;
  return n;
}

struct numbered {
  std::uint64_t sequence = 0;
  std::string path;
};

// Returns false for a symbolic link whose target is gone or belongs to another user.
bool is_trusted(const fs::directory_entry& e) {
  std::error_code odd;
  struct stat target {};
  return !e.is_symlink(odd) || (::stat(e.path().c_str(), &target) == 0 && target.st_uid == ::geteuid());
}

std::vector<numbered> list(const std::string& folder) {
  std::vector<numbered> out;
  std::error_code ec;
  for (fs::directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec))
    if (auto n = sequence_of(i->path().filename().string()); n && is_trusted(*i)) out.push_back({*n, i->path().string()});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.sequence > b.sequence; });
  return out;
}

// The number of the newest file of the folder, also of a link without a target.
std::uint64_t last_sequence(const std::string& folder) {
  std::uint64_t last = 0;
  std::error_code ec;
  for (fs::directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec))
    last = std::max(last, sequence_of(i->path().filename().string()).value_or(0));
  return last;
}

std::string file_name(std::uint64_t sequence, std::uint64_t step) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%06llu", static_cast<unsigned long long>(sequence));
  return name_prefix + digits + "-step-" + std::to_string(step) + name_end;
}

metadata_map metadata_of(const checkpoint& c) {
  metadata_map m;
  for (const auto& [key, value] : c.progress) m[progress_prefix + key] = value;
  for (const auto& [key, value] : c.made_with) m[made_with_prefix + key] = value;
  m[key_prefix + "checkpoint"] = format;
  m[key_prefix + "job"] = c.job;
  m[key_prefix + "step"] = std::to_string(c.step);
  m[key_prefix + "seed"] = std::to_string(c.seed);
  m[key_prefix + "packets"] = std::to_string(c.packets);
  m[key_prefix + "numerics"] = c.numerics;
  m[key_prefix + "sampler_position"] = std::to_string(c.sampler_position);
  return m;
}

// Reads fields of a file's metadata. wrong() is the first key that is missing or malformed.
class metadata_reader {
 public:
  explicit metadata_reader(metadata_map& m) : m_(m) {}
  metadata_reader& text(const char* key, std::string& out) {
    const auto i = m_.find(key_prefix + key);
    if (i == m_.end())
      blame(key);
    else
      out = i->second;
    return *this;
  }
  template <class T>
  metadata_reader& number(const char* key, T& out) {
    const auto i = m_.find(key_prefix + key);
    if (i == m_.end() || !read_number(i->second, out)) blame(key);
    return *this;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  void blame(const char* key) {
    if (wrong_.empty()) wrong_ = key_prefix + key;
  }
  metadata_map& m_;
  std::string wrong_;
};

void remove_quietly(const std::string& path) {
  std::error_code ignored;  // an extra old file does no harm; the next save tries again
  fs::remove(path, ignored);
}

// Removes all but the newest files, links without a target, and temporary files of killed writers.
void remove_old(const std::string& folder, std::size_t keep) {
  const auto files = list(folder);
  for (std::size_t i = keep; i < files.size(); ++i) remove_quietly(files[i].path);
  std::vector<std::string> left_over;
  std::error_code ec;
  for (fs::directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec)) {
    const auto name = i->path().filename().string();
    const auto dot = name.rfind(temporary_suffix);
    std::error_code odd;
    const bool loose = sequence_of(name) && i->is_symlink(odd) && !fs::exists(i->path(), odd);
    const bool unfinished = dot != std::string::npos && sequence_of(name.substr(0, dot));
    if (loose || unfinished) left_over.push_back(i->path().string());
  }
  for (const auto& path : left_over) remove_quietly(path);
}

}  // namespace

expected<void, record_error> write_checkpoint(const std::string& file, const checkpoint& c) {
  return write_checkpoint(file, c, before_write());
}

expected<void, record_error> write_checkpoint(const std::string& file, const checkpoint& c, const before_write& before) {
  // Written to a new file first: the existing file may be the only good checkpoint.
  const auto place = place_to_write(file);
  if (!place) return unexpected(record_error{file, {}, place.error().text});
  const auto fresh = *place + ".new";
  if (auto e = write_safetensors(fresh, c.named, metadata_of(c), before); !e) return e;
  forget_cached(fresh);
  auto written = load_checkpoint(fresh);
  if (!written) {
    remove_quietly(fresh);
    written.error().message = "does not verify after writing: " + written.error().message;
    return unexpected(std::move(written).error());
  }
  std::error_code ec;
  fs::rename(fresh, *place, ec);
  if (!ec) return {};
  remove_quietly(fresh);
  return unexpected(record_error{file, {}, "cannot be replaced: " + ec.message()});
}

expected<void, record_error> save_checkpoint(const std::string& folder, const checkpoint& c, std::size_t keep) {
  return save_checkpoint(folder, c, keep, before_write());
}

expected<void, record_error> save_checkpoint(const std::string& folder, const checkpoint& c, std::size_t keep,
                                             const before_write& before) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return unexpected(record_error{folder, {}, std::string("cannot create: ") + ec.message()});
  const auto path = folder + "/" + file_name(last_sequence(folder) + 1, c.step);
  if (auto e = write_safetensors(path, c.named, metadata_of(c), before); !e) return e;
  forget_cached(path);
  auto written = load_checkpoint(path);
  if (!written) {
    remove_quietly(path);
    written.error().message = "does not verify after writing: " + written.error().message;
    return unexpected(std::move(written).error());
  }
  remove_old(folder, keep);
  return {};
}

expected<std::string, record_error> link_checkpoint(const std::string& folder, const std::string& file, std::uint64_t step) {
  std::error_code ec;
  const auto target = fs::absolute(file, ec);
  std::vector<fs::path> earlier;
  for (fs::directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec)) {
    std::error_code odd;
    const bool named = sequence_of(i->path().filename().string()).has_value();
    if (named && i->is_symlink(odd) && fs::read_symlink(i->path(), odd) == target) earlier.push_back(i->path());
  }
  auto path = folder + "/" + file_name(last_sequence(folder) + 1, step);
  if (!ec) fs::create_symlink(target, path, ec);
  if (ec) return unexpected(record_error{path, {}, "cannot be linked to " + file + ": " + ec.message()});
  for (const auto& old : earlier) remove_quietly(old.string());
  return path;
}

expected<checkpoint, record_error> load_checkpoint(const std::string& file) {
  auto r = read_safetensors(file, integrity::required);
  if (!r) return unexpected(std::move(r).error());
  auto& content = *r;
  checkpoint c;
  std::string version;
  metadata_reader m(content.metadata);
  m.text("checkpoint", version).text("job", c.job).number("step", c.step).number("seed", c.seed).number("packets", c.packets);
  m.text("numerics", c.numerics).number("sampler_position", c.sampler_position);
  if (version.empty()) return unexpected(record_error{file, {}, "not a checkpoint"});
  if (version != format) return unexpected(record_error{file, {}, "unknown checkpoint format: " + version});
  if (!m.wrong().empty()) return unexpected(record_error{file, {}, "metadata '" + m.wrong() + "' is missing or malformed"});
  for (const auto& [key, value] : content.metadata) {
    for (const auto& [prefix, into] : {std::pair(&progress_prefix, &c.progress), std::pair(&made_with_prefix, &c.made_with)})
      if (key.starts_with(*prefix)) (*into)[key.substr(prefix->size())] = value;
  }
  c.named = std::move(content.named);
  return c;
}

found_checkpoint load_newest_checkpoint(const std::string& folder) {
  found_checkpoint out;
  for (const auto& f : list(folder)) {
    auto r = load_checkpoint(f.path);
    if (r) {
      out.newest = std::move(*r);
      out.file = f.path;
      break;
    }
    out.refused.push_back(std::move(r.error()));
  }
  return out;
}

std::vector<std::string> checkpoint_files(const std::string& folder) {
  std::vector<std::string> out;
  for (auto& f : list(folder)) out.push_back(std::move(f.path));
  return out;
}

}  // namespace troupe
