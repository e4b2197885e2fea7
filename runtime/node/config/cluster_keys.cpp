#include "runtime/node/config/cluster_keys.hpp"

namespace troupe {

const keys<cluster_spec>& cluster_file_keys() {
  static const keys<cluster_spec> k(
      "The file", "",
      {other_key<cluster_spec>(key_kind::texts, "plugins",
                               "shared libraries that daemons may load, as `\"PATH\"` or `\"PATH#sha256=DIGEST\"`; relative paths "
                               "start at the folder of this file"),
       other_key<cluster_spec>(key_kind::table, "cluster", "general settings of the cluster").required(),
       other_key<cluster_spec>(key_kind::tables, "node",
                               "one table per node; at least one node needs each of the roles coordinator, worker and server")
           .required()});
  return k;
}

const keys<cluster_spec>& cluster_keys() {
  static const keys<cluster_spec> k(
      "[cluster]", "",
      {name_key<cluster_spec>("name", "name of the cluster, part of every certificate; must not contain spaces, '/' or ':'",
                              &cluster_spec::name)
           .required(),
       other_key<cluster_spec>(key_kind::table, "tls", "location of the certificates").required(),
       texts_key<cluster_spec>("data", "folders in which daemons may read the data of jobs; \".\" is the folder of this file")
           .otherwise(written(node_spec{}.data)),
       texts_key<cluster_spec>("checkpoints",
                               "folders in which jobs may write checkpoints ([checkpoint] dir); \".\" is the folder of this file")
           .otherwise("none"),
       flag_key<cluster_spec>("shared_memory",
                              "nodes of one machine and user read large tensors directly in each other's memory (docs/wire.md)")
           .otherwise("true"),
       other_key<cluster_spec>(
           key_kind::bytes, "exchange_memory",
           "maximum memory that all clients of the exchange together may reserve on one daemon (docs/own-loop.md)")
           .otherwise("a quarter of the daemon's memory, at most 4 GiB"),
       text_key<cluster_spec>("page",
                              "host:port at which the coordinator's daemon serves the browser page ([page.md](page.md)): over HTTP "
                              "on a loopback address, otherwise over HTTPS; port 0: any free port")
           .otherwise("none"),
       word_key<cluster_spec>("page_role", {"observer", "operator", "admin"},
                              "what people with the page's token may do: look; also steer all jobs; also inject faults")
           .otherwise("\"operator\""),
       flag_key<cluster_spec>(
           "inject", "operators with the role admin may inject faults into nodes, with `inject` in the REPL (docs/failures.md)")
           .otherwise("false")});
  return k;
}

const keys<cluster_spec>& tls_keys() {
  static const keys<cluster_spec> k(
      "[cluster.tls]", "`troupe init-cluster` creates the files of this folder.",
      {text_key<cluster_spec>("dir", "folder of the certificates; relative paths start at the folder of this file").required()});
  return k;
}

const keys<node_spec>& node_keys() {
  static const keys<node_spec> k(
      "[[node]]", "",
      {name_key<node_spec>("name",
                           "name of the node in its certificate and in `place` of layers; must not contain spaces, '/' or ':'",
                           &node_spec::name)
           .required(),
       text_key<node_spec>("address", "host:port at which the other nodes reach it; port 0: any free port", &node_spec::address)
           .required(),
       text_key<node_spec>("data_address",
                           "host:port at which the other nodes reach its data plane, for firewalls and for a network of its own "
                           "([clusters.md](clusters.md#firewalls)); port 0: any free port",
                           &node_spec::data_address)
           .otherwise("the host of `address`, and any free port"),
       texts_key<node_spec>("devices",
                            "devices of the node: \"cpu:0\", \"cpu:1\", ..., a thread each, and \"gpu:0\", ... ([gpu.md](gpu.md))",
                            &node_spec::devices),
       reals_key<node_spec>("tflops", least_speed, no_upper,
                            "speed of each device, in any unit, for `fraction = \"auto\"` (docs/gpu.md)")
           .otherwise("all equal"),
       texts_key<node_spec>("roles", "roles that the node may host: coordinator, worker, server, data, tester", &node_spec::roles),
       other_key<node_spec>(key_kind::bytes, "memory_limit",
                            "memory limit of a job on this node; plans that need more are refused (docs/memory.md)",
                            &node_spec::memory_limit)
           .otherwise("no limit"),
       texts_key<node_spec>("data", "folders in which this daemon may read the data of jobs").otherwise("that of [cluster]"),
       texts_key<node_spec>("checkpoints", "folders in which jobs that this node coordinates may write checkpoints")
           .otherwise("that of [cluster]"),
       text_key<node_spec>("metrics_address",
                           "host:port at which the daemon serves /metrics for Prometheus ([ecosystem.md](ecosystem.md)): over HTTP "
                           "on a loopback address, otherwise over HTTPS and with `metrics_token`; port 0: any free port",
                           &node_spec::metrics_address)
           .otherwise("none"),
       text_key<node_spec>(
           "metrics_token",
           "file with the bearer token that readers of /metrics must send, of mode 0600; relative paths start at the "
           "folder of this file",
           &node_spec::metrics_token)
           .otherwise("none"),
       texts_key<node_spec>(
           "predict",
           "net files (.troupe) whose predictions the daemon serves over HTTP ([predict.md](predict.md#over-http)); "
           "relative paths start at the folder of this file; needs `predict_address`")
           .otherwise("none"),
       text_key<node_spec>("predict_address",
                           "host:port at which the daemon serves them: over HTTP on a loopback address, otherwise over HTTPS and "
                           "with `predict_token`; port 0: any free port")
           .otherwise("none"),
       text_key<node_spec>("predict_token",
                           "file with the bearer token that their clients must send, of mode 0600; relative paths likewise")
           .otherwise("none")});
  return k;
}

std::vector<key_table> cluster_tables() {
  return {cluster_file_keys().described(), cluster_keys().described(), tls_keys().described(), node_keys().described()};
}

}  // namespace troupe
