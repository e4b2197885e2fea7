// Sources of examples. A source is read-only after opening, and several loaders may read it at
// once.
// Errors: open functions throw option_error (key names the option) for missing, truncated or
// malformed files, before the job starts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/options.hpp"
#include "ops/tensor.hpp"
#include "ops/type_table.hpp"
#include "runtime/data/channel_order.hpp"

namespace troupe {

enum class split : std::uint8_t { train, test };

// value = byte * scale - mean; one pair for all, or one for each step of an example's outermost
// axis (channels).
struct byte_scaling {
  std::vector<double> scale, mean;
};

// How a source reads a table, so that other tables like it can be read in its place.
struct table_layout {
  char separator = ',';
  bool header = true;
  std::vector<std::string> inputs;   // columns of an example, in order: their names, without a header their numbers
  std::vector<std::string> labels;   // columns of labels or targets, as the job names them
  std::vector<std::string> ignored;  // columns that are not read, likewise
  // For missing fields, by column of an example, before scaling; empty: a missing field is an
  // error.
  std::vector<double> fill;
};

class source {
 public:
  virtual ~source() = default;
  virtual shape example() const = 0;          // e.g. 1x28x28
  virtual std::int64_t classes() const = 0;   // of the labels; 0: no labels, or targets
  virtual shape label() const { return {}; }  // of one example: a scalar, or one class for each of several positions
  // Labels are values to predict (regression), not classes. One value has the shape [1].
  virtual bool targets() const { return false; }
  virtual bool ids() const { return false; }  // data is i32 (ids of words or characters), not values
  // True: some training labels are known not to count (-1). False: all count, or it is not known.
  virtual bool ignores_labels() const { return false; }
  virtual std::int64_t vocabulary() const { return ids() ? classes() : 0; }  // ids of the data are below; 0: not known
  virtual std::vector<std::string> symbols() const { return {}; }  // of text: the character or word of each class, in UTF-8
  virtual std::vector<std::string> class_names() const { return symbols(); }  // by class; empty: the classes have no names
  virtual std::int64_t size(split s) const = 0;
  // The order of the planes of a colour picture. Only examples [3, height, width] have one.
  virtual channel_order picture_order() const { return channel_order::rgb; }
  // Returns true if read() does work that is worth doing for several packets in parallel (it
  // decodes files), and does not only copy.
  virtual bool decodes() const { return false; }
  // Writes examples `indices` of split `s`: values in the dtype of `data` (f32 or f64; i32 for ids;
  // backed, [n, example...]), labels as i32 [n, label...], targets in the dtype of `label` (f32 or
  // f64). An index < 0 is padding: zeros, and label -1 or target 0. Thread-safe. Throws
  // std::runtime_error with the file's name if a file can no longer be read; the job then fails
  // with that text.
  virtual void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const = 0;
  // For sources whose values are bytes: the scaling (nullopt for other sources), and the bytes
  // themselves, one example after the other; padding is 0.
  virtual std::optional<byte_scaling> bytes() const { return std::nullopt; }
  virtual void read_bytes(split s, const std::vector<std::int64_t>& indices, std::uint8_t* out) const {
    (void)s, (void)indices, (void)out;
  }
  // Images of another size are brought to that of an example.
  virtual bool resizes() const { return false; }
  // nullptr: the source reads no table.
  virtual std::shared_ptr<const table_layout> table() const { return nullptr; }
};

inline bool has_labels(const source& s) { return s.classes() > 0 || s.targets(); }

// A file, or a folder with all its contents, that a source would open. `key` is the option that
// names it.
struct source_file {
  std::string key, path;
  bool folder = false;
};

struct source_type {
  std::string name;
  std::string doc;
  option_specs specs;
  std::function<std::shared_ptr<const source>(const options&, std::uint64_t seed)> open;
  // The files that `open` would read, for hosts that restrict file access; empty paths are ignored.
  // Without this function a host must treat every text option as a path.
  std::function<std::vector<source_file>(const options&)> files = {};
  // Further files that those name, for a source with lists of files. Reads `files`, so these must
  // be allowed.
  std::function<std::vector<source_file>(const options&)> listed = {};
};
class source_registry : public type_table<source_type> {};
void add_stock_sources(source_registry& r);  // csv, idx, packed, synthetic, text; node_tables() adds images, lmdb, numpy

}  // namespace troupe
