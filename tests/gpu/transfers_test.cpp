// Copies between the host and gpu:0, and between two GPUs: every byte arrives, whatever the size
// and the address.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/device_descriptors.hpp"
#include "ops/tensor.hpp"

namespace troupe::testing_gpu {
namespace {

// Around the sizes of cache lines, pages and pool blocks; the last one has several megabytes.
const std::vector<std::int64_t> sizes{1, 3, 31, 63, 65, 255, 257, 4095, 4097, 65537, 999983, 5000011};

std::vector<std::uint8_t> bytes_of(std::int64_t n, std::uint64_t seed) {
  std::vector<std::uint8_t> v(static_cast<std::size_t>(n));
  for (auto& b : v) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    b = static_cast<std::uint8_t>(seed >> 56);
  }
  return v;
}

TEST(GPU_transfers, return_every_byte_when_sizes_and_addresses_are_odd) {
  const auto d = make_devices({"gpu:0"}).front();
  for (const auto n : sizes)
    for (const std::int64_t shift : {0, 1, 7}) {
      const auto sent = bytes_of(n + 1, static_cast<std::uint64_t>(n));
      auto all = tensor::allocate(*d, {n + 9}, dtype::u8);
      auto t = all.slice(shift, {n});
      d->upload(sent.data() + 1, t);
      std::vector<std::uint8_t> got(sent.size());
      d->download(t, got.data() + 1);
      EXPECT_EQ(std::memcmp(got.data() + 1, sent.data() + 1, static_cast<std::size_t>(n)), 0)
          << n << " bytes, shifted by " << shift;
    }
}

// A task's transfers: uploads may reuse their source at once, and fetches are there when it is
// over.
TEST(GPU_transfers, keep_their_order_when_many_are_in_one_task) {
  const auto d = make_devices({"gpu:0"}).front();
  std::vector<tensor> home;
  std::vector<std::vector<std::uint8_t>> sent;
  d->begin_task();
  for (const auto n : sizes) {
    auto t = tensor::allocate(*d, {n}, dtype::u8);
    auto source = bytes_of(n, static_cast<std::uint64_t>(n));
    sent.push_back(source);
    d->upload(source.data(), t);
    std::fill(source.begin(), source.end(), std::uint8_t{0});
    home.push_back(tensor::allocate(d->host(), {n}, dtype::u8));
    d->fetch(t, home.back());
  }
  d->finish_task();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    EXPECT_EQ(std::memcmp(home[i].raw(), sent[i].data(), sent[i].size()), 0) << sizes[i] << " bytes";
}

TEST(GPU_two_devices, exchange_every_byte_when_sizes_are_odd) {
  if (const auto why = why_unusable({"gpu:0", "gpu:1"}, 1); !why.empty()) GTEST_SKIP() << why;
  const auto both = make_devices({"gpu:0", "gpu:1"});
  for (const auto n : sizes) {
    const auto sent = bytes_of(n, static_cast<std::uint64_t>(n));
    auto from = tensor::allocate(*both[0], {n}, dtype::u8), to = tensor::allocate(*both[1], {n}, dtype::u8);
    both[0]->upload(sent.data(), from);
    both[0]->begin_task();
    both[0]->fetch(from, to);
    both[0]->finish_task();
    std::vector<std::uint8_t> got(sent.size());
    both[1]->download(to, got.data());
    EXPECT_EQ(got, sent) << n << " bytes";
  }
}

}  // namespace
}  // namespace troupe::testing_gpu
