// The layout of TOML files: what changes, what stays, and that a second time changes nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "runtime/node/config/toml_layout.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/node/config_jobs.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using ::testing::HasSubstr;

const layout_order& of_jobs() {
  static const auto order = order_of_job_keys(node_tables());
  return order;
}

std::string laid(const std::string& text, const layout_order& order = of_jobs()) {
  const auto r = laid_out(text, "job.toml", order);
  return r ? *r : job_test::shown(r.error());
}

TEST(toml_layout, has_single_blanks_and_one_empty_line_between_tables) {
  EXPECT_EQ(laid("plugins=['a.so']\n[job]\nname   =  \"x\"   \n\n\n\n[ data ]\n\nsource=\"synthetic\"\nshape=[1,2 "
                 ",3]\naugment={pad=1,crop=2}\n"
                 "\n\n[[ layer ]]\nname=\"a\"\n"),
            "plugins = ['a.so']\n\n[job]\nname = \"x\"\n\n[data]\nsource = \"synthetic\"\nshape = [1, 2, 3]\naugment = { pad = 1, "
            "crop = 2 }\n"
            "\n[[layer]]\nname = \"a\"\n");
}

TEST(toml_layout, sorts_keys_and_tables_as_the_reference) {
  EXPECT_EQ(
      laid("[train]\nfinish.steps = 3\nsampler = { kind = \"shuffle\" }\n\n[train.dynamics]\nlr = 1\nmomentum = 0.5\nrule = "
           "\"momentum\"\n"
           "[[layer]]\nkernel = 3\nlr_scale = 2\noutputs = 4\ninputs = \"data\"\nodd = 1\ntype = \"convolution\"\nname = \"c\"\n"
           "[layer.weight_filler]\nstd = 1\nkind = \"gaussian\"\n[[layer]]\nname = \"b\"\n[data]\nbatch = 2\nsource = "
           "\"synthetic\"\n"),
      "[data]\nsource = \"synthetic\"\nbatch = 2\n\n"
      "[[layer]]\nname = \"c\"\ntype = \"convolution\"\ninputs = \"data\"\noutputs = 4\nkernel = 3\nlr_scale = 2\nodd = 1\n\n"
      "[layer.weight_filler]\nstd = 1\nkind = \"gaussian\"\n\n[[layer]]\nname = \"b\"\n\n"
      "[train]\nsampler = { kind = \"shuffle\" }\nfinish.steps = 3\n\n"
      "[train.dynamics]\nrule = \"momentum\"\nmomentum = 0.5\nlr = 1\n");
}

TEST(toml_layout, keeps_blocks_with_their_layers_and_parameters) {
  const std::string blocks =
      "[[block]]\nname = \"b\"\nparameters = { w = 1 }\n\n[[block.layer]]\nname = \"x\"\ntype = \"relu\"\ninputs = \"in\"\n\n"
      "[[block]]\nname = \"c\"\n\n[[block.layer]]\nname = \"y\"\nblock = \"b\"\ninputs = \"in\"\nrepeat = 2\nw = 3\n";
  EXPECT_EQ(laid(blocks), blocks);
  EXPECT_EQ(laid("[[layer]]\nw = 2\nrepeat = 2\ninputs = [\"data\"]\nblock = \"b\"\nname = \"x\"\n" + blocks),
            blocks + "\n[[layer]]\nname = \"x\"\nblock = \"b\"\ninputs = [\"data\"]\nrepeat = 2\nw = 2\n");
}

TEST(toml_layout, keeps_comments_at_what_they_are_about) {
  const std::string text =
      "# the file\n\n"
      "[data]\nsource = \"synthetic\"   # behind\nbatch = 64  # too\n\n"
      "# both sizes\nexamples = 100\nclasses = 5\n# off = 1\n\n"
      "# the model, in two\n# lines\n[[layer]]   # one\nname = \"a\"\n";
  EXPECT_EQ(laid(text),
            "# the file\n\n"
            "[data]\nsource = \"synthetic\" # behind\nbatch = 64           # too\n\n"
            "# both sizes\nexamples = 100\nclasses = 5\n# off = 1\n\n"
            "# the model, in two\n# lines\n[[layer]] # one\nname = \"a\"\n")
      << "keys with a comment among them are not sorted";
  EXPECT_EQ(laid("# head\n[train]\nmax_skipped = 1\n# about data\n[data]\nsource = \"x\"\n"),
            "# head\n# about data\n[data]\nsource = \"x\"\n\n[train]\nmax_skipped = 1\n")
      << "the comment at the head of the file stays there, that of a table goes with it";
}

TEST(toml_layout, keeps_the_lines_of_lists_and_all_of_strings) {
  EXPECT_EQ(laid("[data]\nshape=[ # sizes\n1,\n    2 ,\n\n\n 3,  # last\n      ]\nfile = \"\"\"a  =  1 # no comment\n[x]\n  "
                 "\"\"\"\nb='#'\n"),
            "[data]\nshape = [ # sizes\n  1,\n  2,\n\n  3, # last\n]\nfile = \"\"\"a  =  1 # no comment\n[x]\n  \"\"\"\nb = '#'\n");
}

TEST(toml_layout, reports_what_is_no_toml) {
  EXPECT_THAT(laid("[data\n"), HasSubstr("job.toml:1:"));
  EXPECT_THAT(laid("a = 1\na = 2\n"), HasSubstr("job.toml:2:5: "));
}

TEST(toml_layout, same_content_compares_values_but_not_the_order_of_keys) {
  const auto read = [](const std::string& s) { return *parse_document(s, "x"); };
  EXPECT_TRUE(same_content(read("a = 1\nb = [1, { c = 2.5, d = \"x\" }]\n"), read("b = [1, { d = 'x', c = 2.50 }]\na = 1\n")));
  for (const char* other : {"a = 2", "a = 1.0", "b = 1", "a = 1\nb = 1", "a = \"1\"", "a = [1]", "a = true", ""})
    EXPECT_FALSE(same_content(read("a = 1\n"), read(other))) << other;
  EXPECT_FALSE(same_content(read("a = [1, 2]"), read("a = [2, 1]")));
  EXPECT_TRUE(same_content(read("a = nan"), read("a = nan")));
  EXPECT_FALSE(same_content(read("a = 0.0"), read("a = -0.0")));
}

// The comments of a text that has no '#' but in comments.
std::multiset<std::string> comments_of(const std::string& text) {
  std::multiset<std::string> all;
  for (std::size_t at = 0; (at = text.find('#', at)) != std::string::npos;) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto comment = text.substr(at, end - at);
    while (comment.ends_with(' ') || comment.ends_with('\t')) comment.pop_back();
    all.insert(comment);
    at = end;
  }
  return all;
}

void expect_laid_out(const std::string& text, const layout_order& order, bool with_comments = true) {
  SCOPED_TRACE(text);
  const auto once = laid_out(text, "x.toml", order);
  ASSERT_TRUE(once) << job_test::shown(once.error());
  const auto twice = laid_out(*once, "x.toml", order);
  ASSERT_TRUE(twice);
  EXPECT_EQ(*twice, *once);
  EXPECT_TRUE(same_content(*parse_document(text, "x"), *parse_document(*once, "x")));
  if (with_comments) {
    EXPECT_EQ(comments_of(*once), comments_of(text));
  }
}

TEST(laws_layout, files_of_configs_keep_their_content_and_comments) {
  int files = 0;
  for (const char* folder : {"jobs", "clusters", "faults", "sim"})
    for (const auto& f : testing_configs::files_in(folder)) {
      const auto order = std::string(folder) == "jobs"       ? of_jobs()
                         : std::string(folder) == "clusters" ? order_of_cluster_keys()
                                                             : layout_order{};
      expect_laid_out(*read_text(f), order);
      ++files;
    }
  EXPECT_GT(files, 50);
}

// Random texts with the keys of jobs and others, in random order, with blanks and comments
// everywhere.
class random_toml {
 public:
  explicit random_toml(unsigned seed) : random_(seed) {}

  std::string text() {
    std::string s = lines("", {"plugins", "include", "x", "y"});
    std::vector<std::string> paths{"job", "data", "train", "train.dynamics", "train.dynamics.schedule", "eval", "zoo", "zoo.a"};
    std::shuffle(paths.begin(), paths.end(), random_);
    for (const auto& p : paths) {
      if (below(2))
        s += header("[" + blanks() + p + blanks() + "]") +
             lines(p, {"name", "seed", "source", "batch", "rule", "lr", "kind", "x", "\"a b\"", "momentum"});
      for (int n = below(3); p == "job" && n > 0; --n) {
        s += header("[[layer]]") + lines(p, {"name", "type", "inputs", "outputs", "kernel", "block", "repeat", "lr_scale"});
        if (below(4) == 0) s += header("[layer.weight_filler]") + lines(p, {"std", "kind"});
      }
      for (int n = below(3); p == "eval" && n > 0; --n) {
        s += header("[[block]]") + lines(p, {"name", "output", "required"});
        for (int k = below(3); k > 0; --k) s += header("[[ block . layer ]]") + lines(p, {"name", "type", "inputs"});
      }
    }
    return s;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  std::string blanks() { return std::string(static_cast<std::size_t>(below(3)), below(5) ? ' ' : '\t'); }
  std::string empty() { return below(3) ? "" : std::string(static_cast<std::size_t>(below(3)), '\n'); }
  std::string comment() {
    return "#" + std::string(static_cast<std::size_t>(below(3)), ' ') + "c" + std::to_string(count_++) +
           (below(3) ? "" : " = [\"x\" ");
  }
  std::string end() { return blanks() + (below(4) ? "" : comment()) + blanks() + "\n"; }
  std::string above() {
    std::string s = empty();
    while (below(5) == 0) s += blanks() + comment() + "\n" + empty();
    return s;
  }
  std::string header(const std::string& h) { return above() + blanks() + h + end(); }

  std::string lines(const std::string&, std::vector<std::string> keys) {
    std::shuffle(keys.begin(), keys.end(), random_);
    std::string s;
    for (const auto& k : keys) {
      if (below(2)) continue;
      const bool dotted = below(8) == 0;
      s += above() + blanks() + k + (dotted ? blanks() + "." + blanks() + "sub" : "") + blanks() + "=" + blanks() + value(3, true) +
           end();
    }
    return s + (below(4) ? "" : above());
  }

  std::string value(int depth, bool lines) {
    switch (below(depth > 0 ? 10 : 7)) {
      case 0: return std::to_string(below(1000));
      case 1: return "1_000.5e-3";
      case 2: return "\"a \\\" = [ { b\"";
      case 3: return "'c, \\'";
      case 4: return "true";
      case 5: return lines ? "\"\"\"\n  x = 1\n\n [y]  \\\"\"\" z\"\"\"\"" : "0x1F";
      case 6: return below(2) ? "1979-05-27 07:32:00" : "-inf";
      case 7: return table(depth - 1);
      default: return list(depth - 1, lines);
    }
  }
  std::string table(int depth) {
    std::string s = "{" + blanks();
    for (int n = below(4), k = 0; k < n; ++k)
      s += (k ? "," + blanks() : "") + "k" + std::to_string(k) + blanks() + "=" + blanks() + value(depth, false) + blanks();
    return s + "}";
  }
  std::string list(int depth, bool lines) {
    const bool many = lines && below(2);
    std::string s = "[" + blanks();
    for (int n = below(4), k = 0; k < n; ++k) {
      if (many) s += end() + empty() + blanks();
      s += value(depth, lines) + blanks() + (k + 1 < n || below(3) == 0 ? "," : "") + blanks();
    }
    return s + (many ? end() + blanks() : "") + "]";
  }

  std::mt19937 random_;
  int count_ = 0;
};

TEST(laws_layout, random_files_keep_their_content_and_comments) {
  int good = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    const auto text = random_toml(seed).text();
    if (!parse_document(text, "x")) continue;
    ++good;
    expect_laid_out(text, of_jobs());
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(good, 2000);
}

}  // namespace
}  // namespace troupe
