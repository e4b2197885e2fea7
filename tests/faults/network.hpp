// A network of a test's own: each node in a network namespace, one router between them, which is
// where the test itself is. Ways can be cut so that packets vanish and nobody gets a word of it,
// one way or both, one plane or both; and links can have a rate.
//
// The thread that makes it is in the router's namespace until it goes, and so are the threads and
// programs that it begins meanwhile.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::testing_cluster {

class network {
 public:
  explicit network(std::filesystem::path folder);  // for its files
  ~network();
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  // What is missing here; empty: all works.
  const std::string& why_not() const { return why_not_; }

  // One more node. Its address, and the words before a program that is to run there.
  void add(const std::string& node);
  const std::string& address(const std::string& node) const { return nodes_.at(node).address; }
  std::vector<std::string> inside(const std::string& node) const;

  // From here on packets from one node to another vanish: all, or those of a port, which is the
  // receiver's or the sender's own.
  struct way {
    std::string from, to;
    std::uint16_t to_port = 0, from_port = 0;  // 0: any
  };
  void cut(const std::vector<way>& ways) { rules("add", ways); }  // all at once
  void heal(const std::vector<way>& ways) { rules("del", ways); }

  // Both directions of a node's link, such as "20mbit".
  void set_rate(const std::string& node, const std::string& rate);

 private:
  void rules(const std::string& verb, const std::vector<way>& ways);
  bool run(const std::vector<std::string>& words);
  bool batch(const std::vector<std::string>& before, const std::string& lines);

  std::filesystem::path folder_;
  std::string why_not_;
  int home_ = -1;  // the namespace that the thread came from
  struct place {
    int descriptor = -1;  // of its namespace, which lives as long
    std::string address;
  };
  std::map<std::string, place> nodes_;
};

}  // namespace troupe::testing_cluster
