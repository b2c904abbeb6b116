// SPDX-License-Identifier: MIT
#include "capture/losses.hpp"

#include <algorithm>
#include <cmath>

#include "capture/blas.hpp"
#include "capture/layer_weights.hpp"
#include "capture/row_ops.hpp"

namespace qkgeom {
namespace {

constexpr index_t piece = 2048;     // of the vocabulary
constexpr index_t tile_rows = 256;  // tokens that go through a product together

std::size_t n(index_t i) { return static_cast<std::size_t>(i); }

std::vector<index_t> output_shape(const decoder_description& d) {
  return {d.tied && d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary, d.hidden};
}

/// The logits of a token met so far: sum of exp(logit - top), and the logit of the token that follows.
struct partial_softmax {
  float top = -HUGE_VALF, next = 0;
  double sum = 0;

  void add(std::span<const float> logits, index_t first, index_t target) {
    const float higher = std::max(top, *std::max_element(logits.begin(), logits.end()));
    if (sum > 0) sum *= std::exp(static_cast<double>(top) - static_cast<double>(higher));
    top = higher;
    float here = 0;
    for (const float x : logits) here += std::exp(x - top);
    sum += static_cast<double>(here);
    if (target >= first && target < first + static_cast<index_t>(logits.size())) next = logits[n(target - first)];
  }
  float loss() const { return static_cast<float>(static_cast<double>(top - next) + std::log(sum)); }
};

}  // namespace

std::string find_output(const decoder_description& d, const checkpoint& weights, const std::string& prefix) {
  weights.check(prefix + d.final_norm + ".weight", {d.hidden});
  if (d.norm == norm_kind::layer) weights.check(prefix + d.final_norm + ".bias", {d.hidden});
  std::vector<std::string> names{prefix + d.embedding + ".weight"};
  if (!d.tied) names = d.outputs;
  std::string tried;
  for (const std::string& name : names) {
    if (weights.has(name)) {
      weights.check(name, output_shape(d));
      return name;
    }
    tried += (tried.empty() ? "" : " nor ") + name;
  }
  fail("the loss needs the output matrix, but the checkpoint has no tensor ", tried);
}

std::vector<float> token_losses(const decoder_description& d, const checkpoint& weights, const std::string& prefix,
                                std::span<const std::int32_t> ids, std::span<float> hidden, bool rounds,
                                thread_pool& pool) {
  const auto tokens = static_cast<index_t>(ids.size()) - 1;  // the last one predicts nothing that is known
  if (tokens <= 0) return {};
  const std::string output = find_output(d, weights, prefix);
  norm_weights norm;
  const auto read_norm = [&](const char* what, std::vector<float>& to) {
    to.resize(n(d.hidden));
    weights.read(prefix + d.final_norm + what, {d.hidden}, 0, d.hidden, rounds, to.data());
  };
  read_norm(".weight", norm.w);
  if (d.norm == norm_kind::layer) read_norm(".bias", norm.b);
  const index_t tiles = (tokens + tile_rows - 1) / tile_rows, vocabulary = output_shape(d)[0];
  const auto each_tile = [&](auto&& f) {
    pool.for_each(
        tiles, [&](index_t i, int thread) { f(i * tile_rows, std::min(tile_rows, tokens - i * tile_rows), thread); });
  };
  each_tile([&](index_t first, index_t rows, int) {
    for (index_t t = first; t < first + rows; ++t) {
      const auto row = hidden.subspan(n(t * d.hidden), n(d.hidden));
      normalise(d.norm, row, norm.w, norm.b, static_cast<float>(d.norm_eps), rounds, row.data());
    }
  });
  std::vector<partial_softmax> softmax(n(tokens));
  std::vector<float> matrix(n(piece * d.hidden));
  std::vector<std::vector<float>> logits(n(pool.size()), std::vector<float>(n(tile_rows * piece)));
  for (index_t word = 0; word < vocabulary; word += piece) {
    const index_t words = std::min(piece, vocabulary - word);
    weights.read(output, output_shape(d), word, words, rounds, matrix.data());
    each_tile([&](index_t first, index_t rows, int thread) {
      float* const y = logits[n(thread)].data();
      multiply_transposed(rows, words, d.hidden, hidden.data() + first * d.hidden, d.hidden, matrix.data(), y, words);
      for (index_t r = 0; r < rows; ++r) {
        const std::span<float> row(y + r * words, n(words));
        if (rounds) round_row(row);
        softmax[n(first + r)].add(row, word, ids[n(first + r + 1)]);
      }
    });
  }
  std::vector<float> losses;
  for (const auto& s : softmax) losses.push_back(s.loss());
  return losses;
}

}  // namespace qkgeom
