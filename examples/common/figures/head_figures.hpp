// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "examples/common/figures/figure.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom::examples {

/// "layer 3 head 2, NoPE".
std::string head_name(const head_report& head);

/// "3.2", as --head takes it, of a `head_report` or `head_place`.
template <class Head>
std::string short_name(const Head& head) {
  return std::to_string(head.layer) + "." + std::to_string(head.q_head);
}

/// "12 heads", "1 head".
std::string counted(std::size_t n, const std::string& singular);

/// The pair set of the headline profiles in words: "all pairs of keys of a document", "drawn pairs of keys".
std::string pairs_words(const model_report& report);

/// Name of a class in texts, "position-dominated", and its colour in figures.
std::string class_words(head_class c);
colour class_colour(head_class c);

/// r_q against r_k on PCA component 0, a mark per head, coloured by class.
scatter_figure class_scatter(const model_report& report, const class_thresholds& thresholds);

/// r_q and r_k on component 0 by layer and head.
map_figure correlation_map(const model_report& report);

/// Bias strength times the context length: the score a key gains from the context's start to its end.
histogram_figure bias_histogram(const model_report& report);
/// The same quantity by layer and head. Colours end at +-`limit`; 0: at the largest value.
map_figure bias_map(const model_report& report, double limit = 0);
/// The same over the standard deviation of the score difference of two keys of a document; colours end at +-`limit`.
map_figure bias_in_sd_map(const model_report& report, double limit);

/// The {a, b} plane of a head, from the rows of its layer; draws at most `max_rows` of each side.
plane_figure head_plane(const model_report& report, const head_report& head, const captured_layer& layer,
                        std::size_t max_rows = 1500);

/// The headline profile: a trace per head, means of RoPE and NoPE layers, dashed means under the observed queries.
line_figure profile_figure(const model_report& report);

/// Overall plasticity of the headline profile by layer and head.
map_figure plasticity_map(const model_report& report);

/// The headline heatmap; a cell is the mean over the heads with at least `min_pairs` pairs in it.
heatmap_figure mean_heatmap(const model_report& report, double min_pairs = 30);

}  // namespace qkgeom::examples
