// A training loop without Troupe's layers, jobs or actors, in several processes that exchange
// gradients or weights.
//
//   own_loop ADDRESS TLS_DIR RANK SIZE bsp|easgd|hogwild OUT [--lock]
//
// The model is a small tanh network that separates the two arms of a spiral, with a hand-written
// gradient. Each rank has its own share of the points.
//   bsp      Every step: all_reduce of the gradient. All ranks have the same weights, bit for bit,
//            which are those of one process with all points, up to rounding.
//   easgd    Every 10 steps: an elastic step with alpha 0.5 (Platoon's setting). In between, ranks
//            train independently. They start with different weights.
//   hogwild  The ranks, on one machine, read the weights from shared memory and add their updates
//            to it, without synchronisation. With --lock, no update is lost.
// Writes its weights to OUT (raw doubles) and one line of JSON to stdout.
#include <troupe_exchange.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr int hidden = 24, points = 400, steps = 1500, tau = 10, timeout_ms = 30000;
constexpr double rate = 0.5, alpha = 0.5;
constexpr int count = hidden * 4 + 1;  // per hidden unit: two inputs, a bias, an output weight; and one bias

struct point {
  double x, y, label;
};

void check(int code) {
  if (code == TROUPE_EXCHANGE_OK) return;
  std::fprintf(stderr, "own_loop: %s\n", troupe_exchange_error_text());
  std::exit(1);
}

std::vector<point> spiral() {
  std::vector<point> out;
  for (int i = 0; i < points; ++i) {
    // The arm changes after every two points, so that every second point covers both arms.
    const double turn = 2.0 * i / points, side = i / 2 % 2 == 0 ? 1 : -1, angle = 3.1415926 * turn;
    out.push_back({side * turn * std::cos(angle), side * turn * std::sin(angle), side > 0 ? 1.0 : 0.0});
  }
  return out;
}

// The network's output for a point. `h` receives the outputs of the hidden units.
double output(const std::vector<double>& w, const point& p, double (&h)[hidden]) {
  double out = w[count - 1];
  for (int j = 0; j < hidden; ++j) {
    const double* u = &w[static_cast<std::size_t>(4 * j)];
    h[j] = std::tanh(u[0] * p.x + u[1] * p.y + u[2]);
    out += u[3] * h[j];
  }
  return out;
}

// The fraction of points that are classified correctly.
double accuracy(const std::vector<double>& w, const std::vector<point>& data) {
  double h[hidden], right = 0;
  for (const auto& p : data) right += (output(w, p, h) > 0) == (p.label > 0.5) ? 1 : 0;
  return right / points;
}

// Mean logistic loss over every `stride`-th point from `first`, and its gradient in `g` (may be
// null).
double loss(const std::vector<double>& w, const std::vector<point>& data, int first, int stride, std::vector<double>* g) {
  double sum = 0;
  int n = 0;
  if (g) g->assign(count, 0.0);
  for (int i = first; i < points; i += stride, ++n) {
    const auto& p = data[static_cast<std::size_t>(i)];
    double h[hidden];
    const double out = output(w, p, h);
    sum += std::fmax(out, 0.0) - out * p.label + std::log1p(std::exp(-std::fabs(out)));
    if (!g) continue;
    const double d = 1 / (1 + std::exp(-out)) - p.label;
    for (int j = 0; j < hidden; ++j) {
      const double* u = &w[static_cast<std::size_t>(4 * j)];
      double* du = &(*g)[static_cast<std::size_t>(4 * j)];
      const double back = d * u[3] * (1 - h[j] * h[j]);
      du[0] += back * p.x;
      du[1] += back * p.y;
      du[2] += back;
      du[3] += d * h[j];
    }
    (*g)[count - 1] += d;
  }
  if (g)
    for (auto& v : *g) v /= n;
  return sum / n;
}

// bsp and easgd: every rank has its own weights and exchanges weights or gradients.
void train_apart(troupe_exchange* x, bool elastic, int rank, int size, const std::vector<point>& data, std::vector<double>& w,
                 std::vector<double>& centre) {
  int32_t weights = 0, gradient = 0;
  check(troupe_exchange_register(x, "weights", TROUPE_EXCHANGE_FLOAT64, count, timeout_ms, &weights));
  check(troupe_exchange_register(x, "gradient", TROUPE_EXCHANGE_FLOAT64, count, timeout_ms, &gradient));
  if (elastic)
    check(troupe_exchange_barrier(x, timeout_ms));  // ranks start with different weights
  else
    check(troupe_exchange_broadcast(x, weights, w.data(), count, 0, timeout_ms));  // all ranks start with the weights of rank 0
  std::vector<double> g;
  for (int step = 1; step <= steps; ++step) {
    loss(w, data, rank, size, &g);
    if (!elastic) check(troupe_exchange_all_reduce(x, gradient, g.data(), count, TROUPE_EXCHANGE_MEAN, timeout_ms));
    for (std::size_t k = 0; k < count; ++k) w[k] -= rate * g[k];
    if (elastic && step % tau == 0) check(troupe_exchange_exchange(x, weights, w.data(), count, timeout_ms));
  }
  check(troupe_exchange_barrier(x, timeout_ms));
  centre = w;
  if (elastic) check(troupe_exchange_centre(x, weights, centre.data(), count, timeout_ms));
}

// hogwild: all ranks share one set of weights in shared memory, initially those of the first rank.
void train_together(troupe_exchange* x, int lock, int rank, int size, const std::vector<point>& data, std::vector<double>& w) {
  int32_t weights = 0;
  check(troupe_exchange_share(x, "weights", TROUPE_EXCHANGE_FLOAT64, count, w.data(), timeout_ms, &weights));
  check(troupe_exchange_barrier(x, timeout_ms));  // all ranks have shared the array
  std::vector<double> g;
  for (int step = 1; step <= steps; ++step) {
    check(troupe_exchange_shared_read(x, weights, w.data(), count, lock, timeout_ms));
    loss(w, data, rank, size, &g);
    // Each rank has a part of the points; together their updates are one step of `rate`.
    check(troupe_exchange_shared_add(x, weights, g.data(), count, -rate / size, lock, timeout_ms));
  }
  check(troupe_exchange_barrier(x, timeout_ms));
  check(troupe_exchange_shared_read(x, weights, w.data(), count, lock, timeout_ms));
}

}  // namespace

int main(int argc, char** argv) {
  const bool lock = argc == 8 && std::strcmp(argv[7], "--lock") == 0;
  const char* mode = argc == 7 || lock ? argv[5] : "";
  const bool elastic = std::strcmp(mode, "easgd") == 0, hogwild = std::strcmp(mode, "hogwild") == 0;
  if ((!elastic && !hogwild && std::strcmp(mode, "bsp") != 0) || (lock && !hogwild)) {
    std::fprintf(stderr, "usage: own_loop ADDRESS TLS_DIR RANK SIZE bsp|easgd|hogwild OUT [--lock]\n");
    return 2;
  }
  troupe_exchange_options o{};
  o.struct_size = sizeof o;
  o.address = argv[1];
  o.tls_dir = argv[2];
  o.session = mode;
  o.rank = std::atoi(argv[3]);
  o.size = std::atoi(argv[4]);
  o.averaging_method = elastic ? TROUPE_EXCHANGE_EASGD : TROUPE_EXCHANGE_AVERAGE;
  o.alpha = elastic ? alpha : 0;
  o.timeout_ms = timeout_ms;
  troupe_exchange* x = nullptr;
  check(troupe_exchange_open(&o, &x));

  const auto data = spiral();
  std::mt19937 rng(static_cast<unsigned>(7 + o.rank));  // every rank draws different weights
  std::vector<double> w(count), c;
  for (auto& v : w) v = (static_cast<double>(rng()) / 4294967296.0 - 0.5) * 2;
  const double before = loss(w, data, 0, 1, nullptr);
  if (hogwild) {
    train_together(x, lock ? 1 : 0, o.rank, o.size, data, w);
    c = w;
  } else {
    train_apart(x, elastic, o.rank, o.size, data, w, c);
  }
  check(troupe_exchange_barrier(x, timeout_ms));  // keeps the session open until all ranks have read
  check(troupe_exchange_close(x));

  std::FILE* out = std::fopen(argv[6], "wb");
  if (!out || std::fwrite(w.data(), sizeof(double), count, out) != count || std::fclose(out) != 0) {
    std::perror(argv[6]);
    return 1;
  }
  std::printf("{\"rank\": %d, \"first_loss\": %.6f, \"last_loss\": %.6f, \"centre_loss\": %.6f, \"accuracy\": %.4f}\n", o.rank,
              before, loss(w, data, 0, 1, nullptr), loss(c, data, 0, 1, nullptr), accuracy(w, data));
  return 0;
}
