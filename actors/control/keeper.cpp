#include "actors/control/keeper.hpp"

#include <set>

#include "actors/shell/exception_text.hpp"
#include "actors/view/about.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/machine_memory.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

std::string safe_name(const std::string& name) {
  std::string out;
  for (char c : name.substr(0, 48)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    out += plain ? c : '_';
  }
  return out;
}

}  // namespace

std::string plan_hash(const job_plan& p) {
  std::string text;
  const auto number = [&](auto v) { text += std::to_string(v) + ","; };
  const auto list = [&](const std::vector<std::uint32_t>& v) {
    for (auto x : v) number(x);
    text += ";";
  };
  for (const auto& r : p.roles) {
    text += r.name + ":";
    number(static_cast<unsigned>(r.kind));
    number(r.node);
    number(r.device);
    list(r.layers);
    list(r.in_edges);
    list(r.out_edges);
  }
  for (const auto& e : p.edges)
    for (auto v : {index_of(e.from), index_of(e.to), std::uint32_t{e.from_port}, std::uint32_t{e.to_port},
                   std::uint32_t{e.grad_back}, e.packets.first, e.packets.count, e.credit})
      number(v);
  for (const auto& e : p.edges)
    for (auto v :
         {e.region.begin, e.region.end, e.need.begin, e.need.end, std::int64_t{e.addend}, static_cast<std::int64_t>(e.wire)})
      number(v);
  for (const auto& b : p.blocks) {
    number(b.param);
    number(b.begin);
    number(b.count);
    number(b.run);
    number(b.stride);
    number(index_of(b.shard));
    list(b.takers);
  }
  for (const auto& r : p.ranges) {
    number(r.first);
    number(r.count);
  }
  number(p.packets);
  number(p.sub_solvers);
  number(static_cast<std::uint32_t>(p.rule));
  for (auto d : p.delay) number(d);
  return sha256_hex(text.data(), text.size());
}

keeper::made keeper::read(const job_text& what) const {
  job_limits limits{at_.cluster.plugins, {}};
  for (const auto& n : at_.cluster.nodes)
    if (n.name == at_.self) limits.data = n.data;
  return prepare_text({what.text, what.file, what.overrides, std::move(limits)}, at_.all, at_.cluster.nodes);
}

namespace {

// The most that a file of the job's weights, states of a rule and what its lanes carry may have, in any type; a little more for what it says.
std::uint64_t room_of(const prepared_job& j) {
  double values = 0;
  for (const auto& p : j.graph.params) values += static_cast<double>(p.spec.dims.count());
  for (const auto& l : j.graph.layers)
    for (const auto& c : l.carries) values += static_cast<double>(c.dims.count()) * j.plan.packets;
  return static_cast<std::uint64_t>(values * 8 * 16) + (std::uint64_t{64} << 20);
}

// What the head has to know of a plan.
checked facts_of(const prepared_job& j) {
  checked c;
  c.name = j.spec.name;
  c.plan_hash = plan_hash(j.plan);
  c.last_step = j.last_step;
  c.deterministic = j.spec.train.deterministic;
  c.room = room_of(j);
  c.continued = j.continued;
  c.from = j.first_step;
  c.about = std::make_shared<const repl_about>(about_job(j));
  std::set<std::uint32_t> used;
  for (const auto& r : j.plan.roles) used.insert(r.node);
  for (auto n : used) c.nodes.push_back(j.plan.nodes[n].name);
  return c;
}

amendments words_of(const revise& r) {
  amendments a;
  for (const auto& p : r.layers) a.layers.push_back({p.layer, p.place, p.whole});
  a.without = {r.without.begin(), r.without.end()};
  a.mode = r.mode;
  a.mode_options = r.mode_options;
  return a;
}

}  // namespace

checked keeper::check(const check_text& what) {
  checked c;
  const auto wrong = [&](const diagnostics& bad) {
    for (const auto& d : bad) c.messages.push_back(d.to_string());
    return c;
  };
  auto m = read(what.what);
  if (const auto* bad = std::get_if<diagnostics>(&m)) return wrong(*bad);
  auto chosen = settled(what, std::get<std::shared_ptr<prepared_job>>(m));
  if (const auto* bad = std::get_if<diagnostics>(&chosen)) return wrong(*bad);
  auto& s = std::get<settled_convolutions>(chosen);
  if (what.received) {
    auto& u = uploads_[what.job];
    u.out.close();
    u.what = what.given;
    if (const auto bad = begin_with_given(*s.job, u, what.what.overrides)) {
      c.messages.push_back(bad->to_string());
      return c;
    }
  }
  c = facts_of(*s.job);
  c.overrides = overrides_of(s.chosen);
  c.notes = std::move(s.warnings);
  return c;
}

// Before anything of it is held: this machine's memory, which the coordinator's may not be like.
std::string keeper::too_much(const prepared_job& j) const {
  for (std::uint32_t n = 0; n < j.plan.nodes.size(); ++n)
    if (j.plan.nodes[n].name == at_.self)
      if (const auto bad = over_budget(j, n, machine_memory())) return bad->to_string();
  return {};
}

std::string keeper::make(const prepare& what) {
  auto m = read(what.what);
  if (const auto* bad = std::get_if<diagnostics>(&m)) return bad->empty() ? "unreadable job" : bad->front().to_string();
  const auto j = std::get<std::shared_ptr<prepared_job>>(m);
  j->id = what.job;
  if (plan_hash(j->plan) != what.plan_hash)
    return "makes another plan of this job: its cluster file, data or build differ from the coordinator's";
  if (auto bad = too_much(*j); !bad.empty()) return bad;
  if (auto bad = continue_as(*j, what); !bad.empty()) return bad;
  original_ = j;
  return spawn(j, 0);
}

std::string keeper::spawn(const std::shared_ptr<const prepared_job>& j, std::uint32_t leg) {
  std::vector<std::string> names;
  std::uint32_t me = static_cast<std::uint32_t>(j->plan.nodes.size());
  for (const auto& n : j->plan.nodes) {
    if (n.name == at_.self) me = static_cast<std::uint32_t>(names.size());
    names.push_back(n.name);
  }
  std::vector<std::uint32_t> node_of;
  for (const auto& r : j->plan.roles) node_of.push_back(r.node);
  at_.route.open(j->id, std::move(names), std::move(node_of));
  try {
    at_.host.spawn(j->id, j, me, leg);
  } catch (...) {
    at_.route.close(j->id);
    return current_exception_text();
  }
  job_ = j;
  return {};
}

void keeper::end(std::uint32_t job) {
  at_.route.close(job);
  at_.host.end(job);
  if (job_ && job_->id == job) job_.reset();
  if (original_ && original_->id == job) original_.reset();
  forget(job);
}

// --- another plan of a job that runs

plan_found keeper::amend(const check_move& what) {
  plan_found f;
  try {
    f = plan_of(what);
  } catch (...) {
    f.error = current_exception_text();
  }
  f.job = what.job;
  return f;
}

plan_found keeper::plan_of(const check_move& what) const {
  plan_found f;
  if (!job_ || job_->id != what.job || !original_) {
    f.error = "the job is gone";
    return f;
  }
  auto a = amended(*job_, what.so_far, what.wish);
  if (const auto* why = std::get_if<std::string>(&a)) {
    f.error = *why;
    return f;
  }
  f.words = std::get<amendments>(std::move(a));
  auto again = prepare_again(original_, f.words);
  if (const auto* bad = std::get_if<diagnostics>(&again)) {
    f.error = bad->empty() ? "unreadable job" : bad->front().message;
    return f;
  }
  const auto& j = *std::get<std::shared_ptr<prepared_job>>(again);
  f.plan = facts_of(j);
  f.mode = mode_text(j);
  return f;
}

std::string keeper::revise(const control::revise& what) {
  const auto job = what.what.job;
  try {
    if (!original_ || original_->id != job) {
      auto m = read(what.what.what);
      if (const auto* bad = std::get_if<diagnostics>(&m)) return bad->empty() ? "unreadable job" : bad->front().to_string();
      auto j = std::get<std::shared_ptr<prepared_job>>(m);
      j->id = job;
      original_ = std::move(j);
    }
    auto again = prepare_again(original_, words_of(what));
    if (const auto* bad = std::get_if<diagnostics>(&again)) return bad->empty() ? "unreadable job" : bad->front().to_string();
    next_ = std::get<std::shared_ptr<prepared_job>>(again);
    next_leg_ = what.leg;
  } catch (...) {
    return current_exception_text();
  }
  if (plan_hash(next_->plan) == what.what.plan_hash) {
    auto bad = too_much(*next_);
    if (!bad.empty()) next_.reset();
    return bad;
  }
  next_.reset();
  return "makes another plan of this job: its cluster file, data or build differ from the coordinator's";
}

void keeper::hand_over(std::uint32_t job, const store_effect& what) {
  if (next_ && next_->id == job) handed_ = what;
}

std::string keeper::swap(const control::swap& what) {
  at_.route.close(what.job);
  at_.host.end(what.job);
  if (!next_ || next_->id != what.job || next_leg_ != what.leg) return "has not made the plan that is to follow";
  auto h = std::exchange(handed_, std::nullopt);
  if (h)
    continue_at(*next_, what.step, h->with, std::move(h->named));
  else
    continue_at(*next_, what.step);
  return spawn(std::exchange(next_, nullptr), what.leg);
}

void keeper::forget(std::uint32_t job) {
  if (!next_ || next_->id != job) return;
  next_.reset();
  handed_.reset();
  if (!job_ || job_->id != job) original_.reset();
}

fs::path keeper::folder_of(const prepared_job& j) const {
  return at_.state / ("job-" + std::to_string(number_of(j.id)) + "-" + safe_name(j.spec.name) + "-" + std::to_string(j.id >> 16));
}

kept_file keeper::save_checkpoint_in(const fs::path& folder, const prepared_job& j, const store_effect& what) const {
  const auto c = checkpoint_of(j, what, at_.numerics);
  if (auto bad = save_checkpoint(folder.string(), c))
    return write_elsewhere(std::move(*bad), safe_name(j.spec.name) + ".checkpoint.safetensors",
                           [&](const std::string& path) { return write_checkpoint(path, c); });
  const auto files = checkpoint_files(folder.string());
  return {files.empty() ? std::string() : files.front(), {}};
}

kept_file keeper::save_weights_in(const fs::path& folder, const prepared_job& j, const store_effect& what) const {
  return write_or_elsewhere((folder / "weights.safetensors").string(), [&](const std::string& path) -> std::optional<record_error> {
    std::error_code ec;
    const auto parent = fs::path(path).parent_path();
    fs::create_directories(parent, ec);
    if (ec) return record_error{parent.string(), {}, "cannot create: " + ec.message()};
    return write_safetensors(path, what.named, weights_metadata(j, what.step));
  });
}

stored keeper::save(std::uint32_t job, const store_effect& what) {
  stored s{job, what.what, {}, {}, {}};
  const auto j = job_;
  if (!j || j->id != job) {
    s.error = "the job is gone";
    return s;
  }
  try {
    const auto folder = folder_of(*j);
    const auto kept = what.what == "checkpoint" ? save_checkpoint_in(folder, *j, what) : save_weights_in(folder, *j, what);
    s.path = kept.path;
    if (kept.trouble) s.error = kept.trouble->to_string();
    if (what.what != "checkpoint") s.sha256 = weights_sha256(what.named);
  } catch (...) {
    s.error = current_exception_text();
  }
  return s;
}

}  // namespace troupe::control
