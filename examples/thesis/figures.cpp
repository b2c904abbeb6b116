// SPDX-License-Identifier: MIT
// Figure 6.7, profiles, and bias against AP_drop.

#include "examples/common/figures/figure.hpp"
#include "examples/common/figures/figure_style.hpp"
#include "examples/thesis/thesis.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples::thesis {
namespace {

/// Labelled points over axes with given limits.
struct labelled_points {
  using series = scatter_figure::series;
  figure_text text;
  std::vector<series> points;
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  double threshold = unknown;  ///< a horizontal line
};

void draw(const labelled_points& figure, const std::filesystem::path& stem) {
  style::canvas c{.width = 770, .height = 540, .left = 77, .right = 154, .bottom = 68, .top = 81};
  const std::string key = style::legend(c, style::names_of(figure.points), 0.6, 1.35);
  plot_script script{c.width, c.height, {}, {}};
  auto& s = script.commands;
  s = style::frame(figure.text, c) + style::open_axes();
  const auto range = [](double low, double high) { return "[" + number_text(low) + ":" + number_text(high) + "]\n"; };
  s += "set xrange " + range(figure.x_low, figure.x_high) + "set yrange " + range(figure.y_low, figure.y_high);
  s += key;
  if (!std::isnan(figure.threshold)) s += style::threshold_line(false, figure.threshold);
  style::plot_list plot;
  int label = 100;
  for (std::size_t i = 0; i < figure.points.size(); ++i) {
    const auto& p = figure.points[i];
    style::datablock data("points" + std::to_string(i));
    for (std::size_t j = 0; j < p.x.size(); ++j) data.row(p.x[j], p.y[j]);
    s += style::point_labels(p, label);
    script.data += data.str();
    plot.add(data.name() + " using 1:2" + style::points_with(p.shape, 1.2, style::rgb(p.fill, 0.85)) + " title " +
             quoted(p.name));
  }
  s += plot.str();
  write_plot(script, stem);
}

struct look {
  const char* family;
  const char* name;
  colour fill;
  marker shape;
};
constexpr look looks[] = {{"Mistral", "Mistral", palette::vermilion, marker::circle},
                          {"Qwen", "Qwen 3", palette::blue, marker::square},
                          {"Llama", "Llama", palette::green, marker::triangle}};

/// Points of a family's models, x and y being expressions over them, with their names if `named`.
labelled_points::series family_points(const published& p, const look& l, const std::string& models,
                                      const std::string& x, const std::string& y, bool named) {
  const auto rows = models + "[family = '" + l.family + "'].";
  labelled_points::series s{l.name, l.fill, l.shape, p.numbers(rows + x), p.numbers(rows + y), {}};
  if (named) s.labels = p.texts(rows + "name");
  return s;
}

void drop_and_score(output_folder& out, const published& p) {
  const auto t = test_association(association::spearman, p.numbers("scored.drop"), p.numbers("scored.lbp"));
  labelled_points f{.text = {"AP_drop and LongBench-Pro",
                             "7 models; Spearman " + signed_fixed(t.estimate) + ", exact two-sided p " + fixed(t.p),
                             "AP_drop (flat profiles to the left)", "LongBench-Pro score (%)"},
                    .points = {},
                    .x_low = 0.04,
                    .x_high = 0.27,
                    .y_low = 10,
                    .y_high = 45};
  for (const auto& l : looks) f.points.push_back(family_points(p, l, "scored", "drop", "lbp", true));
  draw(f, out.figure("figure_6_7"));
}

/// AP_drop against bias, per token or per context: models by family, and SmolLM3's checkpoints.
void drop_and_bias(output_folder& out, const published& p, bool context) {
  const std::string unit = context ? "a context" : "a token", bias = context ? "bias_context" : "bias";
  labelled_points f{
      .text = {"AP_drop and bias strength " + unit, "13 models and 10 checkpoints of SmolLM3; dashed: the target 0.10",
               context ? "mean bias strength times the context" : "mean bias strength per token (log10)", "AP_drop"},
      .points = {},
      .x_low = context ? 0 : -3.7,
      .x_high = context ? 200 : -1.5,
      .y_low = 0,
      .y_high = 0.25,
      .threshold = 0.10};
  for (const auto& l : looks) f.points.push_back(family_points(p, l, "models", bias, "drop", false));
  f.points.push_back({"SmolLM3, 4K",
                      palette::purple,
                      marker::diamond,
                      p.numbers("pre_training." + bias),
                      p.numbers("pre_training.drop"),
                      {}});
  f.points.push_back(
      {"extended", palette::orange, marker::diamond, p.numbers("extension." + bias), p.numbers("extension.drop"), {}});
  for (auto& series : f.points)
    for (auto& x : series.x) x = context ? x : std::log10(x);
  draw(f, out.figure(context ? "drop_and_bias_context" : "drop_and_bias_token"));
}

/// Bias and alpha_K relative to the end of annealing, in both units.
void training_units(output_folder& out, const published& p) {
  const auto line = [&](const char* name, const std::string& column, colour fill, bool dashed) {
    return step_figure::series{name, fill, p.numbers("checkpoints." + column + " / annealed." + column), {}, dashed};
  };
  step_figure f;
  f.text = {"Bias of SmolLM3 along training, per token and per context",
            "means over heads, relative to the end of annealing (stage3)", "", "times that of stage3"};
  f.steps = p.texts("pre_training.checkpoint");
  for (const auto& step : p.words_by_row("{context:K} {checkpoint}", "extension"))  // "32K step 4K" to "32K +4K"
    f.steps.push_back(std::string(step).replace(step.find("step "), 5, "+"));
  f.lines = {line("alpha_K per token", "alpha_k", palette::vermilion, false),
             line("bias per token", "bias", palette::blue, false),
             line("alpha_K per context", "alpha_context", palette::vermilion, true),
             line("bias per context", "bias_context", palette::blue, true)};
  f.log_y = true;
  draw(f, out.figure("training_units"));
}

/// Decile profiles of the 13 models.
void profiles(output_folder& out, const published& p) {
  map_figure f;
  f.text = {"Plasticity by decile of the context", "means over heads of the 13 models, by family and size",
            "share of the context (percent)", ""};
  for (int i = 0; i < 10; ++i) f.columns.push_back(std::to_string(10 * i) + "-" + std::to_string(10 * (i + 1)));
  f.rows = p.texts("models.short_name");
  f.panels = {{.title = {}, .values = p.numbers("models.deciles")}};
  f.low = 0.4;
  f.high = 0.75;
  f.scale_label = "plasticity";
  draw(f, out.figure("deciles"));
}

}  // namespace

void write_figures(output_folder& out, const published& p) {
  drop_and_score(out, p);
  profiles(out, p);
  training_units(out, p);
  drop_and_bias(out, p, false);
  drop_and_bias(out, p, true);
}

}  // namespace qkgeom::examples::thesis
