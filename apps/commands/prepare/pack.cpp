// `troupe pack JOB`: writes a job's data into one file.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/packed.hpp"

namespace troupe {
namespace {

struct pack_arguments : job_arguments {
  std::string out;
};

int run_pack(const pack_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  if (const auto fine = check_writable_file(a.out); !fine) return out.wrong(a.out, fine.error().text);
  const auto& j = **loaded;
  const auto packed = pack(*j.data, a.out);
  if (!packed) return out.failed({}, packed.error().text);
  const auto& r = *packed;
  const auto& h = r.header;
  auto extents = nlohmann::ordered_json::array();
  for (int i = 0; i < h.example.rank(); ++i) extents.push_back(h.example[i]);
  if (out.json())
    out.object({{"event", "pack"},
                {"file", a.out},
                {"train", h.train},
                {"test", h.test},
                {"shape", extents},
                {"values", name_of(h.type)},
                {"classes", h.classes},
                {"bytes", r.bytes}});
  out.text(a.out + ": " + with_commas(static_cast<std::uint64_t>(h.train)) + " training and " +
           with_commas(static_cast<std::uint64_t>(h.test)) + " test examples of " + h.example.to_string() + " (" + name_of(h.type) +
           "), " + bytes_text(static_cast<double>(r.bytes)) + "\n" + "use it with: source = \"packed\", path = \"" + a.out +
           "\"\n");
  return exit_done;
}

void add_options(CLI::App& c, pack_arguments& a) {
  job_options(c, a);
  file_option(c, "--out", a.out, "File to write")->required();
}

}  // namespace

cli_command pack_command() {
  return make_command<pack_arguments>(
      "pack", "Write a job's data into one file with fast access to any example",
      "  troupe pack configs/jobs/cifar10_images.toml --out cifar10.pack\n"
      "  troupe train job.toml --set data='{ source = \"packed\", path = \"cifar10.pack\", batch = 100 }'\n"
      "The file has the source's examples before [data] augment; training from it gives the same weights.",
      add_options, run_pack);
}

}  // namespace troupe
