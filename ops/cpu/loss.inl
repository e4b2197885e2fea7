// Softmax with cross entropy, and top-k accuracy. A row with a negative label is padding and does not count.

inline i64 valid_rows(i64 rows, const std::int32_t* labels) {
  i64 n = 0;
  for (i64 r = 0; r < rows; ++r) n += labels[r] >= 0 ? 1 : 0;
  return n;
}

template <class T>
double softmax_loss(i64 rows, i64 classes, const T* x, const std::int32_t* labels, T* probability) {
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
    if (labels[r] >= 0) total += static_cast<double>(log_of(sum) - (in[labels[r]] - top));
  }
  const i64 valid = valid_rows(rows, labels);
  return valid > 0 ? total / static_cast<double>(valid) : 0.0;
}

template <class T>
void softmax_loss_backward(i64 rows, i64 classes, T dloss, const T* probability, const std::int32_t* labels, T* dx) {
  const i64 valid = valid_rows(rows, labels);
  const T factor = valid > 0 ? dloss / static_cast<T>(valid) : T(0);
  for (i64 r = 0; r < rows; ++r) {
    const T* p = probability + r * classes;
    T* out = dx + r * classes;
    if (labels[r] < 0) {
      fill(classes, T(0), out);
      continue;
    }
    for (i64 c = 0; c < classes; ++c) out[c] = factor * p[c];
    out[labels[r]] = factor * (p[labels[r]] - T(1));
  }
}

template <class T>
double top_k(i64 k, i64 rows, i64 classes, const T* x, const std::int32_t* labels) {
  i64 hits = 0;
  for (i64 r = 0; r < rows; ++r) {
    if (labels[r] < 0) continue;
    const T* in = x + r * classes;
    const T score = in[labels[r]];
    i64 above = 0;
    for (i64 c = 0; c < classes; ++c) above += in[c] > score || (in[c] == score && c < labels[r]) || in[c] != in[c] ? 1 : 0;
    hits += above < k ? 1 : 0;
  }
  const i64 valid = valid_rows(rows, labels);
  return valid > 0 ? static_cast<double>(hits) / static_cast<double>(valid) : 0.0;
}
