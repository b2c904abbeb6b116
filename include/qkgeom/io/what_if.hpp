// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "qkgeom/io/capture_set.hpp"

namespace qkgeom {

/// Tokens at the start of a document that keep their positions when a context is stretched: attention sinks stay at the
/// start of documents of every length.
inline constexpr index_t kept_first_tokens = 4;

/// A change of the rotary embedding or a longer context for existing rows.
struct rotary_change {
  index_t context_length = 0;           ///< tokens; 0: the captures' context
  std::optional<captured_rope> rope{};  ///< in place of the captures' embedding
  /// Whether a plane rotates that in a document of the context's length has this frequency, rad per token; empty: all
  /// do.
  std::function<bool(double)> rotating{};
  index_t keep_first = kept_first_tokens;
  std::uint64_t seed = 0;  ///< seed of the positions within a stretch
};

/// Returns the context that captures are extrapolated to: `asked`, or if that is 0 the one that a short capture stands
/// for (`qkgeom capture --short`), or else their own.
index_t wanted_context(const capture_manifest& captured, index_t asked);

/// Another rotary embedding, as a command line asks for it.
struct wanted_embedding {
  std::optional<double> theta{};  ///< base of the frequencies; none: as captured
  std::string scaling{};  ///< as in `qkgeom capture --rope-scaling`; empty: as captured, or none under a new base
};

/// Returns the embedding that is wanted in place of the captured one, in documents of `context` tokens; none if nothing
/// is asked for. Throws `error` if the capture does not state its embedding or lacks what the wanted one counts from.
std::optional<captured_rope> wanted_rope(const capture_manifest& captured, const wanted_embedding& wanted,
                                         index_t context);

/// Returns the position of a document's token at `position` after a context of `from` tokens is stretched to `to`:
/// drawn uniformly from the tokens that its share of the context covers, by (seed, document, position) alone. Tokens
/// keep their order. The first `keep_first` stay.
index_t stretched_position(index_t position, index_t from, index_t to, std::uint32_t document,
                           index_t keep_first = kept_first_tokens, std::uint64_t seed = 0);

/// Returns the captures as if they were of a longer context or under another rotary embedding: positions are stretched,
/// and each row is taken back to before the rotary embedding of its document, and then goes through the steps of its
/// layer (`row_steps`) at its new position, in a document of the new length. This is right to first order as far as
/// rows before the rotation do not depend on position (docs/long-from-short.md). Norms after the rotation keep a row's
/// size. Rows of bf16 and f16 become f32, so that no row is rounded twice. Throws `error` if the context shrinks
/// (`capture_set::before` shortens one), if the captures do not state their embedding or the lengths that it depends
/// on, or if their layers have several and one is to be replaced.
capture_set what_if(const capture_set& source, const rotary_change& change);

/// Returns the captures at the context length and under the rotary embedding of `other`, a capture of the same layers:
/// cut or stretched, and rotated. Throws `error` as `what_if` does.
capture_set what_if_as_in(const capture_set& source, const capture_manifest& other,
                          index_t keep_first = kept_first_tokens, std::uint64_t seed = 0);

/// Returns the captures with rows from before the rotary embedding: later rows are taken back. A layer that norms rows
/// after the rotation divides them by their size here, before it, as this commutes with the rotation; only weights by
/// channel are left for after it. Throws `error` if the captures do not state their embedding.
capture_set before_rope(const capture_set& source);

/// The rotary embedding of a layer, if it is the same in all documents and alone makes the rows of `before_rope` those
/// that enter q.k, but for the growth of queries; none in a NoPE layer. `why`, the end of a sentence, says what needs
/// that. Throws `error` if the embedding depends on the documents' lengths, or if norms after it weigh channels.
std::optional<captured_rope> sole_rope_of(const capture_set& source, index_t layer, const std::string& why);

}  // namespace qkgeom
