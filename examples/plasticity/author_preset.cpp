// SPDX-License-Identifier: MIT
#include "examples/plasticity/author_analysis.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/outputs.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom::examples {
namespace {

/// Smallest, median and largest value over heads.
void add_range(table& t, const std::string& name, const std::vector<author_head>& heads,
               double (*value)(const author_head&)) {
  std::vector<double> x;
  for (const auto& h : heads)
    if (const double v = value(h); !std::isnan(v)) x.push_back(v);
  if (x.empty()) return t.row({name, "-", "-", "-"});
  std::sort(x.begin(), x.end());
  const double median = 0.5 * (x[(x.size() - 1) / 2] + x[x.size() / 2]);
  t.row({name, significant(x.front()), significant(median), significant(x.back())});
}

void print_heads(printer& out, const std::vector<author_head>& heads) {
  table t({"over heads"}, {"smallest", "median", "largest"});
  add_range(t, "ap_overall", heads, [](const author_head& h) { return h.overall.value; });
  add_range(t, "  its standard error over documents", heads, [](const author_head& h) { return h.overall.error; });
  t.rule();
  add_range(t, "q_R2_pos", heads, [](const author_head& h) { return h.fit.r2_pos; });
  add_range(t, "q_R2_scalar", heads, [](const author_head& h) { return h.fit.r2_scalar; });
  add_range(t, "q_mae_ratio", heads, [](const author_head& h) { return h.fit.mae_ratio(); });
  add_range(t, "q_resid0_ks_p", heads, [](const author_head& h) { return h.fit.residual.ks_p; });
  add_range(t, "q_noise_med_ks_p", heads, [](const author_head& h) { return h.fit.noise.ks_p; });
  add_range(t, "q_noise_frac_ks_p_lt_alpha", heads, [](const author_head& h) { return h.fit.noise.share_below_alpha; });
  out.print(t);
}

}  // namespace

void add_preset_arguments(command_line& app, preset_arguments& preset) {
  auto name = app.add_option("--preset", preset.name,
                             "attention-plasticity: write the three tables of the thesis author's tool of that name, "
                             "by its definitions, instead of ours")
                  .one_of({"attention-plasticity"});
  for (const char* other : {"--covariance", "--pairs", "--query-position", "--precision", "--across-examples"})
    name.excludes(app.get_option(other));
  app.add_option("--alpha", preset.tool.alpha, "With --preset: level of the Kolmogorov-Smirnov tests")
      .in_range(0.0, 1.0)
      .shows_default()
      .needs(name);
  app.add_option("--max-tokens", preset.tool.most_tokens, "With --preset: most queries or keys used of a head; 0: all")
      .not_negative()
      .shows_default()
      .needs(name);
  app.add_option("--max-dims", preset.tool.most_dimensions, "With --preset: most coordinates tested of a head; 0: all")
      .not_negative()
      .shows_default()
      .needs(name);
}

void run_preset(const arguments& a, const preset_arguments& preset) {
  cpu_context cpu{{.threads = a.threads}};
  const auto source = capture_set::open(a.captures);
  const auto& manifest = source.manifest();
  auto grid = author_buckets(manifest);
  if (a.bucket_size > 0 || !a.bucket_edges.empty())
    grid = {query_buckets(manifest, {.bucket_size = a.bucket_size, .bucket_edges = a.bucket_edges}), 0};
  const index_t n = manifest.query_heads();
  require(n > 0, a.captures.at(0).string(), ": this capture holds no query head");
  progress bar("Analysing", n, "heads");
  auto tool = preset.tool;
  tool.seed = a.seed;
  const auto heads = author_analysis(cpu, source, grid.edges, tool, [&](index_t done) { bar.add(done); });
  bar.done();
  output_folder folder(a.out, a.figures);
  folder.write("head_metrics.csv", head_metrics_table(heads));
  folder.write("head_bucket_plasticity.csv", head_bucket_plasticity_table(heads, grid.first));
  folder.write("head_component_weights.csv", head_component_weights_table(heads));
  printer out;
  out.heading(manifest.model.name + ": " + grouped(n) + " query heads, as " + preset.name + " reports them");
  out.line("  every pair of keys of one document and key bucket, where that tool draws some");
  print_heads(out, heads);
  folder.print(out);
}

}  // namespace qkgeom::examples
