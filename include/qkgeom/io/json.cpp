// SPDX-License-Identifier: MIT
#include "qkgeom/io/json.hpp"

#include <cmath>

#include "qkgeom/core/budget.hpp"

namespace qkgeom {

namespace {

/// Builds a document event by event; refuses what `parse_json` refuses.
class json_builder : public nlohmann::json_sax<json> {
 public:
  json_builder(const std::string& where, int max_depth)
      : where_(where),
        max_depth_(max_depth),
        values_(max_json_values, where + ": the JSON has more than " + std::to_string(max_json_values) + " values") {}

  json document;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }  // JSON text has no binary values
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    const auto [field, fresh] = open_.back()->get_ref<json::object_t&>().try_emplace(std::move(name));
    require(fresh, where_, ": the JSON names the field \"", printable(field->first), "\" twice");
    field_ = &field->second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(where_, ": not valid JSON at byte ", position);
  }

 private:
  /// Puts a value into the document: as its root, at the end of the open list, or into the last named field.
  json* place(json&& value) {
    values_.spend(1);
    if (open_.empty()) return &(document = std::move(value));
    if (!open_.back()->is_array()) return &(*field_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  bool add(json&& value) { return place(std::move(value)) != nullptr; }
  bool open(json&& value) {
    require(static_cast<int>(open_.size()) < max_depth_, where_, ": the JSON is nested deeper than ", max_depth_,
            " levels");
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  int max_depth_;
  budget values_;
  std::vector<json*> open_{};  // open objects and lists, outermost first
  json* field_ = nullptr;
};

/// Quotes the words NaN, Infinity and -Infinity, which Python writes for numbers: a field that holds one may be there,
/// but is no number where it is read.
std::string with_quoted_words(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  bool inside = false;  // a string
  for (std::size_t i = 0; i < text.size();) {
    std::size_t n = 1;
    if (inside) {
      n = text[i] == '\\' && i + 1 < text.size() ? 2 : 1;
    } else {
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
        if (text.substr(i, word.size()) == word) n = word.size();
    }
    if (text[i] == '"') inside = !inside;
    const std::string quote(!inside && n > 1 ? 1 : 0, '"');
    out.append(quote).append(text, i, n).append(quote);
    i += n;
  }
  return out;
}

}  // namespace

json parse_json(std::string_view text, const std::string& where, int max_depth) {
  const std::size_t nul = text.find('\0');  // the parser would take NUL for the end
  require(nul == std::string_view::npos, where, ": not valid JSON at byte ", nul + 1, ", which is NUL");
  require_no_pointer(text, where);
  json_builder builder(where, max_depth);
  const bool words = text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
  const std::string quoted = words ? with_quoted_words(text) : std::string();
  json::sax_parse(words ? std::string_view(quoted) : text, &builder);
  return std::move(builder.document);
}

json_value json_value::operator[](const char* field) const {
  expect(node_->is_object(), "an object");
  const auto it = node_->find(field);
  require(it != node_->end(), document_, ": the field ", inner(field), " is missing");
  return {*it, document_, inner(field)};
}

const json* json_value::find(const char* field) const {
  expect(node_->is_object(), "an object");
  const auto it = node_->find(field);
  return it == node_->end() || it->is_null() ? nullptr : &*it;
}

std::vector<json_value> json_value::entries() const {
  expect(node_->is_array(), "a list");
  std::vector<json_value> list;
  list.reserve(node_->size());
  for (std::size_t i = 0; i < node_->size(); ++i)
    list.push_back({(*node_)[i], document_, path_ + '[' + std::to_string(i) + ']'});
  return list;
}

index_t json_value::integer(index_t lowest, index_t highest) const {
  const bool fits = node_->is_number_integer() &&
                    !(node_->is_number_unsigned() && node_->get<std::uint64_t>() > std::uint64_t{INT64_MAX}) &&
                    node_->get<index_t>() >= lowest && node_->get<index_t>() <= highest;
  if (fits) return node_->get<index_t>();
  if (highest == std::numeric_limits<index_t>::max())
    wrong("an integer" + (lowest == std::numeric_limits<index_t>::min() ? "" : " >= " + std::to_string(lowest)));
  wrong("an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

std::uint64_t json_value::unsigned_integer() const {
  expect(node_->is_number_unsigned(), "an integer >= 0");
  return node_->get<std::uint64_t>();
}

double json_value::number() const {
  expect(node_->is_number() && std::isfinite(node_->get<double>()), "a number");
  return node_->get<double>();
}

double json_value::positive() const {
  expect(number() > 0, "a positive number");
  return number();
}

bool json_value::boolean() const {
  expect(node_->is_boolean(), "true or false");
  return node_->get<bool>();
}

const std::string& json_value::string() const {
  expect(node_->is_string(), "a string");
  return node_->get_ref<const std::string&>();
}

const std::string& json_value::name() const {
  if (string().size() > max_name_bytes) wrong("a string of at most " + std::to_string(max_name_bytes) + " bytes");
  return string();
}

json_value json_value::object() const {
  expect(is_object(), "an object");
  return *this;
}

std::vector<index_t> json_value::integers(index_t lowest, index_t highest) const {
  std::vector<index_t> list;
  for (const auto& entry : entries()) list.push_back(entry.integer(lowest, highest));
  return list;
}

std::vector<double> json_value::numbers() const {
  std::vector<double> list;
  for (const auto& entry : entries()) list.push_back(entry.number());
  return list;
}

std::optional<index_t> json_value::integer(const char* field, index_t lowest, index_t highest) const {
  return find(field) ? std::optional((*this)[field].integer(lowest, highest)) : std::nullopt;
}

std::optional<double> json_value::number(const char* field) const {
  return find(field) ? std::optional((*this)[field].number()) : std::nullopt;
}

std::optional<double> json_value::positive(const char* field) const {
  return find(field) ? std::optional((*this)[field].positive()) : std::nullopt;
}

std::optional<bool> json_value::boolean(const char* field) const {
  return find(field) ? std::optional((*this)[field].boolean()) : std::nullopt;
}

std::optional<std::string> json_value::string(const char* field) const {
  return find(field) ? std::optional((*this)[field].string()) : std::nullopt;
}

std::optional<json_value> json_value::object(const char* field) const {
  return find(field) ? std::optional((*this)[field].object()) : std::nullopt;
}

void json_value::wrong(const std::string& expected) const {
  fail(document_, ": ", path_.empty() ? "the document" : path_, " must be ", expected, ", not ", shown());
}

void json_value::expect(bool condition, const char* expected) const {
  if (!condition) wrong(expected);
}

std::string json_value::inner(const char* field) const { return path_.empty() ? field : path_ + '.' + field; }

std::string json_value::shown() const {
  if (node_->is_array()) return "a list";
  if (node_->is_object()) return "an object";
  std::string text = node_->dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

json read_json(const std::filesystem::path& path, std::size_t max_bytes) {
  return parse_json(read_text(path, max_bytes), path.string());
}

}  // namespace qkgeom
