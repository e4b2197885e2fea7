// `troupe runs`, `plot` and `sql` on run folders that the tests write.
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cmath>
#include <fstream>

#include "runtime/node/runs/run_database.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
namespace fs = std::filesystem;
using ::testing::Test;

class runs_command_test : public command_test {
 protected:
  fs::path runs() const { return folder_ / "runs"; }

  // A run of 100 steps with an evaluation every 20.
  fs::path make(std::uint32_t number, const std::string& name, const std::string& state,
                const std::string& job = "[job]\nname = \"a\"\n") const {
    run_info r;
    r.number = number, r.name = name, r.state = state, r.mode = "bsp", r.workers = 2, r.batch = 64, r.parameters = 1234;
    r.started = "2020-02-03T04:05:06Z", r.seconds = 12.8, r.steps = 100, r.last_step = 100, r.loss = 0.25;
    r.accuracy = 0.9, r.best_accuracy = 0.9 + number / 1000.0, r.best_step = 80,
    r.weights_sha256 = std::string(64, number == 2 ? 'b' : 'a');
    auto folder = runs() / (std::to_string(number) + "-" + name);
    fs::create_directories(folder);
    std::ofstream(run_info_file(folder)) << run_info_text(r);
    std::ofstream(run_job_file(folder)) << job;
    std::ofstream metrics(run_metrics_file(folder));
    metrics << "step,epoch,time,loss,accuracy,lr,examples_per_s,test_loss\n";
    for (int s = 1; s <= 100; ++s) {
      metrics << s << "," << s / 50.0 << "," << s << "," << 2.5 / s << ",,0.1,7000,\n";
      if (s % 20 == 0) metrics << s << "," << s / 50.0 << "," << s << ",," << 1 - 1.0 / s << ",,," << 3.0 / s << "\n";
    }
    return folder;
  }
  outcome shell(const std::string& line) const {
    child c("/bin/sh", {"-c", line}, folder_);
    return c.wait();
  }
  // Makes runs.db with rows of two runs.
  void make_database() const {
    write(
        "make.sql",
        std::string(run_schema) +
            "INSERT INTO runs(number, name, folder, state, best_accuracy) VALUES (1, 'lenet', 'x', 'done', 0.901), (2, 'mlp', 'y', "
            "'failed', NULL);\nINSERT INTO steps(run, step, loss) VALUES (1, 1, 2.5), (1, 2, 1.25), (2, 1, 3);\n");
    const auto o = shell("sqlite3 runs/runs.db < make.sql");
    ASSERT_EQ(o.code, 0) << o.err << " (the sqlite3 program)";
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(runs_command_test, lists_runs_newest_first_and_filters_them) {
  make(1, "lenet", "done"), make(2, "mlp", "failed"), make(10, "lenet", "done");
  auto o = troupe({"runs"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(contains(o.out,
                       "run  name   state   started     time  steps    loss  accuracy  mode  weights\n"
                       " 10  lenet  done    2020-02-03  0:13    100  0.2500    0.9100  bsp   aaaaaaaaaaaa\n"
                       "  2  mlp    failed"))
      << o.out;
  const auto rows = objects(troupe({"runs", "--json", "--state", "done"}).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["number"], 10);
  EXPECT_EQ(rows[1]["best_accuracy"], 0.901);
  EXPECT_EQ(objects(troupe({"runs", "--json", "--last", "1"}).out).size(), 1u);
  EXPECT_EQ(troupe({"runs", "--state", "asleep"}).code, 2);
}

TEST_F(runs_command_test, no_runs_and_damaged_runs_are_reported) {
  EXPECT_TRUE(contains(troupe({"runs"}).out, "no runs in runs: `troupe train JOB` makes one"));
  EXPECT_EQ(troupe({"runs", "--run-dir", "nowhere"}).code, 2);
  make(1, "lenet", "done");
  std::ofstream(run_info_file(make(2, "bad", "done"))) << "{\"number\":2,";
  const auto o = troupe({"runs"});
  EXPECT_EQ(o.code, 0);
  EXPECT_TRUE(contains(o.err, "2-bad/run.json: it is damaged")) << o.err;
  EXPECT_TRUE(contains(o.out, "lenet"));
  EXPECT_EQ(troupe({"runs", "show", "2"}).code, 2);
}

TEST_F(runs_command_test, a_folder_of_runs_that_cannot_be_read_is_not_an_empty_one) {
  write("runs", "a file");  // as a folder of another user, but also for root
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"runs"}, {"runs", "show"}, {"runs", "show", "1"}, {"plot"}, {"sql"}, {"predict", "1", "a.png"}}) {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << words[0] << o.out;
    EXPECT_TRUE(contains(o.err, "cannot read the folder of the runs: ")) << words[0] << o.err;
  }
}

TEST_F(runs_command_test, show_prints_files_evaluations_and_curves) {
  make(3, "lenet", "done");
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"runs", "show", "lenet"}, {"runs", "3"}, {"runs", "show"}, {"runs", "show", "last"}}) {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.err;
    for (const char* part : {"run 3  lenet  done", "0.9000 (best 0.9030 at step 80)", "metrics.csv", "500 examples/s",
                             "2.5000 to 0.0250", "100   2.00    0.9900     0.0300"})
      EXPECT_TRUE(contains(o.out, part)) << part << "\n" << o.out;
  }
  const auto rows = objects(troupe({"runs", "show", "3", "--json"}).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["evaluations"].size(), 5u);
  EXPECT_EQ(rows[0]["evaluations"][4]["accuracy"], 0.99);
  EXPECT_EQ(rows[0]["files"].size(), 3u);
}

TEST_F(runs_command_test, compare_tells_whether_the_weights_are_equal) {
  make(1, "lenet", "done"), make(2, "mlp", "done"), make(3, "lenet", "done");
  const auto o = troupe({"runs", "compare", "1", "2"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(contains(o.out, "the final weights differ\n")) << o.out;
  EXPECT_TRUE(contains(o.out, "best accuracy          0.9010        0.9020")) << o.out;
  EXPECT_TRUE(contains(troupe({"runs", "compare", "1", "3"}).out, "the final weights are equal\n"));
  const auto rows = objects(troupe({"runs", "compare", "1", "2", "3", "--json"}).out);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["test_loss"], 0.03);
  EXPECT_EQ(rows[3]["weights_equal"], false);
}

TEST_F(runs_command_test, diff_shows_keys_that_differ_in_any_order) {
  make(1, "a", "done",
       "[train]\nlr = 0.1\nsteps = 5\n[[layer]]\nname = \"c1\"\noutputs = 3\n[[layer]]\nname = \"c2\"\nk = [1, 2]\n");
  make(2, "a", "done",
       "[[layer]]\nname = \"c2\"\nk = [1, 3]\n[[layer]]\nname = \"c1\"\noutputs = 3\nbias = true\n[train]\nsteps = 5\nlr = 0.2\n");
  const auto o = troupe({"runs", "diff", "1", "2"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out,
            "key            1 a     2 a\nlayer.c1.bias  -       true\nlayer.c2.k     [1, 2]  [1, 3]\ntrain.lr       0.1     0.2\n");
  EXPECT_TRUE(contains(troupe({"runs", "diff", "1", "1"}).out, "the job files are equal"));
  EXPECT_EQ(objects(troupe({"runs", "diff", "1", "2", "--json"}).out).size(), 4u);
}

TEST_F(runs_command_test, rm_removes_folder_and_rows_but_no_running_run) {
  const auto running = make(1, "lenet", "running"), done = make(2, "mlp", "done");
  make_database();
  std::ofstream(run_lock_file(running)) << "";
  std::FILE* held = std::fopen(run_lock_file(running).c_str(), "r+");
  ASSERT_EQ(::flock(::fileno(held), LOCK_EX | LOCK_NB), 0);
  auto o = troupe({"runs", "rm", "1", "2", "--yes"});
  EXPECT_EQ(o.code, 2);
  EXPECT_TRUE(contains(o.err, "the run is running")) << o.err;
  EXPECT_TRUE(fs::exists(done)) << "nothing is removed if one of the runs cannot be";
  EXPECT_EQ(troupe({"runs", "rm", "2"}).code, 2) << "no question can be asked";
  EXPECT_TRUE(fs::exists(done));
  o = troupe({"runs", "rm", "2", "--yes"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_FALSE(fs::exists(done));
  EXPECT_EQ(shell("sqlite3 runs/runs.db 'select count(*) from runs; select count(*) from steps'").out, "1\n2\n");
  std::fclose(held);
}

TEST_F(runs_command_test, rm_refuses_a_folder_that_is_named_otherwise) {
  const auto folder = make(4, "lenet", "done");
  fs::rename(folder, folder_ / "precious");
  const auto o = troupe({"runs", "rm", "./precious", "--yes"});
  EXPECT_EQ(o.code, 2);
  EXPECT_TRUE(contains(o.err, "does not begin with the run's number 4")) << o.err;
  EXPECT_TRUE(fs::exists(folder_ / "precious"));
}

TEST_F(runs_command_test, wrong_words_get_suggestions) {
  make(1, "lenet", "done");
  auto o = troupe({"runs", "shwo", "1"});
  EXPECT_EQ(o.code, 2);
  EXPECT_TRUE(contains(o.err, "unknown action 'shwo'; did you mean 'show'?")) << o.err;
  o = troupe({"plot", "lennet"});
  EXPECT_EQ(o.code, 2);
  EXPECT_TRUE(contains(o.err, "there is no run 'lennet'; did you mean 'lenet'?")) << o.err;
  EXPECT_TRUE(contains(troupe({"plot", "1", "--what", "los"}).err, "did you mean 'loss'?"));
  EXPECT_EQ(troupe({"runs", "compare", "1"}).code, 2);
  EXPECT_EQ(troupe({"runs", "diff", "1", "1", "1"}).code, 2);
}

TEST_F(runs_command_test, plot_draws_text_or_svg) {
  make(1, "lenet", "done"), make(2, "mlp", "done");
  auto o = shell("TERM=dumb COLUMNS=60 " + troupe_program() + " plot");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(contains(o.out, "2-mlp (done)") && contains(o.out, "training loss") && contains(o.out, "accuracy")) << o.out;
  EXPECT_TRUE(std::all_of(o.out.begin(), o.out.end(), [](char c) { return c >= 0; })) << "TERM=dumb: only ASCII";
  o = shell("LC_ALL=C.UTF-8 TERM=xterm " + troupe_program() + " plot 1 --what lr");
  EXPECT_TRUE(contains(o.out, "\xe2\xa0")) << "braille\n" << o.out;
  o = troupe({"plot", "1", "2", "--what", "loss,examples_per_s", "--log", "--x", "epoch", "--out", path("c.svg")});
  EXPECT_EQ(o.code, 0) << o.err;
  const auto svg = file_text("c.svg");
  for (const char* part : {"<svg ", "1-lenet", "2-mlp (test)", "examples/s", ">epoch<"}) EXPECT_TRUE(contains(svg, part)) << part;
  EXPECT_EQ(troupe({"plot", "1", "--out", path("c.png")}).code, 2);
  const auto rows = objects(troupe({"plot", "1", "--what", "accuracy", "--json"}).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["points"].size(), 5u);
}

TEST_F(runs_command_test, sql_prints_tables_csv_and_json) {
  make(1, "lenet", "done");
  make_database();
  auto o = troupe({"sql", "select number, name, best_accuracy from runs order by number"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out,
            "number  name   best_accuracy\n------  -----  -------------\n     1  lenet          0.901\n     2  mlp\n(2 rows)\n");
  EXPECT_EQ(troupe({"sql", "select name, steps.loss, 'a\"b' as q from runs join steps on run = number", "--csv"}).out,
            "name,loss,q\nlenet,2.5,\"a\"\"b\"\nlenet,1.25,\"a\"\"b\"\nmlp,3,\"a\"\"b\"\n");
  const auto rows = objects(troupe({"sql", "select best_accuracy, 1 as n, 2 as n from runs", "--json"}).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].dump(), "{\"best_accuracy\":null,\"event\":\"row\",\"n\":1,\"n_2\":2}");
  o = troupe({"sql"});
  EXPECT_TRUE(contains(o.out, "steps") && contains(o.out, "run, step, epoch, time, loss, lr, examples_per_s")) << o.out;
}

TEST_F(runs_command_test, sql_only_reads_and_shows_where_a_statement_is_wrong) {
  EXPECT_TRUE(contains(troupe({"sql"}).err, "there is no such database; `troupe train` makes it"));
  make(1, "lenet", "done");
  make_database();
  for (const std::string word :
       {"delete from runs", "update runs set name = 'x'", "insert into runs select * from runs", "drop table runs",
        "create table x(y)", "attach 'x.db' as x", "vacuum into 'x.db'", "pragma journal_mode = delete", "begin",
        "alter table runs add column x", "reindex", "select load_extension('x')"}) {
    const auto o = troupe({"sql", word});
    EXPECT_EQ(o.code, 2) << word;
    EXPECT_TRUE(contains(o.err, "is refused: only SELECT is allowed here")) << word << ": " << o.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "x.db"));
  EXPECT_EQ(shell("sqlite3 runs/runs.db 'select count(*) from runs'").out, "2\n");
  auto o = troupe({"sql", "select\n  los from steps"});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.err, "sql:2:3: no such column: los; did you mean 'loss'?\n    los from steps\n    ^\n");
  EXPECT_TRUE(contains(troupe({"sql", "select * from run"}).err, "did you mean 'runs'?"));
  EXPECT_TRUE(contains(troupe({"sql", "select 1; select 2"}).err, "only one statement"));
  EXPECT_EQ(troupe({"sql", ""}).code, 2);
  const auto errors = objects(troupe({"sql", "selec 1", "--json"}).out);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0]["where"], "sql:1:1");
}

}  // namespace
}  // namespace troupe
