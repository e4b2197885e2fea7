#include "runtime/node/machine/checks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::machine {
namespace {

constexpr double MiB = 1024.0 * 1024, GiB = 1024 * MiB;
constexpr double low_share_of_peak = 0.5;    // of sgemm; OpenBLAS' kernels for a processor reach 0.7 to 0.9
constexpr double low_gain_of_threads = 0.4;  // of what as many single threads compute; hyper-threads reach 0.5
constexpr double slow_reading = 1e-6;        // of the clock
constexpr double slow_sync = 0.1, slow_disk = 20 * MiB;
constexpr double disk_needed = 200 * MiB, disk_wanted = 2 * GiB;
constexpr double memory_needed = 256 * MiB, memory_wanted = GiB;
constexpr std::uint64_t files_wanted = 1024;
constexpr double days_wanted = 30;

std::string with_digits(double x, int digits) { return fixed_text(x, digits); }
std::string three_digits(double x) { return with_digits(x, x < 10 ? 2 : x < 100 ? 1 : 0); }
std::string percent(double share) { return with_digits(100 * share, 0) + " %"; }
std::string plural(std::uint64_t n, const std::string& one) { return with_commas(n) + " " + one + (n == 1 ? "" : "s"); }
std::string size_text(std::uint64_t n) { return bytes_text(static_cast<double>(n)); }

// Collects the checks of one node.
class sheet {
 public:
  explicit sheet(std::string node) : node_(std::move(node)) {}
  void ok(std::string name, std::string value) { add({std::move(name), verdict::ok, std::move(value)}); }
  void warn(std::string name, std::string value, std::string text, std::string next) {
    add({std::move(name), verdict::warn, std::move(value), std::move(text), std::move(next)});
  }
  void fail(std::string name, std::string value, std::string text, std::string next) {
    add({std::move(name), verdict::fail, std::move(value), std::move(text), std::move(next)});
  }
  void add(check c) {
    c.node = node_;
    list_.push_back(std::move(c));
  }
  std::vector<check> list() && { return std::move(list_); }

 private:
  const std::string node_;
  std::vector<check> list_;
};

void judge_processor(const processor& p, sheet& s) {
  auto value = p.name + (p.name.empty() ? "" : ", ") + plural(p.cores, "core");
  if (p.installed > p.cores) value += " of " + std::to_string(p.installed);
  for (const auto& e : p.extensions) value += ", " + e;
  if (!p.kernels.empty()) value += ", kernels " + p.kernels;
  if (p.kernels == "baseline")
    return s.warn("processor", value, "it has no AVX2, which Troupe's fast kernels need", "troupe device_query");
  if (p.quota > 0 && p.quota < p.cores) {
    const auto threads = std::to_string(std::max(1L, std::lround(p.quota)));
    return s.warn("processor", value,
                  "its cgroup allows " + three_digits(p.quota) + " of these cores: more threads slow each other",
                  "troupe train JOB --threads " + threads + " (or raise the limit: docker update --cpus " +
                      std::to_string(p.cores) + " CONTAINER)");
  }
  s.ok("processor", value);
}

// The vectors that a processor has and that OpenBLAS' kernels use: 3 AVX-512, 2 AVX2, 1 less, 0
// unknown.
int vectors_of(const processor& p) {
  const auto has = [&](std::string_view e) { return std::find(p.extensions.begin(), p.extensions.end(), e) != p.extensions.end(); };
  return has("AVX-512") ? 3 : has("AVX2") ? 2 : 0;
}
int vectors_of_kernel(const std::string& kernel) {
  constexpr std::array<std::string_view, 3> avx512 = {"SkylakeX", "Cooperlake", "SapphireRapids"};
  constexpr std::array<std::string_view, 3> avx2 = {"Haswell", "Zen", "Excavator"};
  if (std::find(avx512.begin(), avx512.end(), kernel) != avx512.end()) return 3;
  return std::find(avx2.begin(), avx2.end(), kernel) != avx2.end() ? 2 : 1;
}

// What makes OpenBLAS use the kernels for `has` (vectors_of): the variable in this shell, or in the
// environment of a node's daemon.
std::string blas_remedy(const processor& p, int has, bool daemon) {
  const auto set = std::string("OPENBLAS_CORETYPE=") + (has == 3 ? "SkylakeX" : "Haswell");
  if (daemon && p.coretype.empty()) return "systemctl edit trouped (Environment=" + set + "), and restart it";
  if (daemon) return "systemctl edit trouped (UnsetEnvironment=OPENBLAS_CORETYPE), and restart it";
  return (p.coretype.empty() ? "export " + set : std::string("unset OPENBLAS_CORETYPE")) + " && troupe doctor";
}

void judge_blas(const processor& p, const speed& measured, bool daemon, sheet& s) {
  const auto value = p.blas + ", kernels for " + p.blas_kernel + ", " + p.blas_threading;
  const double share = measured.peak_one > 0 ? measured.sgemm_one / measured.peak_one : 0;
  const bool known = share > 0, slow = known && share < low_share_of_peak;
  const int has = vectors_of(p), uses = vectors_of_kernel(p.blas_kernel);
  const auto reaches = known ? ": sgemm reaches " + percent(share) + " of the processor's peak" : std::string();
  if (has > uses && (slow || (!known && uses == 1)))
    return s.warn("blas", value,
                  "the processor has " + std::string(has == 3 ? "AVX-512" : "AVX2") + ", which the kernels for " + p.blas_kernel +
                      " do not use" + reaches,
                  blas_remedy(p, has, daemon));
  if (slow) return s.warn("blas", value, "other programs may use the cores" + reaches, "top");
  s.ok("blas", value);
}

void judge_speed(const speed& m, sheet& s) {
  if (!m.skipped.empty() || m.peak_one <= 0)
    return s.ok("speed", "not measured" + (m.skipped.empty() ? std::string() : ": " + m.skipped));
  const auto g = [](double flops) { return three_digits(1e-9 * flops); };
  auto value =
      "sgemm " + g(m.sgemm_one) + " GFLOP/s (" + percent(m.sgemm_one / m.peak_one) + " of the " + m.instructions + " peak)";
  if (m.threads > 1) value += ", " + g(m.sgemm_all) + " on " + plural(m.threads, "thread");
  value += "; memory " + three_digits(1e-9 * m.memory_rate) + " GB/s";
  const double gain = m.threads > 1 && m.sgemm_one > 0 ? m.sgemm_all / (m.sgemm_one * m.threads) : 1;
  if (gain < low_gain_of_threads)
    return s.warn("speed", value,
                  plural(m.threads, "thread") + " compute only " + three_digits(gain * m.threads) +
                      " times as much as one: other programs may use the cores",
                  "top");
  s.ok("speed", value);
}

void judge_memory(const memory& m, sheet& s) {
  const auto free = static_cast<double>(m.free);
  auto value = size_text(m.free) + " free; " + m.bound_by + " " + size_text(m.total);
  if (m.total == 0)
    s.ok("memory", "unknown");
  else if (free < memory_needed)
    s.fail("memory", value, "a job needs more", "ps aux --sort=-rss | head");
  else if (free < memory_wanted)
    s.warn("memory", value, "this is enough for small nets only", "troupe plan JOB (shows what a job needs)");
  else
    s.ok("memory", value);
  if (m.swap_used > std::max<std::uint64_t>(m.total / 20, std::uint64_t{64} << 20))
    s.warn("swap", size_text(m.swap_used) + " of " + size_text(m.swap_total) + " in use", "training that swaps is very slow",
           "ps aux --sort=-rss | head");
  if (m.overcommit == 2)
    s.warn("overcommit", "vm.overcommit_memory = 2", "the kernel refuses memory that is reserved and not used, as pools do",
           "sysctl vm.overcommit_memory=0");
}

void judge_clock(const clock& c, sheet& s) {
  const auto value = (c.source.empty() ? "clock" : c.source) + ", " + short_time(c.reading) + " a reading, " +
                     (!c.known         ? "time server unknown"
                      : c.synchronised ? "synchronised with a time server"
                                       : "not synchronised with a time server");
  if (c.reading > slow_reading)
    return s.warn("clock", value, "readings are slow, which costs time in every task and trace",
                  "cat /sys/devices/system/clocksource/clocksource0/available_clocksource");
  s.ok("clock", value);
}

void judge_folder(const folder& f, sheet& s) {
  const auto name = "disk " + f.purpose;
  auto value = f.path + ": " + size_text(f.free) + " free";
  if (f.write_rate > 0) value += ", writes " + bytes_text(f.write_rate) + "/s, fsync " + short_time(f.sync);
  const auto free = static_cast<double>(f.free);
  const bool runs = f.purpose == "runs";
  if (!f.problem.empty())
    return s.fail(name, f.path, "no file can be written: " + f.problem,
                  runs ? "troupe train JOB --run-dir FOLDER" : "trouped --cluster FILE --node NAME --state FOLDER");
  if (f.total > 0 && free < disk_needed)
    return s.fail(name, value, "the disk is full", runs ? "troupe runs (and troupe runs rm RUN)" : "df -h " + f.path);
  if (f.total > 0 && free < disk_wanted) return s.warn(name, value, "checkpoints may fill the disk", "df -h " + f.path);
  if (f.sync > slow_sync || (f.write_rate > 0 && f.write_rate < slow_disk))
    return s.warn(name, value, "the disk is slow: checkpoints and the journal of jobs wait for it", "iostat -x 1");
  s.ok(name, value);
}

void judge_limits(const limits& l, sheet& s) {
  const auto amount = [](std::uint64_t n) { return n == ~std::uint64_t{0} ? std::string("unlimited") : size_text(n); };
  const auto value = (l.open_files == ~std::uint64_t{0} ? "unlimited" : with_commas(l.open_files)) + " open files, locked memory " +
                     amount(l.locked_memory) + ", core files " + (l.core_file == 0 ? "off" : amount(l.core_file));
  if (l.open_files >= files_wanted) return s.ok("limits", value);
  s.warn("limits", value, "connections, data files and shared buffers take one open file each",
         l.most_open_files >= files_wanted
             ? "ulimit -n " + std::to_string(std::min<std::uint64_t>(l.most_open_files, 65536))
             : "systemctl edit trouped (LimitNOFILE=65536), or raise it in /etc/security/limits.conf");
}

std::string address_of(const interface& i) {
  for (const auto& a : i.addresses)
    if (a.find(':') == std::string::npos) return a;
  return i.addresses.empty() ? std::string() : i.addresses.front();
}

std::string interface_text(const interface& i) {
  return i.name + " " + address_of(i) + (i.megabits > 0 ? " " + bits_text(i.megabits * 1e6 / 8) : "");
}

void judge_network(const facts& f, sheet& s) {
  const interface* used = nullptr;
  for (const auto& i : f.interfaces)
    if (std::find(i.addresses.begin(), i.addresses.end(), f.address) != i.addresses.end() ||
        (i.loopback && f.address.starts_with("127.")))
      used = &i;
  if (!used) {
    std::vector<std::string> all;
    for (const auto& i : f.interfaces)
      if (!i.loopback) all.push_back(interface_text(i));
    return s.ok("network", all.empty() ? "no interface but loopback" : joined(all));
  }
  const auto value = interface_text(*used) + (used->loopback ? ": only nodes of this machine reach it" : "");
  const interface* fastest = used;
  for (const auto& i : f.interfaces)
    if (!used->loopback && !i.loopback && used->megabits > 0 && i.megabits > fastest->megabits) fastest = &i;
  if (fastest == used) return s.ok("network", value);
  s.warn("network", value, "the interface " + interface_text(*fastest) + " is faster, and not used",
         "set data_address = \"" + address_of(*fastest) + ":PORT\" in the node's [[node]] table, and restart trouped");
}

void judge_gpus(const facts& f, sheet& s) {
  for (const auto& g : f.gpus) {
    if (g.failure.empty())
      s.ok("gpu", g.name);
    else
      s.fail("gpu", g.name, g.failure, "nvidia-smi");
  }
  if (!f.gpus.empty()) return;
  const auto value = "none" + (f.why_no_gpu.empty() ? std::string() : ": " + f.why_no_gpu);
  if (f.nvidia_driver && !f.why_no_gpu.empty())
    return s.warn("gpu", value, "NVIDIA's driver is loaded, but Troupe cannot use a GPU", "troupe device_query");
  s.ok("gpu", value);
}

double median(std::vector<double> list) {
  if (list.empty()) return 0;
  const auto middle = list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2);
  std::nth_element(list.begin(), middle, list.end());
  return *middle;
}

}  // namespace

const char* name_of(verdict v) { return v == verdict::ok ? "ok" : v == verdict::warn ? "warn" : "fail"; }

std::string bits_text(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  return bits >= 1e9   ? three_digits(bits / 1e9) + " Gbit/s"
         : bits >= 1e6 ? three_digits(bits / 1e6) + " Mbit/s"
                       : three_digits(bits / 1e3) + " kbit/s";
}

std::string short_time(double seconds) {
  return seconds >= 1      ? three_digits(seconds) + " s"
         : seconds >= 1e-3 ? three_digits(1e3 * seconds) + " ms"
         : seconds >= 1e-6 ? three_digits(1e6 * seconds) + " us"
                           : three_digits(1e9 * seconds) + " ns";
}

check check_of(const certificate& c, const std::string& cluster) {
  const auto file = cluster.empty() ? std::string("FILE") : cluster;
  const auto name = "certificate " + c.name;
  const auto renew = "troupe certs renew " + c.name + " --cluster " + file;
  if (!c.problem.empty()) {
    auto next = renew;
    if (c.code == "key_exposed") next = "chmod 600 " + c.folder + "/" + c.name + ".key";
    if (c.code == "certificate_missing")
      next = "troupe init-cluster --cluster " + file + " (or copy the folder " + c.name + " from the machine where it was made)";
    if (c.code == "certificate_not_yet_valid") next = "timedatectl (the clock of this machine may be wrong)";
    return {name, verdict::fail, c.folder, c.problem, next};
  }
  const auto days = static_cast<std::uint64_t>(std::max(0.0, c.days));
  const auto value = "valid for " + plural(days, "day");
  if (c.days < days_wanted) return {name, verdict::warn, value, "it expires soon; then no connection is possible", renew};
  return {name, verdict::ok, value};
}

std::vector<check> checks_of(const facts& f, const std::string& node, const std::string& cluster) {
  sheet s(node);
  judge_processor(f.processor, s);
  judge_blas(f.processor, f.speed, !node.empty(), s);
  judge_speed(f.speed, s);
  judge_memory(f.memory, s);
  judge_clock(f.clock, s);
  for (const auto& one : f.folders) judge_folder(one, s);
  judge_limits(f.limits, s);
  for (const auto& c : f.certificates) s.add(check_of(c, cluster));
  judge_network(f, s);
  judge_gpus(f, s);
  return std::move(s).list();
}

std::vector<check> checks_of(const contact& c, const std::string& our_version, const std::string& cluster) {
  constexpr double wrong_clock = 24 * 3600, poor_clock = 60;
  sheet s(c.node);
  const auto start = "trouped --cluster " + cluster + " --node " + c.node;
  if (!c.problem.empty()) {
    auto why = c.problem, next = "run `troupe doctor` and `systemctl status trouped` on the machine of " + c.node;
    if (c.here && !c.port_taken)
      why = "no daemon runs: the port is free", next = start;
    else if (c.here)
      why += "; a program holds the port", next = "ss -ltnp | grep " + c.address.substr(c.address.rfind(':'));
    else if (c.state == "up")
      next = "run this command on the machine of the coordinator, which reaches " + c.node;
    s.fail("daemon", c.address, why, next);
    return std::move(s).list();
  }
  if (!c.version.empty() && c.version != our_version)
    s.fail("daemon", c.address + ", version " + c.version, "this program has version " + our_version,
           "install the same version on all nodes, and restart trouped");
  else if (!c.state.empty() && c.state != "up")
    s.fail("daemon", c.address, "the coordinator's daemon calls it " + c.state + (c.note.empty() ? "" : ": " + c.note),
           "troupe repl --cluster " + cluster + " -c nodes");
  else
    s.ok("daemon", c.address + " answers" + (c.version.empty() ? "" : ", version " + c.version));
  const auto off = std::abs(c.clock_ahead);
  const auto value = short_time(off) + (c.clock_ahead > 0 ? " ahead of this machine" : " behind this machine");
  if (off > wrong_clock)
    s.fail("time", value, "certificates and restarts are refused at more than a day", "timedatectl set-ntp true");
  else if (off > poor_clock)
    s.warn("time", value, "logs and events of this node have a wrong time", "timedatectl set-ntp true");
  return std::move(s).list();
}

std::vector<check> checks_of(const std::vector<link>& links) {
  constexpr double slow = 0.25, lopsided = 0.5, late = 10, least_late = 1e-3;
  std::vector<double> rates, times;
  for (const auto& l : links) {
    if (l.rate > 0 && !l.same_machine) rates.push_back(l.rate);
    if (l.round_trip > 0) times.push_back(l.round_trip);
  }
  const auto usual = median(rates), usual_time = median(times);
  const auto back = [&](const link& l) {
    for (const auto& other : links)
      if (other.from == l.to && other.to == l.from) return other.rate;
    return 0.0;
  };
  std::vector<check> list;
  for (const auto& l : links) {
    check c{"link " + l.from + " to " + l.to, verdict::ok, short_time(l.round_trip) + " round trip", {}, {}, l.from};
    if (l.rate > 0) c.value = bits_text(l.rate) + ", " + c.value;
    if (l.same_machine) c.value += "; on one machine: tensors use shared memory";
    if (!l.skipped.empty()) c.value += "; bandwidth not measured: " + l.skipped;
    const auto warn = [&](std::string text, std::string next) {
      c.state = verdict::warn, c.text = std::move(text), c.next = std::move(next);
    };
    if (!l.problem.empty()) {
      c.value.clear();
      c.state = verdict::fail;
      c.text = l.problem;
      c.next = "on " + l.from + ": nc -vz ADDRESS PORT (the data plane of " + l.to + "; docs/clusters.md, Firewalls)";
    } else if (l.rate > 0 && !l.same_machine && l.rate < slow * usual) {
      warn("most links carry " + bits_text(usual), "on both nodes: ethtool INTERFACE (speed, duplex)");
    } else if (l.rate > 0 && !l.same_machine && l.rate < lopsided * back(l)) {
      warn("the way back carries " + bits_text(back(l)), "on both nodes: ethtool INTERFACE (speed, duplex)");
    } else if (l.round_trip > std::max(late * usual_time, least_late)) {
      warn("most links take " + short_time(usual_time), "on " + l.from + ": mtr " + l.to);
    }
    list.push_back(std::move(c));
  }
  return list;
}

}  // namespace troupe::machine
