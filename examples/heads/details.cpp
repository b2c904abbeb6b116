// SPDX-License-Identifier: MIT
#include "examples/heads/details.hpp"

#include "examples/common/each_layer.hpp"
#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/plasticity/decay.hpp"
#include "qkgeom/report/csv/complement_csv.hpp"
#include "qkgeom/report/csv/decay_csv.hpp"
#include "qkgeom/report/csv/fit_csv.hpp"
#include "qkgeom/report/csv/pair_csv.hpp"

namespace qkgeom::examples {
namespace {

struct detail_tables {
  std::vector<head_fit> fits;
  std::vector<head_complement> complements;
  std::vector<head_decay> decays;
  std::vector<plasticity_bucket_table> tables;
};

template <class T>
void add_layer(cpu_context& cpu, const layer_view<T>& rows, const layer_moments& moments, const layer_names& names,
               const model_report& report, const analysis_options& options, detail_tables& found) {
  const auto planes = planar_rotation(cpu, moments);
  const auto complement = complement_planes(cpu, rows, moments, planes, {.seed = options.seed});
  const auto decay = check_decay(cpu, moments, rows, {.seed = options.seed, .position = options.position});
  auto tables = bucket_table(cpu, fit_queries(cpu, moments, {.position = options.position}), rows);
  auto fits =
      fit_layer(cpu, rows, names, report.buckets,
                {.scores = {.position = options.position, .seed = options.seed}, .drift = {.seed = options.seed}});
  for (std::size_t h = 0; h < planes.size(); ++h) {
    const index_t key = names.key_heads[rows.key_of_query[h]];
    found.complements.push_back({names.layer, names.query_heads[h], key, complement[h]});
    found.decays.push_back({names.layer, names.query_heads[h], key, decay[h]});
    found.tables.push_back(std::move(tables[h]));
    found.fits.push_back(std::move(fits[h]));
  }
}

}  // namespace

void write_details(output_folder& out, const analysed& a, const arguments& choice) {
  cpu_context cpu{{.threads = choice.threads}};
  const auto options = with_arguments({}, choice);
  detail_tables found;
  for_each_layer(cpu, *a.source, choice, options, "Details",
                 [&](const auto& layer, const auto& rows, const layer_moments& moments) {
                   add_layer(cpu, rows, moments, {layer.layer, layer.rope, layer.query_heads, layer.key_heads},
                             a.report, options, found);
                 });
  write_fits_csv(out.table("fits.csv"), found.fits);
  write_gaps_csv(out.table("gaps.csv"), a.report);
  write_complement_csv(out.table("complement.csv"), found.complements);
  write_decay_csv(out.table("decay.csv"), found.decays);
  write_decay_profile_csv(out.table("decay_profile.csv"), found.decays);
  write_bucket_table_csv(out.table("bucket_table.csv"), a.report, found.tables);
  write_components_csv(out.table("components.csv"), a.report);
  write_later_keys_csv(out.table("later_keys.csv"), a.report);
}

}  // namespace qkgeom::examples
