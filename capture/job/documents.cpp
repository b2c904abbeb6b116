// SPDX-License-Identifier: MIT
#include "capture/job/documents.hpp"

#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <string_view>

#include "capture/gguf/gguf_model.hpp"
#include "capture/text/unicode.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

std::string_view text_of(const mapped_file& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

/// Returns the code unit of the escape \uXXXX at `i`, or -1 without one.
int escaped_unit(std::string_view json, std::size_t i) {
  if (json.substr(i, 2) != "\\u" || i + 6 > json.size()) return -1;
  int unit = -1;
  const auto [end, failed] = std::from_chars(json.data() + i + 2, json.data() + i + 6, unit, 16);
  return failed == std::errc() && end == json.data() + i + 6 ? unit : -1;
}

/// Replaces escapes of lone surrogates, which Python writes, by U+FFFD.
std::string replace_lone_surrogates(std::string json) {
  const auto is = [](int unit, int from) { return unit >= from && unit < from + 0x400; };
  for (std::size_t i = json.find('\\'); i != std::string::npos; i = json.find('\\', i)) {
    const int unit = escaped_unit(json, i);
    if (is(unit, 0xd800) && is(escaped_unit(json, i + 6), 0xdc00))
      i += 12;
    else if (is(unit, 0xd800) || is(unit, 0xdc00))
      json.replace(i, 6, "\\ufffd"), i += 6;
    else
      i += 2;
  }
  return json;
}

}  // namespace

document_list::document_list(input_options options) : options_(std::move(options)) {
  require(options_.jsonl.empty() != options_.text.empty(),
          "documents come from either a JSON Lines file or text files");
  if (!options_.jsonl.empty()) files_.emplace_back(options_.jsonl);
  for (const auto& path : options_.text) files_.emplace_back(path);
  const auto more = [&](index_t number) { return options_.count < 0 || number < options_.skip + options_.count; };
  const auto texts = static_cast<index_t>(options_.text.size());
  for (index_t number = options_.skip; number < texts && more(number); ++number)
    places_.push_back({text_of(files_[number]), 0, number});
  if (options_.jsonl.empty()) return;
  std::string_view rest = text_of(files_[0]);
  if (rest.substr(0, 3) == "\xef\xbb\xbf") rest.remove_prefix(3);
  index_t number = 0;
  for (index_t line_number = 1; !rest.empty() && more(number); ++line_number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (number >= options_.skip) places_.push_back({line, line_number, number});
    ++number;
  }
}

document document_list::read_line(std::string_view line, index_t number, index_t index) const {
  const std::string where = options_.jsonl.string() + " line " + std::to_string(number);
  const auto parsed = parse_json(replace_lone_surrogates(replace_ill_formed(line)), where);
  const json_value fields(parsed, where);
  document d;
  d.text = fields[options_.text_field.c_str()].string();
  const auto* id = fields.find(options_.id_field.c_str());
  require(!id || id->is_string() || id->is_number_integer(), where, ": ", options_.id_field,
          " must be a string or an integer");
  d.id = !id ? std::to_string(index) : id->is_string() ? id->get<std::string>() : id->dump();
  if (const auto labels = fields.object("labels")) d.labels = labels->raw();
  for (const std::string& name : options_.label_fields)
    if (const auto* value = fields.find(name.c_str())) d.labels[name] = *value;
  require(d.id.size() <= max_name_bytes, where, ": ", options_.id_field, " has ", d.id.size(), " bytes, more than the ",
          max_name_bytes, " allowed");
  for (const auto& [name, value] : d.labels.items()) {
    require(value.is_primitive(), where, ": label ", printable(name), " must be a string, a number or true or false");
    const std::size_t longest =
        std::max(name.size(), value.is_string() ? value.get_ref<const std::string&>().size() : 0);
    require(longest <= max_name_bytes, where, ": label ", printable(name), " has ", longest, " bytes, more than the ",
            max_name_bytes, " allowed");
  }
  return d;
}

document document_list::at(index_t index) const {
  const place& p = places_[index];
  if (p.line > 0) return read_line(p.text, p.line, p.number);
  return {options_.text[p.number].filename().string(), replace_ill_formed(p.text)};
}

void document_list::for_each(const std::function<void(index_t, const document&)>& f) const {
  for (index_t index = 0; index < size(); ++index) f(index, at(index));
}

input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length, const std::filesystem::path& weights) {
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
  if (weights.empty()) return check;
  std::vector<std::filesystem::path> files;
  if (const auto gguf = find_gguf(weights); !gguf.empty())
    files = parts_of_gguf(gguf);
  else
    for (const auto& entry : std::filesystem::directory_iterator(weights))
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
