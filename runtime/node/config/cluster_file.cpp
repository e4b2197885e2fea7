#include "runtime/node/config/cluster_file.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/device_names.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/plugin_list.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "runtime/node/net/transport.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

const std::vector<std::string> node_roles{"coordinator", "worker", "server", "data", "tester"};

bool host_name(const std::string& h) {
  const auto plain = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !h.empty() && h.size() <= 253 && h.front() != '.' && h.front() != '-' && h.find("..") == std::string::npos &&
         std::all_of(h.begin(), h.end(), plain);
}

// Returns true if a name of digits and dots only is not four numbers below 256.
bool bad_ipv4(const std::string& h) {
  if (h.find_first_not_of("0123456789.") != std::string::npos) return false;
  int parts = 0;
  for (std::size_t at = 0; at <= h.size(); ++parts) {
    const auto dot = std::min(h.find('.', at), h.size());
    int n = -1;
    const auto [end, ec] = std::from_chars(h.data() + at, h.data() + dot, n);
    if (ec != std::errc() || end != h.data() + dot || n > 255) return true;
    at = dot + 1;
  }
  return parts != 4;
}

bool ipv6(const std::string& h) {
  return h.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos && std::count(h.begin(), h.end(), ':') >= 2;
}

class cluster_reader {
 public:
  cluster_reader(const document_table& root, const std::string& file) : root_(root, "", {file, 1, 1}, errors_) {
    spec_.file = file;
  }

  const cluster_rules& rules() const { return rules_; }
  expected<cluster_spec, diagnostics> read() {
    spec_.plugins = take_plugins(root_, spec_.file);
    read_cluster();
    read_nodes();
    root_.finish();
    std::stable_sort(errors_.begin(), errors_.end(), [](const diagnostic& a, const diagnostic& b) {
      return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
    });
    if (!errors_.empty()) return unexpected(shown_mistakes(std::move(errors_)));
    return std::move(spec_);
  }

 private:
  void read_cluster() {
    if (!root_.take("cluster")) return root_.error("cluster", "there is no [cluster] table");
    auto r = root_.table("cluster", "[cluster]");
    if (!r) return;
    if (!r->take("name")) r->error("name", "it needs a name");
    if (cluster_keys().read(*r, spec_, "name")) check_name(*r, spec_.name);
    if (!r->take("tls")) {
      r->error("tls",
               "there is no [cluster.tls] table; nodes communicate over TLS only: create certificates with `troupe init-cluster`");
    } else if (auto t = r->table("tls", "[cluster.tls]")) {
      std::string dir;
      if (!t->take("dir")) t->error("dir", "it needs dir, the folder of the certificates");
      if (tls_keys().read_into(*t, "dir", dir)) {
        if (dir.empty()) t->error("dir", "the folder name is empty");
        spec_.tls_dir = relative_to(spec_.file, dir);
      }
      t->finish();
    }
    read_folders(*r, "data", data_);
    read_folders(*r, "checkpoints", checkpoints_);
    cluster_keys().read_into(*r, "inject", rules_.inject);
    cluster_keys().read_into(*r, "shared_memory", rules_.shared_memory);
    cluster_keys().read_into(*r, "exchange_memory", rules_.exchange_memory);
    if (cluster_keys().read_into(*r, "page", rules_.page)) check_address(*r, rules_.page, "page");
    cluster_keys().read_into(*r, "page_role", rules_.page_role);
    r->finish();
  }

  // Folders for data or checkpoints. NUL is refused, because comparisons would end there.
  void read_folders(table_reader& r, const char* key, std::vector<std::string>& into) {
    std::vector<std::string> folders;
    if (!node_keys().read_into(r, key, folders)) return;
    for (auto& f : folders) {
      if (f.empty() || f.find('\0') != std::string::npos)
        return r.error(key, "bad folder " + in_quotes(f) + ": write a path; \".\" is the folder of this file");
      f = relative_to(spec_.file, f);
    }
    into = std::move(folders);
  }

  static void check_name(table_reader& r, const std::string& name) {
    if (name.find_first_of(" /:") != std::string::npos)
      r.error("name", "bad name " + in_quotes(name) + ": a name must not contain spaces, '/' or ':'");
  }

  void read_nodes() {
    const auto* v = root_.take("node");
    const auto* list = v ? v->array() : nullptr;
    const auto is_table = [](const document_value& e) { return e.table() != nullptr; };
    if (!list || list->empty() || !std::all_of(list->begin(), list->end(), is_table))
      return root_.error("node", "the cluster has no nodes: add [[node]] tables");
    for (const auto& e : *list) {
      node_spec n;
      n.at = e.at;
      table_reader r(*e.table(), "a node", n.at, errors_);
      read_node(r, n);
      spec_.nodes.push_back(std::move(n));
    }
    check_roles(root_.at("node"));
  }

  void read_node(table_reader& r, node_spec& n) {
    if (!r.take("name")) {
      r.error("name", "it needs a name");
    } else if (node_keys().read(r, n, "name")) {
      r.rename("node " + in_quotes(n.name));
      check_name(r, n.name);
      once(r, "name", n.name, names_);
    }
    if (!r.take("address"))
      r.error("address", "it needs an address, as in address = \"127.0.0.1:7701\"");
    else if (node_keys().read(r, n, "address"))
      check_address(r, n.address);
    if (node_keys().read(r, n, "data_address")) check_address(r, n.data_address, "data_address");
    if (node_keys().read(r, n, "devices")) check_devices(r, n.devices);
    read_speeds(r, node_keys(), n);
    if (node_keys().read(r, n, "roles")) check_role_names(r, n.roles);
    node_keys().read(r, n, "memory_limit");
    n.data = data_;
    n.checkpoints = checkpoints_;
    read_folders(r, "data", n.data);
    read_folders(r, "checkpoints", n.checkpoints);
    if (node_keys().read(r, n, "metrics_address")) check_address(r, n.metrics_address, "metrics_address");
    if (node_keys().read(r, n, "metrics_token")) {
      if (n.metrics_token.empty()) r.error("metrics_token", "the file name is empty");
      n.metrics_token = relative_to(spec_.file, n.metrics_token);
    }
    read_predictions(r, n.predict);
    r.finish();
  }

  void read_predictions(table_reader& r, predict_spec& p) {
    if (node_keys().read_into(r, "predict", p.nets))
      for (auto& f : p.nets) {
        if (!f.ends_with(".troupe"))
          r.error("predict", "bad net file " + in_quotes(f) + ": `troupe export` writes files that end in .troupe");
        f = relative_to(spec_.file, f);
      }
    if (node_keys().read_into(r, "predict_address", p.address)) check_address(r, p.address, "predict_address");
    if (node_keys().read_into(r, "predict_token", p.token)) {
      if (p.token.empty()) r.error("predict_token", "the file name is empty");
      p.token = relative_to(spec_.file, p.token);
    }
    if (p.nets.empty() != p.address.empty())
      r.error(p.nets.empty() ? "predict_address" : "predict",
              p.nets.empty() ? "it needs predict, a list of net files"
                             : "it needs predict_address, as in predict_address = \"127.0.0.1:8080\"");
  }

  // Checks that a name or address is unique in the file.
  void once(table_reader& r, const char* key, const std::string& word, std::map<std::string, source_position>& seen) {
    const auto [first, fresh] = seen.try_emplace(word, r.at(key));
    if (!fresh)
      r.error(key, std::string("duplicate ") + key + " " + in_quotes(word) + "; first used at " + first->second.to_string());
  }

  void check_address(table_reader& r, const std::string& address, const char* key = "address") {
    const auto a = net::parse_address(address);
    const bool good = a && (a->host.find(':') != std::string::npos ? ipv6(a->host) : host_name(a->host) && !bad_ipv4(a->host));
    if (!good)
      return r.error(key,
                     "bad address " + in_quotes(address) + ": write host:port, as in \"127.0.0.1:7701\", with a port up to 65535");
    if (a->host == "0.0.0.0" || a->host == "::")
      return r.error(key, "the address " + in_quotes(address) +
                              " stands for all interfaces: write the address at which the other nodes reach this node");
    if (a->port != 0) once(r, key, address, addresses_);  // port 0: any free port
  }

  void check_role_names(table_reader& r, const std::vector<std::string>& roles) {
    if (roles.empty()) r.error("roles", "the list of roles is empty");
    std::set<std::string> seen;
    for (const auto& role : roles) {
      if (std::find(node_roles.begin(), node_roles.end(), role) == node_roles.end())
        r.error("roles",
                "unknown role " + in_quotes(role) + did_you_mean(role, node_roles) + " (available: " + joined(node_roles) + ")");
      else if (!seen.insert(role).second)
        r.error("roles", "the role " + in_quotes(role) + " is listed twice");
    }
  }

  void check_roles(const source_position& at) {
    for (const std::string needed : {"coordinator", "worker", "server"}) {
      const auto has = [&](const node_spec& n) { return std::find(n.roles.begin(), n.roles.end(), needed) != n.roles.end(); };
      if (std::none_of(spec_.nodes.begin(), spec_.nodes.end(), has))
        errors_.push_back({at, "no node has the role " + in_quotes(needed)});
    }
  }

  diagnostics errors_;
  table_reader root_;
  cluster_spec spec_;
  cluster_rules rules_;
  std::vector<std::string> data_ = node_spec{}.data, checkpoints_;  // of [cluster]: defaults for nodes without their own
  std::map<std::string, source_position> names_, addresses_;
};

}  // namespace

expected<cluster_spec, diagnostics> parse_cluster(const std::string& text, const std::string& file, cluster_rules* rules) {
  auto doc = parse_document(text, file);
  if (!doc) return unexpected(std::move(doc).error());
  cluster_reader reader(*doc, file);
  auto read = reader.read();
  if (rules && read.has_value()) *rules = reader.rules();
  return read;
}

expected<cluster_spec, diagnostics> read_cluster_file(const std::string& path, cluster_rules* rules) {
  auto text = read_text(path);
  if (!text) return unexpected(std::move(text).error());
  return parse_cluster(*text, path, rules);
}

}  // namespace troupe
