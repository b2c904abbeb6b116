// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/rotary/captured_rope.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The key that a query has found, its needle. `winner`: the key with the highest score among the nearest ones;
/// `matched`: the key after the last earlier occurrence of the query's token, if the nearest keys hold at most one.
enum class needle_kind { winner, matched };
inline constexpr needle_kind all_needle_kinds[] = {needle_kind::winner, needle_kind::matched};
inline constexpr const char* name_of(needle_kind kind) { return kind == needle_kind::winner ? "winner" : "matched"; }

struct grip_options {
  index_t near = 512;              ///< a needle is found among so many nearest keys, tokens
  index_t nearest = 8;             ///< so many of them compete, but are no needles
  index_t first = 4;               ///< first tokens of a document: neither needles nor far keys
  bool first_compete = false;      ///< the first tokens compete, at the distance of the context
  std::vector<index_t> lengths{};  ///< numbers n of keys that compete, ascending, `near` or more
  std::vector<index_t> tops{1, 8};
  std::vector<index_t> distances{};  ///< edges of the distances of `reach`, ascending, tokens; empty: none
  index_t reach_top = 64;
  index_t queries = 32;  ///< of each kind of needle in a document
  std::uint64_t seed = 0;
};

/// Grip: the share of queries whose needle is among the `top` highest scores of the nearest `length` keys.
struct grip_value {
  needle_kind needle = needle_kind::winner;
  index_t top = 1, length = 0, cases = 0;  ///< cases: queries with such a needle
  estimate value;                          ///< over documents; the error holds the difference to `with_tail`
  double with_tail = 0;                    ///< the value if a tail is fitted where no far key scores higher
  double least = 0, most = 0;              ///< the values if all or none of that tail were above the needles
  double chance = 0;                       ///< the value on exchangeable keys
  std::vector<double> without;             ///< the value without each document; NaN: that changes nothing
};

/// Share of matched needles that stand in [from, to) tokens before the query and are among the `reach_top` highest
/// scores of the longest length.
struct kept_share {
  index_t from = 0, to = 0, cases = 0;
  estimate value;
};

struct head_grip {
  std::vector<grip_value> grip;  ///< (kinds, lengths, tops)
  std::vector<kept_share> kept;  ///< (distances - 1)
  /// Distance at which the kept share falls below a half, in tokens, linear in its logarithm between the middles of the
  /// `distances`; 0 if the nearest share is below, the last edge if none is.
  estimate reach;
  std::vector<double> reach_without;

  const grip_value& at(needle_kind kind, index_t length, index_t top) const {
    for (const auto& g : grip)
      if (g.needle == kind && g.length == length && g.top == top) return g;
    fail("no grip of the top ", top, " among ", length, " keys was asked for");
  }
};

/// Predicts the grip and reach of each query head of a layer at any context, from the rows of short documents before
/// the rotary embedding (empty: a NoPE layer) that the long context has. The query and its nearest keys stay as they
/// are. The other n - near keys are drawn from the document: all its keys are rotated to distances spread over (near,
/// n), and those above the needle are counted. The m keys of a document count with the weights of a Bayesian bootstrap,
/// and the needle's own key with the part above the needle of the gap between its far score and the next one: the
/// number of far keys above is then beta-binomial. If keys are exchangeable, so that nothing rotates, the expectation
/// is exact for any needle: (near - nearest) / n for the winner and the top 1 (docs/mathematics.md, Grip and reach).
/// Where no far key is above, a generalised Pareto tail says what longer contexts may hold; the value's error holds the
/// difference that it makes. `token` (n_k) are the tokens of the keys, in host memory; empty: there are no matched
/// needles. Documents of at most near + first tokens have no case. Costs two products of `queries` rows with all rows
/// of a document per length. Throws `error` if shapes or options do not agree, or if a document lacks a key.
template <scores_needles Context, class T>
std::vector<head_grip> grip(Context& ctx, const layer_view<T, Context::space>& before,
                            const std::optional<captured_rope>& rope, const vector_view<const std::int32_t>& token,
                            const grip_options& options);

/// Counts the same on rows that entered q.k, in documents that are long enough; matched needles stand at their own
/// distances. Each document counts up to the largest length that `queries` of its positions have before them. Rows from
/// before the rotary embedding are rotated by `rope` first.
template <scores_needles Context, class T>
std::vector<head_grip> counted_grip(Context& ctx, const layer_view<T, Context::space>& rows,
                                    const std::optional<captured_rope>& rope,
                                    const vector_view<const std::int32_t>& token, const grip_options& options);

namespace detail {

/// Sums over the cases of a document by slot: (kinds, lengths, tops), then the bins of distance.
struct grip_slot {
  double n = 0;
  std::array<double, 4> kept{};  ///< by `far_gaps::way`
};
using grip_sums = std::vector<grip_slot>;

/// The documents that count and their needles, whose `slot` is a kind or 2 + a bin of distance. A shell lies between
/// two lengths.
struct grip_plan {
  grip_options options;
  index_t seen = 0;  ///< keys before a query that it sees
  needle_plan needles{};
  std::vector<needle_document> documents{};

  std::size_t bins() const { return options.distances.empty() ? 0 : options.distances.size() - 1; }
  std::size_t slot(needle_kind kind, std::size_t length, std::size_t top) const {
    return (static_cast<std::size_t>(kind) * options.lengths.size() + length) * options.tops.size() + top;
  }
  std::size_t first_bin() const { return 2 * options.lengths.size() * options.tops.size(); }
};

/// Throws `error` if a document lacks a key.
QKGEOM_INLINE grip_plan plan_grip(const std::array<vector_view<const std::int32_t>, 2>& position,
                                  const std::array<vector_view<const std::int32_t>, 2>& document,
                                  const vector_view<const std::int32_t>& token, const std::optional<index_t>& window,
                                  const captured_rope& rope, bool counted, const grip_options& options);
/// Returns the sums of a document for a query head: predicted from far keys, or counted where the plan has none.
QKGEOM_INLINE grip_sums sums_of(const grip_plan& plan, const needle_document& document, const needle_scores& found);
/// Returns P(B <= free) of the number B of n far keys above the needle, beta-binomial. `far`: expected number of the
/// m + 1 gaps that lie above the needle; `square`: sum over keys of the square of their gaps' share above. A gap counts
/// with a weight of Dirichlet(1, ..., 1), so that the share of far keys above has mean far / (m + 1) and variance
/// (square / (m + 1) - mean^2) / (m + 2).
QKGEOM_INLINE double share_free(index_t free, double n, double m, double far, double square);
QKGEOM_INLINE head_grip grip_of(const grip_plan& plan, const std::vector<grip_sums>& documents);

template <scores_needles Context, class T>
std::vector<head_grip> grip_of_layer(Context& ctx, const layer_view<T, Context::space>& rows,
                                     const std::optional<captured_rope>& rope, bool counted,
                                     const vector_view<const std::int32_t>& token, const grip_options& options) {
  check_shapes(rows);
  require(token.size == 0 || token.size == rows.k.rows, "grip: ", token.size, " tokens for ", rows.k.rows, " keys");
  const captured_rope applied = rope.value_or(captured_rope{.style = "half", .rotary_dim = 0, .inv_freq = {}});
  require(applied.first + 2 * std::ssize(applied.inv_freq) <= rows.k.dim, "grip: the rotary embedding rotates ",
          2 * applied.inv_freq.size(), " coordinates of heads of ", rows.k.dim);
  const auto q_position = ctx.host_copy(rows.q_position), k_position = ctx.host_copy(rows.k_position),
             q_document = ctx.host_copy(rows.q_document), k_document = ctx.host_copy(rows.k_document);
  const auto plan = plan_grip({q_position.view(), k_position.view()}, {q_document.view(), k_document.view()}, token,
                              rows.window, applied, counted, options);
  std::vector<std::vector<grip_sums>> sums(rows.key_of_query.size(), std::vector<grip_sums>(plan.documents.size()));
  ctx.score_needles(
      rows.q, rows.k, rows.key_of_query, plan.needles, plan.documents,
      [&](index_t e, index_t h, const needle_scores& found) { sums[h][e] = sums_of(plan, plan.documents[e], found); });
  std::vector<head_grip> result;
  for (const auto& head : sums) result.push_back(grip_of(plan, head));
  return result;
}

}  // namespace detail

template <scores_needles Context, class T>
std::vector<head_grip> grip(Context& ctx, const layer_view<T, Context::space>& before,
                            const std::optional<captured_rope>& rope, const vector_view<const std::int32_t>& token,
                            const grip_options& options) {
  return detail::grip_of_layer(ctx, before, rope, false, token, options);
}

template <scores_needles Context, class T>
std::vector<head_grip> counted_grip(Context& ctx, const layer_view<T, Context::space>& rows,
                                    const std::optional<captured_rope>& rope,
                                    const vector_view<const std::int32_t>& token, const grip_options& options) {
  return detail::grip_of_layer(ctx, rows, rope, true, token, options);
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/rotary/detail/grip.hpp"
#endif
