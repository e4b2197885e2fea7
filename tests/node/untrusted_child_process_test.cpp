// Work in a child process: replies, deaths, and what the child may use.
#include "runtime/node/formats/child_process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>

#include "runtime/node/memory_file/memory_file.hpp"
#include "tests/error_text.hpp"

namespace troupe {
namespace {

using testing::HasSubstr;

class child_work : public testing::Test {
 protected:
  expected<std::string> run(const std::function<std::string(int)>& work, child_limits limits = {256 << 20}) {
    return in_child(limits, kept_.get(), work);
  }
  memory_file::descriptor kept_ = *memory_file::make("child_work", 0, memory_file::pages::sparse);
};

TEST_F(child_work, gives_its_reply) {
  EXPECT_EQ(*run([](int) { return "abc"; }), "abc");
  EXPECT_EQ(*run([](int) { return ""; }), "");
  EXPECT_EQ(run([](int) { return std::string(100000, 'x'); })->size(), most_child_reply);
}

TEST_F(child_work, writes_to_the_descriptor_that_it_keeps) {
  ASSERT_TRUE(run([](int kept) { return ::write(kept, "here", 4) == 4 ? "" : "no"; }));
  char text[4];
  ASSERT_EQ(::pread(kept_.get(), text, 4, 0), 4);
  EXPECT_EQ(std::string(text, 4), "here");
}

TEST_F(child_work, has_no_other_descriptors_of_its_parent) {
  const memory_file::descriptor other(::fcntl(kept_.get(), F_DUPFD_CLOEXEC, 20));
  const auto open = [&](int) { return ::fcntl(other.get(), F_GETFD) < 0 ? "closed" : "open"; };
  ASSERT_GE(other.get(), 20);
  EXPECT_EQ(*run(open), "closed");
  EXPECT_GE(::fcntl(other.get(), F_GETFD), 0);
}

TEST_F(child_work, is_an_error_when_it_dies) {
  for (const int s : {SIGSEGV, SIGBUS, SIGABRT, SIGKILL})
    EXPECT_THAT(test::error_text(run([s](int) { return ::raise(s) == 0 ? "" : "?"; })),
                HasSubstr("ended by signal " + std::to_string(s)));
  EXPECT_THAT(test::error_text(run([](int) -> std::string { throw std::runtime_error("x"); })), HasSubstr("exit code 3"));
  EXPECT_THAT(test::error_text(run([](int) -> std::string { ::_exit(0); })), HasSubstr("exit code 0"));
}

// The handler of the parent's process would run in the child otherwise.
TEST_F(child_work, does_not_run_signal_handlers_of_its_parent) {
  const auto before = std::signal(SIGBUS, [](int) { ::_exit(77); });
  EXPECT_THAT(test::error_text(run([](int) { return ::raise(SIGBUS) == 0 ? "" : "?"; })), HasSubstr("SIGBUS"));
  std::signal(SIGBUS, before);
}

TEST_F(child_work, is_ended_when_it_takes_too_much) {
  const auto loop = [](int) -> std::string {
    for (volatile unsigned k = 0;;) k = k + 1;
  };
  EXPECT_THAT(test::error_text(run(loop, {256 << 20, 1, 1})), HasSubstr("more time of a processor"));
  const auto fill = [](int) {
    for (std::string all;; all.resize(all.size() + (16 << 20), 'x'))
      if (all.size() > 512 << 20) return std::string("all of it");
  };
  EXPECT_THAT(test::error_text(run(fill)), HasSubstr("the process that read it"));
}

}  // namespace
}  // namespace troupe
