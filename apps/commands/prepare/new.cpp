// `troupe new NAME`: writes a job file with a comment for each key, from a template or for the
// user's data.
#include "apps/commands/prepare/new.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/commands/commands.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/base/write_whole.hpp"
#include "runtime/node/config/commented_job.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

struct new_arguments {
  std::string name, from, data, label, file;
};

struct job_template {
  const char* name;
  const char* example;  // in configs/jobs
  const char* about;
  const char* data;  // path of its data; empty: none
};
constexpr job_template job_templates[] = {
    {"lenet", "lenet_fashion", "LeNet on Fashion-MNIST", "/usr/share/datasets/fashion-mnist"},
    {"mlp", "mlp_fashion", "a perceptron with two hidden layers on Fashion-MNIST", "/usr/share/datasets/fashion-mnist"},
    {"synthetic", "lenet_synthetic", "a small LeNet on synthetic data, which needs no files", ""},
    {"cifar", "cifar10_full", "Caffe's CIFAR-10 net on synthetic data of that shape", ""},
    {"resnet", "resnet20", "ResNet-20 on synthetic data of CIFAR's shape", ""},
    {"char-rnn", "char_rnn_gru", "a GRU that learns to write a text, character by character", "text.txt"},
};

// The same for jobs of --data, whose batch may be odd.
const std::vector<std::string> keys_of_data_jobs{"job.precision=\"fp32\"", "train.sync={ mode = \"bsp\" }",
                                                 "checkpoint.every=\"5min\"", "checkpoint.keep=2"};

// Keys that many users change, for templates that do not have them.
const std::vector<std::string> keys_of_every_job{
    "job.seed=1",        "job.precision=\"fp32\"", "train.sync={ mode = \"bsp\" }", "eval.every=500", "checkpoint.every=\"5min\"",
    "checkpoint.keep=2", "pipeline.packets=2",     "topology.workers_per_group=1"};

// Writes a file that does not exist yet.
expected<void> write_new(const std::string& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    return unexpected(error(errno == EEXIST ? "the file exists, and `troupe new` replaces no file; --out FILE names another"
                                            : std::strerror(errno)));
  const bool whole = write_whole(fd, text) == text.size();
  const int why = errno;
  if (::close(fd) == 0 && whole) return {};
  ::unlink(file.c_str());
  return unexpected(error(std::string("it cannot be written: ") + std::strerror(whole ? errno : why)));
}

const job_template* template_of(const std::string& name) {
  for (const auto& t : job_templates)
    if (name == t.name) return &t;
  return nullptr;
}

// The job file and the name of the job. The error says what is wrong with the name.
struct new_names {
  std::string file, job;
};
// The name of a file without its ending, or of a folder, also of "." and of one that ends in a
// slash.
std::string name_of_data(const std::string& path) {
  auto full = std::filesystem::absolute(path).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  return full.has_filename() ? full.stem().string() : "data";
}

expected<new_names> names_of(const new_arguments& a) {
  auto given = a.file;
  if (given.empty()) given = a.name;
  if (given.empty() && !a.data.empty()) given = name_of_data(a.data);
  new_names n;
  n.file = !a.file.empty() || given.ends_with(".toml") ? given : given + ".toml";
  n.job = !a.name.empty() ? a.name : std::filesystem::path(n.file).filename().string();
  if (given.empty()) return unexpected(error("write the name of the job, as in `troupe new lenet`, or --data PATH"));
  n.job = std::filesystem::path(n.job).filename().string();
  if (n.job.ends_with(".toml")) n.job.resize(n.job.size() - 5);
  const auto odd = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (!n.job.empty() && n.job != "." && n.job != ".." && std::none_of(n.job.begin(), n.job.end(), odd)) return n;
  return unexpected(error("bad name " + in_quotes(given) + ": write the name of the job, as in `troupe new lenet`"));
}

int report_new(const output& out, const std::string& file, const char* key, const std::string& from, const std::string& next) {
  if (out.json()) out.object({{"event", "new"}, {"file", file}, {key, from}, {"next", next}});
  out.text("next: " + next + "\n");
  return exit_done;
}

// A job for the user's data, which is opened to see that it can be trained on.
int run_new_for_data(const new_arguments& a, const new_names& names, const output& out) {
  const auto all = std::make_shared<const tables>(node_tables());
  const auto made = job_of_data(a.data, a.label, names.job, *all);
  if (!made) return out.wrong("--data", made.error().text);
  const auto text = "# Made by `troupe new --data` for " + printable(a.data) +
                    ". `troupe reference job` prints every key of a job file.\n" +
                    commented_job_text(made->text, {}, keys_of_data_jobs, *all);
  if (const auto job = prepare_text({text, names.file, {}}, all); !job) return out.wrong(job.error());
  if (const auto written = write_new(names.file, text); !written) return out.wrong(names.file, written.error().text);
  out.text(printable(a.data) + ":\n");
  for (const auto& line : made->seen) out.text("  " + line + "\n");
  return report_new(out, names.file, "data", a.data, "troupe train " + names.file);
}

int run_new(const new_arguments& a, const output& out) {
  if (!a.data.empty() && !a.from.empty())
    return out.wrong("command line", "--data and --from exclude each other: the data decides the net");
  if (!a.label.empty() && a.data.empty()) return out.wrong("command line", "--label is a column of --data FILE.csv");
  const auto names = names_of(a);
  if (!names) return out.wrong("command line", names.error().text);
  if (!a.data.empty()) return run_new_for_data(a, *names, out);
  const auto wanted = a.from.empty() ? std::string(job_templates[0].name) : a.from;
  const auto* from = template_of(wanted);
  if (!from)
    return out.wrong("command line", "--from: there is no template " + in_quotes(wanted) +
                                         did_you_mean(wanted, job_template_names()) +
                                         " (available: " + joined(job_template_names()) + ")");
  const auto text =
      commented_job_text(job_examples().at(from->example), {"job.name=" + toml_text(names->job)}, keys_of_every_job, node_tables());
  const auto head = "# Made by `troupe new --from " + wanted + "`. `troupe reference job` prints every key of a job file.\n";
  if (const auto written = write_new(names->file, head + text); !written) return out.wrong(names->file, written.error().text);
  std::error_code ec;
  const bool needs_data = *from->data != '\0' && !std::filesystem::exists(from->data, ec);
  out.text(names->file + ": " + from->about + "\n");
  if (needs_data) out.text("Its data is not here: there is no " + std::string(from->data) + ". Set data.path to yours.\n");
  return report_new(out, names->file, "from", from->name,
                    "troupe train " + names->file + (needs_data ? " --set data.path=PATH" : ""));
}

void add_options(CLI::App& c, new_arguments& a) {
  std::string list;
  for (const auto& t : job_templates)
    list += "\n" + std::string(t.name) + ": " + t.about + (&t == &job_templates[0] ? " (default)" : "");
  c.add_option("NAME", a.name, "Name of the job; the file is NAME.toml, and no file is replaced (with --data: optional)");
  c.add_option("--data", a.data,
               "Look at this data and write a job that trains on it: a folder of images in class folders, FILE.csv, "
               "FILE.tsv, FILE.npz or FILE.txt")
      ->option_text("PATH");
  c.add_option("--label", a.label,
               "Column of --data FILE.csv to predict (default: one named label, class or target, else the last)")
      ->option_text("COLUMN");
  file_option(c, "--out", a.file, "The job file (default: NAME.toml)");
  c.add_option("--from", a.from, "Template:" + list)->option_text("TEMPLATE");
  json_option(c);
}

}  // namespace

std::vector<std::string> job_template_names() {
  std::vector<std::string> names;
  for (const auto& t : job_templates) names.push_back(t.name);
  return names;
}

cli_command new_command() {
  return make_command<new_arguments>("new", "Write a job file to start from, with a comment for each key",
                                     "  troupe new first                     # writes first.toml: LeNet on Fashion-MNIST\n"
                                     "  troupe new poems --from char-rnn\n"
                                     "  troupe new --data photos/ --out photos.toml\n"
                                     "  troupe new --data houses.csv --label price",
                                     add_options, run_new);
}

}  // namespace troupe
