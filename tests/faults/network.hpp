// A network for a test: each node in its own network namespace, with one router between them, in
// whose namespace the test runs. Ways can be cut, so that packets are dropped without notification,
// in one or both directions, for one port or all; links can have a rate.
//
// The thread that creates the object is in the router's namespace while the object exists, and so
// are the threads and programs that it starts meanwhile.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::testing_cluster {

class network {
 public:
  explicit network(std::filesystem::path folder);  // for temporary files
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  // Why networks cannot be created here; empty if they can.
  const std::string& why_not() const { return why_not_; }

  // Adds a node. address(): its IP address; inside(): prefix of a command line that runs in its
  // namespace.
  void add(const std::string& node);
  const std::string& address(const std::string& node) const { return nodes_.at(node).address; }
  std::vector<std::string> inside(const std::string& node) const;

  // One direction between two nodes, for cut() and heal(). Packets of the given port are dropped:
  // the receiver's (to_port) or the sender's (from_port).
  struct way {
    std::string from, to;
    std::uint16_t to_port = 0, from_port = 0;  // 0: any
  };
  void cut(const std::vector<way>& ways) { rules("add", ways); }  // in one batch
  void heal(const std::vector<way>& ways) { rules("del", ways); }

  // Limits both directions of a node's link, e.g. "20mbit".
  void set_rate(const std::string& node, const std::string& rate);

 private:
  void rules(const std::string& verb, const std::vector<way>& ways);
  bool run(const std::vector<std::string>& words);
  bool batch(const std::vector<std::string>& before, const std::string& lines);

  std::filesystem::path folder_;
  std::string why_not_;
  int home_ = -1;  // the thread's original namespace
  struct place {
    int descriptor = -1;  // keeps its namespace alive
    std::string address;
  };
  std::map<std::string, place> nodes_;
};

}  // namespace troupe::testing_cluster
