#include "runtime/node/executor/job_reading.hpp"

#include <algorithm>
#include <set>

#include "runtime/access/job_access.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/cluster/admission.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/coordinator/surviving_state.hpp"
#include "runtime/job/job_head.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/executor/job_folders.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe::control {
namespace {

// Maximum bytes of a file with the job's weights, rule states and carried state in any type, plus
// 64 MiB for metadata.
std::uint64_t room_of(const prepared_job& j) {
  double values = 0;
  for (const auto& p : j.graph.params) values += static_cast<double>(p.spec.dims.count());
  for (const auto& l : j.graph.layers)
    for (const auto& c : l.carries) values += static_cast<double>(c.dims.count()) * j.plan.packets;
  return static_cast<std::uint64_t>(values * 8 * 16) + (std::uint64_t{64} << 20);
}

}  // namespace

namespace {

// Plans for fewer nodes reduce the replicas silently, so a job that is submitted with too many is
// refused here.
expected<void, diagnostic> check_servers(const prepared_job& j) {
  const auto& t = j.spec.topology;
  const auto serves = [](const node_spec& n) { return std::count(n.roles.begin(), n.roles.end(), "server") > 0; };
  const auto servers = std::count_if(j.nodes.begin(), j.nodes.end(), serves);
  if (t.replicas <= servers) return {};
  const auto at = t.key_at.find("replicas");
  return unexpected(
      diagnostic{at == t.key_at.end() ? t.at : at->second,
                 "replicas must be on different nodes: there are " + std::to_string(servers) + " with the role \"server\""});
}

}  // namespace

expected<std::shared_ptr<prepared_job>, diagnostics> read_job(const job_place& at, const job_text& what) {
  job_limits limits{at.cluster.plugins, {}};
  if (!at.state.empty()) limits.withheld = {at.state.string()};
  for (const auto& n : at.cluster.nodes)
    if (n.name == at.self) limits.data = n.data;
  for (const auto& n : at.cluster.nodes)  // the writing node is known only with the plan; all nodes must read the job alike
    if (std::count(n.roles.begin(), n.roles.end(), "coordinator") > 0)
      limits.checkpoints.insert(limits.checkpoints.end(), n.checkpoints.begin(), n.checkpoints.end());
  const auto adjust = [](job_spec& s, std::vector<node_spec>&) { add_checkpoint_interval(s.checkpoint); };
  auto read = prepare_text({what.text, what.file, what.overrides, std::move(limits), false, at.opened.get()}, at.all,
                           at.cluster.nodes, adjust);
  if (!read) return unexpected(std::move(read).error());
  auto& j = *read;
  if (auto ok = check_servers(*j); !ok) return unexpected(diagnostics{std::move(ok).error()});
  return std::move(j);
}

checked facts_of(const prepared_job& j) {
  checked c;
  c.name = j.spec.name;
  c.plan_hash = plan_hash(j.plan);
  c.last_step = j.last_step;
  c.steps_per_epoch = j.steps_per_epoch;
  c.batch = static_cast<std::uint64_t>(j.spec.data.batch);
  for (const auto& line : job_head(j)) c.head.push_back(text_of(line));
  c.deterministic = j.spec.train.deterministic;
  c.room = room_of(j);
  c.continued = j.continued;
  c.from = j.first_step;
  c.max_failures = j.spec.max_failures;
  c.about = std::make_shared<const repl_about>(about_job(j));
  std::set<std::uint32_t> used;
  for (const auto& r : j.plan.roles) used.insert(r.node);
  for (auto n : used) c.nodes.push_back(j.plan.nodes[n].name);
  c.replicas = j.spec.topology.replicas;
  const auto* mode = j.all->modes.find(j.spec.train.sync.kind);
  for (const auto& n : c.nodes)
    if (!mode || !check_survivors(j.plan, j.graph, mode->left, {n})) c.costly.insert(n);
  return c;
}

std::string advice_on_replicas(const prepared_job& j, const std::string& coordinator) {
  constexpr std::size_t many_roles = 20000;  // a second plan would take seconds
  const auto* mode = j.all->modes.find(j.spec.train.sync.kind);
  if (j.spec.topology.replicas > 1 || !j.outlives_nodes() || j.plan.roles.size() > many_roles) return {};
  if (!mode || !check_survivors(j.plan, j.graph, mode->left, {})) return {};  // it returns after any failure
  std::set<std::string> only;
  for (auto s : j.plan.shards)
    if (const auto& n = j.plan.nodes[j.plan[s].node].name; n != coordinator && !check_survivors(j.plan, j.graph, mode->left, {n}))
      only.insert(n);
  if (only.empty()) return {};
  auto with_replicas = j.spec;
  with_replicas.topology = j.asked;
  with_replicas.topology.replicas = 2;
  auto made = prepare_job(std::move(with_replicas), j.all, j.nodes, j.data);
  if (!made || !check_servers(**made)) return {};
  return (only.size() == 1 ? "node " + *only.begin() + " has the only copy of a shard: its failure sets"
                           : "nodes " + troupe::joined({only.begin(), only.end()}) +
                                 " have the only copies of shards: the failure of one sets") +
         " the job back to its newest checkpoint" + (j.spec.checkpoint.never ? ", and it writes none" : "") +
         "; with --set topology.replicas=2 a second node has a copy";
}

std::filesystem::path given_path(const job_place& at, std::uint32_t job) {
  return at.state / "given" / (std::to_string(number_of(job)) + ".safetensors");
}

namespace {

// Hard-links the file, or copies it to another file system. Either way it remains when `from` is
// removed. A link to a file for which this file system has no room is copied as a link.
std::error_code linked_or_copied(const std::filesystem::path& from, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  std::error_code ec;
  fs::create_directories(to.parent_path(), ec);
  fs::remove(to, ec);
  const bool link = fs::is_symlink(from, ec);
  ec = std::make_error_code(std::errc::cross_device_link);
  if (!link) fs::create_hard_link(from, to, ec);
  if (ec) fs::copy_file(from, to, fs::copy_options::overwrite_existing, ec);
  if (!ec || !link) return ec;
  std::error_code none;
  fs::remove(to, none);
  fs::copy_symlink(from, to, ec);
  return ec;
}

}  // namespace

namespace {

// The checkpoint with which a job continues. A link to one in a second place may have lost its
// target; then the newest sound one of its folder.
std::string sound_one(const std::string& kept) {
  std::error_code odd;
  if (std::filesystem::exists(kept, odd) && !std::filesystem::is_symlink(kept, odd)) return kept;
  auto found = load_newest_checkpoint(std::filesystem::path(kept).parent_path().string());
  return found.newest ? std::move(found.file) : kept;
}

// "lab-7-17": the name of the folder of a run below a `checkpoint.dir`.
std::string name_of_run(const std::string& cluster, std::uint32_t job) {
  return path_word(cluster) + "-" + std::to_string(number_of(job)) + "-" + std::to_string(job >> 16);
}

// The cluster in such a name; empty: it is not one.
std::string cluster_of_run(const std::string& name) {
  const auto before_number = [](const std::string& s) {
    const auto dash = s.rfind('-');
    const bool number = dash != std::string::npos && dash + 1 < s.size() && s.find_first_not_of("0123456789", dash + 1) == s.npos;
    return number ? s.substr(0, dash) : std::string();
  };
  return before_number(before_number(name));
}

}  // namespace

std::filesystem::path checkpoint_folder(const job_place& at, const prepared_job& j) {
  if (j.spec.checkpoint.dir.empty()) return at.state / job_folder_name(j.id, j.spec.name);
  return std::filesystem::path(checkpoint_home(j.spec.checkpoint.dir, j.spec.name)) / name_of_run(at.cluster.name, j.id);
}

namespace {

// The folders of runs of a job's name, by what this job may do with their checkpoints.
struct earlier_runs {
  std::vector<std::string> own, unknown;  // the owner is the job's, or unknown
};

earlier_runs runs_before(const job_place& at, const prepared_job& j, const std::string& owner) {
  const auto& dir = j.spec.checkpoint.dir;
  const auto cluster = path_word(at.cluster.name);
  earlier_runs found;
  for (auto& f : dir.empty() ? runs_of(at.state.string()) : runs_of(checkpoint_home(dir, j.spec.name))) {
    const auto name = std::filesystem::path(f).filename().string();
    if (dir.empty() && job_name_of_folder(name) != safe_job_name(j.spec.name)) continue;
    const auto its = owner_of_folder(f);
    // Clients of one name on two clusters are not the same client.
    const bool here = dir.empty() || cluster_of_run(name) == cluster;
    if (here && check_read(reader_of_job(owner), job_route::resume, 0, its))
      found.own.push_back(std::move(f));
    else if (its.empty() && !checkpoint_files(f).empty())
      found.unknown.push_back(std::move(f));
  }
  return found;
}

}  // namespace

expected<std::optional<given_file>> take_newest(const job_place& at, const prepared_job& j, std::uint32_t job,
                                                const std::string& owner, std::vector<std::string>& notes) {
  const auto runs = runs_before(at, j, owner);
  auto found = newest_in(runs.own);
  for (const auto& bad : found.refused) notes.push_back("skipped: " + bad.to_string());
  if (!found.newest && !runs.unknown.empty())
    return unexpected(error("the owner of the checkpoints in " + runs.unknown.front() +
                            " is unknown: `troupe train` or an older version wrote them. To continue from them, give one with "
                            "--resume FILE, or have an admin write the name of their owner (yours is " +
                            owner + ") to the file " + job_owner_file +
                            " there; to start at step 0, submit with resume = \"never\""));
  if (!found.newest) return std::nullopt;
  const auto place = given_path(at, job);
  if (const auto ec = linked_or_copied(found.file, place))
    return unexpected(error("cannot be linked or copied: " + ec.message()).in(found.file));
  std::error_code ec;
  const auto bytes = std::filesystem::file_size(place, ec);
  return given_file{given_file::checkpoint, found.file, ec ? 1 : bytes};
}

void take_up_given(const job_place& at, const std::vector<unfinished_job>& jobs) {
  namespace fs = std::filesystem;
  if (at.state.empty()) return;
  std::error_code ignored;
  const auto folder = at.state / "given";
  std::set<fs::path> wanted;
  for (const auto& j : jobs)
    if (j.given.kind != given_file::nothing && j.kept.empty()) wanted.insert(given_path(at, j.number));
  std::vector<fs::path> old;
  for (fs::directory_iterator i(folder, ignored), end; !ignored && i != end; i.increment(ignored))
    if (!wanted.contains(i->path())) old.push_back(i->path());
  for (const auto& file : old) fs::remove(file, ignored);
  for (const auto& j : jobs) {
    if (j.kept.empty()) continue;
    linked_or_copied(sound_one(j.kept), given_path(at, j.number));
  }
}

expected<void, record_error> begin_with_given(const job_place& at, prepared_job& j, std::uint32_t job, const given_file& given,
                                              const std::vector<std::string>& overrides) {
  const auto path = given_path(at, job).string();
  const auto named = [&](record_error e) {
    e.file = given.file;  // as named by the client
    return unexpected(std::move(e));
  };
  if (given.kind == given_file::checkpoint) {
    auto read = load_checkpoint(path);
    if (!read) return named(std::move(read).error());
    return resume_from(j, *std::move(read), given.file, at.numerics, overrides);
  }
  auto read = read_safetensors(path);
  if (!read) return named(std::move(read).error());
  auto begun = begin_from_weights(j, *std::move(read), given.file);
  if (!begun) return unexpected(std::move(begun).error());
  return {};
}

}  // namespace troupe::control
