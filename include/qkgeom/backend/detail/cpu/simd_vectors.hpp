// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom::cpu {

/// Vectors as wide as the target's registers, by the compilers' vector extensions: one source for SSE2, AVX2, AVX-512.
#if defined(__AVX512F__)
inline constexpr int simd_bytes = 64;
#elif defined(__AVX__)
inline constexpr int simd_bytes = 32;
#else
inline constexpr int simd_bytes = 16;
#endif

template <class T>
struct simd;
template <>
struct simd<float> {
  typedef float type __attribute__((vector_size(simd_bytes)));
  typedef std::int32_t mask __attribute__((vector_size(simd_bytes)));
};
template <>
struct simd<double> {
  typedef double type __attribute__((vector_size(simd_bytes)));
  typedef std::int64_t mask __attribute__((vector_size(simd_bytes)));
};
template <class T>
using vec = typename simd<T>::type;
template <class T>
inline constexpr int lanes = simd_bytes / static_cast<int>(sizeof(T));

template <class T>
inline vec<T> load(const T* p) {
  vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store(T* p, const vec<T>& v) {
  std::memcpy(p, &v, sizeof v);
}
template <class T>
inline vec<T> splat(T x) {
  return x - vec<T>{};
}

template <class V>
inline V smaller(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, vec<float>>) return (V)_mm512_min_ps((__m512)a, (__m512)b);
#endif
  return a < b ? a : b;
}

template <class V>
inline V larger(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<V, vec<float>>) return (V)_mm512_max_ps((__m512)a, (__m512)b);
#endif
  return a > b ? a : b;
}

inline vec<double> square_root(const vec<double>& x) {
#if defined(__AVX512F__)
  return (vec<double>)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX__)
  return (vec<double>)_mm256_sqrt_pd((__m256d)x);
#else
  vec<double> root;
  for (int l = 0; l < lanes<double>; ++l) root[l] = std::sqrt(x[l]);
  return root;
#endif
}

/// Returns 1 / x to 2 ulp. AVX-512 uses a 14-bit estimate and one Newton step, since the divider is the slowest unit.
inline vec<float> reciprocal(vec<float> x) {
#if defined(__AVX512F__)
  const vec<float> r = (vec<float>)_mm512_rcp14_ps((__m512)x);
  return r + r * (1.0f - x * r);
#else
  return 1.0f / x;
#endif
}

typedef std::uint16_t half_lanes __attribute__((vector_size(simd_bytes / 2)));
typedef std::uint32_t word_lanes __attribute__((vector_size(simd_bytes)));
typedef double double_lanes __attribute__((vector_size(2 * simd_bytes)));

template <class F>
class lane_sums {
 public:
  void add(const vec<F>& x) {
    if constexpr (std::is_same_v<F, float>) {
      typedef float half_floats __attribute__((vector_size(simd_bytes / 2)));
      half_floats half[2];
      std::memcpy(half, &x, sizeof half);
      low_ += __builtin_convertvector(half[0], vec<double>);
      high_ += __builtin_convertvector(half[1], vec<double>);
    } else {
      low_ += x;
    }
  }
  double value() const {
    double sum[lanes<double>];
    store(sum, low_ + high_);
    for (int n = lanes<double> / 2; n > 0; n /= 2)
      for (int l = 0; l < n; ++l) sum[l] += sum[l + n];
    return sum[0];
  }

 private:
  vec<double> low_{}, high_{};
};

template <class F>
inline bool any_nan(const vec<F>& x) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<F, float>) return _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q) != 0;
#endif
  bool found = false;
  for (int l = 0; l < lanes<F>; ++l) found |= std::isnan(x[l]);
  return found;
}

template <class F>
inline bool any_negative(const vec<F>& x) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<F, float>) return _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_LT_OQ) != 0;
#endif
  bool found = false;
  for (int l = 0; l < lanes<F>; ++l) found |= x[l] < 0;
  return found;
}

template <class V>
inline bool any_bit(const V& x) {
#if defined(__AVX512F__)
  return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
#elif defined(__AVX__)
  return _mm256_testz_si256((__m256i)x, (__m256i)x) == 0;
#else
  std::uint64_t words[simd_bytes / 8];
  std::memcpy(words, &x, sizeof words);
  return (words[0] | words[1]) != 0;
#endif
}

/// Returns bits; bit l says whether lanes l differ.
inline unsigned unequal_lanes(const vec<float>& a, const vec<float>& b) {
#if defined(__AVX512F__)
  // g++ 12 may keep a mask in 16 bits of memory and read 64: this clears the upper bits.
  unsigned bits = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NEQ_UQ);
  __asm__("" : "+r"(bits));
  return bits & 0xffff;
#elif defined(__AVX__)
  return static_cast<unsigned>(_mm256_movemask_ps((__m256)(a != b)));
#elif defined(__SSE2__)
  return static_cast<unsigned>(_mm_movemask_ps((__m128)(a != b)));
#else
  unsigned bits = 0;
  for (int l = 0; l < lanes<float>; ++l) bits |= unsigned{a[l] != b[l]} << l;
  return bits;
#endif
}

/// Returns sum + a b of the lower halves of lanes + a b of the upper halves, as signed 16-bit integers.
inline simd<float>::mask add_pair_products(simd<float>::mask sum, simd<float>::mask a, simd<float>::mask b) {
#if defined(__AVX512VNNI__)
  return (simd<float>::mask)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(__AVX512BW__)
  return sum + (simd<float>::mask)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return sum + (simd<float>::mask)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__) && !defined(__AVX__)
  return sum + (simd<float>::mask)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

/// Writes `from` widened to `to`. Compilers do not vectorise this by themselves.
template <class T, class F>
inline void widen(const T* from, index_t n, F* to) {
  index_t i = 0;
  if constexpr (std::is_same_v<T, bf16> || (std::is_same_v<T, float> && std::is_same_v<F, double>))
    for (; i + lanes<float> <= n; i += lanes<float>) {
      vec<float> x;
      if constexpr (std::is_same_v<T, bf16>) {
        half_lanes h;
        std::memcpy(&h, from + i, sizeof h);
        x = (vec<float>)(__builtin_convertvector(h, word_lanes) << 16);
      } else {
        x = load(from + i);
      }
      if constexpr (std::is_same_v<F, double>) {
        const double_lanes wide = __builtin_convertvector(x, double_lanes);
        std::memcpy(to + i, &wide, sizeof wide);
      } else {
        store(to + i, x);
      }
    }
  for (; i < n; ++i) to[i] = static_cast<F>(from[i]);
}

/// Memory aligned to cache lines: a vector that straddles two lines costs two loads.
template <class T>
struct line_allocator {
  using value_type = T;
  static constexpr std::align_val_t line{64};
  line_allocator() = default;
  template <class U>
  line_allocator(const line_allocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, line); }
  friend bool operator==(const line_allocator&, const line_allocator&) { return true; }
};
template <class T>
using aligned_vector = std::vector<T, line_allocator<T>>;

/// Rounds n up to a multiple of lanes<T>.
template <class T>
constexpr index_t padded(index_t n) {
  return round_up(n, lanes<T>);
}

}  // namespace qkgeom::cpu
