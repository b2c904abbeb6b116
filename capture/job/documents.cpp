// SPDX-License-Identifier: MIT
#include "capture/job/documents.hpp"

#include <algorithm>
#include <charconv>
#include <span>
#include <string>
#include <string_view>

#include "capture/text/unicode.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

/// Returns the text of a file without its byte order mark. Throws `error` if the mark is of another encoding.
std::string_view text_of(const mapped_file& file) {
  const std::string_view text{reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  const auto other = text.starts_with(std::string_view("\xff\xfe\0\0", 4)) || text.starts_with({"\0\0\xfe\xff", 4})
                         ? "32"
                     : text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ? "16"
                                                                                    : nullptr;
  require(!other, file.path().string(), " is in UTF-", other ? other : "",
          ", and documents are in UTF-8: iconv -f UTF-", other ? other : "", " -t UTF-8 converts it");
  return text.substr(text.starts_with("\xef\xbb\xbf") ? 3 : 0);
}

/// Throws `error` unless a text file holds text in UTF-8, but for some damaged bytes.
void require_text(std::string_view text, const std::string& file) {
  const std::size_t zero = text.find('\0');
  require(zero == text.npos, file, " is not text in UTF-8: byte ", zero, " is NUL, as in UTF-16 and in binary files");
  std::size_t characters = 0, damaged = 0, first = 0;  // beyond ASCII
  for (std::size_t i = 0, skip = 0; i < text.size();) {
    const std::size_t n = well_formed_size(text, i, &skip);
    characters += n > 1;
    if (n == 0 && damaged++ == 0) first = i;
    i += n > 0 ? n : skip;
  }
  require(damaged <= characters, file, " is not text in UTF-8: ", damaged, " of its ", damaged + characters,
          " characters beyond ASCII are not, first at byte ", first,
          "; iconv -f LATIN1 -t UTF-8 converts text in Latin-1");
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
  if (!options_.jsonl.empty()) files_.emplace_back(options_.jsonl, true);
  for (const auto& path : options_.text) files_.emplace_back(path, true);
  const auto more = [&](index_t number) { return options_.count < 0 || number < options_.skip + options_.count; };
  const auto texts = static_cast<index_t>(options_.text.size());
  for (index_t number = options_.skip; number < texts && more(number); ++number)
    places_.push_back({text_of(files_[number]), 0, number});
  if (options_.jsonl.empty()) return;
  std::string_view rest = text_of(files_[0]);
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
  document d;
  const auto parsed = parse_json(replace_lone_surrogates(replace_ill_formed(line, &d.replaced)), where);
  const json_value fields(parsed, where);
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
  require_text(p.text, options_.text[p.number].string());
  document d{options_.text[p.number].filename().string()};
  d.text = replace_ill_formed(p.text, &d.replaced);
  return d;
}

void document_list::for_each(const std::function<void(index_t, const document&)>& f) const {
  for (index_t index = 0; index < size(); ++index) f(index, at(index));
}

input_check check_inputs(const document_list& documents, const tokenizer& tokens, const decoder_description& model,
                         index_t max_length) {
  input_check check;
  documents.for_each([&](index_t index, const document& d) {
    const auto ids = tokens.encode(d.text, max_length);
    for (std::size_t t = 0; t < ids.size(); ++t)
      require(ids[t] < model.vocabulary, "document '", printable(d.id), "': token id ", ids[t], " at position ", t,
              " is outside the model's vocabulary of ", model.vocabulary, "; does the tokenizer belong to the model?");
    check.documents.push_back({index, d.id, static_cast<index_t>(ids.size()), d.labels});
    check.replaced += d.replaced;
    const std::size_t before = tokens.prefix().size();
    check.begun_twice += before > 0 && ids.size() > before && ids[before] == tokens.prefix().back();
    check.hash.add(d.id).add(std::string_view("\0", 1)).add(std::as_bytes(std::span(ids)));
  });
  require(!check.documents.empty(), "there is no document to capture");
  return check;
}

}  // namespace qkgeom
