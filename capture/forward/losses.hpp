// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "capture/forward/device_buffer.hpp"
#include "capture/forward/forward_pass.hpp"
#include "capture/forward/kernels.hpp"
#include "capture/forward/layer_weights.hpp"
#include "capture/forward/linear_map.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::device_kernels {

/// State of a token's logits so far: the largest, sum of exp(logit - top), and the logit of the following token.
struct logit_state {
  float top = -HUGE_VALF, next = 0;
  double sum = 0;
};

/// Adds the logits of a piece of the vocabulary to the states of some tokens.
template <class T>
struct add_logits {
  const T* logits;  ///< (rows, words)
  index_t words, first_word;
  const std::int32_t* following;  ///< (rows) ids
  logit_state* state;
  float scale = 1, cap = 0;  ///< as `decoder_description::logit_scale`, `logit_cap`

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    using value = typename Team::value;
    using functions = value_functions<value>;
    const T* const x = logits + row * words;
    logit_state s = state[row];
    value most = value{} + s.top, weights{};
    for_columns(team, words, [&](auto c) {
      most = functions::larger(within_row(logit_of<value>(load(x, c)), c, -HUGE_VALF), most);  // never a NaN
    });
    const float largest = team.max(most);
    for_columns(team, words,
                [&](auto c) { weights += within_row(functions::exp(logit_of<value>(load(x, c)) - largest), c); });
    const float sum = team.sum(weights);
    if (team.rank() > 0) return;  // all have read `state` before they added up
    if (s.sum > 0) s.sum *= std::exp(static_cast<double>(s.top) - static_cast<double>(largest));
    s.sum += static_cast<double>(sum);
    s.top = largest;
    const index_t target = following[row] - first_word;
    if (target >= 0 && target < words) s.next = logit_of<float>(load(x, target));
    state[row] = s;
  }

 private:
  template <class Value>
  QKGEOM_HD Value logit_of(Value product) const {
    if (scale != 1) product = rounded<T>(product * scale);
    if (cap != 0) product = rounded<T>(rounded<T>(value_functions<Value>::tanh(rounded<T>(product / cap))) * cap);
    return product;
  }
};

}  // namespace qkgeom::device_kernels

namespace qkgeom {

/// A document's token ids and the last layer's hidden states on a device, (tokens, hidden).
template <class T>
struct token_states {
  std::span<const std::int32_t> ids;
  T* hidden;
};

/// A piece of the output matrix in a device's memory.
template <class Device, class T>
struct output_piece {
  explicit output_piece(Device& m) : values(m) {}
  const auto& map(const Device& m, const weight_matrix& from) {
    values.reserve(from.size());
    m.memory().from_host(values.data(), from.data(), static_cast<std::size_t>(from.size()) * sizeof(T));
    return values;
  }
  device_buffer<Device, T> values;
};

/// Returns the bytes that `token_losses` holds on the device for documents of `tokens` tokens in all.
template <class T>
index_t token_losses_bytes(const decoder_description& d, index_t tokens, index_t chunk) {
  const index_t words = std::min(serial_device::vocabulary_piece, d.vocabulary);
  return static_cast<index_t>(sizeof(T)) * words * (d.hidden + std::min(chunk, tokens)) + 8 * d.hidden +
         tokens * static_cast<index_t>(sizeof(std::int32_t) + sizeof(device_kernels::logit_state));
}

/// Predicts each document's tokens from its hidden states, which are normed in place. Logits are computed for at most
/// `chunk` rows and a piece of the vocabulary at a time, so that memory holds a piece of the output matrix and never
/// tokens x vocabulary.
template <class T, class Device>
std::vector<token_predictions> token_losses(Device& m, const decoder_description& d, const checkpoint& weights,
                                            const std::string& prefix, const std::vector<token_states<T>>& documents,
                                            index_t chunk, thread_pool& pool) {
  constexpr bool rounds = device_kernels::rounds_to_bf16<T>;
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

  struct row_chunk {
    std::size_t document;
    index_t first, rows;
  };
  std::vector<row_chunk> chunks;
  std::vector<buffer<std::int32_t, memory>> following;
  std::vector<buffer<device_kernels::logit_state, memory>> states;
  for (const auto& s : documents) {
    // The last token has no known successor.
    following.emplace_back(m.memory(), std::vector<std::int32_t>(s.ids.begin() + 1, s.ids.end()));
    states.emplace_back(m.memory(), std::vector<device_kernels::logit_state>(s.ids.size() - 1));
    const index_t tokens = following.back().size();
    for (index_t t = 0; t < tokens; t += chunk) chunks.push_back({states.size() - 1, t, std::min(chunk, tokens - t)});
    m.rows(tokens, device_kernels::norm_rows<T>{s.hidden, s.hidden, d.hidden, norm});
  }
  weight_matrix matrix;
  weight_reading how = m.reading(rounds);
  how.memory = nullptr;  // the caller waits while pieces are copied
  output_piece<Device, T> piece(m);
  std::vector<device_buffer<Device, T>> logits;
  for (int i = 0; i < m.workers(); ++i) logits.emplace_back(m);
  std::vector<product_scratch> scratches(m.workers());
  for (index_t word = 0; word < output.shape[0]; word += Device::vocabulary_piece) {
    const index_t words = std::min(Device::vocabulary_piece, output.shape[0] - word);
    read_matrix(weights, output.name, output.shape, word, words, how, pool, matrix);
    weights.forget(output.name);
    const auto& map = piece.map(m, matrix);
    m.each(static_cast<index_t>(chunks.size()), [&](index_t i, int worker) {
      const auto [document, first, rows] = chunks[i];
      auto& y = logits[worker];
      y.reserve(rows * words);
      const T* const x = documents[document].hidden + first * d.hidden;
      multiply_map(m, map, {rows, words, d.hidden, d.hidden}, x, y.data(), scratches[worker]);
      m.rows(rows, device_kernels::add_logits<T>{y.data(), words, word, following[document].data() + first,
                                                 states[document].data() + first, static_cast<float>(d.logit_scale),
                                                 static_cast<float>(d.logit_cap)});
    });
  }
  std::vector<token_predictions> found(documents.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const auto& s : states[i].host()) {
      found[i].loss.push_back(static_cast<float>(static_cast<double>(s.top - s.next) + std::log(s.sum)));
      found[i].right.push_back(s.next >= s.top);  // a logit that is no number is not right
    }
  return found;
}

}  // namespace qkgeom
