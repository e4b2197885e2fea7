// `troupe predict JOB|RUN INPUT...`: applies a trained net to files.
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/train/predictions.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/result.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/base/write_whole.hpp"
#include "runtime/data/file_bytes.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/node/images/folder.hpp"
#include "runtime/node/images/image_list.hpp"
#include "runtime/node/predict/net_file.hpp"
#include "runtime/plain/predictor.hpp"

namespace troupe {
namespace {

// The examples that `troupe predict -` reads from standard input, as a file in memory for readers
// of files.
constexpr std::uint64_t most_stdin_bytes = std::uint64_t{1} << 30;

class stdin_file {
 public:
  stdin_file() = default;
  ~stdin_file();
  stdin_file(const stdin_file&) = delete;
  stdin_file& operator=(const stdin_file&) = delete;

  // Reads `from` (a file descriptor) to its end. An error if it is empty or has more than `most`
  // bytes.
  expected<void> read(int from, std::uint64_t most);
  // The path of the copy, for as long as this object lives; empty before read().
  const std::string& path() const { return path_; }
  // `text` with "stdin" in place of the path.
  std::string named(std::string text) const;

 private:
  int fd_ = -1;
  std::string path_;
};

stdin_file::~stdin_file() {
  if (fd_ >= 0) ::close(fd_);
}

expected<void> stdin_file::read(int from, std::uint64_t most) {
  fd_ = ::memfd_create("troupe-stdin", MFD_CLOEXEC);
  if (fd_ < 0) return unexpected(error(std::string("no memory for the input: ") + std::strerror(errno)));
  std::vector<char> part(std::size_t{1} << 20);
  std::uint64_t all = 0;
  for (;;) {
    const auto n = ::read(from, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unexpected(error(std::string("cannot be read: ") + std::strerror(errno)));
    if (n == 0) break;
    all += static_cast<std::uint64_t>(n);
    if (all > most)
      return unexpected(error("has more than " + std::to_string(most >> 20) + " MiB: write it to a file, which is read in pieces"));
    if (const auto bytes = static_cast<std::size_t>(n); write_whole(fd_, {part.data(), bytes}) < bytes)
      return unexpected(error(std::string("no memory for the input: ") + std::strerror(errno)));
  }
  if (all == 0) return unexpected(error("is empty"));
  path_ = "/proc/self/fd/" + std::to_string(fd_);
  return {};
}

std::string stdin_file::named(std::string text) const {
  for (std::size_t at = 0; !path_.empty() && (at = text.find(path_, at)) != std::string::npos;)
    text.replace(at, path_.size(), "stdin");
  return text;
}

expected<input_kind> kind_of_stdin(const std::string& path) {
  const auto kind = input_kind_of(path);
  if (!kind || *kind != input_kind::unknown) return kind;
  const auto file = open_bytes(path);
  if (!file) return unexpected(file.error());
  std::vector<std::uint8_t> begin(static_cast<std::size_t>(std::min<std::uint64_t>((*file)->size(), 4096)));
  if (const auto fine = (*file)->read(0, begin.data(), begin.size()); !fine) return unexpected(fine.error());
  const auto control = [](std::uint8_t b) { return b < 0x20 && b != '\t' && b != '\n' && b != '\r'; };
  return std::none_of(begin.begin(), begin.end(), control) ? input_kind::csv : input_kind::unknown;
}

namespace fs = std::filesystem;

struct predict_arguments : job_arguments {
  std::string weights, layer, stdin_format;
  std::vector<std::string> inputs, more_inputs, ignore;
  bool test = false, resize = false, raw = false;
  prediction_format format;
};

// A source of examples, and how a row of the output names them.
struct named_input {
  std::shared_ptr<const source> from;
  std::string name;                // of all examples; empty: each has one of `names`
  std::vector<std::string> names;  // of images
};

bool is_net_file(const std::string& file) { return file.ends_with(".troupe"); }

// The byte scaling and shape that images need.
expected<std::shared_ptr<const source>> images_for(const prepared_job& j, std::vector<std::string> files, bool resize) {
  const auto example = j.data->example();
  const auto scaling = j.data->bytes();
  const bool pixels = example.rank() == 3 && (example[0] == 1 || example[0] == 3) && !j.data->ids();
  if (!pixels)
    return unexpected(error(files[0] + ": it is an image, but an example of the net has shape " + example.to_string() +
                            ", not 1 or 3 channels, height and width; use a .csv or .npy file"));
  if (!scaling)
    return unexpected(error(files[0] + ": it is an image, but source '" + j.spec.data.source +
                            "' does not say how bytes become values; use a .npy file"));
  return open_image_list(std::move(files), example, *scaling, j.data->picture_order(), resize || j.data->resizes());
}

input_kind kind_named(const std::string& word) {
  return word == "image" ? input_kind::image : word == "npy" ? input_kind::npy : word == "csv" ? input_kind::csv : input_kind::idx;
}

// Opens the inputs in the order of the command line. Adjacent images become one input.
class input_opener {
 public:
  input_opener(const prepared_job& j, const predict_arguments& a) : job_(j), arguments_(a) {
    format_ = input_format_of(*j.data, j.spec.data.source, j.spec.data.values);
    format_.scales_floats = a.raw;
    csv_ = csv_input_of(*j.data);
    csv_.ignore = a.ignore;
  }

  // The error names the file.
  expected<void> open_all() {
    for (const auto& path : arguments_.inputs)
      if (auto done = path == "-" ? open_stdin() : open(path); !done) return done;
    return flush();
  }
  std::vector<named_input> list;
  stdin_file from_stdin;

 private:
  expected<void> open(const std::string& path) {
    std::error_code ec;
    if (fs::is_directory(path, ec)) {
      auto found = images::list_images(path);
      if (!found) return unexpected(found.error());
      for (auto& f : *found) images_.push_back(std::move(f));
      return {};
    }
    const auto kind = input_kind_of(path);
    if (!kind) return unexpected(kind.error());
    if (*kind == input_kind::unknown)
      return unexpected(
          error(path + ": it is no image (PNG, JPEG) and no .npy, .csv, .tsv, .txt or IDX file; convert it to one of these"));
    return open(path, *kind);
  }

  expected<void> open(const std::string& path, input_kind kind) {
    switch (kind) {
      case input_kind::npy: return take(path, open_npy_input(path, format_));
      case input_kind::csv: {
        auto opened = open_csv_input(path, format_, csv_);
        if (!opened && !job_.data->symbols().empty())
          opened.error().text += " (of numbered characters; `troupe sample` continues a text)";
        return take(path, std::move(opened));
      }
      case input_kind::idx: return take(path, open_idx_input(path, format_));
      default: images_.push_back(path); return {};
    }
  }

  expected<void> open_stdin() {
    if (!from_stdin.path().empty()) return unexpected(error("stdin: it can be read only once"));
    if (const auto fine = from_stdin.read(STDIN_FILENO, most_stdin_bytes); !fine) return unexpected(fine.error().in("stdin"));
    const auto& named = arguments_.stdin_format;
    const auto found = named.empty() ? kind_of_stdin(from_stdin.path()) : expected<input_kind>(kind_named(named));
    if (!found) return unexpected(error(from_stdin.named(found.error().text)));
    if (*found == input_kind::unknown)
      return unexpected(error("stdin: it is no image (PNG, JPEG), .npy, CSV or IDX file; --format names another reading of it"));
    auto done = open(from_stdin.path(), *found);
    if (done) done = flush();
    return done ? done : unexpected(error(from_stdin.named(done.error().text)));
  }

  expected<void> take(const std::string& path, input_result opened) {
    if (!opened) return unexpected(std::move(opened).error());
    if (auto done = flush(); !done) return done;
    list.push_back({*std::move(opened), path, {}});
    return {};
  }

  expected<void> flush() {
    if (images_.empty()) return {};
    auto opened = images_for(job_, images_, arguments_.resize);
    if (!opened) return unexpected(std::move(opened).error());
    list.push_back({*std::move(opened), {}, std::move(images_)});
    images_.clear();
    return {};
  }

  const prepared_job& job_;
  const predict_arguments& arguments_;
  input_format format_;
  csv_input csv_;
  std::vector<std::string> images_;
};

// `only_prints`: stdout is the only output, and a reader of it that went away ends the work.
expected<void> predict_all(predictor& net, const input_opener& opened, prediction_writer& writer, bool only_prints) {
  for (const auto& in : opened.list) {
    const auto size = in.from->size(split::test);
    for (std::int64_t first = 0; first < size; first += net.batch()) {
      const auto r = net.run(*in.from, first);
      const auto end = std::min(size, first + net.batch());
      std::vector<std::string> names;
      std::vector<std::int64_t> indices;
      for (auto i = first; i < end; ++i) {
        names.push_back(opened.from_stdin.named(in.names.empty() ? in.name : in.names[static_cast<std::size_t>(i)]));
        indices.push_back(in.names.empty() ? i : 0);
      }
      if (auto fine = writer.add(names, indices, r); !fine) return fine;
      if (only_prints && stdout_unread()) return {};
    }
  }
  return writer.end();
}

int report(const prediction_writer& w, const predict_arguments& a, const output& out) {
  const auto accuracy = w.accuracy(), squared_error = w.squared_error();
  if (out.json()) {
    nlohmann::ordered_json o{{"event", "done"}, {"examples", w.examples()}};
    if (accuracy) o["accuracy"] = *accuracy;
    if (squared_error) o["squared_error"] = *squared_error;
    if (!a.format.file.empty()) o["file"] = a.format.file;
    out.object(o);
    return exit_done;
  }
  auto text = with_commas(static_cast<std::uint64_t>(w.examples())) + (w.examples() == 1 ? " example" : " examples");
  if (accuracy) text += ", accuracy " + fixed(*accuracy, 4);
  if (squared_error) text += ", mean squared error " + number_text(static_cast<float>(*squared_error));
  if (a.format.file.empty())
    out.remark(text);
  else
    out.text(a.format.file + ": " + text + "\n");
  return exit_done;
}

int run_predict(const predict_arguments& given, const output& out) {
  auto a = given;
  a.inputs.insert(a.inputs.end(), a.more_inputs.begin(), a.more_inputs.end());
  if (!a.stdin_format.empty() && std::count(a.inputs.begin(), a.inputs.end(), "-") == 0)
    return out.wrong("--format", "it is the format of standard input: name it with the input -");
  if (a.test == !a.inputs.empty())
    return out.wrong("predict", a.test
                                    ? "--test predicts the job's test data: leave out the inputs"
                                    : "name inputs (images, folders, .npy, .csv or IDX files), or --test for the job's test data");
  if (!is_net_file(a.file)) {
    auto weights = weights_file(a, a.weights, out);
    if (!weights) return wrong_file(out, weights.error());
    a.weights = *std::move(weights);
  } else if (!a.weights.empty() || !a.overrides.empty() || a.test) {
    return out.wrong(a.file, "a net file has its own weights and no test data: leave out --weights, --set and --test");
  }
  auto loaded = is_net_file(a.file) ? open_net_file(a.file) : load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  auto j = *loaded;
  const auto devices = make_devices(j->nodes.front().devices);
  if (!is_net_file(a.file))
    if (const auto from = begin_from_weights(*j, a.weights); !from) return wrong_file(out, from.error());
  auto made = predictor::make(j, devices.front(), a.layer);
  if (!made) return out.wrong({made.error()});
  auto& net = **made;
  if (a.format.top > std::max<std::int64_t>(net.classes(), 1))
    return out.wrong("--top", net.classes() == 0 ? "the output has numbers, not classes"
                                                 : "the net has only " + std::to_string(net.classes()) + " classes");
  input_opener opened(*j, a);
  if (const auto done = opened.open_all(); !done) return out.wrong("", done.error().text);
  if (a.test) {
    if (j->plan.eval_sequences)
      return out.wrong("--test",
                       "the sampler of [eval] reads the test data as long sequences, whose state goes from example to example, but "
                       "predictions begin every example with zeros: add --set eval.sampler={kind=\"all\"}");
    if (j->data->size(split::test) == 0)
      return out.wrong(a.file, "the job's data has no test examples; name inputs instead of --test");
    opened.list.push_back({j->data, "test", {}});
    a.format.labelled = j->data->classes() > 0;
    a.format.targets = j->data->targets() ? j->data->label().count() : 0;
  }
  if (!a.format.file.empty())
    if (const auto fine = check_writable_file(a.format.file); !fine) return out.wrong(a.format.file, fine.error().text);
  prediction_writer writer(out, net, j->data->class_names(), a.format);
  auto written = writer.begin();
  try {
    if (written) written = predict_all(net, opened, writer, a.format.file.empty());
  } catch (const std::runtime_error& e) {
    if (opened.from_stdin.path().empty()) throw;
    return out.wrong("", opened.from_stdin.named(e.what()));
  }
  return written ? report(writer, a, out) : out.failed(a.format.file, written.error().text);
}

void add_predict_options(CLI::App& c, predict_arguments& a) {
  job_options(c, a);
  c.get_option("JOB")->description("Job file (TOML); a net file (.troupe); or a run: its number, name or folder");
  c.add_option("INPUT", a.inputs, "Images (PNG, JPEG), folders of images, .npy, .csv and IDX files; - is standard input");
  c.add_option("--input", a.more_inputs, "The same: --input - is standard input")->option_text("FILE")->allow_extra_args(false);
  c.add_option("--format", a.stdin_format, "Format of standard input (default: by its first bytes)")
      ->option_text("FORMAT")
      ->check(CLI::IsMember({"image", "npy", "csv", "idx"}));
  c.add_flag("--test", a.test, "Predict the job's test data instead");
  file_option(c, "--weights", a.weights, "Weights: safetensors, a checkpoint, or a run (default: the best of the run)");
  file_option(c, "--out", a.format.file, "Write the predictions to this file (default: stdout)");
  c.add_option("--top", a.format.top, "Number of classes to print, most probable first (default: 1)")
      ->option_text("K")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
  c.add_flag("--all", a.format.all, "Print the probabilities of all classes");
  c.add_option("--layer", a.layer, "Print the output of this layer instead of the prediction")->option_text("NAME");
  c.add_flag("--resize", a.resize, "Resize images to the size that the net takes");
  c.add_option("--ignore", a.ignore, "Column of .csv files to skip, by name or number from 0; may be repeated")
      ->option_text("COLUMN")
      ->allow_extra_args(false);
  c.add_flag("--raw", a.raw, "Scale floats of .npy files as the job's source scales its numbers");
}

}  // namespace

cli_command predict_command() {
  return make_command<predict_arguments>("predict", "Apply a trained net to images, arrays or tables",
                                         "  troupe predict 7 photo.png                          # with the best weights of run 7\n"
                                         "  troupe predict job.toml --weights net.safetensors photos/ --top 5 --out photos.csv\n"
                                         "  troupe predict lenet-fashion --test --all --json",
                                         add_predict_options, run_predict);
}

}  // namespace troupe
