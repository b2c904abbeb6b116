// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/report/head_csv.hpp"
#include "qkgeom/report/summary.hpp"

namespace qkgeom {

namespace detail {

/// One of the tables of heads, with the document in front of every row.
class document_table {
 public:
  using rows = void (*)(csv_writer&, const model_report&);
  document_table(const std::filesystem::path& path, columns names, rows add_rows)
      : csv_(path, with_document(std::move(names))), add_rows_(add_rows) {}
  void add(index_t number, const std::string& id, const model_report& document) {
    csv_.begin_rows_with({std::to_string(number), id});
    add_rows_(csv_, document);
  }
  void commit() { csv_.commit(); }

 private:
  static columns with_document(columns names) {
    names.insert(names.begin(), {"document", "id"});
    return names;
  }
  csv_writer csv_;
  rows add_rows_;
};

}  // namespace detail

/// Tables of documents that were analysed one by one, each with a report of its own: those of heads with the document
/// in front, and means over documents with their standard errors, which hold a document's own query model, PCA and
/// rotation too. A document at a time is held, and a number for each mean.
class document_tables {
 public:
  /// Writes into `folder`.
  document_tables(std::filesystem::path folder, bool heatmap) : folder_(std::move(folder)) {
    const auto table = [&](const char* name, detail::columns names, detail::document_table::rows add_rows) {
      tables_.emplace_back(folder_ / name, std::move(names), add_rows);
    };
    table("document_heads.csv", heads_table(), add_heads_rows);
    table("document_qk.csv", qk_table(), add_qk_rows);
    table("document_profile.csv", profile_table(), add_profile_rows);
    table("document_bins.csv", bins_table(), add_bins_rows);
    if (heatmap) table("document_heatmap.csv", heatmap_table(), add_heatmap_rows);
  }

  /// Adds a document by its number and name.
  void add(index_t number, const std::string& id, const model_report& document) {
    for (auto& t : tables_) t.add(number, id, document);
    std::map<std::pair<int, std::size_t>, std::pair<double, double>> groups;  // group, column: sum over heads, heads
    for (const auto& h : document.heads) {
      for (std::size_t c = 0; c < numbers().size(); ++c) {
        const double x = numbers()[c].value(h);
        if (std::isnan(x)) continue;
        heads_[{h.layer, h.q_head, c}].add(x, 1);
        for (const int group : {0, h.rope ? 1 : 2}) {
          groups[{group, c}].first += x;
          groups[{group, c}].second += 1;
        }
      }
      add_profiles(h);
      (h.rope ? any_rope_ : any_nope_) = true;
    }
    for (const auto& [at, sums] : groups) groups_[at].add(sums.first / sums.second, 1);
  }

  /// Completes the tables; the means come last.
  void commit() {
    for (auto& t : tables_) t.commit();
    write_means();
    write_profile_means();
  }

 private:
  /// The numbers of heads.csv that a document alone has: no errors over documents, nothing of the observed queries.
  static const std::vector<head_column>& numbers() {
    static const std::vector<head_column> all = [] {
      std::vector<head_column> list;
      for (const auto* columns : {&pca_columns(), &rotation_columns(), &plasticity_columns()})
        for (const auto& c : *columns)
          if (!c.name.ends_with("_error") && c.name.find("empirical") == std::string::npos) list.push_back(c);
      return list;
    }();
    return all;
  }

  void add_profiles(const head_report& h) {
    for (std::size_t m = 0; m < h.profiles.size(); ++m)
      for (std::size_t b = 0; b < h.profiles[m].buckets.size(); ++b) {
        const auto& bucket = h.profiles[m].buckets[b];
        auto& mean = profiles_[{h.layer, h.q_head, m, b}];
        mean.covariance = h.profiles[m].covariance;
        mean.start = bucket.start;
        mean.end = bucket.end;
        if (!std::isnan(bucket.plasticity)) mean.plasticity.add(bucket.plasticity, 1);
      }
  }

  void write_means() const {
    csv_writer csv(folder_ / "document_means.csv",
                   {"scope", "group", "layer", "q_head", "column", "documents", "mean", "mean_error"});
    const auto fields = [&](std::size_t column, const document_mean& m) {
      const auto e = m.mean();
      csv.row(numbers()[column].name, m.documents(), e.value, e.error);
    };
    constexpr const char* names[] = {"all", "rope", "nope"};
    for (const auto& [at, mean] : groups_) {
      if (at.first > 0 && !(any_rope_ && any_nope_)) continue;
      csv.add("model").add(names[at.first]).add(std::nullopt).add(std::nullopt);
      fields(at.second, mean);
    }
    for (const auto& [at, mean] : heads_) {
      const auto [layer, head, column] = at;
      csv.add("head").add(std::nullopt).add(layer).add(head);
      fields(column, mean);
    }
    csv.commit();
  }

  void write_profile_means() const {
    csv_writer csv(folder_ / "document_profile_means.csv", {"layer", "q_head", "q_bucket", "start", "end", "covariance",
                                                            "documents", "plasticity", "plasticity_error"});
    for (const auto& [at, mean] : profiles_) {
      const auto [layer, head, model, bucket] = at;
      const auto e = mean.plasticity.mean();
      csv.row(layer, head, bucket, mean.start, mean.end, mean.covariance, mean.plasticity.documents(), e.value,
              e.error);
    }
    csv.commit();
  }

  struct bucket_mean {
    std::string_view covariance{};
    index_t start = 0, end = 0;
    document_mean plasticity{};
  };

  std::filesystem::path folder_;
  std::deque<detail::document_table> tables_;
  std::map<std::pair<int, std::size_t>, document_mean> groups_;
  std::map<std::tuple<index_t, index_t, std::size_t>, document_mean> heads_;
  std::map<std::tuple<index_t, index_t, std::size_t, std::size_t>, bucket_mean> profiles_;
  bool any_rope_ = false, any_nope_ = false;
};

}  // namespace qkgeom
