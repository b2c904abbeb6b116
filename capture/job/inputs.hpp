// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "capture/job/documents.hpp"
#include "capture/model/description.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

/// Identity of a capture's inputs: its documents, and a hash of their ids, their tokens, and the size and first bytes
/// of the weights.
struct input_check {
  sha256 hash;
  std::vector<captured_document> documents;
};

/// Reads all documents once, each cut to `max_length` tokens, and the first bytes of the weights in `folder`
/// (empty: there are none). Throws `error` on a token outside the model's vocabulary, and if there is no document.
input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length, const std::filesystem::path& folder);

}  // namespace qkgeom
