// What this node reports about itself and its roles, to the coordinator's daemon and to clients.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "actors/control/host/actors.hpp"
#include "runtime/access/job_access.hpp"
#include "runtime/cluster/fitting.hpp"
#include "runtime/cluster/job_folder_names.hpp"
#include "runtime/cluster/role_entries.hpp"
#include "runtime/cluster/view/about.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "runtime/node/post_mortem.hpp"
#include "runtime/record/job_owner.hpp"
#include "runtime/trace/recorder.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

plan_entry plan_entry_of(const prepared_job& j) {
  plan_entry e{j.id, j.spec.name, {}, {}};
  for (const auto& r : j.plan.roles) e.roles.emplace_back(r.name, j.plan.nodes[r.node].name);
  for (const auto& l : about_job(j).layers) e.layers.push_back({l.name, l.inputs, l.in_train});
  return e;
}

void read_record(const activity_recorder& from, const look& what, looked& to) {
  to.now = from.now().count();
  for (const auto& n : from.names())
    if (n.since.count() > what.named_since) to.names.push_back({n.since.count(), n.job, n.roles});
  if (what.most == 0) return;
  activity_recorder::position at;
  for (std::size_t i = 0; i < what.read.size(); ++i) at.read[i] = what.read[i];
  const auto found = from.read(at, std::min(what.most, max_activities));
  for (const auto& a : found.all) to.activities.push_back(entry_of(a));
  for (const auto& [ring, read] : at.read) {
    to.read.resize(std::max(to.read.size(), ring + 1));
    to.read[ring] = read;
  }
  to.lost = found.lost;
  to.more = found.more;
  to.task_kinds = task_kinds::names();
}

struct readable_files {
  std::vector<recorded_file> files;
  std::string refusal;  // why other files may not be read; empty: there are no others
};

// The files of the job's recording in this state folder that this person may read. A job that was
// continued by a later incarnation of the daemon has several folders; jobs of other owners may have
// had the same number.
readable_files recorded_files(const fs::path& state, std::uint32_t job, const person& who) {
  readable_files found;
  std::error_code ec;
  for (fs::directory_iterator i(state, ec), end; !ec && i != end; i.increment(ec)) {
    const auto name = i->path().filename().string();
    if (!is_job_folder_name(name) || !name.starts_with("job-" + std::to_string(job) + "-")) continue;
    const auto recorded = recordings_in(i->path() / "recording");
    if (recorded.empty()) continue;
    if (const auto fine = check_read(who, job_route::recording, job, owner_of_folder(i->path())); !fine) {
      found.refusal = fine.error().text;
      continue;
    }
    for (const auto& plan : recorded)
      for (const auto* file : recording_files) {
        std::error_code none;
        const auto bytes = fs::file_size(plan / file, none);
        if (!none) found.files.push_back({name + "/recording/" + plan.filename().string() + "/" + file, bytes});
      }
  }
  return found;
}

void read_recording(const fs::path& state, const look& what, const person& who, looked& to) {
  auto [files, refusal] = recorded_files(state, what.recording_of, who);
  if (files.empty() && !refusal.empty()) return void(to.refusal = std::move(refusal));
  if (what.file.empty()) return void(to.files = std::move(files));
  const bool known = std::any_of(files.begin(), files.end(), [&](const recorded_file& f) { return f.name == what.file; });
  std::ifstream in;
  if (known) in.open(state / what.file, std::ios::binary);
  if (!in.is_open()) return void(to.refusal = "this node has no such recorded file");
  in.seekg(static_cast<std::streamoff>(what.offset));
  to.bytes.resize(max_recording_piece);
  in.read(to.bytes.data(), static_cast<std::streamsize>(to.bytes.size()));
  to.bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
}

}  // namespace

report report_of(const shared& s, const std::vector<role_published>& roles, instant now) {
  report r;
  for (const auto& p : s.data_net->stats().peers) {
    r.tcp_in += p.bytes_in;
    r.tcp_out += p.bytes_out;
    if (p.up) r.links.push_back({p.peer, p.transport, p.why_not, p.bytes_in, p.bytes_out, p.shared_in, p.round_trip});
  }
  const auto busier = [](const link_entry& a, const link_entry& b) { return a.bytes_in + a.bytes_out > b.bytes_in + b.bytes_out; };
  if (r.links.size() > max_links_shown) {
    std::nth_element(r.links.begin(), r.links.begin() + max_links_shown, r.links.end(), busier);
    r.links.resize(max_links_shown);
  }
  r.gpus = shown(s.gpus->latest(now));
  r.memory = resident_memory();
  for (const auto& p : roles) r.roles.push_back(entry_of(p));
  return r;
}

namespace {

looked whole_answer_to(const shared& s, const look& what, const person& who) {
  looked to;
  to.id = what.id;
  to.incarnation = s.options.incarnation;
  if (const auto* record = s.host->activities()) read_record(*record, what, to);
  if (what.recording_of != 0) read_recording(s.options.state, what, who, to);
  if (!what.state) return to;
  to.state = report_of(s, s.host->published(), std::chrono::steady_clock::now());
  for (const auto& j : s.host->plans()) to.plans.push_back(plan_entry_of(*j));
  return to;
}

}  // namespace

looked answer_to(const shared& s, const look& what, const person& who) {
  return fitted_look(what, [&s, &who](const look& l) { return whole_answer_to(s, l, who); });
}

}  // namespace troupe::control
