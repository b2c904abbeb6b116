// SPDX-License-Identifier: MIT
#include "capture/job/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <thread>

#include "capture/forward/attention_statistics.hpp"
#include "capture/forward/cpu_device.hpp"
#include "capture/forward/layer_weights.hpp"
#include "capture/forward/products/amx.hpp"
#include "capture/job/batches.hpp"

namespace qkgeom {
namespace {

double d(index_t i) { return static_cast<double>(i); }

/// Entries of the layer's weights that the pass reads; `used`: those that a token's products meet (with experts,
/// fewer).
struct layer_size {
  double entries = 0, used = 0;
};

layer_size size_of_layer(const decoder_description& m, index_t layer, bool only_qk) {
  layer_size size;
  for (const auto& shape : layer_shapes(m, layer, only_qk)) {
    double n = 1;
    for (const index_t s : shape) n *= d(s);
    size.entries += n;
  }
  size.used = size.entries;
  if (!only_qk && m.layers[layer].experts) {
    const experts_description& e = *m.experts;
    size.used -= d(e.count - e.chosen) * 3 * d(e.width) * d(m.hidden);
  }
  return size;
}

/// Keys that the queries of a document of n tokens see: all before each, or those in the window.
double seen_keys(double n, std::optional<index_t> window) {
  const double w = window ? std::min(d(*window), n) : n;
  return w * (w + 1) / 2 + (n - w) * w;
}

void add_work(capture_estimate& e, const decoder_description& m, const std::vector<index_t>& lengths) {
  const bool whole = e.manifest.extra.contains("loss");
  const index_t last = e.manifest.layers.back().layer;
  for (index_t l = 0; l <= (whole ? m.n_layers() - 1 : last); ++l) {
    const layer_description& layer = m.layers[l];
    if (layer.skipped) continue;
    const bool only_qk = l == last && !whole;
    e.linear_flop += 2 * size_of_layer(m, l, only_qk).used * d(e.tokens);
    if (only_qk) continue;
    for (const index_t n : lengths)
      e.attention_flop += 4 * d(m.query_heads * m.head_dim) * seen_keys(d(n), layer.window);
  }
  if (whole) e.linear_flop += 2 * d(m.hidden) * d(m.vocabulary) * d(e.tokens);
  if (!e.manifest.extra.contains("softmax")) return;
  for (const auto& info : e.manifest.layers)
    for (const index_t n : lengths)
      e.attention_flop +=
          2 * d(static_cast<index_t>(info.query_heads.size()) * m.head_dim) * seen_keys(d(n), info.window);
}

/// Pairs of keys that a query bucket from `start` on, with its middle at `tau`, admits of a document.
double admitted_pairs(index_t tokens, index_t skip_first, double tau, index_t start, std::optional<index_t> window) {
  const double first = window ? std::max(d(skip_first), std::floor(tau - d(*window)) + 1) : d(skip_first);
  const double keys = std::max(0.0, d(std::min(start, tokens)) - first);
  return keys * (keys - 1) / 2;
}

/// Documents of the largest shard.
double most_documents(const capture_options& o, const std::vector<index_t>& lengths) {
  std::size_t most = 0;
  for (const auto& [first, last] : shards_of(lengths, o.moments)) most = std::max(most, last - first);
  return static_cast<double>(most);
}

/// Pairs of the analyses and what they keep; returns the bytes of the largest shard's part.
double add_analyses(capture_estimate& e, const capture_options& o, const std::vector<index_t>& lengths) {
  if (!o.analyse) return 0;
  const bucket_edges buckets = grid_of(e.manifest, "analyse");
  const double kinds = d(static_cast<index_t>(o.analyse->covariances.size())), b = d(buckets.count());
  const index_t skip = o.plan.sampler.skip_first;
  double document = 0;  // numbers kept of one
  for (const auto& info : e.manifest.layers) {
    const double heads = d(static_cast<index_t>(info.query_heads.size()));
    document += 1 + 2 * b + heads * (32 + 3 * d(e.manifest.model.head_dim) + kinds * b);
    if (o.analyse->heatmap) document += (1 + heads) * b * b;
    for (const index_t n : lengths)
      for (index_t i = 0; i < buckets.count(); ++i)
        // A document's own models need two queries in the bucket.
        if (!o.analyse->models_of.empty() || std::min(n, buckets.end(i)) - std::max(skip, buckets.start(i)) >= 2)
          e.analysis_pairs += heads * kinds * admitted_pairs(n, skip, buckets.middle(i), buckets.start(i), info.window);
  }
  e.analysis_bytes = 8 * document * d(static_cast<index_t>(lengths.size()));
  return 8 * document * most_documents(o, lengths);
}

/// What softmax and losses keep; returns the bytes of the largest shard's part.
double add_statistics(capture_estimate& e, const capture_options& o, const std::vector<index_t>& lengths) {
  if (!o.softmax && !o.loss) return 0;
  const double b = d(grid_of(e.manifest, o.loss ? "loss" : "softmax").count());
  double document = 2 * b;  // numbers kept of one
  if (o.softmax)
    for (const auto& info : e.manifest.layers)
      document +=
          b * (1 + d(static_cast<index_t>(info.query_heads.size())) *
                       (static_cast<double>(first_tokens.size()) + d(distance_bins(e.manifest.context_length)) + 1));
  e.statistics_bytes = 8 * document * d(static_cast<index_t>(lengths.size()));
  return 8 * document * most_documents(o, lengths);
}

/// What the analysis of one document in one layer takes: the queries' moments and models by bucket, keys of a head.
double analysis_memory(const capture_estimate& e) {
  if (!e.manifest.extra.contains("analyse")) return 0;
  const double b = d(grid_of(e.manifest, "analyse").count()), n = d(e.manifest.model.head_dim);
  double heads = 0;
  for (const auto& info : e.manifest.layers) heads = std::max(heads, d(static_cast<index_t>(info.query_heads.size())));
  return 8 * (3 * heads * b * n * n + 2 * d(e.longest) * n);
}

/// Rows and bytes of all shards; returns the bytes of the largest one.
double add_rows(capture_estimate& e, const capture_options& o, const token_sampler& sampler,
                const std::vector<index_t>& lengths) {
  const double element = o.plan.compute == compute_type::bf16 ? 2 : 4;
  // A row has a position, a document and a token id.
  constexpr double beside = 12;
  double vectors = 0;
  for (const auto& l : e.manifest.layers) {
    e.query_heads += static_cast<index_t>(l.query_heads.size());
    e.key_heads += static_cast<index_t>(l.key_heads.size());
    vectors += d(static_cast<index_t>(l.query_heads.size() + l.key_heads.size()));
  }
  const double layers = d(static_cast<index_t>(e.manifest.layers.size()));
  const double token_bytes = vectors * d(e.manifest.model.head_dim) * element + 2 * layers * beside;
  double largest = 0;
  std::vector<double> kept{0};  // expected among the first n tokens
  for (index_t t = 0; t < e.longest; ++t) kept.push_back(kept.back() + sampler.probability(t));
  const auto shards = shards_of(lengths, o.moments);
  for (const auto& [first, last] : shards) {
    double rows = 0;
    for (std::size_t i = first; i < last && keeps_rows(o); ++i) rows += kept[lengths[i]];
    e.query_rows += layers * rows;
    e.key_rows += layers * rows;
    e.bytes += rows * token_bytes;
    largest = std::max(largest, rows * token_bytes);
  }
  e.shards = static_cast<index_t>(shards.size());
  return largest;
}

/// Tokens of the largest batch of documents that pass through the layers together.
index_t largest_batch(const std::vector<index_t>& lengths, const capture_options& o) {
  index_t largest = 0;
  for (const auto& [first, last] : shards_of(lengths, o.moments))
    for (std::size_t i = first; i < last;) {
      index_t tokens = 0;
      for (const std::size_t end = batch_end(lengths, i, last, o.batch_tokens); i < end; ++i) tokens += lengths[i];
      largest = std::max(largest, tokens);
    }
  return largest;
}

/// Moments of every token of one block of documents.
double moments_block(const capture_estimate& e) {
  if (!e.manifest.extra.contains("moments")) return 0;
  const double b = d(grid_of(e.manifest, "moments").count()), n = d(e.manifest.model.head_dim);
  return 8 * (d(e.query_heads) * b * (n * n + 2 * n) + d(e.key_heads) * (3 * b * n + 2 * n * n));
}

/// Weights of the largest layer, what the pass keeps of the largest batch of documents, the threads' tiles, the rows of
/// a shard, and the program itself; with losses a piece of the output matrix and its logits.
double peak_bytes(const capture_estimate& e, const decoder_description& m, const capture_options& o, index_t batch,
                  double shard) {
  constexpr double f32 = 4, bf16_entry = 2, program = 20e6, tile = 256;
  const bool whole = e.manifest.extra.contains("loss");
  const index_t last = whole ? m.n_layers() - 1 : e.manifest.layers.back().layer;
  double weights = 0;
  for (index_t l = 0; l <= last; ++l)
    if (!m.layers[l].skipped) weights = std::max(weights, size_of_layer(m, l, l == last && !whole).entries);
  const double queries = d(m.query_heads * m.head_dim), keys = d(m.key_heads * m.head_dim);
  const double tables = d(m.rope.rotary_dim) * (m.local_rope ? 2 : 1);
  const double documents = d(batch) * (d(m.hidden) + queries + 2 * keys + tables);
  const double wide = std::max(queries + 2 * keys, 2 * d(m.experts ? m.experts->width : m.feed_forward));
  const int threads = o.threads > 0 ? o.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const double piece = whole ? d(cpu_device::vocabulary_piece) : 0;
  // As the decoder keeps weights, in f32 or for the products of bf16 tiles.
  const bool tiles = o.plan.compute == compute_type::bf16 && amx_available();
  return program + shard + (tiles ? bf16_entry : f32) * (weights + piece * d(m.hidden)) +
         f32 * (documents + threads * tile * (3 * d(m.hidden) + wide + piece));
}

std::vector<index_t> document_lengths(const capture_options& o, const prepared_capture& p) {
  const index_t length = p.manifest.context_length;
  if (!o.documents.named()) return std::vector<index_t>(std::max<index_t>(1, o.documents.documents), length);
  const tokenizer tokens = load_tokenizer(o, p);
  std::vector<index_t> lengths;
  document_list(o.documents).for_each([&](index_t, const document& doc) {
    lengths.push_back(static_cast<index_t>(tokens.encode(doc.text, length).size()));
  });
  require(!lengths.empty(), "there is no document to capture");
  return lengths;
}

std::string in_bytes(double n) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  int u = 0;
  for (; n >= 1000 && u < 4; ++u) n /= 1000;
  return fmt::format("{:.{}f} {}", n, u == 0 ? 0 : 1, units[u]);
}

std::string in_time(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  return seconds < 5400 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

std::string analysis_text(const capture_estimate& e) {
  std::string text =
      fmt::format("analysis     {:.2e} pairs of keys, {} kept", e.analysis_pairs, in_bytes(e.analysis_bytes));
  if (e.pairs_per_second > 0)
    text += fmt::format("; about {} at {:.1e} pairs a second, measured now",
                        in_time(e.analysis_pairs / e.pairs_per_second), e.pairs_per_second);
  return text + '\n';
}

std::string layer_ranges(const std::vector<captured_layer_info>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t j = i;
    while (j + 1 < layers.size() && layers[j + 1].layer == layers[j].layer + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(layers[i].layer);
    if (j > i) text += '-' + std::to_string(layers[j].layer);
    i = j + 1;
  }
  return text;
}

}  // namespace

capture_estimate estimate_capture(const capture_options& options, std::ostream& notes) {
  const prepared_capture p = prepare_capture(options, notes);
  const std::vector<index_t> lengths = document_lengths(options, p);
  capture_estimate e;
  e.manifest = p.manifest;
  e.documents = static_cast<index_t>(lengths.size());
  e.counted = options.documents.named();
  for (const index_t n : lengths) {
    e.tokens += n;
    e.longest = std::max(e.longest, n);
  }
  add_work(e, p.model, lengths);
  const double shard = add_rows(e, options, sampler_of(p.model, options.plan), lengths) +
                       add_analyses(e, options, lengths) + add_statistics(e, options, lengths) + analysis_memory(e);
  const double block = moments_block(e);
  e.moments_bytes = block * static_cast<double>(moment_blocks(lengths));
  e.peak_bytes = peak_bytes(e, p.model, options, largest_batch(lengths, options), shard) + block;
  return e;
}

void print_estimate(std::ostream& out, const capture_estimate& e) {
  const auto& m = e.manifest.model;
  out << fmt::format("model        {} ({}): {} layers of {} query and {} key heads of {} channels\n", m.name,
                     m.model_type, m.n_layers, m.n_query_heads, m.n_key_heads, m.head_dim)
      << fmt::format("layers       {} captured: {}\n", e.manifest.layers.size(), layer_ranges(e.manifest.layers))
      << fmt::format("heads        {} query heads, {} key heads\n", e.query_heads, e.key_heads)
      << fmt::format("documents    {} {}, {} tokens, the longest {}, cut at {}\n", e.documents,
                     e.counted ? "read" : "assumed", e.tokens, e.longest, e.manifest.context_length)
      << fmt::format("rows         {:.0f} of queries, {:.0f} of keys{}\n", e.query_rows, e.key_rows,
                     e.manifest.bucket.kind == "all" ? "" : " (expected)")
      << fmt::format("bytes        {}{}{}\n", in_bytes(e.bytes),
                     e.moments_bytes > 0 ? ", and " + in_bytes(e.moments_bytes) + " of moments" : "",
                     e.statistics_bytes > 0 ? ", and " + in_bytes(e.statistics_bytes) + " of softmax and losses" : "")
      << (e.analysis_pairs > 0 ? analysis_text(e) : "")
      << fmt::format("peak memory  about {}, and the pages of the weights that the system keeps\n",
                     in_bytes(e.peak_bytes))
      << fmt::format("work         {:.2e} FLOP, {:.0f} % of it attention\n", e.linear_flop + e.attention_flop,
                     100 * e.attention_flop / std::max(1.0, e.linear_flop + e.attention_flop));
}

}  // namespace qkgeom
