// One dimension of the transforms of winograd.inl, lane by lane. A^T, B^T and G are those of Toom
// and Cook for N - 1 points and infinity. N = 4: points 0, 1, -1.
//   B^T = 1 0 -1 0, 0 1 1 0, 0 -1 1 0, 0 1 0 -1
//   A^T = 1 1 1 0, 0 1 -1 -1
//   G = 1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1
// N = 6: points 0, p, -p, q, -q (winograd_points).
//   B^T  row z: coefficients of (the product of all x - z') / (x - z); infinity: of the product
//   A^T  z^i; infinity: 1 for the last i
//   G    z^j / (the product of z - z', z' != z); infinity: 1 for the last j

// Exact in binary, with nearly the least error of the results: a third of that of 1 and 2.
struct winograd_points {
  static constexpr double p = 0.75, q = 1.5, p2 = p * p, q2 = q * q;
};

template <class T>
inline vec<T> all_lanes(double x) {
  return static_cast<T>(x) - vec<T>{};
}

// B^T d.
template <class T>
inline void winograd_patch(const vec<T> (&d)[4], vec<T> (&u)[4]) {
  u[0] = d[0] - d[2], u[1] = d[1] + d[2], u[2] = d[2] - d[1], u[3] = d[1] - d[3];
}
template <class T>
inline void winograd_patch(const vec<T> (&d)[6], vec<T> (&u)[6]) {
  using z = winograd_points;
  const vec<T> p = all_lanes<T>(z::p), q = all_lanes<T>(z::q), p2 = all_lanes<T>(-z::p2), q2 = all_lanes<T>(-z::q2),
               sum = all_lanes<T>(-z::p2 - z::q2), product = all_lanes<T>(z::p2 * z::q2);
  const vec<T> even_p = fused(q2, d[2], d[4]), odd_p = p * fused(q2, d[1], d[3]);
  const vec<T> even_q = fused(p2, d[2], d[4]), odd_q = q * fused(p2, d[1], d[3]);
  u[0] = fused(product, d[0], fused(sum, d[2], d[4]));
  u[1] = even_p + odd_p, u[2] = even_p - odd_p;
  u[3] = even_q + odd_q, u[4] = even_q - odd_q;
  u[5] = fused(product, d[1], fused(sum, d[3], d[5]));
}

// B u, the adjoint.
template <class T>
inline void winograd_unpatch(const vec<T> (&u)[4], vec<T> (&d)[4]) {
  d[0] = u[0], d[1] = u[1] - u[2] + u[3], d[2] = u[1] + u[2] - u[0], d[3] = -u[3];
}
template <class T>
inline void winograd_unpatch(const vec<T> (&u)[6], vec<T> (&d)[6]) {
  using z = winograd_points;
  const vec<T> p2 = all_lanes<T>(-z::p2), q2 = all_lanes<T>(-z::q2), sum = all_lanes<T>(-z::p2 - z::q2),
               product = all_lanes<T>(z::p2 * z::q2);
  const vec<T> even_p = u[1] + u[2], odd_p = T(z::p) * (u[1] - u[2]), even_q = u[3] + u[4], odd_q = T(z::q) * (u[3] - u[4]);
  d[0] = product * u[0];
  d[1] = fused(q2, odd_p, fused(p2, odd_q, product * u[5]));
  d[2] = fused(q2, even_p, fused(p2, even_q, sum * u[0]));
  d[3] = fused(sum, u[5], odd_p + odd_q);
  d[4] = u[0] + (even_p + even_q);
  d[5] = u[5];
}

// A y.
template <class T>
inline void winograd_spread(const vec<T> (&y)[2], vec<T> (&u)[4]) {
  u[0] = y[0], u[1] = y[0] + y[1], u[2] = y[0] - y[1], u[3] = -y[1];
}
template <class T>
inline void winograd_spread(const vec<T> (&y)[2], vec<T> (&u)[6]) {
  const vec<T> p = all_lanes<T>(winograd_points::p), q = all_lanes<T>(winograd_points::q);
  u[0] = y[0], u[1] = fused(p, y[1], y[0]), u[2] = fused(-p, y[1], y[0]);
  u[3] = fused(q, y[1], y[0]), u[4] = fused(-q, y[1], y[0]), u[5] = y[1];
}
template <class T>
inline void winograd_spread(const vec<T> (&y)[4], vec<T> (&u)[6]) {
  using z = winograd_points;
  const vec<T> p = all_lanes<T>(z::p), q = all_lanes<T>(z::q), p2 = all_lanes<T>(z::p2), q2 = all_lanes<T>(z::q2);
  const vec<T> even_p = fused(p2, y[2], y[0]), odd_p = p * fused(p2, y[3], y[1]);
  const vec<T> even_q = fused(q2, y[2], y[0]), odd_q = q * fused(q2, y[3], y[1]);
  u[0] = y[0], u[1] = even_p + odd_p, u[2] = even_p - odd_p;
  u[3] = even_q + odd_q, u[4] = even_q - odd_q, u[5] = y[3];
}

// A^T u.
template <class T>
inline void winograd_gather(const vec<T> (&u)[4], vec<T> (&y)[2]) {
  y[0] = u[0] + u[1] + u[2], y[1] = u[1] - u[2] - u[3];
}
template <class T>
inline void winograd_gather(const vec<T> (&u)[6], vec<T> (&y)[2]) {
  const vec<T> p = all_lanes<T>(winograd_points::p), q = all_lanes<T>(winograd_points::q);
  y[0] = u[0] + (u[1] + u[2]) + (u[3] + u[4]);
  y[1] = fused(p, u[1] - u[2], fused(q, u[3] - u[4], u[5]));
}
template <class T>
inline void winograd_gather(const vec<T> (&u)[6], vec<T> (&y)[4]) {
  using z = winograd_points;
  const vec<T> p2 = all_lanes<T>(z::p2), q2 = all_lanes<T>(z::q2);
  const vec<T> even_p = u[1] + u[2], odd_p = T(z::p) * (u[1] - u[2]), even_q = u[3] + u[4], odd_q = T(z::q) * (u[3] - u[4]);
  y[0] = u[0] + even_p + even_q;
  y[1] = odd_p + odd_q;
  y[2] = fused(p2, even_p, q2 * even_q);
  y[3] = fused(p2, odd_p, fused(q2, odd_q, u[5]));
}

// G g.
template <class T>
inline void winograd_kernel(const vec<T> (&g)[3], vec<T> (&u)[4]) {
  const vec<T> ends = g[0] + g[2];
  u[0] = g[0], u[1] = T(0.5) * (ends + g[1]), u[2] = T(0.5) * (ends - g[1]), u[3] = g[2];
}
// 1 / the product of z - z' for z = 0, p and q. The value for -z is that for z.
template <class T>
struct winograd_shares {
  using z = winograd_points;
  static constexpr T zero = T(1 / (z::p2 * z::q2)), p = T(1 / (2 * z::p2 * (z::p2 - z::q2))),
                     q = T(1 / (2 * z::q2 * (z::q2 - z::p2)));
};
template <class T, int R>
inline void winograd_kernel(const vec<T> (&g)[R], vec<T> (&u)[6]) {
  using z = winograd_points;
  using share = winograd_shares<T>;
  const vec<T> p2 = all_lanes<T>(z::p2), q2 = all_lanes<T>(z::q2);
  vec<T> even_p = g[2], even_q = g[2], odd_p = g[1], odd_q = g[1];
  if constexpr (R == 5) {
    even_p = fused(p2, g[4], even_p), even_q = fused(q2, g[4], even_q);
    odd_p = fused(p2, g[3], odd_p), odd_q = fused(q2, g[3], odd_q);
  }
  even_p = fused(p2, even_p, g[0]), even_q = fused(q2, even_q, g[0]);
  odd_p *= T(z::p), odd_q *= T(z::q);
  u[0] = share::zero * g[0];
  u[1] = share::p * (even_p + odd_p), u[2] = share::p * (even_p - odd_p);
  u[3] = share::q * (even_q + odd_q), u[4] = share::q * (even_q - odd_q);
  u[5] = g[R - 1];
}

// G^T u.
template <class T>
inline void winograd_taps(const vec<T> (&u)[4], vec<T> (&g)[3]) {
  const vec<T> middle = T(0.5) * (u[1] + u[2]);
  g[0] = u[0] + middle, g[1] = T(0.5) * (u[1] - u[2]), g[2] = u[3] + middle;
}
template <class T, int R>
inline void winograd_taps(const vec<T> (&u)[6], vec<T> (&g)[R]) {
  using z = winograd_points;
  using share = winograd_shares<T>;
  const vec<T> p2 = all_lanes<T>(z::p2), q2 = all_lanes<T>(z::q2);
  const vec<T> even_p = share::p * (u[1] + u[2]), odd_p = T(z::p) * (share::p * (u[1] - u[2]));
  const vec<T> even_q = share::q * (u[3] + u[4]), odd_q = T(z::q) * (share::q * (u[3] - u[4]));
  g[0] = fused(all_lanes<T>(share::zero), u[0], even_p + even_q);
  g[1] = odd_p + odd_q;
  if constexpr (R == 3) {
    g[2] = fused(p2, even_p, fused(q2, even_q, u[5]));
  } else {
    g[2] = fused(p2, even_p, q2 * even_q);
    g[3] = fused(p2, odd_p, q2 * odd_q);
    g[4] = fused(p2 * p2, even_p, fused(q2 * q2, even_q, u[5]));
  }
}
