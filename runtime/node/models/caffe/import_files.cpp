#include "runtime/node/models/caffe/import_files.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/models/caffe/import_net.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe::caffe {
namespace {

constexpr std::size_t max_text = std::size_t{64} << 20;

struct content {
  std::string file;
  const void* data = nullptr;
  std::size_t bytes = 0;
};

struct read_text_file {
  std::string file;
  proto_field tree;
};

// The files of a model, by what they are.
struct model_files {
  std::optional<read_text_file> net, solver, net_of_solver;
  std::vector<read_text_file> nodes;
  std::string weights_file;
  std::optional<binary_net> weights;
};

// The net that a solver has inside: net_param, or train_net_param.
std::optional<proto_field> net_inside(const proto_field& solver) {
  for (const auto* name : {"net_param", "train_net_param"})
    for (const auto& f : solver.fields)
      if (f.name == name && f.what == proto_field::kind::message) return f;
  return std::nullopt;
}

expected<void, diagnostics> sort_text(const content& c, model_files& into) {
  if (c.bytes > max_text) return unexpected(model_error(c.file, "is larger than 64 MiB, which no prototxt is"));
  auto tree = parse_prototxt({static_cast<const char*>(c.data), c.bytes}, c.file);
  if (!tree) return unexpected(std::move(tree).error());
  read_text_file read{c.file, *std::move(tree)};
  if (is_node_file(read.tree)) {
    into.nodes.push_back(std::move(read));
    return {};
  }
  const bool solver = is_solver(read.tree);
  if (auto inside = solver ? net_inside(read.tree) : std::nullopt) into.net_of_solver = read_text_file{c.file, *std::move(inside)};
  auto& place = solver ? into.solver : into.net;
  if (place)
    return unexpected(model_error(
        c.file, "is a second " + std::string(&place == &into.net ? "net" : "solver") + "; the first is " + place->file));
  place = std::move(read);
  return {};
}

expected<void, diagnostics> sort_file(const content& c, model_files& into) {
  if (!c.file.ends_with(".caffemodel")) return sort_text(c, into);
  if (into.weights) return unexpected(model_error(c.file, "is a second .caffemodel; the first is " + into.weights_file));
  auto read = parse_binary_net(c.data, c.bytes);
  if (!read) return unexpected(model_error(c.file, read.error().text));
  into.weights_file = c.file;
  into.weights = *std::move(read);
  return {};
}

// The layers of the .caffemodel by name, for a net of another file.
void attach_weights(const model_files& files, net& to, findings& found) {
  std::map<std::string, std::vector<const blob*>> by_name;
  for (const auto& l : files.weights->net.fields) {
    if (l.name != "layer" && l.name != "layers") continue;
    std::string name;
    std::vector<const blob*> blobs;
    for (const auto& f : l.fields) {
      if (f.name == "name") name = f.text;
      if (f.what == proto_field::kind::blob) blobs.push_back(&files.weights->blob_of(f));
    }
    if (!blobs.empty()) by_name[name] = std::move(blobs);
  }
  std::map<std::string, bool> used;
  for (auto& l : to.layers)
    if (const auto b = by_name.find(l.name); b != by_name.end()) l.blobs = b->second, used[l.name] = true;
  for (const auto& [name, blobs] : by_name)
    if (!used.contains(name))
      found.note("the weights of layer " + in_quotes(name) + " in " + files.weights_file +
                 " are left out: the net has no such layer");
}

void check_names(const name_pairs& names, const net& n, findings& found) {
  for (const auto& [theirs, ours] : names)
    if (std::none_of(n.layers.begin(), n.layers.end(), [&t = theirs](const net_layer& l) { return l.name == t; }))
      found.error(proto_field(), "there is no layer " + in_quotes(theirs) + ", which the list of names has");
}

job_model translate_files(const model_files& files, const name_pairs& names, findings& found) {
  const bool own = !files.net;
  const auto& tree = own ? files.weights->net : files.net->tree;
  found.file = own ? files.weights_file : files.net->file;
  auto n = read_net(tree, own ? &files.weights->blobs : nullptr, found);
  if (!own && files.weights) attach_weights(files, n, found);
  check_names(names, n, found);
  const auto shares = read_shares(n);
  auto job = translate_net(n, files.weights.has_value(), names, found);
  if (files.solver) {
    found.file = files.solver->file;
    read_solver(files.solver->tree, job, found);
    found.file = own ? files.weights_file : files.net->file;
  } else {
    assume_solver(job);
  }
  write_shares(shares, job, found);
  std::vector<node_file> nodes;
  for (const auto& f : files.nodes) nodes.push_back({std::filesystem::path(f.file).stem().string(), f.file, &f.tree});
  write_nodes(nodes, n, job, found);
  if (job.name.empty()) job.name = std::filesystem::path(found.file).stem().string();
  if (const auto fine = check_name(job.name); !fine) {
    job.name = as_name(job.name);
    found.note("the job is called " + in_quotes(job.name) + ": " + fine.error().text);
  }
  std::replace(job.name.begin(), job.name.end(), '/', '_');
  return job;
}

expected<imported_model, diagnostics> import_contents(const std::vector<content>& contents, const name_pairs& names) {
  model_files files;
  for (const auto& c : contents)
    if (auto ok = sort_file(c, files); !ok) return unexpected(std::move(ok).error());
  if (!files.net) files.net = std::move(files.net_of_solver);
  if (!files.net && !files.weights)
    return unexpected(model_error(contents.empty() ? "" : contents[0].file, "there is no net among the files: name its .prototxt"));
  findings found;
  const auto job = translate_files(files, names, found);
  if (!found.wrong.empty()) return unexpected(shown_mistakes(std::move(found.wrong)));
  imported_model made;
  made.job = job_text(job);
  for (const auto& l : job.layers)
    for (const auto& [name, value] : l.weights) made.weights.emplace_back(l.name + "." + name, value);
  made.notes = std::move(found.notes);
  return made;
}

}  // namespace

expected<imported_model, diagnostics> import_files(const import_request& asked) {
  std::vector<file_bytes> kept;
  std::vector<content> contents;
  for (const auto& file : asked.files) {
    auto read = read_file(file);
    if (!read) return unexpected(model_error(file, read.error().text));
    kept.push_back(*std::move(read));
    contents.push_back({file, kept.back().data.get(), kept.back().bytes});
  }
  return import_contents(contents, asked.names);
}

expected<imported_model, diagnostics> import_texts(const std::vector<named_text>& files, const name_pairs& names) {
  std::vector<content> contents;
  for (const auto& f : files) contents.push_back({f.file, f.bytes.data(), f.bytes.size()});
  return import_contents(contents, names);
}

}  // namespace troupe::caffe
