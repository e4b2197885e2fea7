// Update rules, each one pass over weights, gradients and states (formulas: device.hpp). An output
// is the memory of its input or does not overlap it. Values that do not depend on the element are
// computed in f64 beforehand.

// The gradient that the rules use: scaled, clamped (an infinite limit does not change it, NaN
// included), plus the decays.
template <class T>
struct counted_gradient {
  T scale, limit, decay, up, down;  // up, down: the L1 decay of a positive and of a negative weight
  explicit counted_gradient(const gradient_spec& s)
      : scale(T(s.scale)),
        limit(T(s.limit)),
        decay(T(s.decay)),
        up(s.decay_l1 == 0 ? T(-0.0) : T(s.decay_l1)),
        down(-T(s.decay_l1)) {}
  T operator()(T g, T w) const {
    g = scale * g;
    g = g > limit ? limit : g;
    g = g < -limit ? -limit : g;
    // Adding -0 changes no number; +0 would change -0.
    return (g + decay * w) + (w > T(0) ? up : w < T(0) ? down : T(-0.0));
  }
};

// Calls run(first, count, out) for elements [first, first + count) of an update, whose new weights
// go to `out`. A large, separate output is written through a buffer of a few KiB in the L1 cache,
// which saves one of the four large reads of an update with momentum. In place there is nothing to
// save, and the next step finds its weights in the cache.
template <class T, class Run>
void in_runs(i64 n, const T* w, const T* g, T* w_out, const Run& run) {
  constexpr i64 stretch = 1024, large = (i64{4} << 20) / i64{sizeof(T)};
  if (w_out == w || w_out == g || n < large) return run(0, n, w_out);
  alignas(64) T near[stretch];
  for (i64 i = 0; i < n; i += stretch) {
    const i64 count = n - i < stretch ? n - i : stretch;
    run(i, count, near);
    stream(near, count, w_out + i);
  }
  end_streams();
}

template <class T>
void sgd_run(const sgd_spec& s, i64 n, const T* w, const T* g, const T* v, T* w_out, T* v_out) {
  const counted_gradient<T> counted(s.gradient);
  const T lr = T(s.lr), momentum = T(s.momentum);
  if (v_out == nullptr) {
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) w_out[i] = w[i] - lr * counted(g[i], w[i]);
  } else if (s.nesterov) {
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) {
      const T d = counted(g[i], w[i]);
      const T u = momentum * v[i] + d;
      v_out[i] = u;
      w_out[i] = w[i] - lr * (d + momentum * u);
    }
  } else {
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) {
      const T u = momentum * v[i] + counted(g[i], w[i]);
      v_out[i] = u;
      w_out[i] = w[i] - lr * u;
    }
  }
}

template <class T>
void sgd(const sgd_spec& s, i64 n, const T* w, const T* g, const T* v, T* w_out, T* v_out) {
  in_runs(n, w, g, w_out, [&](i64 i, i64 count, T* to) {
    sgd_run(s, count, w + i, g + i, v_out ? v + i : nullptr, to, v_out ? v_out + i : nullptr);
  });
}

template <class T>
void adagrad(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  const counted_gradient<T> counted(s.gradient);
  const T lr = T(s.lr), eps = T(s.eps), first = T(s.first);
  const T* sum = in[0];
  T* sum_out = out[0];
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const T d = counted(g[i], w[i]);
    const T a = sum[i] + d * d;
    sum_out[i] = a;
    w_out[i] = w[i] - lr * (d / (square_root(first + a) + eps));
  }
}

// `centered` and momentum (`heavy`) are template parameters, since they are fixed for a job.
template <bool centered, bool heavy, class T>
void rmsprop_loop(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  const counted_gradient<T> counted(s.gradient);
  const T lr = T(s.lr), eps = T(s.eps), keep = T(s.keep_2), add = T(1 - s.keep_2), momentum = T(s.momentum);
  const T *square = in[0], *mean = centered ? in[1] : nullptr, *v = heavy ? in[centered ? 2 : 1] : nullptr;
  T *square_out = out[0], *mean_out = centered ? out[1] : nullptr, *v_out = heavy ? out[centered ? 2 : 1] : nullptr;
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const T d = counted(g[i], w[i]);
    T a = keep * square[i] + add * (d * d);
    square_out[i] = a;
    if constexpr (centered) {
      const T m = keep * mean[i] + add * d;
      mean_out[i] = m;
      // A variance, so rounding must not make it negative.
      a = a - m * m;
      a = a < T(0) ? T(0) : a;
    }
    T u = d / (square_root(a) + eps);
    if constexpr (heavy) {
      u = momentum * v[i] + u;
      v_out[i] = u;
    }
    w_out[i] = w[i] - lr * u;
  }
}

template <class T>
void rmsprop(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  const bool heavy = s.momentum != 0;
  if (s.centered)
    return heavy ? rmsprop_loop<true, true>(s, n, w, g, in, w_out, out) : rmsprop_loop<true, false>(s, n, w, g, in, w_out, out);
  return heavy ? rmsprop_loop<false, true>(s, n, w, g, in, w_out, out) : rmsprop_loop<false, false>(s, n, w, g, in, w_out, out);
}

template <class T>
void adadelta(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  const counted_gradient<T> counted(s.gradient);
  const T lr = T(s.lr), eps = T(s.eps), keep = T(s.keep_2), add = T(1 - s.keep_2);
  const T *square = in[0], *moved = in[1];
  T *square_out = out[0], *moved_out = out[1];
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const T d = counted(g[i], w[i]);
    const T a = keep * square[i] + add * (d * d);
    const T u = square_root(moved[i] + eps) / square_root(a + eps) * d;
    square_out[i] = a;
    moved_out[i] = keep * moved[i] + add * (u * u);
    w_out[i] = w[i] - lr * u;
  }
}

template <class T>
void adam(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  const counted_gradient<T> counted(s.gradient);
  const T lr = T(s.lr), eps = T(s.eps), keep_1 = T(s.keep_1), add_1 = T(1 - s.keep_1), keep_2 = T(s.keep_2),
          add_2 = T(1 - s.keep_2);
  const T deviation = T(s.deviation), keep_weight = T(s.keep_weight);
  const T *mean = in[0], *square = in[1];
  T *mean_out = out[0], *square_out = out[1];
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const T d = counted(g[i], w[i]);
    const T m = keep_1 * mean[i] + add_1 * d;
    const T a = keep_2 * square[i] + add_2 * (d * d);
    mean_out[i] = m;
    square_out[i] = a;
    w_out[i] = keep_weight * w[i] - lr * (m / (square_root(a) / deviation + eps));
  }
}

template <class T>
void adamax(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  const counted_gradient<T> counted(s.gradient);
  const T lr = T(s.lr), eps = T(s.eps), keep_1 = T(s.keep_1), add_1 = T(1 - s.keep_1), keep_2 = T(s.keep_2);
  const T *mean = in[0], *norm = in[1];
  T *mean_out = out[0], *norm_out = out[1];
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const T d = counted(g[i], w[i]);
    const T m = keep_1 * mean[i] + add_1 * d;
    const T size = (d < T(0) ? -d : d) + eps;
    T u = keep_2 * norm[i];
    u = size > u || size != size ? size : u;  // preserves a NaN
    mean_out[i] = m;
    norm_out[i] = u;
    w_out[i] = w[i] - lr * (m / u);
  }
}

template <class T>
void adaptive(const adaptive_spec& s, i64 n, const T* w, const T* g, const T* const* in, T* w_out, T* const* out) {
  switch (s.rule) {
    case adaptive_rule::adagrad: return adagrad(s, n, w, g, in, w_out, out);
    case adaptive_rule::rmsprop: return rmsprop(s, n, w, g, in, w_out, out);
    case adaptive_rule::adadelta: return adadelta(s, n, w, g, in, w_out, out);
    case adaptive_rule::adam: return adam(s, n, w, g, in, w_out, out);
    case adaptive_rule::adamax: return adamax(s, n, w, g, in, w_out, out);
  }
}
