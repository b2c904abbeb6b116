// SPDX-License-Identifier: MIT
// What is odd about a capture is said, and what is not odd is not.
#include "qkgeom/report/notes.hpp"

#include "qkgeom/report/analyse.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;
using test::ctx;
using testing::ElementsAre;
using testing::HasSubstr;

/// Writes the sample with documents [first, end) listed as a capture; returns its folder.
std::filesystem::path written(const std::filesystem::path& folder, index_t first, index_t end,
                              capture_manifest manifest, const json& fields = json::object()) {
  manifest.documents.emplace();
  std::vector<index_t> numbers;
  for (index_t e = first; e < end; ++e) {
    manifest.documents->push_back({e, "d" + std::to_string(e), 32, nullptr});
    numbers.push_back(e);
  }
  const test::sample_rows<float> rows(numbers);
  capture_writer writer(folder, manifest);
  writer.add_shard(*manifest.documents, rows.layers());
  writer.finish(fields);
  return folder;
}

capture_set sample_with(const test::scratch_folder& folder, index_t documents, const capture_manifest& manifest) {
  return capture_set::open({written(folder / "capture", 0, documents, manifest)});
}

std::vector<std::string> names_of(const std::vector<report_note>& notes) {
  std::vector<std::string> names;
  for (const auto& n : notes) names.push_back(n.name);
  return names;
}

/// A report of one head with this many rows of each side, and this many queries in each of two query buckets.
model_report report_of(index_t rows, index_t first, index_t second) {
  model_report report{"sample", 32, uniform_buckets{16}.edges(32), {}};
  head_report head;
  head.queries = head.keys = rows;
  head.profiles.emplace_back();
  for (const index_t queries : {first, second}) {
    profile_bucket b;
    b.queries = queries;
    b.pairs = 1;
    head.profiles[0].buckets.push_back(b);
  }
  report.heads.push_back(std::move(head));
  return report;
}

using notes = test::in_scratch_folder;

TEST_F(notes, parts_of_one_capture_are_not_of_the_same_texts) {
  const auto two = [&](const std::string& name, index_t first, json fields) {
    fields["inputs_sha256"] = "0";
    return written(folder / name, first, first + 2, test::sample_manifest(), fields);
  };
  const auto first = two("first", 0, {{"part", {{"number", 1}, {"of", 2}}}});
  const auto second = two("second", 2, {{"part", {{"number", 2}, {"of", 2}}}});
  const auto apart = capture_set::open({two("a", 0, json::object()), two("b", 0, json::object())});
  const auto report = report_of(100, 10, 50);
  EXPECT_THAT(names_of(notes_of(apart, report, {0, 31})), testing::Contains("same_texts"));
  const auto parts = capture_set::open({second, first});
  EXPECT_THAT(names_of(notes_of(parts, report, {0, 31})), testing::Not(testing::Contains("same_texts")));
  EXPECT_EQ(parts.documents(), 4);
}

TEST_F(notes, an_ordinary_capture_has_none) {
  const auto source = sample_with(folder, 5, test::sample_manifest());
  EXPECT_THAT(names_of(notes_of(source, report_of(100, 10, 50), {0, 31})), ElementsAre());
}

TEST_F(notes, few_documents_give_rough_errors_or_none) {
  EXPECT_EQ(note_on_documents(1)->text, "1 document gives no errors: these need 3 or more");
  EXPECT_EQ(note_on_documents(2)->text, "2 documents give no errors: these need 3 or more");
  EXPECT_EQ(note_on_documents(3)->text,
            "errors over 3 documents are rough: a 95 % interval is ± 4.3 standard errors");  // t, 2 degrees of freedom
  EXPECT_THAT(note_on_documents(4)->text, HasSubstr("± 3.2 standard errors"));
  EXPECT_FALSE(note_on_documents(5));
}

TEST_F(notes, rows_from_before_the_rotary_embedding_are_named) {
  auto manifest = test::sample_manifest();
  manifest.rope_stage = "pre";
  const auto found = notes_of(sample_with(folder, 5, manifest), report_of(100, 10, 50), {0, 31});
  ASSERT_THAT(names_of(found), ElementsAre("before_rope"));
  EXPECT_EQ(found[0].brief, "before the rotary embedding");
}

TEST_F(notes, few_rows_and_few_queries_count_where_they_stand_behind_numbers) {
  const auto source = sample_with(folder, 5, test::sample_manifest());
  const auto names = [&](const model_report& report) { return names_of(notes_of(source, report, {0, 31})); };
  EXPECT_THAT(names(report_of(2, 10, 10)), ElementsAre("few_rows"));  // of 3 dimensions
  EXPECT_THAT(names(report_of(3, 9, 10)), ElementsAre("few_queries"));
  EXPECT_THAT(names(report_of(3, 1, 10)), ElementsAre()) << "a bucket of one query has no model and no value";
  auto every_token = report_of(2, 10, 10);
  every_token.moment_tokens = 1000;
  EXPECT_THAT(names(every_token), ElementsAre());
}

TEST_F(notes, positions_that_fill_less_than_half_of_the_context_or_do_not_vary_are_named) {
  const auto source = sample_with(folder, 5, test::sample_manifest());
  const auto names = [&](index_t first, index_t last) {
    return names_of(notes_of(source, report_of(100, 10, 50), {first, last}));
  };
  EXPECT_THAT(names(0, 15), ElementsAre());
  EXPECT_THAT(names(0, 14), ElementsAre("context_unfilled"));
  EXPECT_THAT(names(7, 7), ElementsAre("positions_alike"));
}

TEST_F(notes, an_analysis_finds_the_notes_of_its_capture) {
  auto manifest = test::sample_manifest();
  manifest.context_length = 64;  // rows end at position 16
  manifest.score_softcap = 50;
  manifest.extra = {{"model_context", 32}};
  manifest.extra[notes_field] = {
      {{"note", "second_bos"}, {"text", "two \x1b tokens"}}, {{"note", 7}, {"text", "no"}}, 3};
  const auto report = analyse(ctx, sample_with(folder, 2, manifest));
  EXPECT_THAT(names_of(report.notes),
              ElementsAre("no_errors", "few_queries", "context_unfilled", "beyond_model", "soft_cap", "second_bos"));
  const auto csv = test::written(notes_table({{report.model, report.notes}}));
  EXPECT_EQ(csv.column("note"), names_of(report.notes));
  EXPECT_EQ(csv.column("text").back(), "two ? tokens");
  EXPECT_EQ(csv.column("text")[csv.rows() - 2],
            "the model bends its scores by a soft cap of 50.0 logits; logits here are from before it");
}

TEST_F(notes, a_dynamic_scaling_that_never_acts_is_named) {
  auto manifest = test::sample_manifest();
  const auto source = sample_with(folder, 5, manifest);
  for (const index_t from : {31, 32}) {
    manifest.rope = captured_rope{"half", 4, 1, {1, 0.01}, 0, frequencies_by_length{from, {1, 0.01}, {}, 1e4, 2}};
    const auto same = source.changed({manifest, [](captured_layer l) { return l; }, [](index_t n) { return n; }});
    EXPECT_EQ(notes_of(same, report_of(100, 10, 50), {0, 31}).size(), from == 32 ? 1u : 0u);
  }
}

TEST_F(notes, a_scale_of_the_manifest_gives_the_logits) {
  auto manifest = test::sample_manifest();
  const auto usual = analyse(ctx, sample_with(folder, 3, manifest)).heads[0].rotation;
  manifest.score_scale = 0.25;
  const test::scratch_folder other;
  const auto own = analyse(ctx, sample_with(other, 3, manifest)).heads[0].rotation;
  EXPECT_NE(own.bias.context, 0);
  EXPECT_DOUBLE_EQ(usual.bias.context_logits, usual.bias.context / std::sqrt(3.0));
  EXPECT_DOUBLE_EQ(own.bias.context_logits, own.bias.context / 4);
  EXPECT_DOUBLE_EQ(own.bias.strength_logits, own.bias.strength / 4);
  EXPECT_DOUBLE_EQ(own.score_sd_logits, own.score_sd / 4);
}

}  // namespace
