// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/csv_write.hpp"

namespace qkgeom {

QKGEOM_INLINE std::vector<std::string> csv_columns(std::string_view header) {
  std::vector<std::string> names;
  for (std::size_t from = 0, end = 0; end != header.npos; from = end + 1)
    names.emplace_back(header.substr(from, (end = header.find(',', from)) - from));
  return names;
}

QKGEOM_INLINE csv_writer::csv_writer(const std::filesystem::path& path, std::vector<std::string> columns)
    : file_(path), columns_(std::move(columns)) {
  require(!columns_.empty(), "cannot write ", path.string(), ": a table needs at least one column");
  for (const auto& name : columns_) add(name);
  end_row();
}

QKGEOM_INLINE void csv_writer::end_row() {
  require(fields_ == columns_.size(), "cannot write ", file_.path().string(), ": row ", rows_, " has ", fields_,
          " fields for ", columns_.size(), " columns");
  line_ += '\n';
  file_.write(line_);
  line_.clear();
  fields_ = 0;
  ++rows_;
}

QKGEOM_INLINE void csv_writer::commit() {
  require(fields_ == 0, "cannot write ", file_.path().string(), ": its last row is not ended");
  file_.commit();
}

QKGEOM_INLINE std::string csv_writer::quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string in_quotes = "\"";
  for (const char c : text) in_quotes.append(c == '"' ? 2 : 1, c);
  return in_quotes + '"';
}

QKGEOM_INLINE csv_writer& csv_writer::append(std::string_view text) {
  if (fields_++ > 0) line_ += ',';
  line_ += text;
  return *this;
}

}  // namespace qkgeom
