// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "examples/export/exports.hpp"
#include "qkgeom/io/capture_statistics.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/interval.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {
namespace {

/// Attention of a query head to neither sink nor recent tokens, per document.
struct far_attention {
  std::vector<double> mass, queries;  ///< (documents)

  /// The share, without one document (-1: with all).
  double share(index_t left_out = -1) const {
    double sum = 0, count = 0;
    for (std::size_t e = 0; e < mass.size(); ++e)
      if (static_cast<index_t>(e) != left_out) {
        sum += mass[e];
        count += queries[e];
      }
    return sum / count;
  }
};

/// Sums the attention of the queries that stand past both stretches, so that every sink token is farther than the
/// recent ones.
far_attention far_of(const softmax_sums& s, index_t head, std::size_t sink, const export_arguments& choice) {
  const auto buckets = s.buckets.count(), distances = s.distances.count();
  constexpr auto kinds = static_cast<index_t>(first_tokens.size());
  far_attention far{std::vector<double>(s.documents), std::vector<double>(s.documents)};
  for (index_t e = 0; e < s.documents; ++e)
    for (index_t b = 0; b < buckets; ++b) {
      if (s.buckets.start(b) < choice.sink_tokens + choice.recent_tokens) continue;
      const index_t at = (e * s.heads + head) * buckets + b;
      far.queries[e] += s.count[e * buckets + b];
      for (index_t d = 0; d < distances; ++d)
        if (s.distances.start(d) >= choice.recent_tokens) far.mass[e] += s.distance[at * distances + d];
      far.mass[e] -= s.first[at * kinds + static_cast<index_t>(sink)];
    }
  return far;
}

/// The largest share over the query heads of a key head; the document that is left out is left out of all.
estimate largest(const std::vector<far_attention>& heads) {
  const auto value = [&](index_t left_out) {
    double most = 0;
    for (const auto& h : heads) most = std::max(most, h.share(left_out));
    return most;
  };
  std::vector<double> without;
  for (std::size_t e = 0; e < heads[0].queries.size(); ++e)
    if (heads[0].queries[e] > 0) without.push_back(value(static_cast<index_t>(e)));
  return jackknife(value(-1), without);
}

}  // namespace

void export_duo(output_folder& out, const arguments& a, const export_arguments& choice) {
  const auto source = capture_set::open(a.captures);
  require_every_head(source);
  const auto& manifest = source.manifest();
  const std::string where = source.captures()[0].path().string();
  const auto sink = static_cast<std::size_t>(std::find(first_tokens.begin(), first_tokens.end(), choice.sink_tokens) -
                                             first_tokens.begin());
  require(sink < first_tokens.size(), "--sink must be 1, 4 or 64");
  require((choice.recent_tokens & (choice.recent_tokens - 1)) == 0,
          "--recent must be a power of 2, where bins of "
          "distance begin, not ",
          choice.recent_tokens);
  struct scored_head {
    index_t layer, k_head;
    estimate score;
  };
  std::vector<scored_head> scored;
  std::string tsv;
  for (const auto& info : manifest.layers) {
    const auto sums = read_softmax(source, info.layer);
    require(sums.has_value(), where, " holds no attention by distance (qkgeom capture --softmax)");
    require(sums->buckets.start(sums->buckets.count() - 1) >= choice.sink_tokens + choice.recent_tokens, where,
            ": no query bucket begins past ", choice.sink_tokens, " sink and ", choice.recent_tokens,
            " recent tokens; longer documents, or a smaller --statistics-bucket-size, give some");
    const auto key_of_query = manifest.key_of_query(info);
    for (std::size_t k = 0; k < info.key_heads.size(); ++k) {
      std::vector<far_attention> heads;
      for (std::size_t h = 0; h < key_of_query.size(); ++h)
        if (key_of_query[h] == static_cast<index_t>(k))
          heads.push_back(far_of(*sums, static_cast<index_t>(h), sink, choice));
      const auto score = largest(heads);
      require(std::isfinite(score.value), where, ": no document reaches past ",
              choice.sink_tokens + choice.recent_tokens, " tokens");
      scored.push_back({info.layer, info.key_heads[k], score});
      char text[32];
      std::snprintf(text, sizeof text, "%.17e", score.value);
      tsv += (k > 0 ? "\t" : "") + std::string(text);
    }
    tsv += '\n';
  }
  json config{
      {"sink_size", choice.sink_tokens},
      {"recent_size", choice.recent_tokens},
      {"model_name", manifest.model.name},
      {"dataset_name", choice.texts},
  };
  for (const auto& [name, fact] : provenance_of(source)) config[name] = fact;
  table_columns<scored_head> c;
  c.add("layer", "number of the layer", &scored_head::layer);
  c.add("k_head", "number of the key head", &scored_head::k_head);
  c.add(
      "score",
      "share of the attention to neither sink nor recent tokens, the largest of the query heads that read the key head",
      &scored_head::score);
  c.add("low", "lower end of the 95 % interval", [](auto& s) { return s.score.value - half_width(s.score); });
  c.add("high", "upper end of the 95 % interval", [](auto& s) { return s.score.value + half_width(s.score); });
  out.write("duo_heads.csv", std::move(c).with_rows(scored));
  write_text(out.table("full_attention_heads.tsv"), tsv);
  write_text(out.table("config.json"), config.dump(2) + "\n");
}

}  // namespace qkgeom::examples
