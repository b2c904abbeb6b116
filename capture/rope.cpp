// SPDX-License-Identifier: MIT
#include "capture/rope.hpp"

#include <cmath>
#include <numbers>

#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

std::vector<float> default_frequencies(double theta, index_t d) {
  std::vector<float> f;
  for (index_t i = 0; i < d; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(d);
    f.push_back(1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return f;
}

std::vector<float> llama3_frequencies(std::vector<float> inv_freq, const llama3_scaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  const auto context = static_cast<float>(scaling.original_context);
  for (float& f : inv_freq) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength > context / low) {
      f /= factor;
    } else if (wavelength >= context / high) {
      const float smooth = (context / wavelength - low) / (high - low);
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return inv_freq;
}

rope_description read_rope(const json_fields& config, index_t head_dim, index_t context, double default_theta) {
  // A rope_scaling that is not null replaces rope_parameters; the dictionary's theta goes before the top-level one.
  auto dictionary = config.child("rope_scaling");
  if (!dictionary || dictionary->object().empty()) dictionary = config.child("rope_parameters");
  rope_description rope;
  rope.theta = config.positive("rope_theta").value_or(default_theta);
  double partial = config.positive("partial_rotary_factor").value_or(1);
  if (dictionary) {
    rope.theta = dictionary->positive("rope_theta").value_or(rope.theta);
    rope.type = dictionary->string("rope_type").value_or(dictionary->string("type").value_or("default"));
    partial = dictionary->positive("partial_rotary_factor").value_or(partial);
  }
  require(partial == 1, config.where(), ": a partial_rotary_factor of ", partial, " is not supported for this family");
  rope.rotary_dim = head_dim;
  require(head_dim % 2 == 0, config.where(), ": a head size of ", head_dim, " is odd, rotary embedding needs pairs");
  rope.inv_freq = default_frequencies(rope.theta, head_dim);
  if (rope.type == "default") return rope;
  require(rope.type == "llama3", config.where(), ": rope type '", rope.type,
          "' is not supported for this family; supported: default, llama3");
  const auto needed = [&](const char* name) {
    const auto x = dictionary->positive(name);
    require(x.has_value(), dictionary->where(), " has no field ", name);
    return *x;
  };
  const double original =
      config.positive("original_max_position_embeddings")
          .value_or(dictionary->positive("original_max_position_embeddings").value_or(static_cast<double>(context)));
  const llama3_scaling scaling{needed("factor"), needed("low_freq_factor"), needed("high_freq_factor"), original};
  require(scaling.high_freq_factor > scaling.low_freq_factor, dictionary->where(),
          ": high_freq_factor must be larger than low_freq_factor");
  rope.inv_freq = llama3_frequencies(std::move(rope.inv_freq), scaling);
  return rope;
}

rope_table make_rope_table(const rope_description& rope, index_t positions, bool to_bf16) {
  rope_table table;
  table.half = rope.rotary_dim / 2;
  const auto size = static_cast<std::size_t>(positions * table.half);
  table.cos.resize(size);
  table.sin.resize(size);
  const auto factor = static_cast<float>(rope.attention_factor);
  const auto rounded = [&](double x) {
    const float y = static_cast<float>(x) * factor;
    return to_bf16 ? static_cast<float>(bf16::round(y)) : y;
  };
  std::size_t at = 0;
  for (index_t t = 0; t < positions; ++t)
    for (const float f : rope.inv_freq) {
      const float angle = static_cast<float>(t) * f;
      table.cos[at] = rounded(std::cos(static_cast<double>(angle)));
      table.sin[at++] = rounded(std::sin(static_cast<double>(angle)));
    }
  return table;
}

}  // namespace qkgeom
