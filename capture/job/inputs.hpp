// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "capture/job/documents.hpp"
#include "capture/job/sha256.hpp"
#include "capture/model/description.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// What identifies the inputs of a capture besides its settings: documents, ids, and the weights by size and beginning.
struct input_check {
  sha256 hash;
  std::vector<captured_document> documents;
};

/// Reads all documents once, each cut to `max_length` tokens, and the beginning of the weights in `folder`. Throws
/// `error` on a token that the model does not have, and if there is no document.
input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length, const std::filesystem::path& folder);

}  // namespace qkgeom
