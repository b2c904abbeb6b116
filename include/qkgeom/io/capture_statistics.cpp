// SPDX-License-Identifier: MIT
#include "qkgeom/io/capture_statistics.hpp"

#include <cmath>
#include <string>

namespace qkgeom {

namespace {

/// Returns the buckets of a statistic in a capture's manifest; no value if the capture does not hold it.
std::optional<bucket_edges> statistic_buckets(const capture& c, const char* statistic) {
  constexpr index_t most = max_query_buckets;
  const auto& m = c.manifest();
  if (!m.extra.contains(statistic)) return std::nullopt;
  const json_value settings(m.extra[statistic], c.path().string() + " (manifest)", statistic);
  const index_t size = settings["bucket_size"].integer((m.context_length + most - 1) / most, largest_position);
  return uniform_buckets{size}.edges(m.context_length);
}

/// Returns the buckets of a statistic if all captures hold it over the same ones and the set has all its rows.
std::optional<bucket_edges> statistic_buckets(const capture_set& source, const char* statistic) {
  if (!source.has_all_rows()) return std::nullopt;
  const auto first = statistic_buckets(source.captures()[0], statistic);
  for (const auto& c : source.captures())
    if (statistic_buckets(c, statistic) != first) return std::nullopt;
  return first;
}

index_t documents_in(const capture& c, index_t shard) {
  const auto& m = c.manifest();
  if (!m.shards.empty()) return static_cast<index_t>(m.shards[shard].documents.size());
  require(m.documents.has_value(), c.path().string(),
          ": the manifest must list its examples, whose statistics it holds");
  return static_cast<index_t>(m.documents->size());
}

enum class statistic_values { any, not_negative, whole };

/// Appends the tensor `name`, which must have that shape and finite F64 values of that kind.
void append_statistic(const safetensors_file& file, const std::string& name, const std::vector<index_t>& shape,
                      statistic_values kind, std::vector<double>& to) {
  const auto& tensor = file.at(name);
  const std::string where = file.path().string() + ": tensor " + name;
  require(tensor.shape == shape, where, " must have shape ", shape_text(shape), " by the manifest, not ",
          shape_text(tensor.shape));
  for (const double x : file.values<double>(tensor)) {
    require(std::isfinite(x), where, " holds a number that is not finite");
    require(kind == statistic_values::any || x >= 0, where, " holds ", x, ", but a sum of it cannot be negative");
    require(kind != statistic_values::whole || x == std::floor(x), where, " must hold counts, not ", x);
    to.push_back(x);
  }
}

/// Calls `read(file, documents)` for every shard of every capture.
template <class Read>
void for_each_shard(const capture_set& source, const Read& read) {
  for (const auto& c : source.captures())
    for (index_t s = 0; s < c.n_shards(); ++s) read(*c.file(s), documents_in(c, s));
}

}  // namespace

std::optional<softmax_sums> read_softmax(const capture_set& source, index_t layer) {
  const auto buckets = statistic_buckets(source, "softmax");
  if (!buckets) return std::nullopt;
  const auto& manifest = source.manifest();
  softmax_sums all{*buckets, distance_edges(manifest.context_length), 0, {}, {}, {}, {}, {}};
  all.heads = static_cast<index_t>(manifest.layer(layer).query_heads.size());
  const index_t b = all.buckets.count(), h = all.heads, firsts = static_cast<index_t>(first_tokens.size());
  const std::string name = "layer." + std::to_string(layer) + ".attention";
  for_each_shard(source, [&](const safetensors_file& file, index_t e) {
    const auto append = [&](const char* kind, const std::vector<index_t>& shape, statistic_values values,
                            std::vector<double>& to) { append_statistic(file, name + kind, shape, values, to); };
    append(".count", {e, b}, statistic_values::whole, all.count);
    append(".first", {e, h, b, firsts}, statistic_values::not_negative, all.first);
    append(".distance", {e, h, b, all.distances.count()}, statistic_values::not_negative, all.distance);
    append(".entropy", {e, h, b}, statistic_values::any, all.entropy);  // an entropy of 0 may round below it
    all.documents += e;
  });
  return all;
}

std::optional<document_losses> read_losses(const capture_set& source) {
  const auto buckets = statistic_buckets(source, "loss");
  if (!buckets) return std::nullopt;
  document_losses all{*buckets, 0, {}, {}};
  for_each_shard(source, [&](const safetensors_file& file, index_t e) {
    const std::vector<index_t> shape{e, all.buckets.count()};
    append_statistic(file, "loss.sum", shape, statistic_values::any, all.sum);
    append_statistic(file, "loss.count", shape, statistic_values::whole, all.count);
    all.documents += e;
  });
  return all;
}

}  // namespace qkgeom
