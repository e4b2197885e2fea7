#include "actors/control/client/recorded_files.hpp"

#include <algorithm>
#include <fstream>

namespace troupe {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto piece_within = 10s;

// A daemon chose the name: it must stay below the folder.
bool is_safe(const std::string& name) {
  const fs::path p(name);
  return !p.empty() && p.is_relative() && std::none_of(p.begin(), p.end(), [](const fs::path& part) { return part == ".."; });
}

control::look wanted(std::uint32_t job, const std::string& file, std::uint64_t offset) {
  control::look l;
  l.recording_of = job;
  l.file = file;
  l.offset = offset;
  return l;
}

// Copies one file; a file that grows meanwhile is copied as far as it was listed.
expected<void> copy_file(node_links& from, node_links::node& n, std::uint32_t job, const control::recorded_file& f,
                         const fs::path& to) {
  if (!is_safe(f.name)) return unexpected(error(n.where.node + " offers a file with a bad name"));
  std::error_code ec;
  fs::create_directories((to / f.name).parent_path(), ec);
  std::ofstream out(to / f.name, std::ios::binary | std::ios::trunc);
  for (std::uint64_t done = 0; done < f.bytes && out;) {
    auto got = from.ask(n, wanted(job, f.name, done), piece_within);
    if (!got) return unexpected(error(n.trouble));
    if (got->bytes.empty()) return unexpected(error(n.where.node + ": " + f.name + " became shorter"));
    const auto take = std::min<std::uint64_t>(got->bytes.size(), f.bytes - done);
    out.write(got->bytes.data(), static_cast<std::streamsize>(take));
    done += take;
  }
  if (!out.flush()) return unexpected(error("cannot write " + (to / f.name).string()));
  return {};
}

}  // namespace

expected<std::vector<std::string>> copy_recording(node_links& from, std::uint32_t job, const fs::path& to) {
  std::vector<std::string> missing;
  for (auto& n : from.nodes()) {
    auto list = from.ask(n, wanted(job, {}, 0), piece_within);
    if (!list) {
      missing.push_back(n.where.node + ": " + n.trouble);
      continue;
    }
    for (const auto& f : list->files)
      if (const auto ok = copy_file(from, n, job, f, to / n.where.node); !ok) return unexpected(ok.error());
  }
  return missing;
}

}  // namespace troupe
