// A law over all keys of configuration files that hold names: an odd name (too long, or with
// characters that control a terminal or hide text) is refused at its position, with an error that
// is short and printable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/printable.hpp"
#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/odd_texts.hpp"

namespace troupe {
namespace {

using namespace job_test;
using testing::HasSubstr;
using testing::StartsWith;

// A basic string of TOML, every character escaped, so that the file's text is plain. Texts that are
// not UTF-8 stay as they are: such a file is refused as a whole.
std::string plain_toml(const std::string& text) {
  std::string s = "\"";
  for (std::string_view left = text; !left.empty();) {
    const auto n = std::max<std::size_t>(utf8_length(left), 1);
    const auto shown = printable(left.substr(0, n));
    if (shown == left.substr(0, n) || utf8_length(left) == 0)
      s += left.substr(0, n);
    else
      s += (n == 1 ? "\\u00" + shown.substr(2) : shown);
    left.remove_prefix(n);
  }
  return s + "\"";
}

bool is_utf8(std::string_view text) {
  while (!text.empty() && utf8_length(text) > 0) text.remove_prefix(utf8_length(text));
  return text.empty();
}

struct named_place {
  std::string table, text, file;  // a file in which NAME stands for the name, on a line of its own
};

std::string with_name(std::vector<std::string> lines, std::size_t line, const std::string& added = {}) {
  lines[line - 1] = "name = NAME";
  return text_of(lines) + added;
}

// One file for each table that has a key for a name.
std::vector<named_place> places() {
  const std::string cluster =
      "[cluster]\nname = \"lab\"\ntls = { dir = \"certs\" }\n[[node]]\nname = \"n1\"\naddress = \"127.0.0.1:1\"\n";
  const auto in_cluster = [&](const std::string& line) {
    auto text = cluster;
    return text.replace(text.find(line), line.size(), "name = NAME");
  };
  const std::string block =
      "[[block]]\nname = \"pair\"\n[[block.layer]]\nname = \"a\"\ntype = \"relu\"\ninputs = [\"in\"]\n[[layer]]\nname = \"use\"\n"
      "block = \"pair\"\ninputs = [\"data\"]\n";
  const auto in_block = [&](const std::string& line) {
    auto text = text_of(sound_lines()) + block;
    return text.replace(text.rfind(line), line.size(), "name = NAME");
  };
  return {{"[job]", with_name(sound_lines(), 2), "job"},          {"[[layer]]", with_name(sound_lines(), 10), "job"},
          {"[[block]]", in_block("name = \"pair\""), "job"},      {"[[layer]] with a block", in_block("name = \"use\""), "job"},
          {"[cluster]", in_cluster("name = \"lab\""), "cluster"}, {"[[node]]", in_cluster("name = \"n1\""), "cluster"}};
}

diagnostics mistakes_in(const std::string& kind, const std::string& text) {
  if (kind == "cluster") {
    const auto r = parse_cluster(text, "f.toml");
    return r ? diagnostics{} : r.error();
  }
  const auto r = prepare_text({text, "f.toml", {}}, all_tables());
  return r ? diagnostics{} : r.error();
}

TEST(names_law, every_key_that_holds_a_name_refuses_odd_names_at_their_position) {
  for (const auto& place : places()) {
    const auto at = place.text.find("NAME");
    const auto line = 1 + std::count(place.text.begin(), place.text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    for (const auto& [what, name] : testing_texts::odd_texts()) {
      SCOPED_TRACE(place.table + ": " + what);
      auto text = place.text;
      const auto found = mistakes_in(place.file, text.replace(at, 4, plain_toml(name)));
      ASSERT_FALSE(found.empty());
      const auto first = found.front().to_string();
      EXPECT_THAT(first, StartsWith("f.toml:" + std::to_string(line) + ":"));
      EXPECT_EQ(printable(first), first);
      EXPECT_LT(first.size(), 1500u);
      EXPECT_THAT(first, HasSubstr(is_utf8(name) ? "bad name: the name " : "a byte that is not UTF-8"));
    }
  }
}

// A new key for a name must be in the law above.
TEST(names_law, all_tables_with_names_are_covered) {
  std::vector<std::string> tables, covered;
  for (const auto& list : {job_tables(), block_tables(), cluster_tables()})
    for (const auto& t : list)
      for (const auto& k : t.entries)
        if (k.kind == key_kind::name) tables.push_back(t.name);
  for (const auto& p : places()) covered.push_back(p.table);
  EXPECT_THAT(tables, testing::UnorderedElementsAreArray(covered));
}

TEST(names_law, names_that_blocks_and_overrides_make_are_checked) {
  const auto lines = text_of(sound_lines());
  const std::string block =
      "[[block]]\nname = \"pair\"\n[[block.layer]]\nname = \"a\"\ntype = \"relu\"\ninputs = [\"in\"]\n[[layer]]\nname = \"" +
      std::string(199, 'u') + "\"\nblock = \"pair\"\ninputs = [\"data\"]\n";
  const auto r = prepare_text({lines + block, "f.toml", {}}, all_tables());
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().front().to_string(), HasSubstr("has 201 bytes; at most 200 are allowed"));
  const auto set = prepare_text({lines, "f.toml", {"job.name=" + std::string(900'000, 'n')}}, all_tables());
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().front().to_string(), HasSubstr("has 900000 bytes; at most 200 are allowed"));
  EXPECT_LT(set.error().front().to_string().size(), 1500u);
}

TEST(names_law, a_job_without_a_name_gets_a_legal_one_from_its_file) {
  auto lines = sound_lines();
  lines[1] = "";
  const auto r = parse_job(text_of(lines), "/jobs/le\x1bnet.toml", *all_tables());
  ASSERT_TRUE(r) << all_of(r.error()).text;
  EXPECT_EQ(r->name, "le\\x1bnet");
}

TEST(names_law, files_of_simulations_quote_odd_texts) {
  const auto r = parse_sim("[network]\nfabric = \"st\\u001b[2Jar\"\n", "f.toml");
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().front().to_string(), HasSubstr("'st\\x1b[2Jar'"));
}

}  // namespace
}  // namespace troupe
