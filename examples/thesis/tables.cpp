// SPDX-License-Identifier: MIT
// The thesis' tables, recomputed from the published numbers.
#include "examples/thesis/outputs.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {

void write_tables(output_folder& out, printer& screen, const published& p, const std::filesystem::path& folder) {
  using cells = std::vector<std::string>;
  const auto list = read_csv(folder / "tables.csv");
  const auto text = [&](const char* column, std::size_t i) { return list.column(column)[i]; };
  for (std::size_t i = 0; i < list.rows();) {
    const auto title = text("title", i), file = text("file", i);
    cells names;
    std::vector<cells> rows;
    std::size_t first = 0, j = 0;  // first row and next column of a part
    for (std::string part; i < list.rows() && (text("title", i).empty() || part.empty()); ++i, ++j) {
      if (const auto& selected = text("rows", i); !selected.empty()) part = selected, first = rows.size(), j = 0;
      const auto column = p.words_by_row(text("cell", i), part);
      rows.resize(first + column.size());
      for (std::size_t r = 0; r < column.size(); ++r) rows[first + r].push_back(column[r]);
      if (j == names.size()) names.push_back(text("column", i));
    }
    csv_writer csv(out.table(file), names);
    table t({names[0]}, {names.begin() + 1, names.end()});
    for (const auto& row : rows) {
      for (const auto& cell : row) csv.add(cell);
      csv.end_row();
      t.row(row);
    }
    csv.commit();
    screen.heading(title);
    screen.print(t);
  }
}

}  // namespace qkgeom::examples::thesis
