// `troupe new NAME`: writes a job file with a comment for each key.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/commands/commands.hpp"
#include "apps/job_examples.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/commented_job.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

struct new_arguments {
  std::string name, from = "lenet";
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

// Keys that many users change, for templates that do not have them.
const std::vector<std::string> keys_of_every_job{
    "job.seed=1",        "job.precision=\"fp32\"", "train.sync={ mode = \"bsp\" }", "eval.every=500", "checkpoint.every=\"5min\"",
    "checkpoint.keep=2", "pipeline.packets=2",     "topology.workers_per_group=1"};

// Writes a file that does not exist yet.
expected<void> write_new(const std::string& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    return unexpected(error(errno == EEXIST ? "the file exists, and `troupe new` replaces no file" : std::strerror(errno)));
  std::size_t done = 0;
  while (done < text.size()) {
    const auto n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  const bool whole = done == text.size();
  const int why = errno;
  if (::close(fd) == 0 && whole) return {};
  ::unlink(file.c_str());
  return unexpected(error(std::string("it cannot be written: ") + std::strerror(whole ? errno : why)));
}

int run_new(const new_arguments& a, const output& out) {
  const auto names = job_template_names();
  const job_template* from = nullptr;
  for (const auto& t : job_templates)
    if (a.from == t.name) from = &t;
  if (!from)
    return out.wrong("command line", "--from: there is no template " + in_quotes(a.from) + did_you_mean(a.from, names) +
                                         " (available: " + joined(names) + ")");
  const auto file = a.name.ends_with(".toml") ? a.name : a.name + ".toml";
  const auto name = std::filesystem::path(file).stem().string();
  const auto odd = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (name.empty() || name == ".toml" || std::any_of(name.begin(), name.end(), odd))
    return out.wrong("command line", "bad name " + in_quotes(a.name) + ": write the name of the job, as in `troupe new lenet`");
  const auto text =
      commented_job_text(job_examples().at(from->example), {"job.name=" + toml_text(name)}, keys_of_every_job, node_tables());
  const auto head = "# Made by `troupe new --from " + a.from + "`. `troupe reference job` prints every key of a job file.\n";
  if (const auto written = write_new(file, head + text); !written) return out.wrong(file, written.error().text);
  std::error_code ec;
  const bool needs_data = *from->data != '\0' && !std::filesystem::exists(from->data, ec);
  auto next = "troupe train " + file + (needs_data ? " --set data.path=PATH" : "");
  if (out.json()) out.object({{"event", "new"}, {"file", file}, {"from", from->name}, {"next", next}});
  out.text(file + ": " + from->about + "\n");
  if (needs_data) out.text("Its data is not here: there is no " + std::string(from->data) + ". Set data.path to yours.\n");
  out.text("next: " + next + "\n");
  return exit_done;
}

void add_options(CLI::App& c, new_arguments& a) {
  std::string list;
  for (const auto& t : job_templates)
    list += "\n" + std::string(t.name) + ": " + t.about + (&t == &job_templates[0] ? " (default)" : "");
  c.add_option("NAME", a.name, "Name of the job; the file is NAME.toml, and no file is replaced")
      ->required()
      ->option_text("(required)");
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
                                     "  troupe new poems --from char-rnn",
                                     add_options, run_new);
}

}  // namespace troupe
