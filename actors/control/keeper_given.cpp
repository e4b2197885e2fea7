// The keeper's part in files that jobs begin with: written piece by piece below the node's state, read when the job is checked, when its
// roles are made, and again when a node is lost before the first checkpoint; gone when the job is over. A job that is resumed begins like the next plan of one that runs: with a handover, here made of the file.
#include <cerrno>
#include <cstring>

#include "actors/control/keeper.hpp"
#include "runtime/job/record.hpp"

namespace troupe::control {
namespace {

namespace fs = std::filesystem;

std::string last_error() { return errno != 0 ? std::strerror(errno) : "unknown error"; }

}  // namespace

keeper::keeper(place at) : at_(std::move(at)) {
  std::error_code ignored;
  std::vector<fs::path> old;  // of another life
  for (fs::directory_iterator i(at_.state / "given", ignored), end; !ignored && i != end; i.increment(ignored))
    if (!at_.wanted.contains(i->path().string())) old.push_back(i->path());
  for (const auto& file : old) fs::remove(file, ignored);
}

fs::path given_path(const fs::path& state, std::uint32_t job) { return state / "given" / (std::to_string(job) + ".safetensors"); }

std::string keeper::keep(const keep_piece& what) {
  auto& u = uploads_[what.job];
  errno = 0;
  if (what.offset == 0) {
    const auto folder = at_.state / "given";
    std::error_code ec;
    fs::create_directories(folder, ec);
    if (ec) return folder.string() + ": " + ec.message();
    u.path = given_path(at_.state, what.job);
    u.out.open(u.path, std::ios::binary | std::ios::trunc);
  }
  if (u.out) u.out.write(what.bytes.data(), static_cast<std::streamsize>(what.bytes.size()));
  if (u.out) u.out.flush();
  return u.out ? std::string() : u.path.string() + ": " + last_error();
}

void keeper::drop(std::uint32_t job) {
  const auto at = uploads_.find(job);
  if (at == uploads_.end()) return;
  at->second.out.close();
  std::error_code ignored;
  if (at->second.ours) fs::remove(at->second.path, ignored);
  uploads_.erase(at);
}

// A job with measured convolutions goes on with those of its checkpoint.
std::variant<settled_convolutions, diagnostics> keeper::settled(const check_text& what, std::shared_ptr<prepared_job> j) {
  if (what.given.kind != given_file::checkpoint || j->spec.convolution != "measured") return settle_convolutions(j, *at_.dev);
  if (!what.received) return settled_convolutions{j, {}, {}, {}};
  auto read = load_checkpoint(uploads_[what.job].path.string());
  const auto* c = std::get_if<checkpoint>(&read);
  const auto table = c ? conv_table_from(kept_convolutions(c->extra)) : std::nullopt;
  if (!table || table->empty()) return settle_convolutions(j, *at_.dev);
  auto with = with_convolutions(*j, *table);
  if (auto* bad = std::get_if<diagnostics>(&with)) return std::move(*bad);
  return settled_convolutions{std::get<std::shared_ptr<prepared_job>>(with), *table, {}, {}};
}

std::optional<record_error> keeper::begin_with_given(prepared_job& j, const upload& u,
                                                     const std::vector<std::string>& overrides) const {
  const auto named = [&](record_error e) {
    e.file = u.what.file;  // as the client knows it
    return e;
  };
  if (u.what.kind == given_file::checkpoint) {
    auto read = load_checkpoint(u.path.string());
    if (auto* bad = std::get_if<record_error>(&read)) return named(std::move(*bad));
    return resume_from(j, std::get<checkpoint>(std::move(read)), u.what.file, at_.numerics, overrides);
  }
  auto read = read_safetensors(u.path.string());
  if (auto* bad = std::get_if<record_error>(&read)) return named(std::move(*bad));
  auto begun = begin_from_weights(j, std::get<safetensors_content>(std::move(read)), u.what.file);
  if (auto* bad = std::get_if<record_error>(&begun)) return std::move(*bad);
  return {};
}

// Of every node: where the coordinator role will be the file is, elsewhere its step is enough.
std::string keeper::continue_as(prepared_job& j, const prepare& what) {
  if (!what.continued) return {};
  const auto at = uploads_.find(what.job);
  const bool coordinates = j.plan.nodes[j.plan.roles.front().node].name == at_.self;
  if (at == uploads_.end() && coordinates) return "the file that it begins with is gone";
  if (at == uploads_.end()) return continue_at(j, what.from), std::string();
  at->second.overrides = what.what.overrides;
  const auto bad = begin_with_given(j, at->second, at->second.overrides);
  if (!bad && at->second.since) take_along(*j.before, *at->second.since);
  if (bad) return bad->to_string();
  return j.first_step == what.from ? std::string() : "the file that it begins with has changed";
}

}  // namespace troupe::control
