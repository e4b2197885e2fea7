// Pages of `troupe plan`, `troupe layers`, `troupe modes`, and the end of `troupe sim`.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "tests/apps/child.hpp"
#include "tests/apps/terminal.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;
using testing::Not;

class command_pages : public command_test {
 protected:
  static std::string job_of(const std::string& name) { return std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/" + name; }
  std::string text_of(const std::vector<std::string>& words) const {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string l; std::getline(in, l);) lines.push_back(l);
    return lines;
  }
};

TEST_F(command_pages, plan_begins_with_the_model_in_100_columns) {
  for (const std::string name : {"alexnet.toml", "googlenet.toml"}) {
    const auto lines = lines_of(text_of({"plan", job_of(name)}));
    auto l = lines.begin();
    while (l != lines.end() && !l->starts_with("layer ")) ++l;
    ASSERT_NE(l, lines.end()) << name;
    for (; l != lines.end() && !l->empty(); ++l) EXPECT_LE(l->size(), 100u) << *l;
  }
}

TEST_F(command_pages, plan_sums_parameters_and_operations) {
  const auto job = write("job.toml", tiny_job());
  const auto plan = objects(text_of({"plan", job, "--json"})).at(0);
  const auto text = text_of({"plan", job});
  bool found = false;
  for (const auto& l : lines_of(text)) {
    if (!l.starts_with("total ")) continue;
    found = true;
    std::string number;
    std::copy_if(l.begin(), l.end(), std::back_inserter(number), [](char c) { return c != ','; });
    EXPECT_THAT(number, HasSubstr(" " + std::to_string(plan["parameters"].get<int>()) + " ")) << l;
  }
  EXPECT_TRUE(found) << text;
  EXPECT_THAT(text, HasSubstr("FLOP, forward and backward."));
  EXPECT_THAT(text, HasSubstr("received/step"));
}

TEST_F(command_pages, plan_counts_trained_parameters_beside_running_statistics) {
  const auto text = text_of({"plan", job_of("resnet20.toml")});
  EXPECT_THAT(text, HasSubstr("Of the parameters, "));
  EXPECT_THAT(text, HasSubstr(" are running statistics.\n"));
  EXPECT_THAT(text_of({"plan", write("job.toml", tiny_job())}), Not(HasSubstr("running statistic")));
}

TEST_F(command_pages, plan_lists_routes_only_when_asked) {
  const auto job = write("job.toml", tiny_job());
  EXPECT_THAT(text_of({"plan", job}), Not(HasSubstr("shape of a packet")));
  EXPECT_THAT(text_of({"plan", job, "--routes"}), HasSubstr("shape of a packet"));
}

TEST_F(command_pages, every_layer_is_listed_once_and_its_page_fits_80_columns) {
  const auto list = lines_of(text_of({"layers"}));
  std::vector<std::string> names;
  for (const auto& event : objects(text_of({"layers", "--json"}))) names.push_back(event["name"]);
  ASSERT_GT(names.size(), 30u);
  for (const auto& name : names) {
    EXPECT_EQ(std::count_if(list.begin(), list.end(), [&](const std::string& l) { return l.starts_with("  " + name + " "); }), 1)
        << name;
    for (const auto& l : lines_of(text_of({"layers", name}))) EXPECT_LE(l.size(), 80u) << name << ": " << l;
  }
  for (const auto& l : list) EXPECT_LE(l.size(), 80u) << l;
  EXPECT_EQ(std::count(list.begin(), list.end(), "other"), 0)
      << "a layer of the tree has no group in apps/commands/look/layers.cpp";
}

TEST_F(command_pages, layer_page_has_options_with_defaults_and_an_example) {
  const auto page = text_of({"layers", "max_pool"});
  EXPECT_THAT(page, HasSubstr("max_pool: y = max of x"));
  EXPECT_THAT(page, HasSubstr("\nexample: "));
  EXPECT_THAT(page, HasSubstr("  [[layer]]\n  name = \"max_pool1\"\n  type = \"max_pool\"\n"));
  EXPECT_LE(lines_of(page).size(), 24u) << page;
}

TEST_F(command_pages, page_uses_the_width_of_the_terminal) {
  const auto rows = [&](unsigned short columns) {
    terminal t({troupe_program(), "layers", "convolution"}, folder_, columns);
    EXPECT_EQ(t.wait(), 0);
    return lines_of(t.screen()).size();
  };
  EXPECT_LT(rows(200), rows(80));
}

TEST_F(command_pages, mode_page_has_an_example_of_the_job_file) {
  const auto page = text_of({"modes", "ssp"});
  EXPECT_THAT(page, HasSubstr("  [train]\n  sync = { mode = \"ssp\", staleness = 1 }\n"));
  for (const auto& l : lines_of(text_of({"modes"}))) EXPECT_LE(l.size(), 100u) << l;
}

TEST_F(command_pages, sim_names_the_link_of_a_single_server_and_a_better_reducer) {
  const std::vector<std::string> words{"sim", job_of("googlenet.toml"), "--nodes", "64", "--maths", "none", "--steps", "3"};
  const auto text = text_of(words);
  EXPECT_THAT(text, HasSubstr("(default; --network FILE)"));
  EXPECT_THAT(text, HasSubstr("\nfaults      none (--faults FILE)\n"));
  EXPECT_THAT(text, HasSubstr("\nbottleneck  the link \"n1 "));
  EXPECT_THAT(text, HasSubstr("use [train.exchange] reducer = "));
  auto json = words;
  json.push_back("--json");
  const auto all = objects(text_of(json));
  const auto b = of_kind(all, "bottleneck").at(0);
  EXPECT_EQ(b["kind"], "link");
  EXPECT_GT(b["busy"].get<double>(), 0.5);
  EXPECT_EQ(all.back()["event"], "done");
}

TEST_F(command_pages, sim_tells_when_a_node_was_killed_and_how_the_job_recovered) {
  const auto job = write("job.toml", tiny_job());
  const auto faults =
      write("faults.toml",
            "[[fault]]\nkind = \"crash\"\nnodes = [2]\nfrom = \"500us\"\nuntil = \"600us\"\nrestart_after = \"1ms\"\n"
            "[[fault]]\nkind = \"delay\"\nprobability = 0.5\nleast = \"1us\"\nmost = \"9us\"\n");
  const auto text = text_of({"sim", job, "--nodes", "4", "--faults", faults});
  EXPECT_THAT(text, HasSubstr("messages delayed"));
  EXPECT_THAT(text, HasSubstr("fault: 0.0005"));
  EXPECT_THAT(text, HasSubstr("s: kill n2, back after 0.001 s"));
  EXPECT_THAT(text, HasSubstr("continued without n2 from step"));
  for (const char* phase : {"noticed", "planned", "ready", "handed over", "replaced", "first step"})
    EXPECT_THAT(text, HasSubstr(phase));
}

}  // namespace
}  // namespace troupe
