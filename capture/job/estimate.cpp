// SPDX-License-Identifier: MIT
#include "capture/job/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <ostream>
#include <thread>
#include <vector>

#include "capture/forward/cpu_device.hpp"
#include "capture/forward/layer_weights.hpp"
#include "capture/forward/products/blas.hpp"
#include "capture/forward/products/tiles.hpp"
#include "capture/job/cut.hpp"
#include "capture/job/documents.hpp"
#include "capture/job/plan.hpp"

namespace qkgeom {
namespace {

/// Returns the unit that multiplies matrices on the CPU; `none` means BLAS or panels.
tile_unit tile_unit_of(compute_type type) { return type == compute_type::bf16 ? best_tile_unit() : tile_unit::none; }

double real(auto integer) { return static_cast<double>(integer); }

/// Entries of a layer's weights that the pass reads; `used`: entries in one token's products (with experts, fewer).
struct layer_size {
  double entries = 0, used = 0;
};

layer_size size_of_layer(const decoder_description& model, index_t layer, bool only_qk) {
  layer_size size;
  for (const auto& shape : layer_shapes(model, layer, only_qk)) {
    double n = 1;
    for (const index_t s : shape) n *= real(s);
    size.entries += n;
  }
  size.used = size.entries;
  if (!only_qk && model.layers[layer].experts) {
    const experts_description& experts = *model.experts;
    size.used -= real(experts.count - experts.chosen) * 3 * real(experts.width) * real(model.hidden);
  }
  return size;
}

/// Counts the pairs of a query and a key that it sees in a document of n tokens.
double seen_keys(double n, std::optional<index_t> window) {
  const double w = window ? std::min(real(*window), n) : n;
  return w * (w + 1) / 2 + (n - w) * w;
}

double seen_by(const layer_description& layer, double n) {
  if (!layer.chunk) return seen_keys(n, layer.window);
  const double chunk = std::min(real(*layer.chunk), n), whole = std::floor(n / chunk);
  return whole * seen_keys(chunk, {}) + seen_keys(n - whole * chunk, {});
}

void add_work(capture_estimate& estimate, const decoder_description& model, const std::vector<index_t>& lengths) {
  const bool whole = estimate.manifest.extra.contains("loss");
  const index_t last = estimate.manifest.layers.back().layer;
  for (index_t l = 0; l <= (whole ? model.n_layers() - 1 : last); ++l) {
    const layer_description& layer = model.layers[l];
    if (layer.skipped) continue;
    const bool only_qk = l == last && !whole;
    estimate.linear_flop += 2 * size_of_layer(model, l, only_qk).used * real(estimate.tokens);
    if (only_qk) continue;
    if (layer.delta) {
      const delta_description& net = *model.delta;
      estimate.attention_flop += 6 * real(net.values() * net.key_dim) * real(estimate.tokens);
      continue;
    }
    for (const index_t n : lengths) {
      const auto& indexer = model.indexer;
      const double seen = indexer ? seen_keys(real(n), indexer->chosen) : seen_by(layer, real(n));
      estimate.attention_flop += 4 * real(model.query_heads * model.heads_of(layer).head_dim) * seen;
      if (layer.indexer && n > indexer->chosen)
        estimate.attention_flop += 2 * real(indexer->heads * indexer->dim) * seen_keys(real(n), {});
    }
  }
  if (whole) estimate.linear_flop += 2 * real(model.hidden) * real(model.vocabulary) * real(estimate.tokens);
  if (!estimate.manifest.extra.contains("softmax")) return;
  const bucket_edges buckets = grid_of(estimate.manifest, "softmax");
  const auto wanted = estimate.manifest.extra["softmax"]["queries"].get<index_t>();
  for (const index_t n : lengths) {
    index_t measured = 0;
    for (index_t b = 0; b < buckets.count() && buckets.start(b) < n; ++b)
      measured += std::min(wanted, std::min(buckets.end(b), n) - buckets.start(b));
    for (const auto& info : estimate.manifest.layers)
      estimate.attention_flop += 2 * real(info.query_heads.size()) * real(estimate.manifest.model.head_dim) *
                                 seen_keys(real(n), info.window) * real(measured) / real(std::max<index_t>(1, n));
  }
}

/// Counts the documents of the shard that has most.
double most_documents(const std::vector<index_t>& lengths, bool moments) {
  std::size_t most = 0;
  for (const auto& [first, last] : shards_of(lengths, moments)) most = std::max(most, last - first);
  return real(most);
}

/// Adds bytes of softmax and losses; returns the bytes of the largest shard.
double add_statistics(capture_estimate& estimate, const statistics_options& options,
                      const std::vector<index_t>& lengths) {
  if (!options.in_shards()) return 0;
  const double b = real(grid_of(estimate.manifest, options.loss ? "loss" : "softmax").count());
  double document = 2 * b;  // numbers kept per document
  if (options.softmax)
    for (const auto& info : estimate.manifest.layers)
      document += b * (1 + real(info.query_heads.size()) *
                               (real(first_tokens.size()) + real(distance_bins(estimate.manifest.context_length)) + 1));
  estimate.statistics_bytes = 8 * document * real(lengths.size());
  return 8 * document * most_documents(lengths, options.moments);
}

/// Adds rows and bytes of all shards; returns the bytes of the largest one.
double add_rows(capture_estimate& estimate, compute_type type, bool moments, const token_sampler& sampler,
                const std::vector<index_t>& lengths) {
  const double element = type == compute_type::bf16 ? 2 : 4;
  constexpr double labels = 12;  // a row's position, document and token id
  double vectors = 0;
  for (const auto& l : estimate.manifest.layers) {
    estimate.query_heads += static_cast<index_t>(l.query_heads.size());
    estimate.key_heads += static_cast<index_t>(l.key_heads.size());
    vectors += real(l.query_heads.size() + l.key_heads.size());
  }
  const double layers = real(estimate.manifest.layers.size());
  const double token_bytes = vectors * real(estimate.manifest.model.head_dim) * element + 2 * layers * labels;
  double largest = 0;
  std::vector<double> kept{0};  // expected among the first n tokens
  for (index_t t = 0; t < estimate.longest; ++t) kept.push_back(kept.back() + sampler.probability(t));
  const auto shards = shards_of(lengths, moments);
  for (const auto& [first, last] : shards) {
    double rows = 0;
    for (std::size_t i = first; i < last; ++i) rows += kept[lengths[i]];
    estimate.query_rows += layers * rows;
    estimate.key_rows += layers * rows;
    estimate.bytes += rows * token_bytes;
    largest = std::max(largest, rows * token_bytes);
  }
  estimate.shards = static_cast<index_t>(shards.size());
  return largest;
}

index_t largest_batch(const std::vector<index_t>& lengths, bool moments, index_t batch_tokens) {
  index_t largest = 0;
  for (const auto& [first, last] : shards_of(lengths, moments))
    for (std::size_t i = first; i < last;) {
      index_t tokens = 0;
      for (const std::size_t end = batch_end(lengths, i, last, batch_tokens); i < end; ++i) tokens += lengths[i];
      largest = std::max(largest, tokens);
    }
  return largest;
}

double moments_block(const capture_estimate& estimate) {
  if (!estimate.manifest.extra.contains("moments")) return 0;
  const double b = real(grid_of(estimate.manifest, "moments").count()), n = real(estimate.manifest.model.head_dim);
  return 8 * (real(estimate.query_heads) * b * (n * n + 2 * n) + real(estimate.key_heads) * (3 * b * n + 2 * n * n));
}

/// Adds up weights of the largest layer, states of the largest batch, working memory of each thread, a shard, and the
/// program itself; with losses a piece of the output matrix and its logits.
double peak_bytes(const capture_estimate& estimate, const decoder_description& model, compute_type type,
                  int asked_threads, index_t batch, double shard) {
  constexpr double f32 = 4, bf16_entry = 2, program = 20e6;
  const bool whole = estimate.manifest.extra.contains("loss");
  const index_t last = whole ? model.n_layers() - 1 : estimate.manifest.layers.back().layer;
  double weights = 0;
  for (index_t l = 0; l <= last; ++l)
    if (!model.layers[l].skipped) weights = std::max(weights, size_of_layer(model, l, l == last && !whole).entries);
  const double queries = real(model.query_heads * model.widest_head()), keys = real(model.widest_keys());
  const double tables = real(model.rope.rotary_dim) * (model.local_rope ? 2 : 1);
  const double delta = model.delta ? real(model.delta->width() + model.delta->state_width()) : 0;
  const double sides = model.gated_output ? std::max(queries, delta) : delta;
  const auto& i = model.indexer;
  const double indexer = i ? real(i->heads * (i->dim + 1) + i->dim + (batch > i->chosen ? i->chosen : 0)) : 0;
  const double documents = real(batch) * (real(model.hidden) + queries + sides + 2 * keys + tables + indexer);
  const int threads = asked_threads > 0 ? asked_threads : usable_cores();
  constexpr index_t rows = cpu_device::sizes.chunk;
  const double piece = whole ? real(cpu_device::vocabulary_piece) : 0;
  // The decoder keeps weights in f32, or in bf16 for tile products.
  const bool tiles = tile_unit_of(type) != tile_unit::none;
  return program + shard + (tiles ? bf16_entry : f32) * (weights + piece * real(model.hidden)) +
         f32 * (documents + threads * real(rows) * piece) +
         threads * real(chunk_memory<cpu_device, float>::working_bytes(model, rows)) +
         real(sparse_attention<cpu_device, float>::working_bytes(model, estimate.longest, estimate.longest, threads)) +
         (estimate.manifest.extra.contains("softmax") ? real(sampled_softmax<cpu_device, float>::working_bytes(
                                                            model.query_heads, model.widest_head(), estimate.longest,
                                                            distance_bins(estimate.manifest.context_length), threads))
                                                      : 0);
}

std::vector<index_t> document_lengths(const input_options& inputs, const std::filesystem::path& model,
                                      prepared_capture& p, std::ostream& notes) {
  const index_t length = p.manifest.context_length;
  if (!inputs.named()) return std::vector<index_t>(std::max<index_t>(1, inputs.count), length);
  const tokenizer tokens = load_tokenizer(inputs, model, p, notes);
  std::vector<index_t> lengths;
  document_list(inputs).for_each([&](index_t, const document& doc) {
    lengths.push_back(static_cast<index_t>(tokens.encode(doc.text, length).size()));
  });
  require(!lengths.empty(), "there is no document to capture");
  return lengths;
}

/// Returns the least time of the matrix products in words; attention's products are slower.
std::string time_text(const capture_estimate& estimate) {
  if (!(estimate.flop_per_second > 0)) return {};
  return fmt::format("; at least {} at {:.1e} FLOP/s of products in {}, measured now",
                     in_time(estimate.flop() / estimate.flop_per_second), estimate.flop_per_second, estimate.products);
}

}  // namespace

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

capture_estimate estimate_capture(const capture_options& options, std::ostream& notes) {
  prepared_capture p = prepare_capture(options, notes);
  const std::vector<index_t> lengths = document_lengths(options.inputs, options.model.path, p, notes);
  capture_estimate estimate;
  estimate.manifest = p.manifest;
  estimate.products = products_of(options.model.compute);
  estimate.rope = rope_in_force(p.model, p.manifest.context_length, lengths);
  estimate.documents = static_cast<index_t>(lengths.size());
  estimate.counted = options.inputs.named();
  for (const index_t n : lengths) {
    estimate.tokens += n;
    estimate.longest = std::max(estimate.longest, n);
  }
  if (const auto note = note_on_scaling(p.model.rope, p.manifest.context_length, estimate.longest); !note.empty())
    notes << "note: " << note << '\n';
  add_work(estimate, p.model, lengths);
  const bool moments = options.statistics.moments;
  const double shard =
      add_rows(estimate, options.model.compute, moments, sampler_of(p.model, options.selection), lengths) +
      add_statistics(estimate, options.statistics, lengths);
  const double block = moments_block(estimate);
  estimate.moments_bytes = block * real(moment_blocks(lengths));
  estimate.peak_bytes = peak_bytes(estimate, p.model, options.model.compute, options.run.threads,
                                   largest_batch(lengths, moments, options.run.batch_tokens), shard) +
                        block;
  return estimate;
}

std::string products_of(compute_type type) {
  switch (tile_unit_of(type)) {
    case tile_unit::amx:
      return "bf16 by AMX";
    case tile_unit::avx512:
      return "bf16 by AVX512_BF16";
    case tile_unit::none:
      return "f32";
  }
  return {};
}

double measured_flop_per_second(int threads, compute_type type) {
  constexpr index_t rows = 256, side = 1024;
  const int workers = threads > 0 ? threads : usable_cores();
  prepare_blas(workers);
  using clock = std::chrono::steady_clock;
  std::vector<std::thread> team;
  std::vector<double> rate(static_cast<std::size_t>(workers));
  for (double& r : rate)
    team.emplace_back([&r, type] {
      const std::vector<float> x(rows * side, 0.5f), row(side, 0.25f);
      weight_matrix w;
      const bool tiles = tile_unit_of(type) != tile_unit::none;
      w.reshape(side, side, tiles ? weight_format::bf16_tiles : best_f32_format());
      for (index_t i = 0; i < side; ++i) w.set(i, 1, row.data());
      product_scratch scratch;
      std::vector<float> y(rows * side);
      const auto start = clock::now();
      double passed = 0;
      int products = -1;  // the first warms up
      for (auto from = start; passed < 0.3; passed = std::chrono::duration<double>(clock::now() - from).count()) {
        w.multiply(rows, side, x.data(), side, y.data(), side, scratch);
        if (++products == 0) from = clock::now();
      }
      r = 2.0 * real(rows * side * side) * products / passed;
    });
  for (auto& t : team) t.join();
  return std::accumulate(rate.begin(), rate.end(), 0.0);
}

void print_whole(std::ostream& out, const capture_estimate& brief, const capture_estimate& whole) {
  out << fmt::format("instead of   {:.2e} FLOP at {} tokens, {:.1f} times as much{}\n", whole.flop(),
                     whole.manifest.context_length, whole.flop() / std::max(1.0, brief.flop()), time_text(whole));
}

void print_estimate(std::ostream& out, const capture_estimate& estimate) {
  const auto& m = estimate.manifest.model;
  std::vector<index_t> layers;
  for (const captured_layer_info& l : estimate.manifest.layers) layers.push_back(l.layer);
  out << fmt::format("model        {} ({}): {} layers of {} query and {} key heads of {} channels\n", m.name,
                     m.model_type, m.n_layers, m.n_query_heads, m.n_key_heads, m.head_dim)
      << fmt::format("layers       {} captured: {}\n", layers.size(), ranges_text(layers))
      << fmt::format("heads        {} query heads, {} key heads\n", estimate.query_heads, estimate.key_heads)
      << fmt::format("rotary       {}\n", estimate.rope)
      << fmt::format("documents    {} {}, {} tokens, the longest {}, cut at {}\n", estimate.documents,
                     estimate.counted ? "read" : "assumed", estimate.tokens, estimate.longest,
                     estimate.manifest.context_length)
      << fmt::format("rows         {:.0f} of queries, {:.0f} of keys{}\n", estimate.query_rows, estimate.key_rows,
                     estimate.manifest.bucket.kind == "all" ? "" : " (expected)")
      << fmt::format("bytes        {}{}{}\n", in_bytes(estimate.bytes),
                     estimate.moments_bytes > 0 ? ", and " + in_bytes(estimate.moments_bytes) + " of moments" : "",
                     estimate.statistics_bytes > 0
                         ? ", and " + in_bytes(estimate.statistics_bytes) + " of softmax and losses"
                         : "")
      << fmt::format("peak memory  about {}, and the pages of the weights that the system keeps\n",
                     in_bytes(estimate.peak_bytes))
      << fmt::format("work         {:.2e} FLOP, {:.0f} % of it attention{}\n", estimate.flop(),
                     100 * estimate.attention_flop / std::max(1.0, estimate.flop()), time_text(estimate));
  if (const std::string note = note_on_context(estimate.manifest); !note.empty())
    out << fmt::format("note         {}\n", note);
}

}  // namespace qkgeom
