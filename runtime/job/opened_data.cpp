#include "runtime/job/opened_data.hpp"

#include <sys/stat.h>

#include <utility>

#include "runtime/job/job_data.hpp"

namespace troupe {

std::optional<opened_data::key> opened_data::key_of(const source_type& type, const data_spec& d, std::uint64_t seed) {
  if (!type.files) return std::nullopt;
  key k{type.name, d.values.values, d.validation, seed, {}};
  auto files = type.files(d.values);
  if (type.listed) {
    auto more = type.listed(d.values);
    files.insert(files.end(), more.begin(), more.end());
  }
  for (const auto& f : files) {
    if (f.path.empty()) continue;
    struct stat is {};
    if (f.folder || ::stat(f.path.c_str(), &is) != 0) return std::nullopt;
    if (S_ISDIR(is.st_mode) && type.listed) continue;  // the files in it that count are listed
    if (!S_ISREG(is.st_mode)) return std::nullopt;
    k.files.emplace_back(f.path, is.st_dev, is.st_ino, is.st_size, is.st_ctim.tv_sec * 1'000'000'000 + is.st_ctim.tv_nsec);
  }
  return k;
}

std::shared_ptr<const source> opened_data::open(const source_type& type, const data_spec& d, std::uint64_t seed) {
  auto wanted = key_of(type, d, seed);  // before the files are read: a change while they are read counts
  if (!wanted) return open_data(type, d, seed);
  {
    const std::lock_guard guard(lock_);
    if (key_ == wanted) {
      unused_since_.reset();
      return data_;
    }
    key_.reset();
    data_.reset();
  }
  auto opened = open_data(type, d, seed);
  const std::lock_guard guard(lock_);
  key_ = std::move(wanted);
  data_ = opened;
  unused_since_.reset();
  return opened;
}

void opened_data::release_unused(instant now) {
  const std::lock_guard guard(lock_);
  if (!data_ || data_.use_count() > 1) return unused_since_.reset();
  if (!unused_since_) unused_since_ = now;
  if (now - *unused_since_ < keeps) return;
  key_.reset();
  data_.reset();
}

}  // namespace troupe
