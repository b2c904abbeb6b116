// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "qkgeom/io/captured_layer.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom::examples {

/// What a person calls a head: "layer 3 head 2, NoPE".
std::string head_name(const head_report& head);

/// "12 heads", "1 head".
std::string counted(std::size_t n, const std::string& singular);

/// What the headline profiles are means over: "all pairs of keys of a document", "drawn pairs ...", "... of keys".
std::string pairs_words(const model_report& report);

/// What figures call a class, "position-dominated", and the colour they give it.
std::string class_words(head_class c);
colour class_colour(head_class c);

/// r_q against r_k on PCA component 0, a mark for each head, coloured by class.
scatter_figure class_scatter(const model_report& report, const class_thresholds& thresholds);

/// r_q and r_k on component 0 by layer and head.
map_figure correlation_map(const model_report& report);

/// bias_strength times the context length, the score a key gains from the context's start to its end.
histogram_figure bias_histogram(const model_report& report);
/// Colours end at +-`limit`; 0: at the largest value.
map_figure bias_map(const model_report& report, double limit = 0);
/// The same in standard deviations of the score difference of two keys of a document.
map_figure bias_in_sd_map(const model_report& report, double limit);

/// The {a, b} plane of a head, from the rows of its layer; at most `most` rows of each side are drawn.
plane_figure head_plane(const model_report& report, const head_report& head, const captured_layer& layer,
                        std::size_t most = 1500);

/// The headline profile: a trace for each head, means of RoPE and NoPE layers, the observed queries' means beside them.
line_figure profile_figure(const model_report& report);

/// Overall plasticity of the headline profile by layer and head.
map_figure plasticity_map(const model_report& report);

/// Mean over heads of the headline heatmap, over the heads with at least `least` pairs in a cell.
heatmap_figure mean_heatmap(const model_report& report, double least = 30);

}  // namespace qkgeom::examples
