#include "runtime/node/tensorboard/event_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/proto_message.hpp"
#include "runtime/base/write_whole.hpp"
#include "runtime/checksum/crc32c.hpp"

namespace troupe {
namespace {

constexpr std::size_t most_buffered = 64 << 10;

// Numbers of fields are those of event.proto and summary.proto.
std::string value_of(std::string_view tag, std::uint32_t field, const proto_message& content) {
  return proto_message{}.bytes(1, tag).bytes(field, content.encoded()).encoded();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) return "localhost";
  for (auto& c : name)
    if (c == '/') c = '-';
  return name.data();
}

record_error error_at(const std::filesystem::path& file, const std::string& what, int code) {
  return {file.string(), {}, what + ": " + std::system_category().message(code)};
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(0, bytes.data(), bytes.size()), 15) + 0xa282ead8u; }

expected<event_file, record_error> event_file::open(const std::filesystem::path& folder, double wall_time) {
  std::error_code bad;
  std::filesystem::create_directories(folder, bad);
  if (bad) return unexpected(error_at(folder, "cannot be created", bad.value()));
  event_file f;
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld", static_cast<long long>(wall_time));
  const auto name = "events.out.tfevents." + std::string(seconds.data()) + "." + host_name() + "." + std::to_string(getpid());
  for (int number = 0; f.file_ < 0; ++number) {
    f.path_ = folder / (name + "." + std::to_string(number));
    f.file_ = ::open(f.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (f.file_ < 0 && errno != EEXIST) return unexpected(error_at(f.path_, "cannot be created", errno));
  }
  f.append(proto_message{}.real(1, wall_time).bytes(3, "brain.Event:2").encoded());
  if (auto ok = f.flush(); !ok) return unexpected(std::move(ok).error());
  return f;
}

event_file::event_file(event_file&& other) noexcept { *this = std::move(other); }

event_file& event_file::operator=(event_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(buffer_, other.buffer_);
  std::swap(written_, other.written_);
  return *this;
}

event_file::~event_file() {
  if (file_ < 0) return;
  static_cast<void>(flush());  // the owner has asked before
  ::close(file_);
}

void event_file::restart(std::uint64_t step, double wall_time) {
  constexpr std::uint64_t start = 1;  // SessionLog.SessionStatus
  append(proto_message{}.real(1, wall_time).number(2, step).bytes(7, proto_message{}.number(1, start).encoded()).encoded());
}

void event_file::scalar(std::uint64_t step, double wall_time, std::string_view tag, double value) {
  record(step, wall_time, proto_message{}.bytes(1, tag).real32(2, static_cast<float>(value)).encoded());
}

// As TensorFlow encodes histograms: a run of empty buckets is one empty bucket.
void event_file::histogram(std::uint64_t step, double wall_time, std::string_view tag, const value_histogram& h) {
  const auto& limits = histogram_limits();
  std::vector<double> ends, counts;
  std::size_t next = 0;  // first bucket that is not written
  for (const auto& [index, n] : h.buckets) {
    if (index > next) ends.push_back(limits[index - 1u]), counts.push_back(0);
    ends.push_back(limits[index]);
    counts.push_back(static_cast<double>(n));
    next = index + std::size_t{1};
  }
  if (ends.empty()) ends.push_back(limits.back()), counts.push_back(0);
  proto_message histo;
  histo.real(1, h.min).real(2, h.max).real(3, static_cast<double>(h.count - h.not_finite)).real(4, h.sum).real(5, h.sum_squares);
  histo.reals(6, ends).reals(7, counts);
  record(step, wall_time, value_of(tag, 5, histo));
}

void event_file::image(std::uint64_t step, double wall_time, std::string_view tag, const summary_image& i) {
  proto_message image;
  image.number(1, i.height).number(2, i.width).number(3, i.channels).bytes(4, i.png);
  record(step, wall_time, value_of(tag, 4, image));
}

void event_file::record(std::uint64_t step, double wall_time, std::string_view value) {
  const auto summary = proto_message{}.bytes(1, value);
  append(proto_message{}.real(1, wall_time).number(2, step).bytes(5, summary.encoded()).encoded());
}

void event_file::append(std::string_view data) {
  const auto put = [&](auto v) { buffer_.append(reinterpret_cast<const char*>(&v), sizeof v); };
  const auto length = static_cast<std::uint64_t>(data.size());
  put(length);
  put(masked_crc32c({reinterpret_cast<const char*>(&length), sizeof length}));
  buffer_ += data;
  put(masked_crc32c(data));
  if (buffer_.size() >= most_buffered) write();
}

void event_file::write() {
  if (written_ && write_whole(file_, buffer_) < buffer_.size()) written_ = unexpected(error_at(path_, "cannot be written", errno));
  buffer_.clear();
}

expected<void, record_error> event_file::flush() {
  write();
  return written_;
}

}  // namespace troupe
