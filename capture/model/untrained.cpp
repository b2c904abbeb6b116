// SPDX-License-Identifier: MIT
#include "capture/model/untrained.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "qkgeom/core/random.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {
namespace {

/// Makes four independent standard normals of 128 random bits (Box and Muller); their tails end at 6.8.
std::array<double, 4> normals(const std::array<std::uint32_t, 4>& bits) {
  std::array<double, 4> x{};
  for (int i = 0; i < 4; i += 2) {
    const double size = std::sqrt(-2.0 * std::log((bits[i] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * (bits[i + 1] * 0x1p-32);
    x[i] = size * std::cos(angle);
    x[i + 1] = size * std::sin(angle);
  }
  return x;
}

/// Returns 64 bits of a name's SHA-256: the stream of the tensor's draws.
std::array<std::uint32_t, 2> stream_of(const std::string& name) {
  const std::string hex = sha256().add(name).hex();
  const auto word = [&](std::size_t at) {
    return static_cast<std::uint32_t>(std::stoul(hex.substr(at, 8), nullptr, 16));
  };
  return {word(0), word(8)};
}

/// Returns whether a vector is drawn like a matrix: GPT-OSS' logits of sinks and biases of routers.
bool is_drawn_vector(const std::string& name) {
  return name.ends_with("self_attn.sinks") || name.ends_with("mlp.router.bias");
}

/// Returns the offset whose softplus is a step of time between 0.001 and 0.1, uniform in its logarithm for uniform u.
double offset_of(double u) {
  const double step = 0.001 * std::pow(100.0, u);
  return step + std::log(-std::expm1(-step));
}

}  // namespace

untrained_weights::untrained_weights(const decoder_description& model, double deviation, std::uint64_t seed)
    : embedding_(model.prefixes.at(0) + model.embedding + ".weight"),
      output_(model.tied ? "" : model.outputs.at(0)),
      deviation_(deviation),
      seed_(seed),
      norm_(model.norm == norm_kind::gemma ? 0.0f : 1.0f),
      draws_steps_(model.delta && model.delta->all_apart) {}

void untrained_weights::read(const std::string& name, bool is_matrix, index_t first, index_t count, float* out) const {
  if (name.ends_with("mamba.A_log")) {
    for (index_t i = 0; i < count; ++i) out[i] = std::log(static_cast<float>(first + i + 1));
    return;
  }
  const bool fading = name.ends_with("linear_attn.A_log"), steps = draws_steps_ && name.ends_with("dt_bias");
  if (!is_matrix && !fading && !steps && !is_drawn_vector(name)) {
    const bool is_bias = name.ends_with("bias"),
               is_one = name.ends_with("dt_bias") || name.ends_with("linear_attn.norm.weight");
    std::fill(out, out + count, is_one ? 1.0f : is_bias ? 0.0f : norm_);
    return;
  }
  const auto stream = stream_of(name);
  const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)};
  for (index_t i = first; i < first + count;) {
    const auto block = static_cast<std::uint64_t>(i / 4);
    // The top byte of the second word is a stream's use in core/random.hpp; no use there is 255.
    const auto bits = philox4x32({static_cast<std::uint32_t>(block),
                                  static_cast<std::uint32_t>(block >> 32) | 0xff000000u, stream[0], stream[1]},
                                 key);
    const auto x = normals(bits);
    for (index_t j = i % 4; j < 4 && i < first + count; ++j, ++i) {
      const auto at = static_cast<std::size_t>(j);
      const double u = (bits[at] + 0.5) * 0x1p-32;
      *out++ = static_cast<float>(fading ? std::log(0.01 + 15.99 * u) : steps ? offset_of(u) : deviation_ * x[at]);
    }
  }
}

std::string untrained_weights::fingerprint() const {
  std::uint64_t deviation = 0;
  std::memcpy(&deviation, &deviation_, sizeof deviation);
  return sha256().add("untrained " + std::to_string(seed_) + ' ' + std::to_string(deviation)).hex();
}

double initializer_range(const nlohmann::json& config) {
  const json_value fields(config, "config.json");
  const auto text = fields.object("text_config");
  const auto own = text ? text->positive("initializer_range") : std::nullopt;
  return own ? *own : fields.positive("initializer_range").value_or(0.02);
}

}  // namespace qkgeom
