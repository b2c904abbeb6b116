// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/report/analyse.hpp"
#include "qkgeom/report/detail/report_bytes.hpp"
#include "qkgeom/report/notes.hpp"

namespace qkgeom {

namespace detail {

/// What the analysis of one layer gives.
struct analysed_part {
  index_t place = 0;        ///< among the layers that are analysed
  index_t query_heads = 0;  ///< of the layer, whether the options want them or not
  index_t moment_tokens = 0;
  position_range positions{};
  std::vector<head_report> heads{};
};
template <class F>
void with_members(some<analysed_part> auto& x, const F& f) {
  auto& [place, query_heads, moment_tokens, positions, heads] = x;
  f(place, query_heads, moment_tokens, positions, heads);
}

/// Analyses the layers of captures one by one. What it is given must live longer.
class layer_analysis {
 public:
  layer_analysis(const capture_set& source, const bucket_edges& buckets, const analysis_options& options)
      : source_(&source),
        buckets_(&buckets),
        options_(&options),
        stored_(!options.every_token ? std::nullopt
                : options.plasticity ? set_moments::open(source, buckets)
                                     : set_moments::open(source)),
        documents_(options.geometry && options.geometry_blocks > 1 ? source.documents_with_rows()
                                                                   : std::vector<std::int32_t>{}) {}

  template <context Context>
  analysed_part of_layer(Context& ctx, index_t number) const {
    constexpr index_t least_blocks = 4;  // errors from fewer blocks of stored moments say little
    const auto& source = *source_;
    const auto& options = *options_;
    analysed_part found;
    const auto first = source.read_shard(number, 0);
    found.query_heads = static_cast<index_t>(first.query_heads.size());
    bool checked = false;
    index_t queries = 0, keys = 0;
    const auto each_shard = [&](const auto& visit) {
      const auto shard = [&](const captured_layer& rows) {
        require(rows.element == first.element, rows.q.file, ": tensor ", rows.q.tensor, " has dtype ",
                name_of(rows.element), ", but ", name_of(first.element), " in ", first.q.file);
        if (!checked) {
          check_finite(rows);
          queries += rows.q.rows;
          keys += rows.k.rows;
          found.positions.add(rows);
        }
        visit(rows);
      };
      if (options.across_documents || source.n_shards() == 1)
        shard(source.n_shards() == 1 ? first : source.read_layer(number));
      else
        for (index_t p = 0; p < source.n_shards(); ++p) {
          shard(source.read_shard(number, p));
          source.forget(p);
        }
      if (!checked && !stored_ && options.geometry) require_rows(first, queries, keys);
      checked = true;
    };
    std::optional<known_moments> known;
    if (stored_)
      known = known_moments_of(stored_->read(number), options.geometry_blocks > 1 && stored_->blocks() >= least_blocks);
    if (known) found.moment_tokens = known->moments.q[0].total.count;
    visit_element_type(first.element, [&]<class T>() {
      const auto shards = [&](const auto& f) { each_shard([&](const captured_layer& rows) { f(rows.view<T>()); }); };
      found.heads = analyse_layer<T>(ctx, shards,
                                     {.names = {number, first.rope, first.query_heads, first.key_heads},
                                      .buckets = *buckets_,
                                      .context_length = source.manifest().context_length,
                                      .document_block = document_block(source.documents()),
                                      .every_token = std::move(known),
                                      .documents = documents_},
                                     options);
    });
    std::erase_if(found.heads, [&](const head_report& h) { return !options.wants_head({number, h.q_head}); });
    return found;
  }

 private:
  const capture_set* source_;
  const bucket_edges* buckets_;
  const analysis_options* options_;
  std::optional<set_moments> stored_;
  std::vector<std::int32_t> documents_;
};

}  // namespace detail

template <context Context, class Progress>
model_report analyse(Context& ctx, const capture_set& source, analysis_options options, Progress&& progress,
                     process_group& group) {
  const auto& manifest = source.manifest();
  if (options.rotation.score_scale == 0) options.rotation.score_scale = manifest.score_scale.value_or(0);
  model_report report{manifest.model.name, manifest.context_length, {}, {}, 0};
  report.rope_stage = manifest.rope_stage;
  report.weighting = options.weighting;
  std::optional<detail::layer_analysis> analysis;
  group.begin([&] {
    report.buckets = query_buckets(manifest, options);
    check_memory(source, report.buckets, options);
    analysis.emplace(source, report.buckets, options);
  });
  std::vector<index_t> layers;
  for (const index_t number : source.layers())
    if (options.wants_layer(number)) layers.push_back(number);
  std::vector<detail::analysed_part> parts;
  const auto show = [&](index_t heads) {
    if (heads > 0) progress(heads);
  };
  group.deal(
      static_cast<index_t>(layers.size()),
      [&](index_t i) {
        group.works_on("layer " + std::to_string(layers[i]));
        parts.push_back(analysis->of_layer(ctx, layers[i]));
        parts.back().place = i;
        show(group.passed(parts.back().query_heads));
        group.works_on("");
      },
      show);
  if (group.size() > 1) {
    const std::string own = bytes_of(std::exchange(parts, {}));
    group.collect(own, [&](const std::string& bytes) {
      for (auto& part : from_bytes<std::vector<detail::analysed_part>>(bytes)) parts.push_back(std::move(part));
    });
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  }
  position_range positions;
  for (auto& part : parts) {
    std::move(part.heads.begin(), part.heads.end(), std::back_inserter(report.heads));
    positions.first = std::min(positions.first, part.positions.first);
    positions.last = std::max(positions.last, part.positions.last);
    report.moment_tokens = part.moment_tokens;
  }
  report.notes = notes_of(source, report, positions);
  return report;
}

}  // namespace qkgeom
