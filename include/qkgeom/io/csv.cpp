// SPDX-License-Identifier: MIT
#include "qkgeom/io/csv.hpp"

#include <limits>
#include <set>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

const std::vector<std::string>& csv_table::column(std::string_view name) const {
  const auto it = std::find(columns_.begin(), columns_.end(), name);
  require(it != columns_.end(), where_, ": there is no column ", printable(name));
  return fields_[it - columns_.begin()];
}

std::vector<double> csv_table::numbers(std::string_view name) const {
  std::vector<double> values;
  for (const auto& field : column(name)) {
    double x = std::numeric_limits<double>::quiet_NaN();
    const auto* const end = field.data() + field.size();
    const auto result = std::from_chars(field.data(), end, x);
    require(field.empty() || (result.ec == std::errc() && result.ptr == end), where_, ": column ", printable(name),
            " row ", values.size() + 1, " must be a number, not \"", printable(field), '"');
    values.push_back(x);
  }
  return values;
}

namespace {

/// Splits CSV text into rows, RFC 4180: quoted fields may hold commas, quotes (doubled) and line ends.
class csv_splitter {
 public:
  csv_splitter(std::string_view text, const std::string& where)
      : text_(text),
        where_(where),
        fields_(most_fields, where + ": the table has more than " + std::to_string(most_fields) + " fields") {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") text_.remove_prefix(3);  // the byte order mark of spreadsheets
  }

  bool more() const { return at_ < text_.size(); }
  std::size_t line() const { return line_; }

  std::vector<std::string> next_row() {
    std::vector<std::string> fields(1);
    fields_.spend(1);
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && fields.back().empty()) {
        quoted(fields.back());
      } else if (c == ',') {
        fields_.spend(1);
        fields.emplace_back();
      } else if (c == '\n' || (c == '\r' && at_ < text_.size() && text_[at_] == '\n')) {
        at_ += c == '\r';
        ++line_;
        break;
      } else {
        fields.back() += c;
      }
    }
    return fields;
  }

 private:
  static constexpr std::size_t most_fields = 4'000'000;  // a field takes 32 bytes of memory besides its text

  void quoted(std::string& field) {
    const std::size_t start = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && (at_ == text_.size() || text_[at_] != '"')) return;
      at_ += c == '"';
      line_ += c == '\n';
      field += c;
    }
    fail(where_, ": the quote opened in line ", start, " is never closed");
  }

  std::string_view text_;
  const std::string& where_;
  budget fields_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace

csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes) {
  const std::string where = path.string(), text = read_text(path, max_bytes);
  csv_splitter rows(text, where);
  require(rows.more(), where, ": the file is empty, a CSV file starts with its column names");
  const auto columns = rows.next_row();
  require(std::set<std::string>(columns.begin(), columns.end()).size() == columns.size(), where,
          ": two columns have the same name");
  csv_table table(where, columns);
  while (rows.more()) {
    const std::size_t line = rows.line();
    auto fields = rows.next_row();
    require(fields.size() == columns.size(), where, ": line ", line, " has ", fields.size(), " fields for ",
            columns.size(), " columns");
    for (std::size_t i = 0; i < fields.size(); ++i) table.fields_[i].push_back(std::move(fields[i]));
  }
  return table;
}

std::vector<std::string> csv_columns(std::string_view header) {
  std::vector<std::string> names;
  for (std::size_t from = 0, end = 0; end != header.npos; from = end + 1)
    names.emplace_back(header.substr(from, (end = header.find(',', from)) - from));
  return names;
}

csv_writer::csv_writer(const std::filesystem::path& path, std::vector<std::string> columns)
    : file_(path), columns_(std::move(columns)) {
  require(!columns_.empty(), "cannot write ", path.string(), ": a table needs at least one column");
  for (const auto& name : columns_) add(name);
  end_row();
}

void csv_writer::end_row() {
  require(fields_ == columns_.size(), "cannot write ", file_.path().string(), ": row ", rows_, " has ", fields_,
          " fields for ", columns_.size(), " columns");
  line_ += '\n';
  file_.write(line_);
  line_.clear();
  fields_ = 0;
  ++rows_;
}

void csv_writer::commit() {
  require(fields_ == 0, "cannot write ", file_.path().string(), ": its last row is not ended");
  file_.commit();
}

std::string csv_writer::quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string in_quotes = "\"";
  for (const char c : text) in_quotes.append(c == '"' ? 2 : 1, c);
  return in_quotes + '"';
}

csv_writer& csv_writer::append(std::string_view text) {
  if (fields_++ > 0) line_ += ',';
  line_ += text;
  return *this;
}

void write_csv(const std::filesystem::path& path, const table& t) {
  std::vector<std::string> names;
  for (const auto& c : t.columns) names.push_back(c.name);
  csv_writer csv(path, std::move(names));
  const auto add = [&]<class T>(const T& x) {
    if constexpr (std::is_same_v<T, std::monostate>)
      csv.add(std::nullopt);
    else
      csv.add(x);
  };
  t.rows([&](const std::vector<table_field>& fields) {
    for (const auto& field : fields) std::visit(add, field);
    csv.end_row();
  });
  csv.commit();
}

namespace {

/// Rows of columns.csv.
struct described_column {
  std::string file, column, meaning;
};

/// The rows of a columns.csv whose files are there. Empty for a file that is missing, or of another kind.
std::vector<described_column> read_columns(const std::filesystem::path& path) {
  std::vector<described_column> found;
  if (!std::filesystem::exists(path)) return found;
  try {
    const auto known = read_csv(path);
    for (std::size_t i = 0; i < known.rows(); ++i) {
      described_column c{known.column("file")[i], known.column("column")[i], known.column("meaning")[i]};
      if (std::filesystem::exists(path.parent_path() / c.file)) found.push_back(std::move(c));
    }
  } catch (const error&) {
    found.clear();
  }
  return found;
}

}  // namespace

void write_csv(const std::filesystem::path& folder, const std::string& name, const table& t) {
  write_csv(folder / name, t);
  auto all = read_columns(folder / "columns.csv");
  std::erase_if(all, [&](const described_column& c) { return c.file == name; });
  for (const auto& c : t.columns) all.push_back({name, c.name, c.meaning});
  table_columns<described_column> c;
  c.add("file", "", &described_column::file).add("column", "", &described_column::column);
  c.add("meaning", "", &described_column::meaning);
  write_csv(folder / "columns.csv", std::move(c).with_rows([&](const auto& f) {
    for (const auto& row : all) f(row);
  }));
}

}  // namespace qkgeom
