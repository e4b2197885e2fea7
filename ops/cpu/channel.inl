// Sums and maps by channel, lookup of rows by id, and resampling along an axis. Tensors are [outer,
// mid, inner]; if inner is 1, the loops run along mid.

template <class T>
void reduce_product(i64 outer, i64 mid, i64 inner, const T* x, const T* y, T* out) {
  if (inner == 1) {
    fill(mid, T(0), out);
    for (i64 o = 0; o < outer; ++o) {
      const T* p = x + o * mid;
      const T* q = y + o * mid;
#pragma GCC ivdep
      for (i64 m = 0; m < mid; ++m) out[m] += p[m] * q[m];
    }
    return;
  }
  for (i64 m = 0; m < mid; ++m) {
    T lane[16] = {};
    for (i64 o = 0; o < outer; ++o) {
      const T* p = x + (o * mid + m) * inner;
      const T* q = y + (o * mid + m) * inner;
      i64 i = 0;
      for (; i + 16 <= inner; i += 16)
        for (int l = 0; l < 16; ++l) lane[l] += p[i + l] * q[i + l];
      for (int l = 0; i < inner; ++i, ++l) lane[l] += p[i] * q[i];
    }
    out[m] = fold(lane);
  }
}

// One row of blend. `each_own`: coefficients vary along the row; otherwise one set for the whole
// row.
template <bool each_own, class T>
inline void blend_row(i64 n, const T* x, const T* a, const T* y, const T* b, const T* shift, T* out) {
  const T one = T(1), zero = T(0);
  if (!each_own || (a != nullptr && shift != nullptr && (y == nullptr || b != nullptr))) {
    const T* pa = a != nullptr ? a : &one;
    const T* pb = b != nullptr ? b : &one;
    const T* ps = shift != nullptr ? shift : &zero;
    if (y == nullptr) {
#pragma GCC ivdep
      for (i64 i = 0; i < n; ++i) out[i] = x[i] * pa[each_own ? i : 0] + ps[each_own ? i : 0];
    } else {
#pragma GCC ivdep
      for (i64 i = 0; i < n; ++i) out[i] = x[i] * pa[each_own ? i : 0] + y[i] * pb[each_own ? i : 0] + ps[each_own ? i : 0];
    }
    return;
  }
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    T v = a != nullptr ? x[i] * a[i] : x[i];
    if (y != nullptr) v += b != nullptr ? y[i] * b[i] : y[i];
    out[i] = shift != nullptr ? v + shift[i] : v + zero;
  }
}

template <class T>
void blend(i64 outer, i64 mid, i64 inner, const T* x, const T* a, const T* y, const T* b, const T* shift, T* out) {
  if (inner == 1) {
    for (i64 o = 0; o < outer; ++o)
      blend_row<true>(mid, x + o * mid, a, y != nullptr ? y + o * mid : nullptr, b, shift, out + o * mid);
    return;
  }
  for (i64 o = 0; o < outer; ++o)
    for (i64 m = 0; m < mid; ++m) {
      const i64 at = (o * mid + m) * inner;
      const T am = a != nullptr ? a[m] : T(1), bm = b != nullptr ? b[m] : T(1), sm = shift != nullptr ? shift[m] : T(0);
      blend_row<false>(inner, x + at, &am, y != nullptr ? y + at : nullptr, &bm, &sm, out + at);
    }
}

template <class T>
void gather_rows(i64 rows, i64 vocabulary, i64 length, const T* table, const std::int32_t* ids, T* out) {
  for (i64 r = 0; r < rows; ++r, out += length) {
    if (ids[r] >= 0 && ids[r] < vocabulary)
      __builtin_memcpy(out, table + ids[r] * length, static_cast<decltype(sizeof(T))>(length) * sizeof(T));
    else
      fill(length, ids[r] < 0 ? T(0) : T(__builtin_nan("")), out);
  }
}

template <class T>
void scatter_rows(i64 rows, i64 vocabulary, i64 length, const T* x, const std::int32_t* ids, T* table) {
  fill(vocabulary * length, T(0), table);
  for (i64 r = 0; r < rows; ++r)
    if (ids[r] >= 0 && ids[r] < vocabulary) axpy(length, T(1), x + r * length, table + ids[r] * length);
}

template <class T>
void resample(const resample_geometry& g, const T* x, T* y) {
  for (i64 o = 0; o < g.outer; ++o, x += g.in * g.inner)
    for (i64 j = 0; j < g.out; ++j, y += g.inner) {
      if (g.inner == 1) {
        T sum = T(0);
        for (i64 t = j * g.taps; t < (j + 1) * g.taps; ++t)
          if (g.index[t] >= 0) sum += static_cast<T>(g.weight[t]) * x[g.index[t]];
        *y = sum;
        continue;
      }
      fill(g.inner, T(0), y);
      for (i64 t = j * g.taps; t < (j + 1) * g.taps; ++t)
        if (g.index[t] >= 0) axpy(g.inner, static_cast<T>(g.weight[t]), x + g.index[t] * g.inner, y);
    }
}

template <class T>
void resample_backward(const resample_geometry& g, const T* dy, T* dx) {
  fill(g.outer * g.in * g.inner, T(0), dx);
  for (i64 o = 0; o < g.outer; ++o, dx += g.in * g.inner)
    for (i64 j = 0; j < g.out; ++j, dy += g.inner)
      for (i64 t = j * g.taps; t < (j + 1) * g.taps; ++t)
        if (g.index[t] >= 0) axpy(g.inner, static_cast<T>(g.weight[t]), dy, dx + g.index[t] * g.inner);
}
