// SPDX-License-Identifier: MIT
// Planted rows whose documents are dealt among threads in place of processes.
#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/mpi_context.hpp"
#include "qkgeom/planted/heads.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/common/threads_as_processes.hpp"

namespace qkgeom::test {

inline constexpr index_t spread_documents = 11, spread_dim = 8;

/// Rows of some of the documents of a head.
inline planted_rows<float> rows_of(const planted_rows<float>& all, const std::function<bool(std::int32_t)>& wanted) {
  planted_rows<float> some{all.dim, {}, {}, {}, {}, {}, {}};
  const auto side = [&](const auto& x, const auto& position, const auto& document, auto& to, auto& to_position,
                        auto& to_document) {
    for (std::size_t i = 0; i < document.size(); ++i) {
      if (!wanted(document[i])) continue;
      to.insert(to.end(), x.begin() + static_cast<index_t>(i) * all.dim,
                x.begin() + static_cast<index_t>(i + 1) * all.dim);
      to_position.push_back(position[i]);
      to_document.push_back(document[i]);
    }
  };
  side(all.q, all.q_position, all.q_document, some.q, some.q_position, some.q_document);
  side(all.k, all.k_position, all.k_document, some.k, some.k_position, some.k_document);
  return some;
}

enum class deal { in_turn, in_stretches, all_to_the_last };

inline int holder(deal how, int processes, std::int32_t document) {
  if (how == deal::in_turn) return document % processes;
  if (how == deal::in_stretches) return static_cast<int>(document * processes / spread_documents);
  return processes - 1;
}

/// Rows of a layer of four query heads over three key heads, side by side in the rows of one planted head.
inline constexpr index_t query_heads = 4, key_heads = 3;
inline const planted_rows<float>& layer_rows() {
  static const auto rows = plant<float>(compared_head(query_heads * spread_dim, spread_documents, 60, 0.2));
  return rows;
}
inline layer_view<float> layer_of(const planted_rows<float>& rows) {
  const auto wide = rows.view();
  const auto heads = [](const matrix_view<const float>& x, index_t n) {
    return tensor_view<const float>{x.data, x.rows, n, spread_dim, x.row_stride, spread_dim};
  };
  return {heads(wide.q, query_heads),
          wide.q_position,
          wide.q_document,
          heads(wide.k, key_heads),
          wide.k_position,
          wide.k_document,
          {0, 2, 1, 2},
          {}};
}
inline planted_rows<float> own_layer_rows(const process_group& group, deal how) {
  return rows_of(layer_rows(), [&](std::int32_t e) { return holder(how, group.size(), e) == group.rank(); });
}
/// What each process gets from its rows of the layer.
inline std::vector<std::string> of_layer(
    int processes, deal how, const std::function<std::string(mpi_context<cpu_context>&, layer_view<float>)>& f) {
  test::threads_as_processes group_of_threads(processes);
  std::vector<std::string> found(processes);
  EXPECT_THAT(group_of_threads.run([&](process_group& group) {
    const auto own = own_layer_rows(group, how);
    cpu_context cpu{{.threads = 1}};
    mpi_context ctx(cpu, group);
    found[group.rank()] = f(ctx, layer_of(own));
  }),
              testing::Each(testing::IsEmpty()));
  return found;
}

}  // namespace qkgeom::test
