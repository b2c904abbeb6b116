// SPDX-License-Identifier: MIT
#include "capture/row_ops.hpp"

#include <cmath>
#include <cstring>

#include "capture/simd.hpp"

namespace qkgeom {
namespace {

using simd::floats;

/// Calls f(index, count) for whole vectors and for the shorter rest.
template <class F>
void in_vectors(std::size_t n, F&& f) {
  std::size_t i = 0;
  for (; i + simd::lanes <= n; i += simd::lanes) f(i, simd::lanes);
  if (i < n) f(i, static_cast<int>(n - i));
}
floats load_some(const float* p, int n) {
  if (n == simd::lanes) return simd::load(p);
  floats v{};
  std::memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}
void store_some(float* p, floats v, int n) {
  if (n == simd::lanes) return simd::store(p, v);
  std::memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(float));
}
floats rounded(floats x, bool to_bf16) { return to_bf16 ? simd::round_to_bf16(x) : x; }

}  // namespace

void add_into(std::span<float> x, std::span<const float> b, bool to_bf16) {
  in_vectors(x.size(), [&](std::size_t i, int n) {
    store_some(&x[i], rounded(load_some(&x[i], n) + load_some(&b[i], n), to_bf16), n);
  });
}

void round_row(std::span<float> x) {
  in_vectors(x.size(), [&](std::size_t i, int n) { store_some(&x[i], simd::round_to_bf16(load_some(&x[i], n)), n); });
}

void rms_norm(std::span<const float> x, std::span<const float> w, float eps, bool to_bf16, float* out) {
  floats squares{};
  in_vectors(x.size(), [&](std::size_t i, int n) {
    const floats v = load_some(&x[i], n);
    squares += v * v;
  });
  const float scale = 1.0f / std::sqrt(simd::sum(squares) / static_cast<float>(x.size()) + eps);
  in_vectors(x.size(), [&](std::size_t i, int n) {
    const floats normed = rounded(load_some(&x[i], n) * scale, to_bf16);
    store_some(out + i, rounded(load_some(&w[i], n) * normed, to_bf16), n);
  });
}

void gate_into(std::span<float> gate, std::span<const float> up, bool to_bf16) {
  constexpr float log2e = 1.44269504088896340736f;
  in_vectors(gate.size(), [&](std::size_t i, int n) {
    const floats x = load_some(&gate[i], n);
    // Beyond |x| = 87 the sigmoid is 0 or 1 in f32; the bound keeps 2^.. finite.
    const floats bounded = simd::max(-x * log2e, simd::all(-126.0f));
    const floats power = simd::exp2(bounded < 126.0f ? bounded : simd::all(126.0f));
    const floats silu = rounded(x / (1.0f + power), to_bf16);
    store_some(&gate[i], rounded(silu * load_some(&up[i], n), to_bf16), n);
  });
}

void rotate_pairs(float* head, const float* cos, const float* sin, index_t half, bool to_bf16) {
  in_vectors(static_cast<std::size_t>(half), [&](std::size_t i, int n) {
    const floats a = load_some(head + i, n), b = load_some(head + half + i, n);
    const floats c = load_some(cos + i, n), s = load_some(sin + i, n);
    floats first, second;
    if (to_bf16) {
      first = simd::round_to_bf16(simd::round_to_bf16(a * c) - simd::round_to_bf16(b * s));
      second = simd::round_to_bf16(simd::round_to_bf16(b * c) + simd::round_to_bf16(a * s));
    } else {
      first = a * c - b * s;
      second = b * c + a * s;
    }
    store_some(head + i, first, n);
    store_some(head + half + i, second, n);
  });
}

}  // namespace qkgeom
