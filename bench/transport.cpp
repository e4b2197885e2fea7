// What the tcp transport moves between two nodes of one process, over loopback with mutual TLS: frames of 64 MiB and of 1 MiB one after
// the other, frames of 100 bytes, and how long 100 bytes there and back take, alone and while 64 MiB frames go to another role. One JSON
// object on stdout.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/node/net/tcp_transport.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace {

using namespace troupe;
using namespace troupe::net;
using clock_type = std::chrono::steady_clock;
constexpr std::uint32_t bulk = 1, ping = 2;

double seconds_since(clock_type::time_point t) { return std::chrono::duration<double>(clock_type::now() - t).count(); }

outgoing_frame frame_of(const std::shared_ptr<std::vector<std::byte>>& block, std::size_t bytes, std::uint32_t to) {
  outgoing_frame f;
  f.type = 1;
  f.destination = to;
  f.parts.push_back({block->data(), bytes, block});
  return f;
}

class end {
 public:
  end(const std::filesystem::path& dir, const std::string& name, bool echoes) {
    tcp_options o;
    o.cluster = "bench";
    o.node = name;
    o.ca = dir / "ca.pem", o.certificate = dir / (name + ".pem"), o.key = dir / (name + ".key");
    callbacks on;
    on.on_peer_up = [this](const std::string&, std::uint64_t) { change([this] { up_ = true; }); };
    on.on_frame = [this, echoes](const std::string& peer, frame&& f) {
      if (echoes && f.destination == ping) {
        outgoing_frame back;
        back.type = 1, back.destination = ping, back.id = f.id;
        back.parts.push_back({f.payload.get(), f.bytes, f.payload});
        net->send(peer, std::move(back));
      }
      change([&] { ++got[f.destination]; });
    };
    auto made = make_tcp_transport(o, on);
    if (!made) std::fprintf(stderr, "%s\n", made.error().message.c_str()), std::exit(1);
    net = std::move(*made);
  }
  void wait(std::uint32_t to, std::uint64_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return got[to] >= n; });
  }
  void wait_up() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return up_; });
  }
  std::atomic<std::uint64_t> got[3] = {};
  std::unique_ptr<transport> net;

 private:
  template <class F>
  void change(F&& f) {
    {
      const std::lock_guard lock(mutex_);
      f();
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool up_ = false;
};

struct bench {
  end &a, &b;
  const std::shared_ptr<std::vector<std::byte>> block =
      std::make_shared<std::vector<std::byte>>(std::size_t{64} << 20, std::byte{7});

  double cpu = 0;  // microseconds of processor a frame, of both ends, in the last rate(): what a busy machine cannot blur

  // Frames a second.
  double rate(std::size_t bytes, std::uint64_t n) {
    const std::uint64_t before = b.got[bulk];
    const auto ticks = std::clock();
    const auto begun = clock_type::now();
    for (std::uint64_t i = 0; i < n; ++i) a.net->send("b", frame_of(block, bytes, bulk));
    b.wait(bulk, before + n);
    cpu = 1e6 * static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC / static_cast<double>(n);
    return static_cast<double>(n) / seconds_since(begun);
  }
  // Microseconds there and back, median; with `load`, while that many 64 MiB frames are always queued.
  double round_trip(int n, std::uint64_t load) {
    std::vector<double> took;
    std::uint64_t sent = b.got[bulk];
    for (int i = 0; i < n; ++i) {
      for (; load > 0 && sent < b.got[bulk] + load; ++sent) a.net->send("b", frame_of(block, block->size(), bulk));
      const std::uint64_t before = a.got[ping];
      const auto begun = clock_type::now();
      a.net->send("b", frame_of(block, 100, ping));
      a.wait(ping, before + 1);
      took.push_back(seconds_since(begun) * 1e6);
    }
    b.wait(bulk, sent);
    std::nth_element(took.begin(), took.begin() + n / 2, took.end());
    return took[static_cast<std::size_t>(n / 2)];
  }
};

}  // namespace

int main() {
  const auto dir =
      std::filesystem::temp_directory_path() / ("troupe-bench-" + std::to_string(clock_type::now().time_since_epoch().count()));
  if (auto made = make_cluster_certificates(dir, "bench", {{"a", {"127.0.0.1"}}, {"b", {"127.0.0.1"}}}); !made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 1;
  }
  {
    end b(dir, "b", true), a(dir, "a", false);
    const auto port = b.net->listen({"127.0.0.1", 0});
    if (!port) return std::fprintf(stderr, "%s\n", port.error().message.c_str()), 1;
    a.net->connect("b", {"127.0.0.1", *port}, std::chrono::seconds(10));
    a.wait_up();
    b.wait_up();
    bench m{a, b};
    m.rate(std::size_t{64} << 20, 4);  // pages are touched, and windows of TCP wide
    const double huge = m.rate(std::size_t{64} << 20, 40) / 16, huge_cpu = m.cpu * 16 / 1000;
    const double large = m.rate(std::size_t{1} << 20, 2000) / 1024, large_cpu = m.cpu * 1024 / 1000;
    const double small = m.rate(100, 300000), small_cpu = m.cpu;
    const double alone = m.round_trip(20000, 0), loaded = m.round_trip(50, 2);
    std::printf(R"({"gib_per_second_64_mib": %.3f, "cpu_ms_per_gib_64_mib": %.0f, )", huge, huge_cpu);
    std::printf(R"("gib_per_second_1_mib": %.3f, "cpu_ms_per_gib_1_mib": %.0f, )", large, large_cpu);
    std::printf(R"("frames_per_second_100_bytes": %.0f, "cpu_us_per_frame_100_bytes": %.2f, )", small, small_cpu);
    std::printf("\"round_trip_us\": %.1f, \"round_trip_us_behind_64_mib\": %.1f}\n", alone, loaded);
    a.net->close();
    b.net->close();
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}
