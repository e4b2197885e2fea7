// Completion of command lines: the candidates of the program, and the scripts in the shells.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;
using list = std::vector<std::string>;

class completion : public command_test {
 protected:
  void SetUp() override {
    write("job.toml", tiny_job());
    write("notes.txt", "");
    std::filesystem::create_directories(folder_ / "runs" / "7-lenet");
    std::filesystem::create_directories(folder_ / "runs" / "12-lenet");
    std::filesystem::create_directories(folder_ / "other" / "3-mlp");
  }

  static list lines_of(const std::string& text) {
    list all;
    std::istringstream in(text);
    for (std::string l; std::getline(in, l);) all.push_back(l);
    return all;
  }
  // The candidates for the last of `words`, without descriptions.
  list candidates(list words) const {
    words.insert(words.begin(), "__complete");
    child run(troupe_program(), words, folder_);
    auto all = lines_of(run.wait().out);
    for (auto& l : all) l = l.substr(0, l.find('\t'));
    return all;
  }
  // What bash offers for a line, with the cursor at its end.
  list in_bash(const std::string& line) const {
    const auto script =
        "source <(troupe reference completion bash)\n"
        "function=$(complete -p troupe | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        "COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
        "read -ra COMP_WORDS <<<\"$1\"; [[ $1 != *' ' ]] || COMP_WORDS+=('')\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "$function troupe \"${COMP_WORDS[-1]}\" \"\"\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const auto path = std::filesystem::path(troupe_program()).parent_path().string();
    child run("/bin/bash", {"--norc", "-c", "export PATH=" + path + ":$PATH TROUPE_RUNS=runs\n" + script, "bash", line}, folder_);
    const auto o = run.wait();
    EXPECT_EQ(o.err, "");
    return lines_of(o.out);
  }
};

TEST_F(completion, offers_commands_and_their_options) {
  EXPECT_THAT(candidates({"troupe", "tr"}), ElementsAre("train"));
  EXPECT_THAT(candidates({"/usr/bin/troupe", ""}), AllOf(Contains("train"), Contains("repl"), Not(Contains("__complete"))));
  EXPECT_THAT(candidates({"troupe", "--"}), UnorderedElementsAre("--help", "--version"));
  EXPECT_THAT(candidates({"troupe", "train", "job.toml", "--we"}), ElementsAre("--weights"));
  EXPECT_THAT(candidates({"troupe", "trian", "--we"}), IsEmpty());
  EXPECT_THAT(candidates({"trouped", "--"}), UnorderedElementsAre("--help", "--cluster", "--node", "--state", "--check"));
}

TEST_F(completion, offers_the_words_that_an_option_accepts) {
  EXPECT_THAT(candidates({"troupe", "sim", "job.toml", "--maths", ""}), ElementsAre("real", "none"));
  EXPECT_THAT(candidates({"troupe", "sim", "job.toml", "--maths=n"}), ElementsAre("--maths=none"));
  EXPECT_THAT(candidates({"troupe", "runs", "--state", "s"}), ElementsAre("stopped"));
  EXPECT_THAT(candidates({"troupe", "certs", "re"}), ElementsAre("renew", "revoke"));
  EXPECT_THAT(candidates({"troupe", "certs", "add-client", "--role", "s"}), ElementsAre("submit"));
  EXPECT_THAT(candidates({"troupe", "new", "x", "--from", "c"}), ElementsAre("cifar", "char-rnn"));
  EXPECT_THAT(candidates({"troupe", "sim", "job.toml", "--nodes", ""}), IsEmpty());
}

TEST_F(completion, offers_names_from_the_tables) {
  EXPECT_THAT(candidates({"troupe", "layers", "conv"}), ElementsAre("convolution"));
  EXPECT_THAT(candidates({"troupe", "modes", "ss"}), ElementsAre("ssp"));
  EXPECT_THAT(candidates({"troupe", "train", "job.toml", "--set", "train.dynamics.l"}), Contains("train.dynamics.lr="));
  EXPECT_THAT(candidates({"troupe", "train", "job.toml", "--set", "train.exchange.reducer=t"}),
              ElementsAre("train.exchange.reducer=tree"));
  EXPECT_THAT(candidates({"troupe", "train", "job.toml", "--set", "job.precision=b"}), ElementsAre("job.precision=bf16"));
  EXPECT_THAT(candidates({"troupe", "train", "job.toml", "--set=train.deterministic="}),
              ElementsAre("--set=train.deterministic=true", "--set=train.deterministic=false"));
  EXPECT_THAT(candidates({"troupe", "reference", ""}), ElementsAre("job", "cluster", "events", "schema", "man", "completion"));
  EXPECT_THAT(candidates({"troupe", "reference", "man", "check"}), ElementsAre("check", "check-layer"));
  EXPECT_THAT(candidates({"troupe", "reference", "completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST_F(completion, offers_runs_of_the_folder_that_the_line_names) {
  ::setenv("TROUPE_RUNS", "runs", 1);
  for (const char* command : {"plot", "resume"})
    EXPECT_THAT(candidates({"troupe", command, ""}), ElementsAre("last", "12-lenet", "7-lenet", ":folders"));
  EXPECT_THAT(candidates({"troupe", "runs", "show", "1"}), ElementsAre("12-lenet", ":folders"));
  for (const char* command : {"train", "data", "sample", "export"})
    EXPECT_THAT(candidates({"troupe", command, "7"}), ElementsAre("7-lenet", ":files .toml")) << command;
  EXPECT_THAT(candidates({"troupe", "test", "job.toml", "--weights", "7"}), ElementsAre("7-lenet", ":files"));
  EXPECT_THAT(candidates({"troupe", "serve", "7"}), ElementsAre("7-lenet", ":files"));
  EXPECT_THAT(candidates({"troupe", "plot", "--run-dir", "other", "3"}), ElementsAre("3-mlp", ":folders"));
  EXPECT_THAT(candidates({"troupe", "plot", "--run-dir=other", "3"}), ElementsAre("3-mlp", ":folders"));
  ::setenv("TROUPE_RUNS", "off", 1);
}

TEST_F(completion, every_option_of_a_file_or_folder_completes_it) {
  for (const auto& command : candidates({"troupe", ""})) {
    for (const auto& l : lines_of(troupe({command, "--help"}).out)) {
      std::istringstream in(l);
      std::string option, value;
      in >> option >> value;
      if (!option.starts_with("--") || (value != "FILE" && value != "DIR" && value != "KEY=VALUE")) continue;
      EXPECT_FALSE(candidates({"troupe", command, option, ""}).empty()) << command << " " << option;
    }
  }
}

TEST_F(completion, bash_gets_commands_options_values_names_and_files) {
  EXPECT_THAT(in_bash("troupe tra"), ElementsAre("train"));
  EXPECT_THAT(in_bash("troupe train "), UnorderedElementsAre("job.toml", "runs", "other", "last", "12-lenet", "7-lenet"));
  EXPECT_THAT(in_bash("troupe train job.toml --weights n"), ElementsAre("notes.txt"));
  EXPECT_THAT(in_bash("troupe train job.toml --set train.finish.ep"), ElementsAre("train.finish.epochs="));
  EXPECT_THAT(in_bash("troupe train job.toml --set train.sync.mode=ss"), ElementsAre("ssp"));
  EXPECT_THAT(in_bash("troupe sim job.toml --maths "), ElementsAre("real", "none"));
  EXPECT_THAT(in_bash("troupe sim job.toml --maths=r"), ElementsAre("real"));  // readline keeps "--maths="
  EXPECT_THAT(in_bash("troupe layers max_"), ElementsAre("max_pool"));
  EXPECT_THAT(in_bash("troupe runs compare 7-lenet 12"), ElementsAre("12-lenet"));
  EXPECT_THAT(in_bash("troupe plot l"), ElementsAre("last"));
  EXPECT_THAT(in_bash("troupe plot --run-dir o"), ElementsAre("other"));
  EXPECT_THAT(in_bash("trouped --cluster j"), ElementsAre("job.toml"));
  EXPECT_THAT(in_bash("troupe frobnicate "), ElementsAre(""));
}

class completion_script_of : public completion, public testing::WithParamInterface<const char*> {};

TEST_P(completion_script_of, is_accepted_by_the_shell) {
  const std::string shell = GetParam();
  std::string program;
  for (const char* folder : {"/bin/", "/usr/bin/"})
    if (::access((folder + shell).c_str(), X_OK) == 0) program = folder + shell;
  if (program.empty()) GTEST_SKIP() << shell << " is not installed";
  const auto script = troupe({"reference", "completion", shell});
  ASSERT_EQ(script.code, 0) << script.err;
  child run(program, {"-n", write("script", script.out)}, folder_);
  const auto o = run.wait();
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
}
INSTANTIATE_TEST_SUITE_P(shells, completion_script_of, testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

TEST_F(completion, a_shell_without_a_script_is_an_error) {
  const auto o = troupe({"reference", "completion", "basch"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, testing::HasSubstr("did you mean 'bash'?"));
}

}  // namespace
}  // namespace troupe
