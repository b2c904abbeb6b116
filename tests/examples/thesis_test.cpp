// SPDX-License-Identifier: MIT
// thesis_claims on the published tables: it judges every claim of the lists, and its numbers equal SciPy's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/file.hpp"
#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;
namespace fs = std::filesystem;

const fs::path tables = fs::path(QKGEOM_EXAMPLE_DATA).parent_path() / "thesis" / "data";

int run(const fs::path& data, const fs::path& out, const fs::path& log, const std::string& options = {}) {
  const auto command = "'" QKGEOM_BIN "/thesis_claims' '" + data.string() + "' --out '" + out.string() + "' " +
                       options + " >'" + log.string() + "' 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string text_of(const fs::path& file) { return read_text(file, 1 << 24); }

/// The rows of a table with the values of `where`, by column.
std::vector<std::size_t> rows_where(const csv_table& table, const std::map<std::string, std::string>& where) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    bool all = true;
    for (const auto& [column, value] : where) all = all && table.column(column)[i] == value;
    if (all) rows.push_back(i);
  }
  return rows;
}

TEST(thesis, published_tables_give_what_scipy_gives_and_every_listed_claim_is_judged) {
  const test::scratch_folder scratch;
  const auto out = scratch / "out";
  ASSERT_EQ(run(tables, out, scratch / "log"), 0) << text_of(scratch / "log");

  const auto expected = nlohmann::json::parse(std::ifstream(std::string(QKGEOM_TEST_DATA) + "/thesis-numbers.json"));
  ASSERT_GT(expected.size(), 25u);
  for (const auto& e : expected) {  // tests/data/make_thesis_numbers.py
    SCOPED_TRACE(e.dump());
    const auto table = read_csv(out / e.at("file").get<std::string>());
    const auto rows = rows_where(table, e.at("where").get<std::map<std::string, std::string>>());
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_NEAR(table.numbers(e.at("column").get<std::string>())[rows[0]], e.at("value").get<double>(), 1e-9);
  }

  const auto claims = read_csv(out / "claims.csv");
  std::string lists;
  for (const auto& list : claims.column("lists")) lists += ' ' + list;
  lists += ' ';
  for (int i = 1; i <= 16; ++i)
    EXPECT_NE(lists.find(" to-check:" + std::to_string(i) + ' '), std::string::npos) << "claim to check " << i;
  for (int i = 1; i <= 21; ++i)
    EXPECT_NE(lists.find(" headline:" + std::to_string(i) + ' '), std::string::npos) << "headline claim " << i;
  const std::map<std::string, std::string> verdicts{{"alpha_drop", "yes"},
                                                    {"alpha_drop_context", "no"},
                                                    {"bias_collapse_context", "no"},
                                                    {"separation_growth", "no"},
                                                    {"far_before", "no"},
                                                    {"drop_predicts_best", "no"},
                                                    {"separates_families", "in part"},
                                                    {"keys_follow_more", "in part"},
                                                    {"ministral_3b_lowest_drop", "no"},
                                                    {"bias_qwen", "in part"},
                                                    {"larger_qwen_flatter", "in part"},
                                                    {"ministral_longer", "no"},
                                                    {"deciles_decline", "in part"},
                                                    {"modes_mixed", "no"},
                                                    {"mistral_window", "no"},
                                                    {"heads_analysed", "yes"},
                                                    {"quintiles_from_deciles", "yes"},
                                                    {"growth_by_slope", "no"},
                                                    {"pc0_share", "undecided"},
                                                    {"qwen_accelerates", "no"}};
  for (const auto& [id, verdict] : verdicts) {
    const auto rows = rows_where(claims, {{"id", id}});
    ASSERT_EQ(rows.size(), 1u) << id;
    EXPECT_EQ(claims.column("agrees")[rows[0]], verdict) << id;
  }
  const auto hypotheses = read_csv(out / "hypotheses.csv");
  for (int i = 1; i <= 8; ++i) {
    std::size_t judged = 0;
    for (const auto row : rows_where(hypotheses, {{"hypothesis", "H" + std::to_string(i)}}))
      judged += !hypotheses.column("verdict")[row].empty();
    EXPECT_EQ(judged, 1u) << "H" << i;
  }
  for (const char* name : {"figure_6_7", "deciles", "training_units", "drop_and_bias_token", "drop_and_bias_context"})
    EXPECT_GT(fs::file_size(out / (std::string(name) + ".svg")), 1000u);
}

TEST(thesis, a_claim_without_function_and_a_changed_table_do_not_pass) {
  const test::scratch_folder scratch;
  const auto data = scratch / "data", out = scratch / "out", log = scratch / "log";
  fs::copy(tables, data);
  const auto replace = [&](const char* file, const std::string& from, const std::string& to) {
    auto text = text_of(data / file);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, from.size(), to);
    fs::remove(data / file);
    std::ofstream(data / file) << text;
  };
  replace("claims.csv", "\npc0_share,", "\npc0_shares,");
  EXPECT_EQ(run(data, out, log, "--no-figures"), 2);
  EXPECT_NE(text_of(log).find("no function recomputes the claim pc0_shares"), std::string::npos);
  replace("claims.csv", "\npc0_shares,", "\npc0_share,");
  replace("table5_smollm3_trajectory.csv", "2.69e-4", "4.08e-3");  // alpha_K as before the extension
  ASSERT_EQ(run(data, out, log, "--no-figures"), 0);
  const auto claims = read_csv(out / "claims.csv");
  const auto rows = rows_where(claims, {{"id", "alpha_drop"}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(claims.column("agrees")[rows[0]], "no");

  // Scores by length of more models decide H3: here steeper profiles come with larger falls of the score.
  std::ofstream more(data / "scores_by_length.csv");
  more << "model,benchmark,length,score\n";
  double drop = 10;
  for (const char* name : {"ministral3-3b", "ministral3-8b", "qwen3-14b", "qwen3-8b", "qwen3-4b", "llama3.2-3b"})
    more << name << ",LongBench-Pro,8K,50\n" << name << ",LongBench-Pro,128K," << 50 - (drop += 3) << '\n';
  more.close();
  ASSERT_EQ(run(data, out, log, "--no-figures"), 0) << text_of(log);
  const auto hypotheses = read_csv(out / "hypotheses.csv");
  const auto tested =
      rows_where(hypotheses, {{"test", "Spearman of decline of plasticity with decline of score, 8K to 128K"}});
  ASSERT_EQ(tested.size(), 1u);
  EXPECT_EQ(hypotheses.column("n")[tested[0]], "7");
  EXPECT_GT(hypotheses.numbers("estimate")[tested[0]], 0.9);
  EXPECT_EQ(hypotheses.column("verdict")[rows_where(hypotheses, {{"hypothesis", "H3"}}).back()], "supported");

  replace("table4_deciles.csv", "0.676", "high");
  EXPECT_EQ(run(data, out, log, "--no-figures"), 2);
  EXPECT_NE(text_of(log).find("table4_deciles.csv: expected a number"), std::string::npos);
}

}  // namespace
