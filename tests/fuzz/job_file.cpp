// Fuzz target: job files with an override of the command line. No plugin is loaded.
#include "runtime/node/config/job_file.hpp"

#include "runtime/node/node_tables.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe::fuzz {
namespace {

void read_job_file(input in) {
  static const auto tables = node_tables();
  static const std::vector<std::string> no_plugins;
  const auto all = text(in);
  const auto cut = all.find('\0');
  std::vector<std::string> words;
  if (cut != std::string::npos && cut < 100) words.push_back(all.substr(0, cut));
  const auto r = parse_job(words.empty() ? all : all.substr(cut + 1), "fuzz.toml", tables, words, &no_plugins);
  if (!r) must(!r.error().empty(), "refused without a reason");
}

std::vector<std::string> sound_job_file() {
  const auto text = job_test::text_of(job_test::sound_lines());
  const std::string blocks =
      "[[block]]\nname = \"b\"\nrequired = [\"w\"]\nparameters = { k = 3 }\noutput = \"r\"\n"
      "layer = [ { name = \"{name}_c\", type = \"convolution\", inputs = \"in\", outputs = \"{2 * (w - 1) / i}\", kernel = \"{k}\" "
      "},\n"
      "  { name = \"r\", type = \"relu\", inputs = \"{name}_c\" } ]\n"
      "[[layer]]\nname = \"more\"\nblock = \"b\"\ninputs = [\"conv1\", \"in.1\"]\nw = 3\nrepeat = 2\nlr_scale = 0\n";
  const std::string include = "\n[[included]]\nfile = \"a.toml\"\ntext = \"[job]\\nseed = 1\\n\"\n";
  return {text, text + blocks, "include = \"a.toml\"\n" + text + include, "layer.conv1.outputs=10" + std::string(1, '\0') + text,
          "train.finish={steps=4}" + std::string(1, '\0') + text};
}

const entry job_file_entry({"job_file", read_job_file, sound_job_file});

}  // namespace
}  // namespace troupe::fuzz
