// SPDX-License-Identifier: MIT
#include "capture/forward/row_ops.hpp"

#include <cmath>
#include <cstring>

#include "capture/forward/products/simd.hpp"

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

void scale_row(std::span<float> x, float factor, bool to_bf16) {
  in_vectors(x.size(),
             [&](std::size_t i, int n) { store_some(&x[i], rounded(load_some(&x[i], n) * factor, to_bf16), n); });
}

namespace {

/// 1 / sqrt(mean((x - center)^2) + eps).
float inverse_spread(std::span<const float> x, float center, float eps) {
  floats squares{};
  in_vectors(x.size(), [&](std::size_t i, int n) {
    floats v = load_some(&x[i], n) - center;
    for (int lane = n; lane < simd::lanes; ++lane) v[lane] = 0;
    squares += v * v;
  });
  return 1.0f / std::sqrt(simd::sum(squares) / static_cast<float>(x.size()) + eps);
}

float mean(std::span<const float> x) {
  floats sum{};
  in_vectors(x.size(), [&](std::size_t i, int n) { sum += load_some(&x[i], n); });
  return simd::sum(sum) / static_cast<float>(x.size());
}

}  // namespace

void normalise(norm_kind kind, std::span<const float> x, std::span<const float> w, std::span<const float> b, float eps,
               bool to_bf16, float* out) {
  const float center = kind == norm_kind::layer ? mean(x) : 0.0f;
  const float scale = inverse_spread(x, center, eps), more = kind == norm_kind::gemma ? 1.0f : 0.0f;
  in_vectors(x.size(), [&](std::size_t i, int n) {
    floats y = (load_some(&x[i], n) - center) * scale;
    if (kind == norm_kind::llama) y = rounded(y, to_bf16);
    y *= load_some(&w[i], n) + more;
    if (kind == norm_kind::layer) y += load_some(&b[i], n);
    store_some(out + i, rounded(y, to_bf16), n);
  });
}

namespace {

/// 1 / (1 + e^-x). Beyond |x| = 87 it is 0 or 1 in f32; the bound keeps 2^.. finite.
floats sigmoid(floats x) {
  constexpr float log2e = 1.44269504088896340736f;
  const floats bounded = simd::max(-x * log2e, simd::all(-126.0f));
  return 1.0f / (1.0f + simd::exp2(bounded < 126.0f ? bounded : simd::all(126.0f)));
}

floats apply(activation act, floats x) {
  switch (act) {
    case activation::silu:
      return x * sigmoid(x);
    case activation::gelu_tanh:  // (1 + tanh u) / 2 is the sigmoid of 2 u
      return x * sigmoid(1.5957691216057308f * x * (1.0f + 0.044715f * x * x));
    default:
      for (int i = 0; i < simd::lanes; ++i) x[i] *= 0.5f * (1.0f + std::erf(x[i] * 0.70710678118654752f));
      return x;
  }
}

}  // namespace

void activate(activation act, std::span<float> x, bool to_bf16) {
  in_vectors(x.size(),
             [&](std::size_t i, int n) { store_some(&x[i], rounded(apply(act, load_some(&x[i], n)), to_bf16), n); });
}

void gate_into(activation act, std::span<float> gate, std::span<const float> up, bool to_bf16) {
  in_vectors(gate.size(), [&](std::size_t i, int n) {
    const floats active = rounded(apply(act, load_some(&gate[i], n)), to_bf16);
    store_some(&gate[i], rounded(active * load_some(&up[i], n), to_bf16), n);
  });
}

namespace {

/// (a, b) rotated by an angle's cos and sin.
struct pair {
  floats a, b;
};
pair rotated(const pair& x, floats c, floats s, const rotation_style& style) {
  const auto product = [&](floats u, floats v) { return rounded(u * v, style.rounds); };
  return {rounded(product(x.a, c) - product(x.b, s), style.rounds_result),
          rounded(product(x.b, c) + product(x.a, s), style.rounds_result)};
}

}  // namespace

void rotate_pairs(float* head, const float* cos, const float* sin, index_t half, const rotation_style& style) {
  in_vectors(static_cast<std::size_t>(half), [&](std::size_t i, int n) {
    const floats c = load_some(cos + i, n), s = load_some(sin + i, n);
    if (!style.interleaved) {
      const pair y = rotated({load_some(head + i, n), load_some(head + half + i, n)}, c, s, style);
      store_some(head + i, y.a, n);
      store_some(head + half + i, y.b, n);
      return;
    }
    pair x{};
    float* const pairs = head + 2 * i;
    for (int j = 0; j < n; ++j) x.a[j] = pairs[2 * j], x.b[j] = pairs[2 * j + 1];
    const pair y = rotated(x, c, s, style);
    for (int j = 0; j < n; ++j) pairs[2 * j] = y.a[j], pairs[2 * j + 1] = y.b[j];
  });
}

}  // namespace qkgeom
