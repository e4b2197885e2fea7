// Vectors: the compiler's vector types of TROUPE_VECTOR_BYTES, with unaligned loads and stores.

template <class T>
struct vector_of {
  static constexpr int lanes = TROUPE_VECTOR_BYTES / static_cast<int>(sizeof(T));
  typedef T type __attribute__((vector_size(TROUPE_VECTOR_BYTES), may_alias));
  typedef T loose __attribute__((vector_size(TROUPE_VECTOR_BYTES), aligned(sizeof(T)), may_alias));  // unaligned
};
template <class T>
using vec = typename vector_of<T>::type;
template <class T>
using vec_bits = typename vector_of<typename bits_of<T>::type>::type;
template <class T>
constexpr int lanes_of = vector_of<T>::lanes;
template <class T>
constexpr int panel_of = 2 * lanes_of<T>;

template <class T>
inline vec<T> load(const T* p) {
  return *reinterpret_cast<const typename vector_of<T>::loose*>(p);
}
template <class T>
inline void store(T* p, vec<T> v) {
  *reinterpret_cast<typename vector_of<T>::loose*>(p) = v;
}

// a * x + y, fused if the machine supports it. This is the only place where results depend on the
// instruction set.
#if TROUPE_VECTOR_BYTES == 64
inline vec<float> fused(vec<float> a, vec<float> x, vec<float> y) {
  return (vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)x, (__m512)y);
}
inline vec<double> fused(vec<double> a, vec<double> x, vec<double> y) {
  return (vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)x, (__m512d)y);
}
#elif TROUPE_VECTOR_BYTES == 32
inline vec<float> fused(vec<float> a, vec<float> x, vec<float> y) {
  return (vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)x, (__m256)y);
}
inline vec<double> fused(vec<double> a, vec<double> x, vec<double> y) {
  return (vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)x, (__m256d)y);
}
#else
template <class V>
inline V fused(V a, V x, V y) {
  return a * x + y;
}
#endif

// Loads or stores the first n lanes, 0 <= n <= lanes, and accesses no other memory. The other lanes
// are loaded as zero.
template <class T>
inline vec<T> load_first(const T* p, i64 n) {
  if (n >= lanes_of<T>) return load(p);
#if TROUPE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    return (vec<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
  else
    return (vec<T>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << n) - 1), p);
#else
  vec<T> v{};
  for (int i = 0; i < lanes_of<T>; ++i)
    if (i < n) v[i] = p[i];
  return v;
#endif
}
template <class T>
inline void store_first(T* p, vec<T> v, i64 n) {
  if (n >= lanes_of<T>) return store(p, v);
#if TROUPE_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), (__m512)v);
  else
    _mm512_mask_storeu_pd(p, static_cast<__mmask8>((1u << n) - 1), (__m512d)v);
#else
  for (int i = 0; i < lanes_of<T>; ++i)
    if (i < n) p[i] = v[i];
#endif
}

// Conversion between vectors of floats and bf16 (half.inl): widened; rounded to nearest, ties to
// even.
typedef half half_lanes __attribute__((vector_size(TROUPE_VECTOR_BYTES / 2), aligned(2), may_alias));
typedef std::uint32_t word_lanes __attribute__((vector_size(TROUPE_VECTOR_BYTES)));
inline vec<float> widened(half_lanes v) { return (vec<float>)(__builtin_convertvector(v, word_lanes) << 16); }
inline half_lanes narrowed(vec<float> v) {
  const word_lanes u = (word_lanes)v, nearest = u + 0x7fffU + ((u >> 16) & 1U), quiet = u | 0x400000U;
  return __builtin_convertvector((v != v ? quiet : nearest) >> 16, half_lanes);
}
inline vec<float> load(const half* p) { return widened(*reinterpret_cast<const half_lanes*>(p)); }
inline vec<float> load_first(const half* p, i64 n) {
  if (n >= lanes_of<float>) return load(p);
#if TROUPE_VECTOR_BYTES == 64
  return widened((half_lanes)_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p));
#else
  half_lanes v{};
  for (int i = 0; i < lanes_of<float>; ++i)
    if (i < n) v[i] = p[i];
  return widened(v);
#endif
}
inline void store_first(half* p, vec<float> v, i64 n) {
  if (n >= lanes_of<float>) {
    *reinterpret_cast<half_lanes*>(p) = narrowed(v);
    return;
  }
#if TROUPE_VECTOR_BYTES == 64
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), (__m256i)narrowed(v));
#else
  const half_lanes h = narrowed(v);
  for (int i = 0; i < lanes_of<float>; ++i)
    if (i < n) p[i] = h[i];
#endif
}

// Non-temporal stores where supported. Data that does not fit into the caches need not be read
// before it is overwritten. `p` is aligned.
template <class T>
inline void stream(T* p, vec<T> v) {
#if TROUPE_VECTOR_BYTES == 64
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), (__m512i)v);
#elif TROUPE_VECTOR_BYTES == 32
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)v);
#else
  store(p, v);
#endif
}
template <class T>
inline bool aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % TROUPE_VECTOR_BYTES == 0;
}
template <class T>
void stream(const T* from, i64 n, T* to) {
  i64 i = 0;
  while (i < n && !aligned(to + i)) to[i] = from[i], ++i;
  for (; i + lanes_of<T> <= n; i += lanes_of<T>) stream(to + i, load(from + i));
  for (; i < n; ++i) to[i] = from[i];
}
// Non-temporal stores are not ordered by the synchronisation that passes memory to another thread.
inline void end_streams() {
#if TROUPE_VECTOR_BYTES >= 32
  _mm_sfence();
#endif
}

// Transposes the lanes x lanes elements of as many vectors: each round exchanges one bit of row and
// lane.
template <class T, int Bit = lanes_of<T> / 2>
inline void transpose(vec<T>* v) {
  constexpr int lanes = lanes_of<T>;
  if constexpr (Bit > 0) {
    vec_bits<T> low, high;
    for (int i = 0; i < lanes; ++i) {
      low[i] = (i & Bit) == 0 ? i : lanes + (i ^ Bit);
      high[i] = (i & Bit) == 0 ? (i ^ Bit) : lanes + i;
    }
#pragma GCC unroll 16
    for (int r = 0; r < lanes; ++r) {
      if ((r & Bit) != 0) continue;
      const vec<T> a = v[r], b = v[r | Bit];
      v[r] = __builtin_shuffle(a, b, low);
      v[r | Bit] = __builtin_shuffle(a, b, high);
    }
    transpose<T, Bit / 2>(v);
  }
}

// Elements p[0], p[2], ... and p[1], p[3], ...
template <class T>
struct pixel_pairs {
  vec<T> even, odd;
  template <class S>
  explicit pixel_pairs(const S* p) {
    constexpr int lanes = lanes_of<T>;
    vec_bits<T> e, o;
    for (int i = 0; i < lanes; ++i) e[i] = 2 * i, o[i] = 2 * i + 1;
    const vec<T> a = load(p), b = load(p + lanes);
    even = __builtin_shuffle(a, b, e);
    odd = __builtin_shuffle(a, b, o);
  }
};
