// The element-wise part of one time step of recurrent cells, in one pass over the gates. The
// products with the weights are separate. Layouts and formulas: cell_spec in geometry.hpp.

template <class T>
inline void rnn_row(bool relu, i64 n, const T* bias, const T* gates, T* h, T* y) {
  if (relu) {
#pragma GCC ivdep
    for (i64 j = 0; j < n; ++j) {
      const T a = gates[j] + bias[j];
      h[j] = y[j] = a < T(0) ? T(0) : a;
    }
    return;
  }
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) h[j] = y[j] = tanh_of(gates[j] + bias[j]);
}

template <class T>
inline void lstm_row(i64 n, const T* bias, T* gates, const T* c_before, T* c, T* h, T* y) {
  T *in = gates, *forget = gates + n, *cell = gates + 2 * n, *out = gates + 3 * n;
  const T *b_in = bias, *b_forget = bias + n, *b_cell = bias + 2 * n, *b_out = bias + 3 * n;
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) {
    const T i = sigmoid_of(in[j] + b_in[j]), f = sigmoid_of(forget[j] + b_forget[j]);
    const T g = tanh_of(cell[j] + b_cell[j]);
    in[j] = i;
    forget[j] = f;
    cell[j] = g;
    c[j] = f * c_before[j] + i * g;
  }
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) {
    const T o = sigmoid_of(out[j] + b_out[j]);
    out[j] = o;
    h[j] = y[j] = o * tanh_of(c[j]);
  }
}

template <class T>
inline void gru_row(i64 n, const T* bias, T* gates, const T* h_before, T* h, T* y) {
  T *reset = gates, *update = gates + n, *fresh = gates + 2 * n, *hidden = gates + 3 * n;
  const T *b_reset = bias, *b_update = bias + n, *b_fresh = bias + 2 * n, *b_hidden = bias + 3 * n;
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) {
    const T r = sigmoid_of(reset[j] + b_reset[j]), z = sigmoid_of(update[j] + b_update[j]);
    const T q = hidden[j] + b_hidden[j];
    const T f = tanh_of(fresh[j] + b_fresh[j] + r * q);
    reset[j] = r;
    update[j] = z;
    fresh[j] = f;
    hidden[j] = q;
    h[j] = y[j] = f + z * (h_before[j] - f);
  }
}

template <class T>
void cell_forward(const cell_spec& s, const T* bias, T* gates, const T* h_before, const T* c_before, T* c, T* h, T* y) {
  const i64 n = s.units;
  for (i64 r = 0; r < s.rows; ++r, gates += s.gates() * n, h_before += n, h += n, y += s.stride) {
    switch (s.kind) {
      case cell_kind::lstm: lstm_row(n, bias, gates, c_before + r * n, c + r * n, h, y); break;
      case cell_kind::gru: gru_row(n, bias, gates, h_before, h, y); break;
      default: rnn_row(s.kind == cell_kind::rnn_relu, n, bias, gates, h, y);
    }
  }
}

template <class T>
inline void rnn_row_backward(bool relu, i64 n, const T* h, const T* dy, const T* dh, T* dgates) {
  if (relu) {
#pragma GCC ivdep
    for (i64 j = 0; j < n; ++j) dgates[j] = h[j] > T(0) ? dy[j] + dh[j] : T(0);
    return;
  }
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) dgates[j] = (dy[j] + dh[j]) * (T(1) - h[j] * h[j]);
}

template <class T>
inline void lstm_row_backward(i64 n, const T* gates, const T* c_before, const T* c, const T* dy, const T* dh, T* dc, T* dgates) {
  const T *in = gates, *forget = gates + n, *cell = gates + 2 * n, *out = gates + 3 * n;
  T *d_in = dgates, *d_forget = dgates + n, *d_cell = dgates + 2 * n, *d_out = dgates + 3 * n;
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) {
    const T d = dy[j] + dh[j], t = tanh_of(c[j]);
    const T i = in[j], f = forget[j], g = cell[j], o = out[j];
    const T e = dc[j] + d * o * (T(1) - t * t);
    d_in[j] = e * g * (i * (T(1) - i));
    d_forget[j] = e * c_before[j] * (f * (T(1) - f));
    d_cell[j] = e * i * (T(1) - g * g);
    d_out[j] = d * t * (o * (T(1) - o));
    dc[j] = e * f;
  }
}

template <class T>
inline void gru_row_backward(i64 n, const T* gates, const T* h_before, const T* dy, T* dh, T* dgates) {
  const T *reset = gates, *update = gates + n, *fresh = gates + 2 * n, *hidden = gates + 3 * n;
  T *d_reset = dgates, *d_update = dgates + n, *d_fresh = dgates + 2 * n, *d_hidden = dgates + 3 * n;
#pragma GCC ivdep
  for (i64 j = 0; j < n; ++j) {
    const T d = dy[j] + dh[j];
    const T r = reset[j], z = update[j], f = fresh[j];
    const T e = d * (T(1) - z) * (T(1) - f * f);
    d_reset[j] = e * hidden[j] * (r * (T(1) - r));
    d_update[j] = d * (h_before[j] - f) * (z * (T(1) - z));
    d_fresh[j] = e;
    d_hidden[j] = e * r;
    dh[j] = d * z;
  }
}

template <class T>
void cell_backward(const cell_spec& s, const T* gates, const T* h_before, const T* h, const T* c_before, const T* c, const T* dy,
                   T* dh, T* dc, T* dgates) {
  const i64 n = s.units;
  for (i64 r = 0; r < s.rows; ++r, gates += s.gates() * n, dgates += s.gates() * n, dy += s.stride) {
    const i64 at = r * n;
    switch (s.kind) {
      case cell_kind::lstm: lstm_row_backward(n, gates, c_before + at, c + at, dy, dh + at, dc + at, dgates); break;
      case cell_kind::gru: gru_row_backward(n, gates, h_before + at, dy, dh + at, dgates); break;
      default: rnn_row_backward(s.kind == cell_kind::rnn_relu, n, h + at, dy, dh + at, dgates);
    }
  }
}
