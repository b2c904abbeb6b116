// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "capture/forward/device/attention.hpp"
#include "capture/forward/device/kernels.hpp"
#include "capture/forward/losses.hpp"
#include "qkgeom/core/buffer.hpp"

namespace qkgeom::device_kernels {

/// The logits of a token met so far: the largest, sum of exp(logit - top), and the logit of the token that follows.
struct logit_state {
  float top = -HUGE_VALF, next = 0;
  double sum = 0;
};

/// Adds a piece of the vocabulary to the states of some tokens.
template <class T>
struct add_logits {
  const T* logits;  ///< (rows, words)
  index_t words, first_word;
  const std::int32_t* following;  ///< (rows) ids
  logit_state* state;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const T* const x = logits + row * words;
    logit_state s = state[row];
    float largest = s.top;
    for (index_t j = team.rank(); j < words; j += team.size()) largest = std::fmax(largest, static_cast<float>(x[j]));
    largest = team.max(largest);
    float sum = 0;
    for (index_t j = team.rank(); j < words; j += team.size()) sum += std::exp(static_cast<float>(x[j]) - largest);
    sum = team.sum(sum);
    if (team.rank() > 0) return;  // all have read `state` before they added up
    if (s.sum > 0) s.sum *= std::exp(static_cast<double>(s.top) - static_cast<double>(largest));
    s.sum += static_cast<double>(sum);
    s.top = largest;
    const index_t target = following[row] - first_word;
    if (target >= 0 && target < words) s.next = static_cast<float>(x[target]);
    state[row] = s;
  }
};

}  // namespace qkgeom::device_kernels

namespace qkgeom {

/// A document's ids and its hidden states on a device, (tokens, hidden).
template <class T>
struct device_states {
  std::span<const std::int32_t> ids;
  T* hidden;
};

inline constexpr index_t device_losses_words = 8192;  ///< of the vocabulary, whose logits are computed together

/// What `device_losses` holds on the device for documents of `tokens` tokens in all.
template <class T>
index_t device_losses_bytes(const decoder_description& d, index_t tokens, index_t chunk) {
  const index_t words = std::min(device_losses_words, d.vocabulary);
  return static_cast<index_t>(sizeof(T)) * words * (d.hidden + std::min(chunk, tokens)) + 8 * d.hidden +
         tokens * static_cast<index_t>(sizeof(std::int32_t) + sizeof(device_kernels::logit_state));
}

/// See `token_losses`; at most `chunk` rows go through a product together.
template <class T, class Device>
std::vector<token_predictions> device_losses(Device& m, const decoder_description& d, const checkpoint& weights,
                                             const std::string& prefix, const std::vector<device_states<T>>& documents,
                                             index_t chunk, thread_pool& pool) {
  constexpr bool rounds = std::is_same_v<T, bf16>;
  using memory = typename Device::memory_type;
  const output_matrix output = find_output(d, weights, prefix);
  const auto norm_values = [&](const char* what) {
    std::vector<float> values(d.hidden);
    weights.read(prefix + d.final_norm + what, {d.hidden}, 0, d.hidden, rounds, values.data());
    return buffer<float, memory>(m.memory(), values);
  };
  const auto w = norm_values(".weight");
  const auto b = d.norm == norm_kind::layer ? norm_values(".bias") : buffer<float, memory>(m.memory(), 0);
  const device_kernels::norm_parameters norm{w.data(), b.data(), d.norm, static_cast<float>(d.norm_eps)};

  std::vector<buffer<std::int32_t, memory>> following;
  std::vector<buffer<device_kernels::logit_state, memory>> states;
  for (const auto& s : documents) {
    // The last token predicts nothing that is known.
    following.emplace_back(m.memory(), std::vector<std::int32_t>(s.ids.begin() + 1, s.ids.end()));
    states.emplace_back(m.memory(), std::vector<device_kernels::logit_state>(s.ids.size() - 1));
    m.rows(static_cast<index_t>(s.ids.size()), device_kernels::norm_rows<T>{s.hidden, s.hidden, d.hidden, norm});
  }
  weight_matrix matrix;
  buffer<T, memory> on_device(m.memory(), 0), logits(m.memory(), 0);
  for (index_t word = 0; word < output.shape[0]; word += device_losses_words) {
    const index_t words = std::min(device_losses_words, output.shape[0] - word);
    read_matrix(weights, output.name, output.shape, word, words,
                {rounds, rounds ? weight_format::bf16_rows : weight_format::f32}, pool, matrix);
    weights.forget(output.name);
    on_device.reserve(matrix.size());
    m.memory().from_host(on_device.data(), matrix.data(), static_cast<std::size_t>(matrix.size()) * sizeof(T));
    for (std::size_t i = 0; i < documents.size(); ++i)
      for (index_t first = 0; first < following[i].size(); first += chunk) {
        const index_t rows = std::min(chunk, following[i].size() - first);
        logits.reserve(rows * words);
        m.multiply(product_shape{rows, words, d.hidden, {d.hidden, 0}, {d.hidden, 0}, {words, 0}},
                   static_cast<const T*>(documents[i].hidden + first * d.hidden),
                   static_cast<const T*>(on_device.data()), logits.data());
        m.rows(rows, device_kernels::add_logits<T>{logits.data(), words, word, following[i].data() + first,
                                                   states[i].data() + first});
      }
  }
  std::vector<token_predictions> found(documents.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const auto& s : states[i].host()) {
      found[i].loss.push_back(static_cast<float>(static_cast<double>(s.top - s.next) + std::log(s.sum)));
      found[i].right.push_back(!(s.next < s.top));
    }
  return found;
}

}  // namespace qkgeom
