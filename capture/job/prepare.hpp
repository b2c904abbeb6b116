// SPDX-License-Identifier: MIT
#pragma once

#include <iosfwd>
#include <optional>

#include "capture/job/job.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// What a capture is to be before weights and documents are read.
struct prepared_capture {
  decoder_description model;
  capture_manifest manifest;          ///< without documents and shards
  std::optional<std::int32_t> bos{};  ///< config.json's bos_token_id
};

/// Reads config.json in the model's folder, changes it as the options say, and plans the capture. Heads that hold no
/// data are counted in `notes`. Throws `error`.
prepared_capture prepare_capture(const capture_options& options, std::ostream& notes);

/// The grid of `moments`, `softmax`, `loss` or `analyse` in a manifest that was prepared for it.
bucket_edges grid_of(const capture_manifest& m, const char* statistic);

/// The tokenizer that the options name or that lies with the model, with the BOS rule of the options.
tokenizer load_tokenizer(const capture_options& options, const prepared_capture& prepared);

}  // namespace qkgeom
