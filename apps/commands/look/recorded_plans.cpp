#include "apps/commands/look/recorded_plans.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "apps/commands/job.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/handover_record.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

// An error if the folders do not belong together, or one of them cannot be replayed.
expected<void, record_error> check_same_job(const recorded_plan& p) {
  const auto& [folders, all, job] = p;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& m = all[i];
    if (m.messages.job != all[0].messages.job || m.plan_generation != all[0].plan_generation)
      return unexpected(
          record_error{folders[i], {}, "it belongs to another plan than " + folders[0] + "; replay its folder by itself"});
    for (std::size_t k = 0; k < i; ++k)
      if (all[k].messages.node == m.messages.node)
        return unexpected(
            record_error{folders[i], {}, "it belongs to node " + m.messages.node + ", and " + folders[k] + " does too"});
    if (auto fine = check_replay(m); !fine) return unexpected(record_error{folders[i], {}, std::move(fine).error().text});
  }
  return {};
}

expected<void, post_mortem_error> begin_with_recorded(prepared_job& j, const std::string& file) {
  auto read = load_checkpoint(file);
  if (!read) return unexpected(post_mortem_error{std::move(read).error(), true});
  auto h = handover_of(*std::move(read));
  if (!h) return unexpected(post_mortem_error{{file, {}, "metadata '" + h.error().text + "' is missing or malformed"}, true});
  const auto step = h->step;
  auto named = std::move(h->named);
  continue_at(j, step, std::make_shared<const handover>(*std::move(h)), std::move(named));
  return {};
}

// Gives the job the state that the recorded or failed plan began with.
expected<void, post_mortem_error> begin_like(prepared_job& j, const recorded_plan& p, const std::string& numerics) {
  const auto no = [](record_error e) { return unexpected(post_mortem_error{std::move(e)}); };
  const auto& all = p.nodes;
  const auto& first = all.front().begins;
  if (first.kind == plan_beginning::with::fillers) return {};
  const auto named = std::find_if(all.begin(), all.end(), [](const post_mortem& m) { return !m.begins.file.empty(); });
  if (named == all.end())
    return no({p.folders.front(),
               {},
               "the state that the plan began with is in the folder of node " + j.plan.nodes[j.plan.roles.front().node].name +
                   ", which has the coordinator role: add it"});
  const auto& b = named->begins;
  if (b.kind == plan_beginning::with::recorded) return begin_with_recorded(j, b.file);
  if (b.sha256.empty()) return no({b.file, {}, "the job began with this file, but the file had changed when the job failed"});
  const auto read = read_file(b.file);
  if (!read) return no({b.file, {}, "the job began with this file: " + read.error().text});
  const auto& bytes = *read;
  if (sha256_hex(bytes.data.get(), bytes.bytes) != b.sha256)
    return no({b.file, {}, "the job began with this file, but it has changed since"});
  if (b.kind == plan_beginning::with::checkpoint) {
    auto resumed = resume_from(j, b.file, numerics, named->what.overrides);
    if (!resumed) return no(std::move(resumed).error());
    return {};
  }
  auto from = begin_from_weights(j, b.file);
  if (!from) return no(std::move(from).error());
  return {};
}

expected<std::shared_ptr<prepared_job>, diagnostics> prepared_like(const post_mortem& m) {
  auto made = prepare_text(m.what, std::make_shared<const tables>(node_tables()), m.nodes);
  if (made && m.chosen) choose(**made, *m.chosen);
  if (m.changes == amendments{} || !made) return made;
  return prepare_again(*made, m.changes);
}

// Returns true if no role of the plan has received a message, e.g. because a node failed before the
// plan began. There is nothing to repeat.
bool never_began(const recorded_plan& p) {
  return std::all_of(p.nodes.begin(), p.nodes.end(), [](const post_mortem& m) {
    return std::all_of(m.messages.roles.begin(), m.messages.roles.end(), [](const replay::role_part& r) { return r.handled == 0; });
  });
}

const replay::role_part* part_of(const std::vector<post_mortem>& all, role_id r) {
  for (const auto& m : all)
    for (const auto& p : m.messages.roles)
      if (p.id == r) return &p;
  return nullptr;
}

}  // namespace

expected<std::vector<recorded_plan>, post_mortem_error> read_recorded(const std::vector<std::string>& folders, bool load_plugins) {
  std::map<std::tuple<std::string, std::uint32_t, std::uint64_t>, recorded_plan> by_plan;
  for (const auto& f : folders) {
    auto read = read_post_mortem(f);
    if (!read) return unexpected(std::move(read).error());
    read->what.load_plugins = load_plugins;
    auto& p = by_plan[{read->messages.job, read->plan_generation, read->begins.step}];
    p.folders.push_back(f);
    p.nodes.push_back(*std::move(read));
  }
  std::vector<recorded_plan> plans;
  for (auto& [key, p] : by_plan) plans.push_back(std::move(p));
  if (!std::all_of(plans.begin(), plans.end(), never_began)) std::erase_if(plans, never_began);
  std::sort(plans.begin(), plans.end(),
            [](const recorded_plan& a, const recorded_plan& b) { return a.first().milliseconds < b.first().milliseconds; });
  return plans;
}

int unreadable(const output& out, const post_mortem_error& e) {
  return e.damaged ? out.failed(e.file, e.message) : wrong_file(out, e);
}

int prepare_to_replay(recorded_plan& p, const device& dev, const output& out) {
  if (const auto ok = check_same_job(p); !ok) return wrong_file(out, ok.error());
  auto made = prepared_like(p.first());
  if (!made) return out.wrong(made.error());
  p.job = *made;
  p.job->id = p.first().job;
  if (plan_hash(p.job->plan) != p.first().messages.job)
    return out.wrong(p.folders.front(), "this build makes another plan for the job, or the job's data have changed");
  if (const auto ok = begin_like(*p.job, p, dev.numerics_id()); !ok) return unreadable(out, ok.error());
  return exit_done;
}

std::vector<std::string> limits_of_replay(const recorded_plan& p) {
  std::vector<std::string> limits;
  std::string missing, cut;
  for (std::uint32_t i = 0; i < p.job->plan.nodes.size(); ++i) {
    const auto& roles = p.job->plan.roles;
    if (std::none_of(roles.begin(), roles.end(), [&](const auto& r) { return r.node == i; })) continue;  // drained or lost
    const auto& n = p.job->plan.nodes[i];
    const auto at = std::find_if(p.nodes.begin(), p.nodes.end(), [&](const post_mortem& m) { return m.messages.node == n.name; });
    if (at == p.nodes.end())
      missing += (missing.empty() ? "" : ", ") + n.name;
    else if (std::any_of(at->messages.roles.begin(), at->messages.roles.end(), [](const auto& r) { return r.cut; }))
      cut += (cut.empty() ? "" : ", ") + n.name;
  }
  if (!missing.empty()) limits.push_back("no folder of " + missing + " was given: roles on these nodes run in any order");
  if (!cut.empty())
    limits.push_back("the process on " + cut + " did not end its log: it was killed, and its last messages are missing");
  if (mode_text(*p.job).starts_with("hogwild"))
    limits.emplace_back(
        "hogwild accesses its array without a lock, in an order that no log records: numbers may differ from the recorded run");
  return limits;
}

std::unique_ptr<replay::player> make_player(const recorded_plan& p, device& dev) {
  auto made = std::make_unique<replay::player>(dev, p.job->id);
  for (const auto& r : p.job->plan.roles) made->add(make_role(p.job, r.id), r.name, r.node, part_of(p.nodes, r.id));
  return made;
}

void tell_replayed(const output& out, const prepared_job& j, role_id who, const event_effect& e) {
  const auto flat = flatten(e);
  nlohmann::ordered_json o{{"event", name_of(e).name}, {"step", e.step}, {"role", j.plan[who].name}};
  for (const auto& [name, value] : flat.values) o[name] = value;
  if (out.json()) return out.object(o);
  out.text(std::string(name_of(e).name) + " at step " + with_commas(e.step) + (flat.message.empty() ? "" : ": " + flat.message) +
           "\n");
}

}  // namespace troupe
