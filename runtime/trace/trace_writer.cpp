#include "runtime/trace/trace_writer.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

void describe(track_event_file& to, const trace_job& j) {
  if (j.text.empty()) return;
  to.instant(to.track_in(to.process("troupe"), "job"), {}, trace_job::name, {.texts = {{{"text", j.text}, {"nodes", j.nodes}}}});
}

std::string trace_summary_text(const trace_summary& s) {
  auto text = s.file + ": " + std::to_string(s.activities) + " messages, tasks and states; open it in ui.perfetto.dev";
  if (s.lost > 0) text += "\n" + std::to_string(s.lost) + " are missing: roles were faster than the trace could be written";
  for (const auto& note : s.notes) text += "\n" + note;
  return text;
}

expected<std::unique_ptr<trace_writer>> trace_writer::create(const std::filesystem::path& file) {
  auto out = track_event_file::create(file);
  if (!out) return unexpected(std::move(out).error());
  return std::unique_ptr<trace_writer>(new trace_writer(file, *std::move(out)));
}

void trace_writer::add(const std::string& node, std::vector<activity> all, duration shift) {
  std::stable_sort(all.begin(), all.end(), [](const activity& a, const activity& b) { return a.at < b.at; });
  for (const auto& a : all)
    if (a.at + shift >= time_point{}) lines_.add(a, names_.place(node, a, shift), shift);
}

expected<trace_summary> trace_writer::finish() {
  if (const auto written = out_.finish(); !written) return unexpected(error(file_.string() + ": " + written.error().text));
  return trace_summary{file_.string(), lines_.activities(), lost_};
}

void role_names::set(const std::string& node, std::vector<activity_names> plans, duration shift) {
  for (auto& p : plans) p.since += shift;
  auto& known = plans_[node];
  if (plans == known) return;
  known = std::move(plans);
  by_role_.clear();
  for (const auto& [where, list] : plans_)
    for (const auto& p : list)
      for (std::uint32_t r = 0; r < p.roles.size(); ++r)
        if (!p.roles[r].empty()) by_role_[{p.job, role_id{r}}].push_back({p.since, kept(where), kept(p.roles[r])});
  for (auto& [role, names] : by_role_)
    std::stable_sort(names.begin(), names.end(), [](const named& a, const named& b) { return a.since < b.since; });
}

// The name since the latest plan before `at`; before the first plan, that of the first.
// Null: the role is unknown.
const role_names::named* role_names::find(std::uint32_t job, role_id role, time_point at) const {
  const auto found = by_role_.find({job, role});
  if (found == by_role_.end()) return nullptr;
  const auto& names = found->second;
  const auto after = std::upper_bound(names.begin(), names.end(), at, [](time_point t, const named& n) { return t < n.since; });
  return after == names.begin() ? &names.front() : &*std::prev(after);
}

time_point role_names::known_since(const named& n, time_point at) { return n.since <= at ? n.since : time_point{}; }

activity_place role_names::place(const std::string& node, const activity& a, duration shift) {
  activity_place p{kept(node), {}, {}, {}};
  const auto* self = find(a.job, a.role, a.at + shift);
  if (self) {
    p.role = self->role;
    p.since = known_since(*self, a.at + shift);
  } else {
    p.role = kept("role " + std::to_string(index_of(a.role)) + " of job " + std::to_string(a.job));
  }
  const bool has_peer = a.kind == activity::kind_of::received || a.kind == activity::kind_of::sent;
  if (!has_peer || a.peer == no_role) return p;
  if (const auto* peer = find(a.job, a.peer, a.at + shift)) {
    p.peer_node = peer->node;
    p.peer = peer->role;
    p.peer_since = known_since(*peer, a.at + shift);
  }
  return p;
}

}  // namespace troupe
