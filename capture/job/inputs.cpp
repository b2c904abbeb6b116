// SPDX-License-Identifier: MIT
#include "capture/job/inputs.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "capture/gguf/gguf_model.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length, const std::filesystem::path& model_path) {
  input_check check;
  documents.for_each([&](index_t index, const document& d) {
    const auto ids = tokens.encode(d.text, max_length);
    for (std::size_t t = 0; t < ids.size(); ++t)
      require(ids[t] < model.vocabulary, "document '", printable(d.id), "': token id ", ids[t], " at position ", t,
              " is outside the model's vocabulary of ", model.vocabulary, "; does the tokenizer belong to the model?");
    check.documents.push_back({index, d.id, static_cast<index_t>(ids.size()), d.labels});
    check.hash.add(d.id).add(std::string_view("\0", 1)).add(std::as_bytes(std::span(ids)));
  });
  require(!check.documents.empty(), "there is no document to capture");
  if (model_path.empty()) return check;
  std::vector<std::filesystem::path> files;
  if (const auto gguf = find_gguf(model_path); !gguf.empty())
    files = parts_of_gguf(gguf);
  else
    for (const auto& entry : std::filesystem::directory_iterator(model_path))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    const mapped_file file(path);
    check.hash.add(path.filename().string() + ' ' + std::to_string(file.bytes().size()));
    check.hash.add(file.bytes().first(std::min<std::size_t>(file.bytes().size(), 1 << 20)));
  }
  return check;
}

}  // namespace qkgeom
