// SPDX-License-Identifier: MIT
// Analyses a planted head, by templates that this program compiles, and writes and reads its table, by functions of
// qkgeom::report and qkgeom::io.
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/report/analyse_layer.hpp"
#include "qkgeom/report/head_tables.hpp"

int main() {
  qkgeom::cpu_context cpu{{.threads = 1}};
  const auto rows = qkgeom::plant<float>({.dim = 4, .context_length = 256, .documents = 3, .rows = 20});
  qkgeom::model_report report{"planted", 256, qkgeom::bucket_edges({0, 128, 256}), {}};
  report.heads = qkgeom::analyse_layer(cpu, as_layer(rows.view()), {0, true, {0}, {0}}, report.buckets, 256, {});
  qkgeom::write_csv("heads.csv", heads_table(report));
  return qkgeom::read_csv("heads.csv").rows() == 1 ? 0 : 1;
}
