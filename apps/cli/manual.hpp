// Man pages (roff), from the tables of commands and options and from the reference pages of files.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct manual_page {
  std::string name;  // "troupe-train"
  int section = 1;   // 1: commands, 5: files, 8: daemons
  std::string text;
};
// troupe(1), one page for each command, troupe-job(5), troupe-cluster(5), trouped(8).
std::vector<manual_page> manual();
// What `troupe reference man` takes: names of commands, "job", "cluster", "troupe", "trouped".
std::vector<std::string> manual_names();

}  // namespace troupe
