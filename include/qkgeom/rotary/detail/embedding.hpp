// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/scalar.hpp"
#include "qkgeom/rotary/embedding.hpp"

namespace qkgeom {

inline std::vector<float> default_frequencies(double theta, index_t d) {
  std::vector<float> f;
  for (index_t i = 0; i < d; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(d);
    f.push_back(1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return f;
}

inline std::vector<float> llama3_frequencies(std::vector<float> inv_freq, const llama3_scaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  const auto context = static_cast<float>(scaling.original_context);
  for (float& f : inv_freq) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength > context / low) {
      f /= factor;
    } else if (wavelength >= context / high && high > low) {
      const float smooth = (context / wavelength - low) / (high - low);
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return inv_freq;
}

inline std::vector<float> yarn_frequencies(double theta, index_t d, const yarn_scaling& scaling) {
  // Returns the dimension that makes `turns` turns within the original context.
  const auto dimension = [&](double turns) {
    return static_cast<double>(d) * std::log(scaling.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dimension(scaling.beta_fast), high = dimension(scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(d - 1));
  if (low == high) high += 0.001;
  std::vector<float> f;
  for (index_t i = 0; i < d; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(d);
    const auto period = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    const float ramp = (static_cast<float>(i / 2) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    f.push_back(1.0f / (static_cast<float>(scaling.factor) * period) * (1.0f - kept) + 1.0f / period * kept);
  }
  return f;
}

inline std::vector<float> dynamic_frequencies(double theta, const dynamic_scaling& scaling, index_t d, index_t tokens) {
  if (tokens <= scaling.context) return default_frequencies(theta, d);
  // In single precision like PyTorch.
  const auto factor = static_cast<float>(scaling.factor);
  const float share = factor * static_cast<float>(tokens) / static_cast<float>(scaling.context);
  const auto channels = static_cast<double>(d);
  const float growth = std::pow(share - (factor - 1.0f), static_cast<float>(channels / (channels - 2)));
  return default_frequencies(static_cast<double>(static_cast<float>(theta) * growth), d);
}

inline std::vector<float> frequencies_of(const rope_description& rope, index_t tokens) {
  if (rope.longrope && tokens > rope.longrope->context) return rope.longrope->inv_freq;
  return rope.dynamic ? dynamic_frequencies(rope.theta, *rope.dynamic, rope.rotary_dim, tokens) : rope.inv_freq;
}

inline rope_table make_rope_table(const rope_description& rope, index_t positions, bool to_bf16) {
  rope_table table;
  table.half = rope.rotary_dim / 2;
  table.cos.reserve(positions * table.half);
  table.sin.reserve(positions * table.half);
  const auto factor = static_cast<float>(rope.attention_factor);
  const auto rounded = [&](double x) {
    const float y = static_cast<float>(x) * factor;
    return to_bf16 ? static_cast<float>(bf16::round(y)) : y;
  };
  const auto inv_freq = frequencies_of(rope, positions);
  for (index_t t = 0; t < positions; ++t)
    for (const float f : inv_freq) {
      const float angle = static_cast<float>(t) * f;
      table.cos.push_back(rounded(std::cos(static_cast<double>(angle))));
      table.sin.push_back(rounded(std::sin(static_cast<double>(angle))));
    }
  return table;
}

}  // namespace qkgeom
