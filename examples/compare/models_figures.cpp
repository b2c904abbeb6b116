// SPDX-License-Identifier: MIT
// Figures of several models side by side.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/compare/models.hpp"
#include "qkgeom/stats/families.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

constexpr std::array<colour, 8> colours{palette::blue,   palette::vermilion, palette::green, palette::purple,
                                        palette::orange, palette::sky,       palette::grey,  palette::black};
constexpr std::array<marker, 4> shapes{marker::circle, marker::triangle, marker::square, marker::diamond};
const std::string bars_of_documents = "; bars: 95 % intervals over documents";

std::string heads_words(const std::vector<compared_model>& models) {
  std::size_t heads = 0;
  for (const auto& m : models) heads += m.heads.size();
  return counted(heads, "head") + " of " + counted(models.size(), "model");
}

std::vector<std::string> labels_of(const std::vector<compared_model>& models) {
  std::vector<std::string> labels;
  for (const auto& m : models) labels.push_back(m.label);
  return labels;
}

/// The name of each model's colour: its family if there are several families, else its label.
std::vector<std::string> kinds_of(const std::vector<compared_model>& models) {
  std::vector<std::string> kinds;
  for (const auto& m : models) kinds.push_back(m.family);
  if (std::all_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k == kinds[0]; })) return labels_of(models);
  return kinds;
}

std::vector<std::string> distinct(const std::vector<std::string>& names) {
  std::vector<std::string> each;
  for (const auto& n : names)
    if (std::find(each.begin(), each.end(), n) == each.end()) each.push_back(n);
  return each;
}

/// A series per kind, one point per head.
template <class X, class Y>
std::vector<scatter_figure::series> head_points(const std::vector<compared_model>& models, const X& x, const Y& y) {
  const auto kinds = kinds_of(models), names = distinct(kinds);
  std::vector<scatter_figure::series> all;
  for (std::size_t k = 0; k < names.size(); ++k) {
    scatter_figure::series s{"", colours[k % colours.size()], shapes[k / colours.size() % shapes.size()], {}, {}};
    for (std::size_t i = 0; i < models.size(); ++i)
      if (kinds[i] == names[k])
        for (const auto& h : models[i].heads) s.add(x(h), y(h));
    s.name = names[k] + " (" + std::to_string(s.x.size()) + ")";
    all.push_back(std::move(s));
  }
  return all;
}

/// One number per model: of all heads, and of RoPE and NoPE layers if a model has both.
step_figure number_figure(const std::vector<compared_model>& models, const std::string& number, figure_text text,
                          bool log_y) {
  step_figure f;
  f.text = std::move(text);
  f.steps = labels_of(models);
  f.joined = false;
  f.log_y = log_y;
  for (const auto& [group, line] :
       {std::pair{"all", palette::black}, std::pair{"rope", palette::blue}, std::pair{"nope", palette::vermilion}}) {
    step_figure::series s{words_for_heads(group), line, {}, {}};
    bool any = false;
    for (const auto& m : models) {
      const auto* g = m.group(group);
      const auto e = g ? g->number(number).estimate() : head_estimate{};
      any |= std::isfinite(e.value);
      s.add(e.value, half_width(e));
    }
    if (any) f.lines.push_back(std::move(s));
  }
  return f;
}

step_figure correlation_figure(const std::vector<compared_model>& models) {
  step_figure f;
  f.text = {"How far queries and keys follow position: component 0 and axis a",
            heads_words(models) + ", means of |r|" + bars_of_documents, "", "mean |correlation with position|"};
  f.steps = labels_of(models);
  f.joined = false;
  f.y_low = 0;
  f.y_high = 1;
  for (const auto& [number, name, line] : {std::tuple{"abs_r_q_pc0", "queries, component 0", palette::sky},
                                           std::tuple{"abs_r_k_pc0", "keys, component 0", palette::orange},
                                           std::tuple{"abs_r_q_a", "queries, axis a", palette::blue},
                                           std::tuple{"abs_r_k_a", "keys, axis a", palette::vermilion}}) {
    step_figure::series s{name, line, {}, {}};
    for (const auto& m : models) {
      const auto e = m.groups[0].number(number).estimate();
      s.add(e.value, half_width(e));
    }
    f.lines.push_back(std::move(s));
  }
  return f;
}

map_figure component_figure(const std::vector<compared_model>& models) {
  map_figure f;
  f.text = {"Position on principal components", heads_words(models) + ", means of |r| with position",
            "principal component", ""};
  f.rows = labels_of(models);
  std::size_t n = 0;
  for (const auto& m : models) n = std::max(n, m.groups[0].components.size());
  map_figure::panel q{"queries, |r_q|", {}}, k{"keys, |r_k|", {}};
  for (std::size_t j = 0; j < n; ++j) f.columns.push_back(std::to_string(j));
  for (const auto& m : models)
    for (std::size_t j = 0; j < n; ++j) {
      const auto& c = m.groups[0].components;
      q.values.push_back(j < c.size() ? c[j].abs_r_q.value : NAN);
      k.values.push_back(j < c.size() ? c[j].abs_r_k.value : NAN);
    }
  f.panels = {q, k};
  f.scale_label = "mean |r|";
  return f;
}

share_figure class_figure(const std::vector<compared_model>& models) {
  share_figure f;
  f.text = {"Head classes", heads_words(models) + ", PCA component 0", "", "share of heads"};
  f.steps = labels_of(models);
  for (const head_class c : all_head_classes) {
    share_figure::part part{class_words(c), class_colour(c), {}};
    for (const auto& m : models) part.share.push_back(m.groups[0].number("share_" + std::string(name_of(c))).value);
    f.parts.push_back(std::move(part));
  }
  return f;
}

step_figure profile_lines(const std::vector<compared_model>& models, const std::string& query_model) {
  step_figure f;
  f.text = {"Plasticity along each model's context",
            "means over heads and deciles of the context, " + query_model + " query model" + bars_of_documents,
            "share of the context (percent)", "plasticity"};
  for (int i = 0; i < 10; ++i) f.steps.push_back(std::to_string(10 * i) + "-" + std::to_string(10 * (i + 1)));
  for (std::size_t i = 0; i < models.size(); ++i) {
    step_figure::series s{models[i].label, colours[i % colours.size()], {}, {}, i >= colours.size()};
    for (const auto& b : models[i].groups[0].bins)
      if (b.kind == "decile") {
        const auto e = b.plasticity.estimate();
        s.add(e.value, half_width(e));
      }
    f.lines.push_back(std::move(s));
  }
  return f;
}

scatter_figure taxonomy_figure(const std::vector<compared_model>& models, const class_thresholds& thresholds) {
  scatter_figure f;
  f.text = {"Heads by how their queries and keys follow position", heads_words(models) + ", PCA component 0",
            "r_q: correlation of the queries with position", "r_k: correlation of the keys with position"};
  f.thresholds = {thresholds.low, thresholds.high};
  f.points = head_points(
      models, [](const compared_head& h) { return h.r_q_pc0; }, [](const compared_head& h) { return h.r_k_pc0; });
  return f;
}

histogram_figure bias_distribution(const std::vector<compared_model>& models) {
  histogram_figure f;
  std::size_t positive = 0, heads = 0;
  for (const auto& s : head_points(
           models, [](const compared_head& h) { return h.bias_context_logits; },
           [](const compared_head&) { return 0.0; })) {
    for (const double v : s.x) positive += v > 0;
    heads += s.x.size();
    f.groups.push_back({s.name, s.fill, s.x});
  }
  f.text = {"Later keys are favoured by " + std::to_string(positive) + " of " + counted(heads, "head"),
            heads_words(models), "bias strength times the context: logits gained from its start to its end", "heads"};
  return f;
}

scatter_figure separation_figure(const std::vector<compared_model>& models) {
  std::vector<double> x, y;
  std::vector<std::string> families;
  const auto kinds = kinds_of(models);
  for (std::size_t i = 0; i < models.size(); ++i)
    for (const auto& h : models[i].heads) {
      x.push_back(h.separation_strength);
      y.push_back(h.bias_context_logits);
      families.push_back(kinds[i]);
    }
  const auto d = decompose_by_family(x, y, families);
  scatter_figure f;
  f.text = {"Bias and separation of queries and keys",
            heads_words(models) + "; Pearson " + signed_fixed(d.pooled.correlation) + " pooled, " +
                signed_fixed(d.within.correlation) + " within " + (kinds == labels_of(models) ? "models" : "families"),
            "separation strength", "bias strength times the context, logits"};
  f.square = false;
  f.points = head_points(
      models, [](const compared_head& h) { return h.separation_strength; },
      [](const compared_head& h) { return h.bias_context_logits; });
  return f;
}

scatter_figure score_figure(const std::vector<compared_model>& models, const model_score& score) {
  scatter_figure f;
  f.square = false;
  std::vector<double> x, y;
  const auto kinds = kinds_of(models), names = distinct(kinds);
  const bool by_model = kinds == labels_of(models);
  for (std::size_t k = 0; k < names.size(); ++k) {
    scatter_figure::series s{
        by_model ? "" : names[k], colours[k % colours.size()], shapes[k / colours.size() % shapes.size()], {}, {}, {}};
    for (std::size_t i = 0; i < models.size(); ++i) {
      const double drop = models[i].groups[0].number("ap_drop").value;
      if (kinds[i] != names[k] || std::isnan(score.value[i]) || std::isnan(drop)) continue;
      s.add(drop, score.value[i]);
      s.labels.push_back(models[i].label);
    }
    x.insert(x.end(), s.x.begin(), s.x.end());
    y.insert(y.end(), s.y.begin(), s.y.end());
    f.points.push_back(std::move(s));
  }
  f.text = {"AP_drop and " + score.name, counted(x.size(), "model"), "AP_drop (flat profiles to the left)", score.name};
  if (x.size() < 3) return f;
  const auto t = test_association(association::spearman, x, y);
  f.text.subtitle += "; Spearman " + signed_fixed(t.estimate) + ", " + (t.exact ? "exact " : "") + "two-sided p " +
                     significant(t.p, 2);
  return f;
}

}  // namespace

void draw_models(output_folder& out, const std::vector<compared_model>& models, const model_choices& choices) {
  draw(correlation_figure(models), out.figure("correlation"));
  draw(component_figure(models), out.figure("component_correlation"));
  draw(class_figure(models), out.figure("class_shares"));
  draw(taxonomy_figure(models, choices.thresholds), out.figure("taxonomy"));
  const auto bias = [&](const char* column, const char* unit) {
    return number_figure(models, column,
                         {"Positional bias, " + std::string(unit),
                          "mean over heads of |bias strength|" + bars_of_documents, "", "mean |bias|"},
                         true);
  };
  draw(bias("abs_bias_strength_logits", "logits per token"), out.figure("bias_token"));
  draw(bias("abs_bias_context_logits", "logits over each model's context"), out.figure("bias_context"));
  draw(bias("abs_bias_context_in_sd", "over the context, in sd of score differences"), out.figure("bias_in_sd"));
  draw(bias_distribution(models), out.figure("bias_distribution"));
  draw(separation_figure(models), out.figure("bias_separation"));
  draw(profile_lines(models, choices.query_model), out.figure("profiles"));
  draw(number_figure(models, "ap_drop",
                     {"AP_drop: first less last fifth of the context",
                      "mean over heads, " + choices.query_model + " query model" + bars_of_documents, "", "AP_drop"},
                     false),
       out.figure("ap_drop"));
  for (const auto& s : choices.scores) draw(score_figure(models, s), out.figure("score_" + file_name_of(s.name)));
}

}  // namespace qkgeom::examples
