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

#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/report/csv/head_csv.hpp"

namespace qkgeom {

/// Writes the tables of documents that were analysed one by one: those of heads with the document in front of every
/// row, and means over documents with their standard errors, which include those of each document's own query model,
/// PCA and rotation. Holds one document at a time and a number for each mean.
class document_tables {
 public:
  /// Writes into `folder`.
  document_tables(std::filesystem::path folder, bool heatmap) : folder_(std::move(folder)) {
    add_table("document_heads.csv", heads_table());
    add_table("document_qk.csv", qk_table());
    add_table("document_profile.csv", profile_table());
    add_table("document_bins.csv", bins_table());
    if (heatmap) add_table("document_heatmap.csv", heatmap_table());
  }

  /// Adds a document by its number and name.
  void add(index_t number, const std::string& id, const model_report& document) {
    for (auto& t : tables_) {
      t.csv.begin_rows_with({std::to_string(number), id});
      t.add_rows(t.csv, document);
    }
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
    for (auto& t : tables_) t.csv.commit();
    write_means();
    write_profile_means();
  }

 private:
  /// The numbers of heads.csv that one document has: no errors over documents, nothing about the observed queries.
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

  void add_table(const char* name, head_table table) {
    table.columns.insert(table.columns.begin(), {"document", "id"});
    tables_.emplace_back(folder_ / name, std::move(table));
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

  struct open_table {
    open_table(const std::filesystem::path& path, head_table table)
        : csv(path, std::move(table.columns)), add_rows(table.add_rows) {}
    csv_writer csv;
    void (*add_rows)(csv_writer&, const model_report&);
  };

  std::filesystem::path folder_;
  std::deque<open_table> tables_;
  std::map<std::pair<int, std::size_t>, document_mean> groups_;
  std::map<std::tuple<index_t, index_t, std::size_t>, document_mean> heads_;
  std::map<std::tuple<index_t, index_t, std::size_t, std::size_t>, bucket_mean> profiles_;
  bool any_rope_ = false, any_nope_ = false;
};

}  // namespace qkgeom
