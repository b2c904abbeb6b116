// SPDX-License-Identifier: MIT
#pragma once

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
  std::string id, text{};
  nlohmann::json labels = nullptr;  ///< an object, or null
  std::size_t replaced = 0;         ///< ill-formed parts of the text, read as U+FFFD
};

/// Documents in UTF-8 that can be read repeatedly. Byte order marks are left out; ill-formed UTF-8 becomes U+FFFD.
class document_list {
 public:
  /// Lists the documents. Throws `error` naming the file if it cannot be read, or begins with the mark of UTF-16 or
  /// UTF-32.
  explicit document_list(input_options options);

  /// Calls f(index, document) for each document after the skipped ones, in order from index 0. A line that holds no
  /// JSON object with the text field throws `error` naming file and line; empty lines are skipped. A document without
  /// the id field has its number among all documents as id. Throws `error` on a text file with a byte NUL, or where
  /// most characters beyond ASCII are not UTF-8.
  void for_each(const std::function<void(index_t, const document&)>& f) const;

  index_t size() const { return static_cast<index_t>(places_.size()); }
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

/// Identity of a capture's inputs: documents, and a hash of their ids and their tokens.
struct input_check {
  sha256 hash;
  std::vector<captured_document> documents;
  std::size_t replaced = 0;  ///< ill-formed parts of all documents, read as U+FFFD
  index_t begun_twice = 0;   ///< documents whose text begins with the token that the tokenizer puts before it
};

/// Reads all documents once, each cut to `max_length` tokens. Throws `error` on a token outside the model's vocabulary,
/// and if there is no document.
input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length);

}  // namespace qkgeom
