// `troupe init`, `troupe unroll`, `troupe pack`, `troupe check` and `troupe init-cluster`: what is done before anything runs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/troupe_commands.hpp"
#include "ops/device.hpp"
#include "runtime/data/packed.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/node/pki/certificates.hpp"
#include "runtime/plain/unroll.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

// A cluster file says [cluster] or [[node]]; everything else is a job.
bool is_cluster_file(const std::string& path) {
  auto text = read_text(path);
  if (!std::holds_alternative<std::string>(text)) return false;
  auto doc = parse_document(std::get<std::string>(text), path);
  const auto* root = std::get_if<document_table>(&doc);
  return root && (find_entry(*root, "cluster") || find_entry(*root, "node"));
}

// Simulated clusters, faults and scenarios.
bool is_sim_file(const std::string& path) {
  auto text = read_text(path);
  if (!std::holds_alternative<std::string>(text)) return false;
  auto doc = parse_document(std::get<std::string>(text), path);
  const auto* root = std::get_if<document_table>(&doc);
  const auto has = [&](const char* key) { return find_entry(*root, key) != nullptr; };
  return root && (has("run") || has("network") || has("compute") || has("fault"));
}

// The host of "host:port" or "[v6]:port".
std::string host_of(const std::string& address) {
  const auto colon = address.rfind(':');
  auto host = colon == std::string::npos ? address : address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

int check_one(const std::string& file, const std::vector<std::string>& overrides, const output& out) {
  const auto good = [&](const char* kind, const std::string& text, nlohmann::ordered_json more) {
    nlohmann::ordered_json o{{"event", "check"}, {"file", file}, {"kind", kind}};
    o.update(more);
    if (out.json())
      out.object(o);
    else
      out.text(file + ": good: " + text);
    return int{exit_done};
  };
  if (is_cluster_file(file)) {
    auto read = read_cluster_file(file);
    if (auto* bad = std::get_if<diagnostics>(&read)) return out.wrong(*bad);
    const auto& c = std::get<cluster_spec>(read);
    return good("cluster", "cluster " + c.name + " of " + std::to_string(c.nodes.size()) + " nodes\n",
                {{"name", c.name}, {"nodes", c.nodes.size()}});
  }
  if (is_sim_file(file)) {
    auto read = read_sim_file(file);
    if (auto* bad = std::get_if<diagnostics>(&read)) return out.wrong(*bad);
    const auto& s = std::get<sim_spec>(read);
    return good("simulation", "simulation\n", {{"scenario", s.run.has_value()}, {"faults", s.faults.list.size()}});
  }
  job_arguments a;
  a.file = file;
  a.overrides = overrides;
  auto loaded = load_job(a);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  const auto& j = *std::get<std::shared_ptr<prepared_job>>(loaded);
  return good("job", job_summary(j),
              {{"name", j.spec.name}, {"layers", j.graph.layers.size()}, {"parameters", j.graph.parameter_count}});
}

}  // namespace

int run_check(const check_arguments& a, const output& out) {
  int worst = exit_done;
  for (const auto& f : a.files) worst = std::max(worst, check_one(f, a.overrides, out));
  return worst;
}

int run_init(const init_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  const auto& j = *std::get<std::shared_ptr<prepared_job>>(loaded);
  const auto dev = make_cpu_device();
  const auto named = initial_weights(j, *dev);
  if (auto e = save_weights(j, named, 0, a.out)) return out.failed({}, e->to_string());
  const auto hash = weights_sha256(named);
  if (out.json())
    out.object({{"event", "init"}, {"file", a.out}, {"parameters", j.graph.parameter_count}, {"weights_sha256", hash}});
  out.text(a.out + ": " + with_commas(static_cast<std::uint64_t>(j.graph.parameter_count)) + " parameters, weights sha256 " + hash +
           "\n");
  return exit_done;
}

int run_unroll(const unroll_arguments& a, const output& out) {
  auto read = read_safetensors(a.file);
  if (auto* bad = std::get_if<record_error>(&read)) return wrong_file(out, *bad);
  auto made = unroll(std::get<safetensors_content>(read).named);
  if (auto* why = std::get_if<std::string>(&made)) return out.wrong(a.file, *why);
  const auto& u = std::get<unrolled>(made);
  if (auto why = why_unwritable(a.out); !why.empty()) return out.wrong(a.out, why);
  if (auto e = write_safetensors(a.out, u.named, {{"format", "pt"}})) return out.failed({}, e->to_string());
  if (out.json()) out.object({{"event", "unroll"}, {"file", a.out}, {"layers", u.layers}});
  std::string names;
  for (const auto& l : u.layers) names += (names.empty() ? "" : ", ") + l;
  out.text(a.out + ": weights of the linear layers " + names + "\n");
  return exit_done;
}

int run_pack(const pack_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (auto* bad = std::get_if<diagnostics>(&loaded)) return out.wrong(*bad);
  if (auto why = why_unwritable(a.out); !why.empty()) return out.wrong(a.out, why);
  const auto& j = *std::get<std::shared_ptr<prepared_job>>(loaded);
  const auto packed = pack(*j.data, a.out);
  if (const auto* e = std::get_if<std::string>(&packed)) return out.failed({}, *e);
  const auto& r = std::get<packed_result>(packed);
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

int run_init_cluster(const init_cluster_arguments& a, const output& out) {
  auto read = read_cluster_file(a.cluster);
  if (auto* bad = std::get_if<diagnostics>(&read)) return out.wrong(*bad);
  const auto& c = std::get<cluster_spec>(read);
  std::vector<certificate_subject> nodes;
  for (const auto& n : c.nodes) nodes.push_back({n.name, {host_of(n.address)}});
  certificate_options options;
  options.overwrite = a.overwrite;
  if (auto made = make_cluster_certificates(c.tls_dir, c.name, nodes, options); !made) {
    const auto& e = made.error();
    const bool theirs = e.code == "exists" || e.code == "bad_name" || e.code == "directory_open";
    const auto text = e.message + (e.code == "exists" ? " (--overwrite makes new ones, and the old ones are worthless then)" : "");
    return theirs ? out.wrong(a.cluster, text) : out.failed(a.cluster, text);
  }
  if (out.json()) {
    auto names = nlohmann::ordered_json::array();
    for (const auto& n : nodes) names.push_back(n.name);
    out.object({{"event", "init-cluster"}, {"cluster", c.name}, {"dir", c.tls_dir}, {"nodes", names}});
  }
  out.text("certificates of cluster " + c.name + " are in " + c.tls_dir + "\n");
  out.text(
      "Each node needs ca.pem and its own .pem and .key; operators need ca.pem and client.pem, client.key. ca.key signs further\n"
      "nodes: keep it here.\n");
  return exit_done;
}

}  // namespace troupe
