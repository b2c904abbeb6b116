// SPDX-License-Identifier: MIT
#include "capture/forward/losses.hpp"

#include <algorithm>
#include <cmath>

#include "capture/forward/row_ops.hpp"

namespace qkgeom {
namespace {

constexpr index_t piece = vocabulary_piece;
constexpr index_t tile_rows = 256;  // tokens that go through a product together

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
    if (target >= first && target < first + static_cast<index_t>(logits.size())) next = logits[target - first];
  }
  bool right() const { return !(next < top); }
  float loss() const { return static_cast<float>(static_cast<double>(top - next) + std::log(sum)); }
};

}  // namespace

output_matrix find_output(const decoder_description& d, const checkpoint& weights, const std::string& prefix) {
  require(!d.caps_logits, "the loss of a model with final_logit_softcapping is not supported");
  weights.check(prefix + d.final_norm + ".weight", {d.hidden});
  if (d.norm == norm_kind::layer) weights.check(prefix + d.final_norm + ".bias", {d.hidden});
  output_matrix found;
  std::string tried;
  const auto has = [&](const std::string& name, index_t rows) {
    tried += (tried.empty() ? "" : " nor ") + name;
    if (!weights.has(name)) return false;
    found = {name, {rows, d.hidden}};
    weights.check(found.name, found.shape);
    return true;
  };
  // A matrix of its own counts before the word that the embedding serves as one, as in transformers.
  for (const std::string& name : d.outputs)
    if (has(name, d.vocabulary)) return found;
  if (d.tied && has(prefix + d.embedding + ".weight", d.embedding_rows > 0 ? d.embedding_rows : d.vocabulary))
    return found;
  fail("the loss needs the output matrix, but the checkpoint has no tensor ", tried);
}

std::vector<token_predictions> token_losses(const decoder_description& d, const checkpoint& weights,
                                            const std::string& prefix, std::span<const token_states> documents,
                                            const weight_reading& how, thread_pool& pool) {
  struct row_tile {
    const token_states* document;
    std::vector<partial_softmax>* softmax;
    index_t first, rows;
  };
  std::vector<std::vector<partial_softmax>> softmax;
  std::vector<row_tile> tiles;
  // The last token predicts nothing that is known.
  for (const token_states& s : documents) softmax.emplace_back(s.ids.size() - 1);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto tokens = static_cast<index_t>(softmax[i].size());
    for (index_t t = 0; t < tokens; t += tile_rows)
      tiles.push_back({&documents[i], &softmax[i], t, std::min(tile_rows, tokens - t)});
  }
  const auto each_tile = [&](auto&& f) {
    pool.for_each(static_cast<index_t>(tiles.size()),
                  [&](index_t i, int thread) { f(tiles[i], static_cast<std::size_t>(thread)); });
  };

  const output_matrix output = find_output(d, weights, prefix);
  norm_weights norm;
  const auto read_norm = [&](const char* what, std::vector<float>& to) {
    to.resize(d.hidden);
    weights.read(prefix + d.final_norm + what, {d.hidden}, 0, d.hidden, how.to_bf16, to.data());
  };
  read_norm(".weight", norm.w);
  if (d.norm == norm_kind::layer) read_norm(".bias", norm.b);
  each_tile([&](const row_tile& tile, std::size_t) {
    for (index_t t = tile.first; t < tile.first + tile.rows; ++t) {
      const auto row =
          tile.document->hidden.subspan(static_cast<std::size_t>(t * d.hidden), static_cast<std::size_t>(d.hidden));
      normalise(d.norm, row, norm.w, norm.b, static_cast<float>(d.norm_eps), how.to_bf16, row.data());
    }
  });
  weight_matrix matrix;
  std::vector<std::vector<float>> logits(pool.size(), std::vector<float>(tile_rows * piece));
  std::vector<product_scratch> scratches(pool.size());
  for (index_t word = 0; word < output.shape[0]; word += piece) {
    const index_t words = std::min(piece, output.shape[0] - word);
    read_matrix(weights, output.name, output.shape, word, words, how, pool, matrix);
    weights.forget(output.name);
    each_tile([&](const row_tile& tile, std::size_t thread) {
      float* const y = logits[thread].data();
      matrix.multiply(tile.rows, words, tile.document->hidden.data() + tile.first * d.hidden, d.hidden, y, words,
                      scratches[thread]);
      for (index_t r = 0; r < tile.rows; ++r) {
        const std::span<float> row(y + r * words, static_cast<std::size_t>(words));
        if (how.to_bf16) round_row(row);
        (*tile.softmax)[tile.first + r].add(row, word, tile.document->ids[tile.first + r + 1]);
      }
    });
  }
  std::vector<token_predictions> found(documents.size());
  for (std::size_t i = 0; i < softmax.size(); ++i)
    for (const auto& s : softmax[i]) {
      found[i].loss.push_back(s.loss());
      found[i].right.push_back(s.right());
    }
  return found;
}

}  // namespace qkgeom
