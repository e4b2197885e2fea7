// TensorBoard's event files, written without TensorFlow or protobuf. A file is a sequence of
// records; each record is one message `Event` of tensorflow/core/util/event.proto:
//
//   u64 length | u32 masked CRC32C of the length | data | u32 masked CRC32C of the data
//
// Little-endian; masked = rotate right by 15, plus 0xa282ead8. The first record has file_version
// "brain.Event:2". Readers stop at a record that is not complete, so a crash loses at most what
// was not flushed.
//
// Each object writes a new file, FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER.
// TensorBoard reads the files of a folder as one run, in the order of their names.
// Errors: values; after the first one nothing more is written, and flush() returns it again.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/messages/value_histogram.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

// The encoded image of a summary.
struct summary_image {
  std::uint32_t width = 0, height = 0;
  std::uint8_t channels = 1;  // 1: grey, 3: RGB
  std::string png;
};

class event_file {
 public:
  // Creates the folder, if necessary, and a new file in it. `wall_time`: seconds since 1970; in the
  // file's name and in its first record.
  static expected<event_file, record_error> open(const std::filesystem::path& folder, double wall_time);
  event_file(event_file&& other) noexcept;
  event_file& operator=(event_file&& other) noexcept;
  ~event_file();  // flushes

  // A SessionLog START: readers forget what earlier records say about this step and later ones.
  void restart(std::uint64_t step, double wall_time);
  void scalar(std::uint64_t step, double wall_time, std::string_view tag, double value);
  void histogram(std::uint64_t step, double wall_time, std::string_view tag, const value_histogram& h);
  void image(std::uint64_t step, double wall_time, std::string_view tag, const summary_image& image);
  // Writes what is buffered; records are also written when 64 KiB are buffered.
  expected<void, record_error> flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  event_file() = default;
  void record(std::uint64_t step, double wall_time, std::string_view value);
  void append(std::string_view data);
  void write();

  std::filesystem::path path_;
  int file_ = -1;
  std::string buffer_;
  expected<void, record_error> written_;  // the first error
};

// The framing, for tests and readers: the masked CRC32C of these bytes.
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace troupe
