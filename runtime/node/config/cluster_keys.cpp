#include "runtime/node/config/cluster_keys.hpp"

namespace troupe {

const keys<cluster_spec>& cluster_file_keys() {
  static const keys<cluster_spec> k(
      "The file", "",
      {other_key<cluster_spec>(
           key_kind::texts, "plugins",
           "shared libraries that daemons load, and no others: `\"PATH#sha256=DIGEST\"`; a relative path begins at this file"),
       other_key<cluster_spec>(key_kind::table, "cluster", "the cluster as such").required(),
       other_key<cluster_spec>(key_kind::tables, "node",
                               "a table for each node; one has the role coordinator, one worker, one server at least")
           .required()});
  return k;
}

const keys<cluster_spec>& cluster_keys() {
  static const keys<cluster_spec> k(
      "[cluster]", "",
      {text_key<cluster_spec>("name", "stands in every certificate; no blanks, '/' or ':'", &cluster_spec::name).required(),
       other_key<cluster_spec>(key_kind::table, "tls", "where certificates are").required(),
       texts_key<cluster_spec>("data", "folders under which daemons read the data of jobs; \".\" is the folder of this file")
           .otherwise(written(node_spec{}.data)),
       texts_key<cluster_spec>("checkpoints", "folders under which jobs may keep checkpoints ([checkpoint] dir); likewise")
           .otherwise("none"),
       flag_key<cluster_spec>(
           "shared_memory", "nodes of one machine and user read large tensors where they lie in each other's memory (docs/wire.md)")
           .otherwise("true"),
       other_key<cluster_spec>(key_kind::bytes, "exchange_memory",
                               "the most that all clients of the exchange reserve of one daemon (docs/own-loop.md)")
           .otherwise("a quarter of the daemon's memory, at most 4 GiB"),
       flag_key<cluster_spec>("inject",
                              "whoever has the role admin may have nodes suffer faults, `inject` in the REPL (docs/failures.md)")
           .otherwise("false")});
  return k;
}

const keys<cluster_spec>& tls_keys() {
  static const keys<cluster_spec> k(
      "[cluster.tls]", "`troupe init-cluster` makes what is in it.",
      {text_key<cluster_spec>("dir", "folder of the certificates; a relative path begins at this file").required()});
  return k;
}

const keys<node_spec>& node_keys() {
  static const keys<node_spec> k(
      "[[node]]", "",
      {text_key<node_spec>("name", "as its certificate has it, and `place` of a layer; no blanks, '/' or ':'", &node_spec::name)
           .required(),
       text_key<node_spec>("address", "host:port that the others reach it by; port 0: any that is free", &node_spec::address)
           .required(),
       texts_key<node_spec>("devices", "one thread for each: \"cpu:0\", \"cpu:1\", ...", &node_spec::devices),
       texts_key<node_spec>("roles", "what may live there: coordinator, worker, server, data, tester", &node_spec::roles),
       other_key<node_spec>(key_kind::bytes, "memory_limit", "a plan that would hold more there is refused (docs/memory.md)",
                            &node_spec::memory_limit)
           .otherwise("none"),
       texts_key<node_spec>("data", "folders under which this daemon reads the data of jobs").otherwise("as [cluster] has it"),
       texts_key<node_spec>("checkpoints", "folders under which jobs that it coordinates may keep checkpoints")
           .otherwise("as [cluster] has it")});
  return k;
}

std::vector<key_table> cluster_tables() {
  return {cluster_file_keys().described(), cluster_keys().described(), tls_keys().described(), node_keys().described()};
}

}  // namespace troupe
