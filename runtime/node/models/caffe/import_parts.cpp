#include "runtime/node/models/caffe/import_files.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe {
namespace {

constexpr int gpus = 4;

std::vector<double> read_proportions(net_layer& l, const char* what) {
  std::vector<double> list;
  bool any = false;
  for (int k = 0; k < gpus; ++k) {
    const auto name = "gpu_" + std::to_string(k) + "_" + what + "_proportion";
    any = any || l.fields().has(name);
    const auto v = l.fields().real(name, 0);
    if (v < 0 || v > 1) l.fields().error(name, in_quotes(name) + " is between 0 and 1");
    list.push_back(v);
  }
  const auto sum = list[0] + list[1] + list[2] + list[3];
  if (sum > 1 + 1e-6) l.error(std::string("its gpu_*_") + what + "_proportion add up to " + number_text(sum) + ", more than 1");
  return any ? list : std::vector<double>();
}

struct share {
  std::string device;
  double part = 0;
};

// The devices with a share, GPUs first; the CPU has the rest.
std::vector<share> devices_of(const layer_shares& s) {
  std::vector<share> list;
  const auto& parts = s.depth.empty() ? s.batch : s.depth;
  double rest = 1;
  for (std::size_t k = 0; k < parts.size(); ++k)
    if (parts[k] > 0) list.push_back({"gpu:" + std::to_string(k), parts[k]}), rest -= parts[k];
  if (rest > 1e-6) list.push_back({"cpu:0", list.empty() ? 1 : std::round(rest * 1e9) / 1e9});
  return list;
}

// The fewest packets of the batch in which every share is a whole number of packets. If there are
// none, the most up to 64.
struct packet_choice {
  std::int64_t packets = 1;
  bool exact = false;
};
packet_choice packets_for(std::int64_t batch, const std::set<double>& shares) {
  packet_choice rough;
  for (std::int64_t n = 1; n <= std::min<std::int64_t>(batch, 65535); ++n) {
    if (batch % n != 0) continue;
    const auto whole = [n](double s) {
      return std::abs(s * static_cast<double>(n) - std::round(s * static_cast<double>(n))) < 1e-6;
    };
    if (std::all_of(shares.begin(), shares.end(), whole)) return {n, true};
    if (n <= 64) rough.packets = n;
  }
  return rough;
}

std::int64_t batch_of(const job_model& job) {
  std::int64_t batch = 1;
  for (const auto& [key, value] : job.data)
    if (key == "batch") read_number(value, batch);
  return batch;
}

// Shares of the batch are whole packets. A solver's iter_size has set their number already.
void choose_packets(const std::set<double>& shares, job_model& job, findings& found) {
  const auto batch = batch_of(job);
  const auto [packets, exact] = packets_for(batch, shares);
  if (!exact)
    found.note("the proportions of Caffe con Troll are rounded to packets: no number of packets that divides the batch of " +
               std::to_string(batch) + " fits all of them");
  if (!job.pipeline.empty())
    found.note("the packets are those of iter_size; the proportions of Caffe con Troll are rounded to them");
  else if (packets > 1)
    job.pipeline.emplace_back("packets", toml_text(packets));
}

void place_layer(job_layer& l, const std::vector<share>& where, bool by_depth) {
  std::vector<std::string> places;
  std::vector<double> parts;
  bool equal = true;
  for (const auto& s : where) {
    places.push_back("local/" + s.device);
    parts.push_back(s.part);
    equal = equal && std::abs(s.part - where[0].part) < 1e-6;
  }
  if (places.size() == 1) return l.set("place", toml_text(places[0]));
  l.set("partition", by_depth ? "\"feature\"" : "\"batch\"");
  l.set("place", toml_text(places));
  if (!equal) l.set("fraction", toml_text(parts));
}

// A node file, read: the layers from `start` on, and its part of them.
struct node_part {
  std::string node, start;
  std::vector<std::string> ends;
  std::int64_t splits = 1, position = 0, staleness = 0;
};

node_part read_node(const node_file& n, findings& found) {
  const auto file = found.file;
  found.file = n.file;
  node_part p;
  p.node = n.node;
  {
    message_reader r(*n.tree, "ModelRequest", "", found);
    p.start = r.text("start_layer");
    p.ends = r.texts("end_layers");
    for (auto& e : r.texts("end_layer")) p.ends.push_back(e);
    p.splits = r.integer("num_splits", 1, 1, 10000);
    auto info = r.message("node_info");
    p.position = info.integer("position", 0, 0, 10000);
    p.staleness = info.integer("staleness", 0);
    info.ignore({"ip", "router_port", "pub_port", "node_id", "node_role", "sync_mode", "net_if"});
  }
  found.file = file;
  return p;
}

// The layers of the net that lie between the start and the ends, by name.
std::set<std::string> layers_between(const net& from, const node_part& p) {
  std::set<std::string> blobs, inside;
  for (const auto& l : from.layers) {
    const auto reads = [&](const std::string& b) { return blobs.contains(b); };
    if (l.name != p.start && !std::any_of(l.bottoms.begin(), l.bottoms.end(), reads)) continue;
    inside.insert(l.name);
    if (std::find(p.ends.begin(), p.ends.end(), l.name) == p.ends.end()) blobs.insert(l.tops.begin(), l.tops.end());
  }
  return inside;
}

}  // namespace

shares_of_layers read_shares(net& from) {
  shares_of_layers all;
  for (auto& l : from.layers) {
    layer_shares s{read_proportions(l, "batch"), read_proportions(l, "depth")};
    if (!s.batch.empty() && !s.depth.empty() && s.batch != std::vector<double>(gpus, 0) && s.depth != std::vector<double>(gpus, 0))
      l.error("it has proportions of the batch and of the depth; one of them can be split");
    if (!s.batch.empty() || !s.depth.empty()) all[l.name] = s;
  }
  return all;
}

void write_shares(const shares_of_layers& shares, job_model& job, findings& found) {
  if (shares.empty()) return;
  std::set<std::string> devices;
  std::set<double> by_batch;
  for (auto& l : job.layers) {
    const auto s = shares.find(l.theirs);
    const auto depth = s != shares.end() && !s->second.depth.empty();
    const auto where = devices_of(s == shares.end() ? layer_shares() : s->second);
    for (const auto& w : where) {
      devices.insert(w.device);
      if (!depth) by_batch.insert(w.part);
    }
    place_layer(l, where, depth);
  }
  job.job.emplace_back("devices", toml_text(std::vector<std::string>(devices.begin(), devices.end())));
  choose_packets(by_batch, job, found);
  found.note("layers have the places of Caffe con Troll's proportions: a share of the batch is a number of packets");
}

bool is_node_file(const proto_field& tree) {
  return std::any_of(tree.fields.begin(), tree.fields.end(), [](const proto_field& f) { return f.name == "start_layer"; });
}

void write_nodes(const std::vector<node_file>& nodes, const net& from, job_model& job, findings& found) {
  std::map<std::string, std::vector<node_part>> by_start;  // parts of the same layers
  std::int64_t staleness = 0;
  for (const auto& n : nodes) {
    auto p = read_node(n, found);
    staleness = std::max(staleness, p.staleness);
    by_start[p.start].push_back(std::move(p));
  }
  for (const auto& [start, parts] : by_start) {
    const auto is_start = [&s = start](const net_layer& l) { return l.name == s; };
    if (std::none_of(from.layers.begin(), from.layers.end(), is_start))
      found.error(proto_field(),
                  "there is no layer " + in_quotes(start) + ", with which the node " + in_quotes(parts[0].node) + " starts");
  }
  for (const auto& first : from.layers) {  // in this order, so that the last start before a layer decides
    const auto here = by_start.find(first.name);
    if (here == by_start.end() || first.bottoms.empty()) continue;  // without bottoms: workers, which have all other layers
    auto parts = std::move(here->second);
    by_start.erase(here);
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
    std::vector<std::string> names;
    for (const auto& p : parts) names.push_back(p.node);
    const auto inside = layers_between(from, parts[0]);
    for (auto& l : job.layers) {
      if (!inside.contains(l.theirs) || l.part != job_layer::role::plain) continue;
      std::erase_if(l.keys, [](const auto& key) { return key.first == "place" || key.first == "partition"; });
      if (names.size() > 1) l.set("partition", "\"feature\"");
      l.set("place", names.size() > 1 ? toml_text(names) : toml_text(names[0]));
    }
    found.note("the layers from " + in_quotes(first.name) + " on are on " + joined(names) + ": nodes of a cluster file");
  }
  const auto placed = [](const job_layer& l) {
    return std::any_of(l.keys.begin(), l.keys.end(), [](const auto& key) { return key.first == "place"; });
  };
  if (staleness > 0 && std::any_of(job.layers.begin(), job.layers.end(), placed))
    found.note("the staleness " + std::to_string(staleness) + " is left out: layers are placed in mode bsp only");
  else if (staleness > 0)
    job.train.emplace_back("sync", "{ mode = \"ssp\", staleness = " + toml_text(staleness) + " }");
}

}  // namespace troupe::caffe
