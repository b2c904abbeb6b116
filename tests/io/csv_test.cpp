// SPDX-License-Identifier: MIT
#include "qkgeom/io/csv.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::get, test::put;
using testing::ElementsAre;
using testing::HasSubstr;

using Csv = test::in_scratch_folder;

TEST_F(Csv, WritesTheConventions) {
  csv_writer csv(folder / "a.csv", {"name", "x", "y"});
  csv.row("plain", 0.1, 3);
  csv.row(std::string("a,b"), std::nan(""), std::optional<int>());
  csv.row("say \"hi\"\n", 1e300, true);
  csv.row("", -0.0, std::optional<double>(1.0 / 3));
  csv.add("last").add(0.1f).add(std::nullopt).end_row();
  EXPECT_FALSE(std::filesystem::exists(folder / "a.csv"));
  csv.commit();
  EXPECT_EQ(get(folder / "a.csv"),
            "name,x,y\nplain,0.1,3\n\"a,b\",,\n\"say \"\"hi\"\"\n\",1e+300,1\n,-0,0.3333333333333333\nlast,0.1,\n");
}

TEST_F(Csv, NamesColumnsAsAHeaderRowDoes) {
  EXPECT_THAT(csv_columns("a,b c,d"), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(csv_columns("a"), ElementsAre("a"));
}

TEST_F(Csv, RoundTripsTextAndNumbers) {
  std::vector<double> x{0, -0.0, 1e-310, std::numeric_limits<double>::max(), std::numeric_limits<double>::infinity()};
  const random_stream stream{.seed = 1, .use = draw::head};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto bits = stream.below(i, 0x7ff0000000000000);
    x.push_back(std::bit_cast<double>(bits));
  }
  const std::vector<std::string> text{"", "a", "\"", ",", "a\r\nb", "\"\"", "é"};
  {
    csv_writer csv(folder / "a.csv", {"i", "x", "text \"quoted\""});
    for (std::size_t i = 0; i < x.size(); ++i) csv.row(i, x[i], text[i % text.size()]);
    csv.commit();
  }
  const auto table = read_csv(folder / "a.csv");
  EXPECT_EQ(table.rows(), x.size());
  EXPECT_EQ(table.numbers("x"), x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(table.column("text \"quoted\"")[i], text[i % text.size()]);
}

TEST_F(Csv, ReadsWhatOthersWrote) {
  put(folder / "a.csv", "a,b\r\n1,\r\n\"2\",x");
  const auto table = read_csv(folder / "a.csv");
  EXPECT_THAT(table.columns(), ElementsAre("a", "b"));
  EXPECT_THAT(table.numbers("a"), ElementsAre(1, 2));
  EXPECT_THAT(table.column("b"), ElementsAre("", "x"));
  EXPECT_TRUE(table.has("a"));
  EXPECT_FALSE(table.has("c"));
  const auto golden = read_csv(QKGEOM_TEST_DATA "/golden/author-short-bf16.head_metrics.csv");
  EXPECT_EQ(golden.numbers("ap_overall").size(), golden.rows());
  EXPECT_GT(golden.rows(), 0u);
}

TEST_F(Csv, RefusesWithLineAndColumn) {
  const auto read = [&](const std::string& text) {
    put(folder / "a.csv", text);
    return read_csv(folder / "a.csv");
  };
  EXPECT_QKGEOM_ERROR("a.csv: line 3 has 1 fields for 2 columns", read("a,b\n1,2\n3\n"));
  EXPECT_QKGEOM_ERROR("a.csv: line 4 has 3 fields", read("a,b\n1,\"x\ny\"\n1,2,3\n"));
  EXPECT_QKGEOM_ERROR("the quote opened in line 2 is never closed", read("a,b\n1,\"2\n"));
  EXPECT_QKGEOM_ERROR("two columns have the same name", read("a,a\n"));
  EXPECT_QKGEOM_ERROR("the file is empty", read(""));
  EXPECT_QKGEOM_ERROR("the file is empty", read("\xEF\xBB\xBF"));
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a,b\n1,2\n")
                .numbers("a"),
            std::vector<double>{1})
      << "a byte order mark";
  EXPECT_QKGEOM_ERROR("there is no column c", read("a\n1\n").column("c"));
  EXPECT_QKGEOM_ERROR("column a?b row 1 must be a number", read("\"a\nb\"\nx\n").numbers("a\nb"));
  EXPECT_QKGEOM_ERROR("column a row 2 must be a number, not \"1x\"", read("a\n1\n1x\n").numbers("a"));
  EXPECT_QKGEOM_ERROR("larger than the 3 bytes", read_csv(folder / "a.csv", 3));
  put(folder / "a.csv", std::string(4'000'000, ','));
  EXPECT_QKGEOM_ERROR("the table has more than 4000000 fields", read_csv(folder / "a.csv"));
  EXPECT_QKGEOM_ERROR("No such file", read_csv(folder / "none.csv"));
}

TEST_F(Csv, RefusesRowsOfAnotherLength) {
  csv_writer csv(folder / "a.csv", {"a", "b"});
  EXPECT_QKGEOM_ERROR("row 1 has 1 fields for 2 columns", csv.row(1));
  EXPECT_QKGEOM_ERROR("its last row is not ended", csv.commit());
  EXPECT_QKGEOM_ERROR("at least one column", csv_writer(folder / "b.csv", {}));
}

/// A mean over documents and one over heads, as their structs have the errors.
struct with_error {
  double value, error;
};
struct with_head_error {
  double value, error, head_error;
};

TEST_F(Csv, ATableIsColumnsWithTheirValues) {
  struct row {
    std::optional<index_t> number;
    double x;
  };
  table_columns<row> columns;
  columns.add("number", "of the row", &row::number)
      .add("text", "of x", [](auto& r) { return number_text(r.x) + ","; })
      .add("above", "whether x is above 1", [](auto& r) { return r.x > 1; })
      .add("x", "x",
           [](auto& r) {
             return with_error{r.x, r.x / 4};
           })
      .add("y", "x over heads", [](auto& r) {
        return with_head_error{-r.x, 0, std::nan("")};
      });
  const auto made = std::move(columns).with_rows([](const auto& f) {
    f(row{7, 0.5});
    f(row{std::nullopt, 2});
  });
  EXPECT_EQ(made.columns[2].meaning, "whether x is above 1");
  write_csv(folder / "a.csv", made);
  EXPECT_EQ(get(folder / "a.csv"),
            "number,text,above,x,x_error,y,y_error,y_head_error\n"
            "7,\"0.5,\",0,0.5,0.125,-0.5,0,\n"
            ",\"2,\",1,2,0.5,-2,0,\n");
}

TEST_F(Csv, AFolderSaysWhatTheColumnsOfItsFilesAre) {
  struct point {
    double x;
    with_error y;
  };
  const point origin{0, {1, 2}};
  const std::vector<const point*> rows{&origin, &origin};
  const auto table_of = [&](const char* x) {
    table_columns<const point*> c;
    c.of(std::identity()).add(x, "abscissa", &point::x).add("y", "ordinate", &point::y);
    return std::move(c).with_rows(rows);
  };
  write_csv(folder.path(), "a.csv", table_of("x"));
  EXPECT_EQ(get(folder / "a.csv"), "x,y,y_error\n0,1,2\n0,1,2\n");
  const std::string y = "y,ordinate\n", error = "y_error,standard error of y over documents\n";
  const auto meanings = [&](const std::string& file, const std::string& x) {
    return file + x + ",abscissa\n" + file + y + file + error;
  };
  const std::string header = "file,column,meaning\n";
  EXPECT_EQ(get(folder / "columns.csv"), header + meanings("a.csv,", "x"));
  // A table written again has its new columns; those of the other files stay, unless the file is gone.
  write_csv(folder.path(), "b.csv", table_of("x"));
  write_csv(folder.path(), "a.csv", table_of("z"));
  EXPECT_EQ(get(folder / "columns.csv"), header + meanings("b.csv,", "x") + meanings("a.csv,", "z"));
  std::filesystem::remove(folder / "b.csv");
  write_csv(folder.path(), "c.csv", table_of("x"));
  EXPECT_EQ(get(folder / "columns.csv"), header + meanings("a.csv,", "z") + meanings("c.csv,", "x"));
  // A file of that name that is of another kind is replaced.
  put(folder / "columns.csv", "a,a\n");
  write_csv(folder.path(), "c.csv", table_of("x"));
  EXPECT_EQ(get(folder / "columns.csv"), header + meanings("c.csv,", "x"));
}

}  // namespace
}  // namespace qkgeom
