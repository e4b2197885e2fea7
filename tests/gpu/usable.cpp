// What makes the tests of this program tests of gpu:0: its device for the contract of
// ops/device.hpp and for check_layer (tests/ops), a reason when it cannot be used, and the findings
// of the virtual GPU, which TROUPE_GPU_LIBRARY names in CI (ops/gpu.hpp, tests/vgpu/vgpu.hpp).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "ops/device_descriptors.hpp"
#include "tests/ops/support.hpp"

namespace troupe::testing_gpu {
namespace {

const bool registered = (test::only_device_cases().push_back({"gpu", [] { return make_devices({"gpu:0"}).front(); }}), true);

// Without a GPU all tests are skipped, with the reason. A library that is named must work.
class gpu_or_reason : public testing::Environment {
  void SetUp() override {
    const auto why = why_unusable({"gpu:0"}, 0);
    if (why.empty()) return;
    if (std::getenv("TROUPE_GPU_LIBRARY")) {
      std::fprintf(stderr, "gpu:0: %s\n", why.c_str());
      std::_Exit(1);  // after a failure here gtest calls all tests skipped
    }
    GTEST_SKIP() << "[  SKIPPED ] gpu:0: " << why;  // ctest recognises a skipped test by the word in brackets
  }
};

// The virtual GPU writes what its checkers find to a file; it is the failure of the test that ran.
// It has two devices unless the environment says otherwise. A real GPU has neither variable.
class findings_of_the_virtual_gpu : public testing::EmptyTestEventListener {
 public:
  findings_of_the_virtual_gpu() {
    std::error_code none;
    std::filesystem::remove(file_, none);  // of an earlier process with this number, which crashed
    setenv("TROUPE_VGPU_FINDINGS", file_.c_str(), 1);
    setenv("TROUPE_VGPU", "devices=2", 0);
  }
  ~findings_of_the_virtual_gpu() override {
    std::error_code none;
    std::filesystem::remove(file_, none);
  }

 private:
  void OnTestEnd(const testing::TestInfo&) override {
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) ADD_FAILURE() << "virtual GPU: " << line;
    in.close();
    std::error_code none;
    std::filesystem::remove(file_, none);
  }

  const std::string file_ = std::filesystem::temp_directory_path() / ("troupe_gpu_findings_" + std::to_string(getpid()));
};

const bool prepared = [] {
  testing::AddGlobalTestEnvironment(new gpu_or_reason);
  testing::UnitTest::GetInstance()->listeners().Append(new findings_of_the_virtual_gpu);
  return true;
}();

}  // namespace
}  // namespace troupe::testing_gpu
