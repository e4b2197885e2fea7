// Vectors: the compiler's own vector types, TROUPE_VECTOR_BYTES wide, loaded and stored at any address.

template <class T>
struct vector_of {
  static constexpr int lanes = TROUPE_VECTOR_BYTES / static_cast<int>(sizeof(T));
  typedef T type __attribute__((vector_size(TROUPE_VECTOR_BYTES), may_alias));
  typedef T loose __attribute__((vector_size(TROUPE_VECTOR_BYTES), aligned(sizeof(T)), may_alias));  // at any address
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

// a * x + y, fused where the machine has it: the one place where results depend on the instruction set.
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
