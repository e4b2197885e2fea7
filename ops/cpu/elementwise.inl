// Loops over arrays. `GCC ivdep`: input and output are the same memory or do not overlap.

template <class T>
void fill(i64 n, T value, T* x) {
  for (i64 i = 0; i < n; ++i) x[i] = value;
}

template <class T>
void axpy(i64 n, T a, const T* x, T* y) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) y[i] += a * x[i];
}

template <class T>
void scale(i64 n, T a, T* x) {
  for (i64 i = 0; i < n; ++i) x[i] *= a;
}

// Writes a large, separate output through a buffer of a few KiB in the L1 cache: run(first, count,
// out).
template <class T, class Run>
inline void in_stretches(i64 n, bool own, T* out, const Run& run) {
  constexpr i64 stretch = 1024, large = (i64{1} << 20) / i64{sizeof(T)};
  if (!own || n < large) return run(0, n, out);
  T near[stretch];
  for (i64 i = 0; i < n; i += stretch) {
    const i64 count = smallest(stretch, n - i);
    run(i, count, near);
    stream(near, count, out + i);
  }
  end_streams();
}

template <class T, class F>
inline void each(i64 n, const T* x, T* y, F f) {
  in_stretches(n, x != y, y, [=](i64 first, i64 count, T* to) {
    const T* p = x + first;
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) to[i] = f(p[i]);
  });
}

template <class T, class F>
inline void each(i64 n, const T* x, const T* y, T* out, F f) {
  in_stretches(n, x != out && y != out, out, [=](i64 first, i64 count, T* to) {
    const T *p = x + first, *q = y + first;
#pragma GCC ivdep
    for (i64 i = 0; i < count; ++i) to[i] = f(p[i], q[i]);
  });
}

template <class T>
void apply(int op, i64 n, const T* x, const T* y, T* out) {
  switch (op) {
    case 0: return each(n, x, y, out, [](T a, T b) { return a + b; });
    case 1: return each(n, x, y, out, [](T a, T b) { return a - b; });
    case 2: return each(n, x, y, out, [](T a, T b) { return a * b; });
    case 4: return each(n, x, y, out, [](T a, T b) { return a + b < T(0) ? T(0) : a + b; });
    default: return each(n, x, y, out, [](T a, T b) { return a > b || a != a ? a : b; });
  }
}

template <class T>
void add_bias(i64 outer, i64 channels, i64 inner, const T* bias, T* y) {
  for (i64 o = 0; o < outer; ++o) {
    if (inner == 1) {
      axpy(channels, T(1), bias, y + o * channels);
      continue;
    }
    for (i64 c = 0; c < channels; ++c) {
      T* row = y + (o * channels + c) * inner;
      const T b = bias[c];
      for (i64 i = 0; i < inner; ++i) row[i] += b;
    }
  }
}

// A sum in a fixed order that can be vectorised: 16 lanes, then a tree over the lanes.
template <class T>
inline void add_lanes(i64 n, const T* x, T (&lane)[16]) {
  i64 i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) lane[l] += x[i + l];
  for (int l = 0; i < n; ++i, ++l) lane[l] += x[i];
}
template <class T>
inline T fold(T (&lane)[16]) {
  for (int width = 8; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

template <class T>
void reduce_sum(i64 outer, i64 mid, i64 inner, const T* x, T* out) {
  if (inner == 1) {
    fill(mid, T(0), out);
    for (i64 o = 0; o < outer; ++o) axpy(mid, T(1), x + o * mid, out);
    return;
  }
  for (i64 m = 0; m < mid; ++m) {
    T lane[16] = {};
    for (i64 o = 0; o < outer; ++o) add_lanes(inner, x + (o * mid + m) * inner, lane);
    out[m] = fold(lane);
  }
}

// The fixed tree of device::sum_squares, with groups of 16 elements as leaves. Partial sums are
// kept like the digits of a binary counter: sum[k] is in use if bit k of the number of leaves is
// set, and a new leaf carries.
template <class T>
double sum_squares(i64 n, const T* x) {
  double sum[64];
  i64 leaves = 0;
  for (i64 i = 0; i < n; i += 16, ++leaves) {
    double lane[16] = {};
    if (i + 16 <= n)
      for (int l = 0; l < 16; ++l) lane[l] = double(x[i + l]) * double(x[i + l]);
    else
      for (int l = 0; i + l < n; ++l) lane[l] = double(x[i + l]) * double(x[i + l]);
    double carried = fold(lane);
    int k = 0;
    for (; (leaves >> k & 1) != 0; ++k) carried = sum[k] + carried;
    sum[k] = carried;
  }
  double total = 0.0;
  bool any = false;
  for (int k = 0; leaves >> k != 0; ++k) {
    if ((leaves >> k & 1) == 0) continue;
    total = any ? sum[k] + total : sum[k];
    any = true;
  }
  return total;
}

template <class T>
void map(int f, T parameter, i64 n, const T* x, T* y) {
  switch (f) {
    case 0:
      if (parameter == T(0)) return each(n, x, y, [](T v) { return v < T(0) ? T(0) : v; });
      return each(n, x, y, [parameter](T v) { return v > T(0) ? v : parameter * v; });
    case 1: return each(n, x, y, [](T v) { return sigmoid_of(v); });
    case 2: return each(n, x, y, [](T v) { return tanh_of(v); });
    case 3: return each(n, x, y, [](T v) { return exp_of(v); });
    case 4: return each(n, x, y, [](T v) { return log_of(v); });
    case 5: return each(n, x, y, [](T v) { return square_root(v); });
    case 6: return each(n, x, y, [](T v) { return v * v; });
    case 7: return each(n, x, y, [](T v) { return v < T(0) ? -v : v; });
    case 8: return each(n, x, y, [parameter](T v) { return v > T(0) ? v : parameter * (exp_of(v) - T(1)); });
    case 9: return each(n, x, y, [](T v) { return v * normal_cdf(v); });
    case 10: return each(n, x, y, [](T v) { return T(0.5) * v * (T(1) + tanh_of(gelu_inner(v))); });
    case 11: return each(n, x, y, [parameter](T v) { return T(1) / square_root(v + parameter); });
    case 12: return each(n, x, y, [parameter](T v) { return clamped(v, parameter); });
    case 13: return each(n, x, y, [](T v) { return v * sigmoid_of(v); });
    case 14: return each(n, x, y, [parameter](T v) { return clamped(parameter * v + T(0.5), T(1)); });
    default: return each(n, x, y, [](T v) { return v * clamped(v * T(1.0 / 6) + T(0.5), T(1)); });
  }
}

template <class T>
void map_backward(int f, T parameter, i64 n, const T* x, const T* y, const T* dy, T* dx) {
  switch (f) {
    case 0:
      if (parameter == T(0)) return each(n, y, dy, dx, [](T v, T d) { return v > T(0) ? d : T(0); });
      return each(n, y, dy, dx, [parameter](T v, T d) { return v > T(0) ? d : parameter * d; });
    case 1: return each(n, y, dy, dx, [](T v, T d) { return d * (v * (T(1) - v)); });
    case 2: return each(n, y, dy, dx, [](T v, T d) { return d * (T(1) - v * v); });
    case 3: return each(n, y, dy, dx, [](T v, T d) { return d * v; });
    case 4: return each(n, x, dy, dx, [](T v, T d) { return d / v; });
    case 5: return each(n, y, dy, dx, [](T v, T d) { return d * (T(0.5) / v); });
    case 6: return each(n, x, dy, dx, [](T v, T d) { return d * (T(2) * v); });
    case 7: return each(n, x, dy, dx, [](T v, T d) { return v < T(0) ? -d : (v > T(0) ? d : T(0)); });
    case 8: return each(n, y, dy, dx, [parameter](T v, T d) { return v > T(0) ? d : d * (v + parameter); });
    case 9: return each(n, x, dy, dx, [](T v, T d) { return d * (normal_cdf(v) + v * normal_density(v)); });
    case 10: return each(n, x, dy, dx, [](T v, T d) { return d * gelu_tanh_slope(v); });
    case 11: return each(n, y, dy, dx, [](T v, T d) { return d * (T(-0.5) * v * v * v); });
    case 12: return each(n, x, dy, dx, [parameter](T v, T d) { return v > T(0) && v < parameter ? d : T(0); });
    case 13: return each(n, x, dy, dx, [](T v, T d) { return d * silu_slope(v); });
    case 14:
      return each(n, x, dy, dx, [parameter](T v, T d) {
        const T t = parameter * v + T(0.5);
        return t > T(0) && t < T(1) ? d * parameter : T(0);
      });
    default: return each(n, x, dy, dx, [](T v, T d) { return d * hard_swish_slope(v); });
  }
}

template <class T>
void select_equal(i64 n, const T* x, const T* y, const T* dy, T* dx) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) dx[i] = x[i] == y[i] ? dy[i] : T(0);
}
