// Benchmarks the tcp transport between two nodes of one process, over loopback with mutual TLS:
// throughput of frames of 64 MiB, 1 MiB and 100 bytes; latency of 64 MiB; round-trip time of 4 KiB,
// alone and while 64 MiB frames go to another role. All of it is repeated with the sender's blocks
// in shared buffers. Also measures OpenSSL alone. Prints one JSON object per transport.
//
// usage: bench_transport [ROUNDS]   medians of so many rounds (5)
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

#include "bench/raw_tls.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/tcp_transport.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace {

using namespace troupe;
using namespace troupe::net;
using clock_type = std::chrono::steady_clock;
constexpr std::uint32_t bulk = 1, ping = 2;

double seconds_since(clock_type::time_point t) { return std::chrono::duration<double>(clock_type::now() - t).count(); }

// Values to send, in private memory or in a shared arena.
struct block {
  static constexpr std::size_t bytes = std::size_t{64} << 20;
  std::shared_ptr<std::vector<std::byte>> own;
  slab shared;

  explicit block(shared_arena* arena) {
    if (arena)
      shared = arena->take(bytes);
    else
      own = std::make_shared<std::vector<std::byte>>(bytes);
    std::fill_n(arena ? shared.data : own->data(), bytes, std::byte{7});
  }
  const_part part(std::size_t n) const {
    if (own) return {own->data(), n, own, nullptr, 0, true};
    return {shared.data, n, shared.region, shared.region, static_cast<std::size_t>(shared.data - shared.region->base), true};
  }
};

outgoing_frame frame_of(const block& of, std::size_t bytes, std::uint32_t to) {
  outgoing_frame f;
  f.type = 1;
  f.destination = to;
  f.parts.push_back(of.part(bytes));
  return f;
}

class end {
 public:
  end(const std::filesystem::path& dir, const std::string& name, bool echoes, std::shared_ptr<shared_arena> arena) {
    tcp_options o;
    o.cluster = "bench";
    o.node = name;
    o.shares = std::move(arena);
    o.ca = dir / "ca.pem", o.certificate = dir / (name + ".pem"), o.key = dir / (name + ".key");
    callbacks on;
    on.on_peer_up = [this](const std::string&, std::uint64_t) { change([this] { up_ = true; }); };
    on.on_frame = [this, echoes](const std::string& peer, frame&& f) -> expected<void, coded_error> {
      if (echoes && f.destination == ping) {
        outgoing_frame back;
        back.type = 1, back.destination = ping, back.id = f.id;
        back.parts.push_back({f.payload.get(), f.bytes, f.payload});  // small: never shared
        net->send(peer, std::move(back));
      }
      change([&] { ++got[f.destination]; });
      return {};
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
  const block& sent;

  double cpu = 0;  // microseconds of CPU time per frame, of both ends, in the last rate(); other work does not affect it

  // Frames per second.
  double rate(std::size_t bytes, std::uint64_t n) {
    const std::uint64_t before = b.got[bulk];
    const auto ticks = std::clock();
    const auto begun = clock_type::now();
    for (std::uint64_t i = 0; i < n; ++i) a.net->send("b", frame_of(sent, bytes, bulk));
    b.wait(bulk, before + n);
    cpu = 1e6 * static_cast<double>(std::clock() - ticks) / CLOCKS_PER_SEC / static_cast<double>(n);
    return static_cast<double>(n) / seconds_since(begun);
  }
  // Microseconds from send() to the other end's callback; median.
  double hand_over(int n) {
    std::vector<double> took;
    for (int i = 0; i < n; ++i) {
      const std::uint64_t before = b.got[bulk];
      const auto begun = clock_type::now();
      a.net->send("b", frame_of(sent, block::bytes, bulk));
      b.wait(bulk, before + 1);
      took.push_back(seconds_since(begun) * 1e6);
    }
    std::nth_element(took.begin(), took.begin() + n / 2, took.end());
    return took[static_cast<std::size_t>(n / 2)];
  }
  // Round-trip time of 4 KiB in microseconds, median. With `load`, that many 64 MiB frames are
  // always queued.
  double round_trip(int n, std::uint64_t load) {
    std::vector<double> took;
    std::uint64_t queued = b.got[bulk];
    for (int i = 0; i < n; ++i) {
      for (; load > 0 && queued < b.got[bulk] + load; ++queued) a.net->send("b", frame_of(sent, block::bytes, bulk));
      const std::uint64_t before = a.got[ping];
      const auto begun = clock_type::now();
      a.net->send("b", frame_of(sent, 4096, ping));
      a.wait(ping, before + 1);
      took.push_back(seconds_since(begun) * 1e6);
    }
    b.wait(bulk, queued);
    std::nth_element(took.begin(), took.begin() + n / 2, took.end());
    return took[static_cast<std::size_t>(n / 2)];
  }
};

struct figures {
  double huge = 0, huge_cpu = 0, large = 0, large_cpu = 0, small = 0, small_cpu = 0, over = 0, alone = 0, loaded = 0;
};

figures measured(const std::filesystem::path& dir, bool shares) {
  auto arena = shares ? *shared_arena::make(std::uint64_t{4} << 30) : nullptr;
  end b(dir, "b", true, shares ? *shared_arena::make(std::uint64_t{4} << 30) : nullptr), a(dir, "a", false, arena);
  const auto port = b.net->listen({"127.0.0.1", 0});
  if (!port) std::fprintf(stderr, "%s\n", port.error().message.c_str()), std::exit(1);
  a.net->connect("b", {"127.0.0.1", *port}, std::chrono::seconds(10));
  a.wait_up();
  b.wait_up();
  const block sent(arena.get());
  bench m{a, b, sent};
  m.rate(block::bytes, 4);  // warm-up: touches pages and widens TCP windows
  figures f;
  f.huge = m.rate(block::bytes, 40) / 16, f.huge_cpu = m.cpu * 16 / 1000;
  f.large = m.rate(std::size_t{1} << 20, 2000) / 1024, f.large_cpu = m.cpu * 1024 / 1000;
  f.small = m.rate(100, 100000), f.small_cpu = m.cpu;
  f.over = m.hand_over(shares ? 1000 : 20);
  f.alone = m.round_trip(5000, 0), f.loaded = m.round_trip(50, 2);
  a.net->close();
  b.net->close();
  return f;
}

double median(const std::vector<figures>& all, double figures::*which) {
  std::vector<double> v;
  for (const auto& f : all) v.push_back(f.*which);
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const auto dir =
      std::filesystem::temp_directory_path() / ("troupe-bench-" + std::to_string(clock_type::now().time_since_epoch().count()));
  if (auto made = make_cluster_certificates(dir, "bench", {{"a", {"127.0.0.1"}}, {"b", {"127.0.0.1"}}}); !made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    return 1;
  }
  std::vector<figures> tcp, shm;
  std::vector<double> raw;
  std::string cipher;
  for (int i = 0; i < rounds; ++i) {
    tcp.push_back(measured(dir, false));
    shm.push_back(measured(dir, true));
    raw.push_back(raw_tls::gib_per_second(dir, block::bytes, 40, cipher));
  }
  for (const auto* all : {&tcp, &shm}) {
    const auto m = [&](double figures::*which) { return median(*all, which); };
    std::printf(R"({"transport": "%s", "gib_per_second_64_mib": %.3f, "cpu_ms_per_gib_64_mib": %.1f, )",
                all == &tcp ? "tcp" : "shm", m(&figures::huge), m(&figures::huge_cpu));
    std::printf(R"("gib_per_second_1_mib": %.3f, "cpu_ms_per_gib_1_mib": %.1f, )", m(&figures::large), m(&figures::large_cpu));
    std::printf(R"("frames_per_second_100_bytes": %.0f, "cpu_us_per_frame_100_bytes": %.2f, )", m(&figures::small),
                m(&figures::small_cpu));
    std::printf(R"("hand_over_us_64_mib": %.1f, "round_trip_us_4_kib": %.1f, "round_trip_us_4_kib_behind_64_mib": %.1f})"
                "\n",
                m(&figures::over), m(&figures::alone), m(&figures::loaded));
  }
  std::nth_element(raw.begin(), raw.begin() + rounds / 2, raw.end());
  std::printf(R"({"transport": "OpenSSL alone, %s", "gib_per_second_64_mib": %.3f})"
              "\n",
              cipher.c_str(), raw[static_cast<std::size_t>(rounds / 2)]);
  std::error_code ignored;
  std::filesystem::remove_all(dir, ignored);
}
