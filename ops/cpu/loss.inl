// Softmax with cross entropy, and top-k accuracy. A row with a negative label is padding and does
// not count. A label beyond the classes is invalid data and is not used as an index: the loss is
// NaN, so that the error is noticed, and the row counts as wrong.

inline i64 valid_rows(i64 rows, const std::int32_t* labels) {
  i64 n = 0;
  for (i64 r = 0; r < rows; ++r) n += labels[r] >= 0 ? 1 : 0;
  return n;
}

// Label smoothing: the target of a class is `off`, and `on` more for the label.
template <class T>
struct smoothed_target {
  T on, off;
  smoothed_target(double smoothing, i64 classes) : on(T(1 - smoothing)), off(T(smoothing / static_cast<double>(classes))) {}
};

// The sum of x - top.
template <class T>
T sum_below(i64 classes, const T* x, T top) {
  T lane[16] = {};
  for (i64 first = 0; first < classes; first += 16) {
    const i64 n = smallest(16, classes - first);
#pragma GCC ivdep
    for (i64 l = 0; l < n; ++l) lane[l] += x[first + l] - top;
  }
  return fold(lane);
}

// The divisor of the mean: the number of valid rows, or the sum of their labels' weights.
template <class T>
double divisor_of(const T* weights, i64 rows, i64 classes, const std::int32_t* labels) {
  if (weights == nullptr) return static_cast<double>(valid_rows(rows, labels));
  double sum = 0;
  for (i64 r = 0; r < rows; ++r)
    if (labels[r] >= 0 && labels[r] < classes) sum += static_cast<double>(weights[labels[r]]);
  return sum;
}

// -sum over the classes of weight t log p of one row; log_sum: log of the sum of exp(x - top).
template <class T>
double weighted_loss(const smoothed_target<T>& target, const T* weights, i64 classes, const T* x, T top, T log_sum, i64 label) {
  double loss = static_cast<double>(target.on * weights[label] * (log_sum - (x[label] - top)));
  if (target.off > T(0)) {
    double spread = 0;
    for (i64 c = 0; c < classes; ++c) spread += static_cast<double>(weights[c] * (log_sum - (x[c] - top)));
    loss += static_cast<double>(target.off) * spread;
  }
  return loss;
}

template <class T>
double softmax_loss(double smoothing, const T* weights, i64 rows, i64 classes, const T* x, const std::int32_t* labels,
                    T* probability) {
  const smoothed_target<T> target(smoothing, classes);
  double total = 0;
  for (i64 r = 0; r < rows; ++r) {
    const T* in = x + r * classes;
    T* out = probability + r * classes;
    T top = in[0];
    for (i64 c = 1; c < classes; ++c) top = in[c] > top || in[c] != in[c] ? in[c] : top;
    each(classes, in, out, [top](T v) { return exp_of(v - top); });
    T lane[16] = {};
    add_lanes(classes, out, lane);
    const T sum = fold(lane);
    const T inverse = T(1) / sum;
    for (i64 c = 0; c < classes; ++c) out[c] *= inverse;
    if (labels[r] >= classes)
      total = __builtin_nan("");
    else if (labels[r] >= 0 && weights != nullptr)
      total += weighted_loss(target, weights, classes, in, top, log_of(sum), labels[r]);
    else if (labels[r] >= 0 && smoothing > 0)
      total += static_cast<double>(log_of(sum) - target.on * (in[labels[r]] - top) - target.off * sum_below(classes, in, top));
    else if (labels[r] >= 0)
      total += static_cast<double>(log_of(sum) - (in[labels[r]] - top));
  }
  const double divisor = divisor_of(weights, rows, classes, labels);
  return divisor > 0 || total != total ? total / divisor : 0.0;
}

// One row with weights: dx = factor (t_sum p - t), t = weight times the smoothed target.
template <class T>
void weighted_slope(const smoothed_target<T>& target, const T* weights, T weight_sum, i64 classes, T factor, const T* p, i64 label,
                    T* dx) {
  const T t_sum = target.on * weights[label] + target.off * weight_sum;
  for (i64 c = 0; c < classes; ++c) {
    const T t = target.off * weights[c] + (c == label ? target.on * weights[c] : T(0));
    dx[c] = factor * (t_sum * p[c] - t);
  }
}

template <class T>
void softmax_loss_backward(double smoothing, const T* weights, i64 rows, i64 classes, T dloss, const T* probability,
                           const std::int32_t* labels, T* dx) {
  const double divisor = divisor_of(weights, rows, classes, labels);
  const T factor = divisor > 0 ? dloss / static_cast<T>(divisor) : T(0);
  const smoothed_target<T> target(smoothing, classes);
  T weight_sum = T(0);
  for (i64 c = 0; weights != nullptr && c < classes; ++c) weight_sum += weights[c];
  for (i64 r = 0; r < rows; ++r) {
    const T* p = probability + r * classes;
    T* out = dx + r * classes;
    if (labels[r] < 0 || labels[r] >= classes) {
      fill(classes, labels[r] < 0 ? T(0) : T(__builtin_nan("")), out);
      continue;
    }
    if (weights != nullptr) {
      weighted_slope(target, weights, weight_sum, classes, factor, p, labels[r], out);
      continue;
    }
    for (i64 c = 0; c < classes; ++c) out[c] = factor * (p[c] - target.off);
    out[labels[r]] = factor * (p[labels[r]] - (target.on + target.off));
  }
}

template <class T>
double top_k(i64 k, i64 rows, i64 classes, const T* x, const std::int32_t* labels) {
  i64 hits = 0;
  for (i64 r = 0; r < rows; ++r) {
    if (labels[r] < 0 || labels[r] >= classes) continue;
    const T* in = x + r * classes;
    const T score = in[labels[r]];
    i64 above = 0;
    for (i64 c = 0; c < classes; ++c) above += in[c] > score || (in[c] == score && c < labels[r]) || in[c] != in[c] ? 1 : 0;
    hits += above < k ? 1 : 0;
  }
  const i64 valid = valid_rows(rows, labels);
  return valid > 0 ? static_cast<double>(hits) / static_cast<double>(valid) : 0.0;
}

// Softmax over the middle axis. Along inner, in strips that stay in registers and cache.
template <class T>
void softmax(i64 outer, i64 classes, i64 inner, const T* x, T* y) {
  constexpr i64 strip = 64;
  for (i64 o = 0; o < outer; ++o, x += classes * inner, y += classes * inner) {
    if (inner == 1) {
      T top = x[0];
      for (i64 c = 1; c < classes; ++c) top = x[c] > top || x[c] != x[c] ? x[c] : top;
      each(classes, x, y, [top](T v) { return exp_of(v - top); });
      T lane[16] = {};
      add_lanes(classes, y, lane);
      scale(classes, T(1) / fold(lane), y);
      continue;
    }
    for (i64 first = 0; first < inner; first += strip) {
      const i64 n = smallest(strip, inner - first);
      T top[strip], sum[strip];
      for (i64 i = 0; i < n; ++i) top[i] = x[first + i], sum[i] = T(0);
      for (i64 c = 1; c < classes; ++c) each(n, x + c * inner + first, top, top, [](T v, T t) { return v > t || v != v ? v : t; });
      for (i64 c = 0; c < classes; ++c) {
        each(n, x + c * inner + first, top, y + c * inner + first, [](T v, T t) { return exp_of(v - t); });
        axpy(n, T(1), y + c * inner + first, sum);
      }
      for (i64 c = 0; c < classes; ++c) each(n, y + c * inner + first, sum, y + c * inner + first, [](T v, T s) { return v / s; });
    }
  }
}

// dx = y (dy - sum over the classes of y dy)
template <class T>
void softmax_backward(i64 outer, i64 classes, i64 inner, const T* y, const T* dy, T* dx) {
  constexpr i64 strip = 64;
  for (i64 o = 0; o < outer; ++o, y += classes * inner, dy += classes * inner, dx += classes * inner) {
    if (inner == 1) {
      T sum;
      reduce_product(1, 1, classes, y, dy, &sum);
      each(classes, y, dy, dx, [sum](T v, T d) { return v * (d - sum); });
      continue;
    }
    for (i64 first = 0; first < inner; first += strip) {
      const i64 n = smallest(strip, inner - first);
      T sum[strip];
      fill(n, T(0), sum);
      for (i64 c = 0; c < classes; ++c) {
        const i64 at = c * inner + first;
        for (i64 i = 0; i < n; ++i) sum[i] += y[at + i] * dy[at + i];
      }
      for (i64 c = 0; c < classes; ++c) {
        const i64 at = c * inner + first;
#pragma GCC ivdep
        for (i64 i = 0; i < n; ++i) dx[at + i] = y[at + i] * (dy[at + i] - sum[i]);
      }
    }
  }
}

// One element: `value` gets the loss; returns its slope. f: value of the enum `pointwise`.
template <int f, class T>
inline T pointwise_at(T x, T t, T& value) {
  if constexpr (f == 0) {
    const T e = exp_of(x < T(0) ? x : -x);
    value = (x > T(0) ? x : T(0)) - x * t + log_of(T(1) + e);
    return (x < T(0) ? e : T(1)) / (T(1) + e) - t;
  } else if constexpr (f == 1) {
    value = T(0.5) * (x - t) * (x - t);
    return x - t;
  } else {
    const T s = t > T(0) ? T(-1) : T(1);
    const T margin = T(1) + s * x;
    const T h = margin > T(0) ? margin : (margin == margin ? T(0) : margin);
    value = f == 2 ? h : h * h;
    if constexpr (f == 2) return h > T(0) ? s : T(0) * h;
    return T(2) * s * h;
  }
}

template <int f, class T>
double pointwise_sum(i64 rows, i64 classes, const T* x, const T* targets, const std::int32_t* labels, T* slope) {
  const i64 valid = labels != nullptr ? valid_rows(rows, labels) : rows;
  const T share = valid > 0 ? T(1) / static_cast<T>(valid) : T(0);
  double total = 0;
  for (i64 r = 0; r < rows; ++r, x += classes, slope += classes) {
    if (labels != nullptr && labels[r] < 0) {
      fill(classes, T(0), slope);
      continue;
    }
    T lane[16] = {};
    const i64 yes = labels == nullptr || classes > 1 ? 0 : (labels[r] > 0 ? 0 : -1);
    for (i64 first = 0; first < classes; first += 16) {
      const i64 n = smallest(16, classes - first);
#pragma GCC ivdep
      for (i64 l = 0; l < n; ++l) {
        const i64 c = first + l;
        const T t = targets != nullptr ? targets[r * classes + c] : static_cast<T>(c == (classes > 1 ? labels[r] : yes) ? 1 : 0);
        T value;
        slope[c] = share * pointwise_at<f>(x[c], t, value);
        lane[l] += value;
      }
    }
    total += static_cast<double>(fold(lane));
  }
  return valid > 0 ? total / static_cast<double>(valid) : 0.0;
}

template <class T>
double pointwise_loss(int f, i64 rows, i64 classes, const T* x, const T* targets, const std::int32_t* labels, T* slope) {
  switch (f) {
    case 0: return pointwise_sum<0>(rows, classes, x, targets, labels, slope);
    case 1: return pointwise_sum<1>(rows, classes, x, targets, labels, slope);
    case 2: return pointwise_sum<2>(rows, classes, x, targets, labels, slope);
    default: return pointwise_sum<3>(rows, classes, x, targets, labels, slope);
  }
}
