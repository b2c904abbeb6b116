// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>
#include <vector>

#include "examples/export/exports.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom::examples {
namespace {

struct profiled_head {
  index_t layer, q_head;
  std::map<std::int32_t, std::pair<double, double>> documents{};  ///< sum of r_H and number of queries
  estimate share{};                                               ///< mean r_H of the documents
  double variance = 0;                                            ///< of the documents' means
  bool chosen = false;

  void finish() {
    std::vector<double> means;
    for (const auto& [document, s] : documents) means.push_back(s.first / s.second);
    const auto n = static_cast<double>(means.size());
    require(n > 1, "rope-profiler's heads are chosen by their variance over documents; this capture has ",
            means.size());
    share = ratio_of_sums(means, std::vector<double>(means.size(), 1));
    for (const double m : means) variance += (m - share.value) * (m - share.value) / (n - 1);
  }
};

/// Returns for each query the row of a key of its document among those at its position and before, -1 if there is none.
/// Multiples of the golden ratio, modulo 1, choose among them, so that the choices are spread evenly.
template <class T>
std::vector<index_t> earlier_keys(const layer_view<T>& rows) {
  std::vector<std::tuple<std::int32_t, std::int32_t, index_t>> keys;  // document, position, row
  for (index_t i = 0; i < rows.k.rows; ++i) keys.emplace_back(rows.k_document[i], rows.k_position[i], i);
  std::sort(keys.begin(), keys.end());
  std::vector<index_t> chosen;
  for (index_t i = 0; i < rows.q.rows; ++i) {
    const auto document = rows.q_document[i];
    const auto first = std::lower_bound(keys.begin(), keys.end(), std::tuple{document, 0, index_t{0}});
    const auto end = std::lower_bound(first, keys.end(), std::tuple{document, rows.q_position[i] + 1, index_t{0}});
    const double turns = static_cast<double>(i + 1) * std::numbers::phi;
    const double place = (turns - std::floor(turns)) * static_cast<double>(end - first);
    chosen.push_back(first == end ? -1 : std::get<2>(first[static_cast<std::ptrdiff_t>(place)]));
  }
  return chosen;
}

/// Returns r_H of a query and a key, both (d): see `export_rope_profiler`.
template <class T>
double high_share(const T* q, const T* k, const captured_rope& rope, double least_frequency) {
  double high = 0, all = 0;
  for (std::size_t j = 0; j < rope.inv_freq.size(); ++j) {
    const auto [a, b] = plane_of(rope, j);
    const auto square = [a = a, b = b](const T* x) {
      return static_cast<double>(x[a]) * static_cast<double>(x[a]) +
             static_cast<double>(x[b]) * static_cast<double>(x[b]);
    };
    const double c = square(q) * square(k);
    all += c;
    if (rope.inv_freq[j] >= least_frequency) high += c;
  }
  return all > 0 ? std::sqrt(high / all) : 0;
}

}  // namespace

void export_rope_profiler(output_folder& out, const arguments& a, const export_arguments& choice) {
  const auto source = capture_set::open(a.captures);
  require_before_rope(source);
  const auto& manifest = source.manifest();
  const double least_frequency = choice.least_turn / static_cast<double>(manifest.context_length);
  std::vector<profiled_head> heads;
  progress bar("export", static_cast<index_t>(manifest.layers.size()), "layers");
  for (const auto& info : manifest.layers) {
    bar.add(1);
    const auto rope = sole_rope_of(source, info.layer, "planes are of high frequency or not in all documents");
    if (!rope) continue;
    const auto layer = source.read_layer(info.layer);
    check_finite(layer);
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      const auto keys = earlier_keys(rows);
      for (index_t h = 0; h < rows.q.heads; ++h) {
        profiled_head head{info.layer, info.query_heads[h]};
        const auto view = rows.head(h);
        for (index_t i = 0; i < rows.q.rows; ++i) {
          if (keys[i] < 0) continue;
          auto& [sum, count] = head.documents[rows.q_document[i]];
          sum += high_share(view.q.row(i), view.k.row(keys[i]), *rope, least_frequency);
          ++count;
        }
        head.finish();
        heads.push_back(std::move(head));
      }
    });
  }
  bar.done();
  require(!heads.empty(), source.captures()[0].path().string(), " has no layer with a rotary embedding");
  std::vector<profiled_head*> order;
  for (auto& head : heads) order.push_back(&head);
  std::stable_sort(order.begin(), order.end(), [](auto* x, auto* y) { return x->variance > y->variance; });
  std::map<index_t, std::vector<index_t>> chosen;  // in the order of heads
  for (std::size_t i = 0; i < (order.size() + 19) / 20; ++i) order[i]->chosen = true;
  for (const auto& head : heads)
    if (head.chosen) chosen[head.layer].push_back(head.q_head);
  json config{{"head_preset", nullptr}, {"heads", json::object()}};
  for (const auto& [layer, list] : chosen) config["heads"][std::to_string(layer)] = list;

  table_columns<profiled_head> c;
  c.add("layer", "number of the layer", &profiled_head::layer);
  c.add("q_head", "number of the query head", &profiled_head::q_head);
  c.add("high_share", "mean over documents of r_H, the share of the planes of high frequency in a score's coefficients",
        &profiled_head::share);
  c.add("variance", "variance of the documents' means, that of the choice of keys included", &profiled_head::variance);
  c.add("chosen", "1: rope_profiler.json names the head; else 0", &profiled_head::chosen);
  out.write("rope_profiler.csv", std::move(c).with_rows(heads));
  write_text(out.table("rope_profiler.json"), config.dump(2) + "\n");
  write_origin(out, source, choice);
}

}  // namespace qkgeom::examples
