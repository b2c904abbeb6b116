// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "capture/job/options.hpp"
#include "capture/model/description.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

struct document {
  std::string id, text;
  nlohmann::json labels = nullptr;  ///< an object, or null
};

/// Documents that can be read repeatedly. Ill-formed UTF-8 becomes U+FFFD.
class document_list {
 public:
  /// Lists the documents. Throws `error` naming the file if it cannot be read.
  explicit document_list(input_options options);

  /// Calls f(index, document) for each document after the skipped ones, in order from index 0. A line that holds no
  /// JSON object with the text field throws `error` naming file and line; empty lines are skipped. A document without
  /// the id field has its number among all documents as id.
  void for_each(const std::function<void(index_t, const document&)>& f) const;

  /// Counts the documents after the skipped ones.
  index_t size() const { return static_cast<index_t>(places_.size()); }
  /// Reads document `index` as `for_each` does.
  document at(index_t index) const;

 private:
  /// A text file, or a line of the JSON Lines file.
  struct place {
    std::string_view text;
    index_t line;    // from 1; 0: a file
    index_t number;  // among all documents
  };
  document read_line(std::string_view line, index_t number, index_t index) const;

  input_options options_;
  std::vector<mapped_file> files_;
  std::vector<place> places_;
};

/// Identity of a capture's inputs: documents, and a hash of their ids, their tokens, and the size and first bytes of
/// the weights.
struct input_check {
  sha256 hash;
  std::vector<captured_document> documents;
};

/// Reads all documents once, each cut to `max_length` tokens, and the first bytes of `weights`, a model's folder or
/// GGUF file (empty: no file). Throws `error` on a token outside the model's vocabulary, and if there is no document.
input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length, const std::filesystem::path& weights);

}  // namespace qkgeom
