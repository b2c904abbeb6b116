// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_statistics.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/plasticity/summary.hpp"

namespace qkgeom {

/// -ln p of the next token by the position that predicts it: means over the tokens of each bucket, of the whole
/// context, and of the buckets whose middle lies in its first and in its last fifth; errors over documents.
struct loss_report {
  bucket_edges buckets;
  std::vector<estimate> loss{};          ///< (buckets) nats per token
  std::vector<double> tokens{};          ///< (buckets) predicted tokens
  std::vector<std::size_t> documents{};  ///< (buckets) documents that have some
  estimate overall{}, first20{}, last20{};
  double all_tokens = 0;
};

/// The losses that captures hold; none unless all of them do, over the same buckets.
inline std::optional<loss_report> loss_of(const capture_set& source) {
  const auto losses = read_losses(source);
  if (!losses) return std::nullopt;
  loss_report r{losses->buckets};
  const index_t buckets = r.buckets.count();
  const auto stretch = [&](std::pair<index_t, index_t> range) {
    document_mean mean;
    for (index_t e = 0; e < losses->documents; ++e) {
      double sum = 0, count = 0;
      for (index_t b = range.first; b < range.second; ++b) {
        sum += losses->sum[e * buckets + b];
        count += losses->count[e * buckets + b];
      }
      mean.add(sum, count);
    }
    return mean;
  };
  for (index_t b = 0; b < buckets; ++b) {
    const auto one = stretch({b, b + 1});
    r.loss.push_back(one.mean());
    r.tokens.push_back(one.weight());
    r.documents.push_back(one.documents());
  }
  r.all_tokens = stretch({0, buckets}).weight();
  r.overall = stretch({0, buckets}).mean();
  r.first20 = stretch(buckets_between(r.buckets, 0, 0.2)).mean();
  r.last20 = stretch(buckets_between(r.buckets, 0.8, 2)).mean();
  return r;
}

/// loss.csv: a row per bucket of positions.
inline void write_loss_csv(const std::filesystem::path& path, const loss_report& report) {
  csv_writer csv(path, {"bucket", "start", "end", "documents", "tokens", "loss", "loss_error"});
  for (index_t b = 0; b < report.buckets.count(); ++b) {
    csv.row(b, report.buckets.start(b), report.buckets.end(b), report.documents[b], report.tokens[b],
            report.loss[b].value, report.loss[b].error);
  }
  csv.commit();
}

}  // namespace qkgeom
