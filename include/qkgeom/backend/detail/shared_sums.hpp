// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/context/result_bytes.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/bytes.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::backend {

/// Adjacent rows of a document.
struct document_run {
  std::int32_t document = 0;
  index_t first = 0, rows = 0;
};

/// The rows of each document, ascending by its number. Throws `error` if those of one are not adjacent.
inline std::vector<document_run> runs_of(const char* side, const vector_view<const std::int32_t>& document) {
  std::vector<document_run> runs;
  for (index_t i = 0; i < document.size; ++i) {
    if (i == 0 || document[i] != document[i - 1]) runs.push_back({document[i], i, 0});
    ++runs.back().rows;
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.document < b.document; });
  for (std::size_t r = 1; r < runs.size(); ++r)
    require(runs[r].document != runs[r - 1].document, "mpi_context: the rows of ", side, " of document ",
            runs[r].document, " are not adjacent");
  return runs;
}

/// Documents and positions of one side's rows on all processes, by document ascending.
struct rows_of_documents {
  std::vector<std::int32_t> position, document;
  std::vector<std::int64_t> row;  ///< in this process' view; -1: another process holds it
};

/// Documents of one process and the positions of their rows, document after document.
struct held_rows {
  std::vector<document_run> runs{};
  std::vector<std::int32_t> position{};
};
template <class F>
void with_members(some<held_rows> auto& x, const F& f) {
  auto& [runs, position] = x;
  f(runs, position);
}

/// Some rows of a head.
template <class T>
struct numbered_rows {
  std::vector<index_t> number{};  ///< (n) among the rows of all processes
  std::vector<T> values{};        ///< (n, d)

  template <class F>
  friend void with_members(some<numbered_rows> auto& x, const F& f) {
    f(x.number, x.values);
  }
};

/// Adds the moments of further rows to those of each head.
inline void merge_heads(std::vector<side_moments>& into, const std::vector<side_moments>& from) {
  for (std::size_t h = 0; h < into.size(); ++h) {
    merge(into[h].total, from[h].total);
    for (std::size_t b = 0; b < into[h].bucket.size(); ++b) merge(into[h].bucket[b], from[h].bucket[b]);
  }
}

/// The keys of one group alone.
inline keys_by_document keys_of(const keys_by_document& groups, index_t g) {
  const auto slice = [&](const auto& x) {
    return std::remove_cvref_t<decltype(x)>(x.begin() + groups.offset[g], x.begin() + groups.offset[g + 1]);
  };
  return {slice(groups.row),
          slice(groups.position),
          {0, groups.offset[g + 1] - groups.offset[g]},
          {groups.document[g]},
          groups.key_document.empty() ? std::vector<std::int32_t>{} : slice(groups.key_document)};
}

/// The heatmap of a problem.
struct heatmap_sums {
  index_t width = 0;
  std::vector<double> sum, weight;
  heatmap_terms cells{};
};
template <class F>
void with_members(some<heatmap_sums> auto& x, const F& f) {
  auto& [width, sum, weight, cells] = x;
  f(width, sum, weight, cells);
}

/// The heatmaps of the problems, which lose them.
inline std::vector<heatmap_sums> take_heatmaps(std::vector<pair_sums>& sums) {
  std::vector<heatmap_sums> maps;
  for (auto& s : sums)
    maps.push_back({std::exchange(s.heatmap_width, 0), std::exchange(s.heatmap_sum, {}),
                    std::exchange(s.heatmap_weight, {}), std::exchange(s.cells, {})});
  return maps;
}
inline void put_heatmaps(std::vector<pair_sums>& sums, std::vector<heatmap_sums>&& maps) {
  for (std::size_t p = 0; p < sums.size(); ++p) {
    sums[p].heatmap_width = maps[p].width;
    sums[p].heatmap_sum = std::move(maps[p].sum);
    sums[p].heatmap_weight = std::move(maps[p].weight);
    sums[p].cells = std::move(maps[p].cells);
  }
}

/// `values` (width, width, depth) as the first rows and columns of a wider heatmap.
inline void widen(std::vector<double>& values, index_t width, index_t to, index_t depth) {
  if (values.empty() || width == to) return;
  std::vector<double> wide(to * to * depth);
  for (index_t r = 0; r < width; ++r)
    std::copy_n(values.begin() + r * width * depth, width * depth, wide.begin() + r * to * depth);
  values = std::move(wide);
}

/// Adds the heatmaps of other documents; the wider one's width holds.
inline void merge_heatmaps(std::vector<heatmap_sums>& into, const std::vector<heatmap_sums>& from) {
  for (std::size_t p = 0; p < into.size(); ++p) {
    const index_t width = std::max(into[p].width, from[p].width);
    const auto add = [&](std::vector<double>& to, std::vector<double> more, index_t depth) {
      widen(to, into[p].width, width, depth);
      widen(more, from[p].width, width, depth);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
    };
    add(into[p].sum, from[p].sum, 1);
    add(into[p].weight, from[p].weight, 1);
    for (const auto& [values, depth] : heatmap_arrays) add(into[p].cells.*values, from[p].cells.*values, depth);
    into[p].width = width;
  }
}

/// The sums of the problems over the pairs of one document, the group `group` of all.
struct one_document {
  index_t group = 0;
  std::vector<pair_sums> sums{};
};
template <class F>
void with_members(some<one_document> auto& x, const F& f) {
  auto& [group, sums] = x;
  f(group, sums);
}

/// Puts the sums of a document into those of all documents.
inline void add_document(std::vector<pair_sums>& all, const one_document& document) {
  for (std::size_t p = 0; p < all.size(); ++p) {
    const auto& from = document.sums[p];
    auto& to = all[p];
    to.distributions = from.distributions;
    const auto put = [&]<class V>(std::vector<V>& values, const std::vector<V>& own) {
      if (own.empty()) return;
      const std::size_t rows = from.distributions, depth = own.size() / rows;
      values.resize(rows * to.groups * depth);
      for (std::size_t l = 0; l < rows; ++l)
        std::copy_n(own.begin() + l * depth, depth, values.begin() + (l * to.groups + document.group) * depth);
    };
    put(to.sum, from.sum);
    put(to.weight, from.weight);
    put(to.pairs, from.pairs);
    put(to.drawn, from.drawn);
    put(to.square, from.square);
    put(to.term_sum, from.term_sum);
  }
}

/// A number that other queries, or another choice of them, most likely do not have.
template <class T>
std::string digest_of(const tensor_view<const T>& q, const std::vector<empirical_problem>& problems) {
  std::uint64_t all = 14695981039346656037u;
  const auto add = [&](const void* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      all = (all ^ static_cast<const unsigned char*>(data)[i]) * std::uint64_t{1099511628211u};
  };
  for (index_t h = 0; h < q.heads; ++h)
    for (index_t i = 0; i < q.rows; ++i) add(q.head(h).row(i), q.dim * sizeof(T));
  for (const auto& p : problems)
    for (const auto& rows : p.query_rows) add(rows.data(), rows.size() * sizeof(index_t));
  return bytes_of(all);
}

}  // namespace qkgeom::backend
