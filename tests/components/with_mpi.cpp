// SPDX-License-Identifier: MIT
// Sums moments of rows that the processes of mpirun hold; alone, of its own.
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/mpi_context.hpp"
#include "qkgeom/planted/heads.hpp"
#include "qkgeom/processes/mpi/mpi_group.hpp"
#include "qkgeom/stats/moments.hpp"

int main() {
  qkgeom::index_t queries = 0;
  qkgeom::run_with_mpi("with_mpi", "", [&](qkgeom::process_group& group) {
    auto rows = qkgeom::plant<float>({.dim = 4, .context_length = 100, .documents = 1, .rows = 30});
    for (auto* documents : {&rows.q_document, &rows.k_document}) documents->assign(documents->size(), group.rank());
    qkgeom::cpu_context cpu{{.threads = 1}};
    qkgeom::mpi_context all(cpu, group);
    queries = qkgeom::accumulate(all, rows.view(), qkgeom::uniform_buckets{50}, {.context_length = 100}).q.total.count;
    queries -= 30 * group.size();
  });
  return queries == 0 ? 0 : 1;
}
