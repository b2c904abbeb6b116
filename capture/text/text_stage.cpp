// SPDX-License-Identifier: MIT
#include "capture/text/text_stage.hpp"

#include <string>

#include "capture/text/text_stage_types.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr std::size_t most_stages = 64;  // each calls the next: their number bounds the stack

void read_stages(const nlohmann::json& object, const char* what, const char* list,
                 std::span<const detail::stage_type> types, text_stages* out) {
  const json_value fields(object, "tokenizer.json", what);
  const std::string type = fields["type"].string();
  if (type == "Sequence") {
    const auto* parts = fields.find(list);
    require(parts && parts->is_array(), fields.where(), ": Sequence has no list ", list);
    for (const auto& part : *parts) read_stages(part, what, list, types, out);
    return;
  }
  for (const auto& t : types)
    if (t.name == type) {
      t.read(fields, out);
      require(out->size() <= most_stages, "tokenizer.json: ", what, " has more than ", most_stages, " steps");
      return;
    }
  std::string supported = "none, Sequence";
  for (const auto& t : types) supported += ", " + std::string(t.name);
  fail("tokenizer.json: ", what, " '", printable(type), "' is not supported; supported: ", supported);
}

}  // namespace

text_stages read_normalizer(const nlohmann::json* object) {
  text_stages stages;
  if (object) read_stages(*object, "normalizer", "normalizers", detail::normalizer_types(), &stages);
  return stages;
}

text_stages read_pre_tokenizer(const nlohmann::json* object) {
  text_stages stages;
  if (object) read_stages(*object, "pre_tokenizer", "pretokenizers", detail::pre_tokenizer_types(), &stages);
  return stages;
}

bool run_stages(const text_stages& stages, std::size_t first, text_piece piece, const piece_sink& sink) {
  if (first == stages.size()) return sink(piece);
  return stages[first]->run(piece, [&](text_piece p) { return run_stages(stages, first + 1, p, sink); });
}

}  // namespace qkgeom
