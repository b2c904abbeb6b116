// SPDX-License-Identifier: MIT
// A live analysis gives the tables that `analyse` gives for stored rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "capture/analysis/live_analysis_on.hpp"
#include "capture/on_cpu.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/analyse.hpp"
#include "tests/capture/capture_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream in(test::get(file));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A document's rows of a table of documents, without its own columns: the rows that `heads` writes.
std::vector<std::string> lines_of_document(const fs::path& file, const std::string& document) {
  std::vector<std::string> own;
  for (const auto& line : lines_of(file))
    if (line.rfind(document + ',', 0) == 0) own.push_back(line.substr(document.size() + 1));
  return own;
}

class live_analysis_of : public test::capture_test {
 protected:
  live_analysis_of() {
    options.plan.max_length = 320;
    options.plan.sampler = {sampler_kind::all, 64, 1};
    options.plan.head_list = {{0, 1}, {0, 2}, {0, 7}, {5, 4}};
    // Of full length, shorter, of one token, without any, of full length.
    const auto book = [](const std::string& id, std::size_t from, std::size_t length) {
      const std::string books = test::get(test::bundled / "heldout.jsonl");
      const std::string all = json::parse(books.substr(0, books.find('\n')))["text"].get<std::string>();
      return json({{"id", id}, {"text", all.substr(from, length)}}).dump() + '\n';
    };
    options.documents.jsonl =
        write("d.jsonl", book("first", 0, 3000) + book("short, quoted", 5000, 500) + book("letter", 0, 1) +
                             book("nothing", 0, 0) + book("last", 9000, 3000));
    choice.heatmap = true;
  }

  capture_backend backend() {
    auto fails = cpu_backend(cpu);
    fails.moments = [this, moments = fails.moments](const auto&... rows) {
      if (calls_left-- == 0) fail("the power fails");
      return moments(rows...);
    };
    return fails;
  }
  /// A capture with the rows of every token.
  capture_set rows(const std::string& out) {
    options.out = folder / out;
    options.analyse.reset();
    run(backend());
    return capture_set::open({options.out});
  }
  fs::path analysed(const std::string& out) {
    options.out = folder / out;
    options.analyse = choice;
    run(backend());
    return options.out;
  }
  analysis_options same_analysis() const { return analysis_options_of(choice); }

  /// Expects a document's rows of the live tables to be those of the analysis of its stored rows, in every digit.
  void expect_tables_of_rows(const capture_set& rows, const fs::path& found) {
    const std::vector<std::pair<index_t, std::string>> documents{
        {0, "first"}, {1, "\"short, quoted\""}, {2, "letter"}, {4, "last"}};
    for (const auto& document : documents) {
      const index_t number = document.first;
      const std::string& id = document.second;
      const auto report = analyse(cpu, rows.only({number}), same_analysis());
      const fs::path expected = folder / "expected.csv";
      const auto compare = [&](const char* name, const auto& write_table, std::size_t at_least) {
        write_table(expected, report);
        auto lines = lines_of(expected);
        lines.erase(lines.begin());
        const auto own = lines_of_document(found / name, std::to_string(number) + ',' + id);
        EXPECT_GE(own.size(), at_least);
        EXPECT_EQ(own, lines) << name << ' ' << id;
      };
      compare("document_heads.csv", write_heads_csv, 4);
      compare("document_qk.csv", write_qk_csv, 4 * 32);
      compare("document_profile.csv", write_profile_csv, 4 * 2 * 16);
      compare("document_bins.csv", write_bins_csv, 4 * 20);
      compare("document_heatmap.csv", write_heatmap_csv, number == 2 ? 0 : 4 * 3);
    }
    EXPECT_EQ(lines_of(found / "document_heads.csv").size(), 1 + 4 * documents.size());
  }

  live_analysis_options choice;
  cpu_context cpu{{.threads = 2}};
  long calls_left = -1;
};

TEST_F(live_analysis_of, every_token_is_what_stored_rows_give) {
  for (const compute_type type : {compute_type::f32, compute_type::bf16}) {
    options.plan.compute = type;
    const std::string name(name_of(type));
    const auto stored = rows("rows " + name);
    const auto found = analysed("found " + name);
    EXPECT_THAT(notes.str(), HasSubstr("document 'nothing' is empty"));
    expect_tables_of_rows(stored, found);
    EXPECT_EQ(capture::open(found).manifest().shards[0].rows, 0);
  }
}

TEST_F(live_analysis_of, tokens_that_are_skipped_and_other_buckets_and_models) {
  options.plan.sampler.skip_first = 5;
  options.statistics_bucket_size = 50;
  choice.covariances = {"linear_drift", "full"};
  const auto stored = rows("rows");
  const auto found = analysed("found");
  // The document of one token is left out altogether.
  EXPECT_TRUE(lines_of_document(found / "document_heads.csv", "2,letter").empty());
  auto analysis = same_analysis();
  analysis.bucket_size = 50;
  write_profile_csv(folder / "expected.csv", analyse(cpu, stored.only({1}), analysis));
  auto lines = lines_of(folder / "expected.csv");
  lines.erase(lines.begin());
  EXPECT_EQ(lines_of_document(found / "document_profile.csv", "1,\"short, quoted\""), lines);
  EXPECT_EQ(lines.size(), 4u * 2 * 7);
}

// A sampled capture keeps its rows, the same as without an analysis.
TEST_F(live_analysis_of, sampled_captures_keep_their_rows) {
  const auto every = analysed("every");
  options.plan.sampler = {sampler_kind::uniform, 20, 5};
  const auto stored = rows("rows");
  const auto found = capture_set::open({analysed("found")});
  for (const index_t layer : stored.layers()) {
    const auto a = stored.read_layer(layer), b = found.read_layer(layer);
    EXPECT_GT(a.q.rows, 100);
    ASSERT_EQ(a.q.bytes(), b.q.bytes());
    EXPECT_TRUE(std::equal(a.q.data, a.q.data + a.q.bytes(), b.q.data));
  }
  for (const char* name : {"document_heads.csv", "document_profile.csv"})
    EXPECT_EQ(lines_of(folder / "found" / name), lines_of(every / name)) << name;
}

/// Compares the numbers of two tables; other fields must be equal.
void expect_near_tables(const fs::path& found, const fs::path& expected, double relative) {
  const auto a = lines_of(found), b = lines_of(expected);
  ASSERT_EQ(a.size(), b.size()) << found;
  ASSERT_GT(a.size(), 1u);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::istringstream x(a[i]), y(b[i]);
    std::string s, t;
    for (std::size_t field = 0; std::getline(x, s, ','); ++field) {
      ASSERT_TRUE(std::getline(y, t, ','));
      if (s == t) continue;
      const double u = std::stod(s), v = std::stod(t);
      EXPECT_LE(std::abs(u - v), relative * std::max({1e-3, std::abs(u), std::abs(v)}))
          << found << " line " << i << " field " << field << ": " << s << " and " << t;
    }
  }
}

TEST_F(live_analysis_of, query_models_of_other_captures_make_documents_add_up) {
  options.moments = true;
  const auto stored = rows("rows");
  options.moments = false;
  options.plan.head_list = {{0, 1}, {0, 7}, {5, 4}};
  choice.models_of = {folder / "rows"};
  const auto found = analysed("found");
  // What `heads` gives for all rows and moments, of these heads.
  auto expected = analyse(cpu, stored, same_analysis());
  EXPECT_GT(expected.moment_tokens, 600);
  std::erase_if(expected.heads, [](const head_report& h) { return h.layer == 0 && h.q_head == 2; });
  const fs::path other = folder / "expected";
  fs::create_directory(other);
  const auto compare = [&](const std::string& name, const auto& write_table) {
    write_table(other / name, expected);
    expect_near_tables(found / name, other / name, 1e-12);
  };
  compare("heads.csv", write_heads_csv);
  compare("qk.csv", write_qk_csv);
  compare("rotated.csv", write_rotated_csv);
  compare("profile.csv", write_profile_csv);
  compare("heatmap.csv", write_heatmap_csv);
  compare("bins.csv", write_bins_csv);
  compare("model_report.csv", write_model_report_csv);
}

TEST_F(live_analysis_of, means_are_over_documents) {
  const auto found = analysed("found");
  const auto heads = read_csv(found / "document_heads.csv"), means = read_csv(found / "document_means.csv");
  const auto layer = heads.numbers("layer"), value = heads.numbers("ap_drop");
  std::map<double, std::vector<double>> drops;  // by layer, the documents that have a last fifth
  for (std::size_t r = 0; r < heads.rows(); ++r)
    if (!std::isnan(value[r])) drops[layer[r]].push_back(value[r]);
  ASSERT_EQ(drops[5].size(), 2u);
  const auto mean = means.numbers("mean"), error = means.numbers("mean_error"), documents = means.numbers("documents");
  const auto mean_layer = means.numbers("layer");
  std::map<std::string, int> seen;
  for (std::size_t r = 0; r < means.rows(); ++r) {
    if (means.column("column")[r] != "ap_drop") continue;
    const std::string scope = means.column("scope")[r] + means.column("group")[r];
    ++seen[scope];
    EXPECT_EQ(documents[r], 2) << scope;
    std::vector<double> of{drops[5][0], drops[5][1]};  // the one head of layer 5
    if (scope == "modelall")
      for (std::size_t e = 0; e < 2; ++e) {
        for (std::size_t h = 0; h < 3; ++h) of[e] += drops[0][3 * e + h];
        of[e] /= 4;
      }
    else if (mean_layer[r] != 5)
      continue;
    EXPECT_NEAR(mean[r], (of[0] + of[1]) / 2, 1e-15);
    EXPECT_TRUE(std::isnan(error[r])) << "two documents give no error";
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"modelall", 1}, {"head", 4}}));

  // All four documents have a component 0.
  const auto share = heads.numbers("ev_pc0");
  std::vector<double> shares;
  for (std::size_t r = 0; r < heads.rows(); ++r)
    if (layer[r] == 5) shares.push_back(share[r]);
  ASSERT_EQ(shares.size(), 4u);
  double centre = 0, square = 0;
  for (const double x : shares) centre += x / 4;
  for (const double x : shares) square += (x - centre) * (x - centre);
  for (std::size_t r = 0; r < means.rows(); ++r)
    if (means.column("column")[r] == "ev_pc0" && means.column("scope")[r] == "head" && mean_layer[r] == 5) {
      EXPECT_NEAR(mean[r], centre, 1e-15);
      EXPECT_NEAR(error[r], std::sqrt(square / 12), 1e-15);
      ++seen["share"];
    }
  EXPECT_EQ(seen["share"], 1);

  const auto profile = read_csv(found / "document_profile_means.csv");
  EXPECT_EQ(profile.rows(), 4u * 2 * 16);
  // Bucket 0 has no earlier key; the short document ends in bucket 7; a document of one token has no pair.
  EXPECT_EQ(profile.numbers("documents")[0], 0);
  EXPECT_TRUE(std::isnan(profile.numbers("plasticity")[0]));
  EXPECT_EQ(profile.numbers("documents")[1], 3);
  EXPECT_GT(profile.numbers("plasticity_error")[1], 0);
  EXPECT_EQ(profile.numbers("documents")[15], 2);
  EXPECT_TRUE(std::isnan(profile.numbers("plasticity_error")[15]));
}

TEST_F(live_analysis_of, are_the_same_bytes_however_documents_are_batched_and_with_any_threads) {
  const auto expected = test::contents_of(analysed("one"));
  EXPECT_EQ(expected.size(), 2u + 7u);
  options.batch_tokens = 1;
  options.threads = 1;
  cpu = cpu_context{{.threads = 1}};
  EXPECT_EQ(test::contents_of(analysed("other")), expected);
}

TEST_F(live_analysis_of, an_interrupted_capture_ends_with_the_same_bytes) {
  // Ten blocks of moments, a shard each; the run fails in a call for moments.
  std::vector<int> books(56);
  std::iota(books.begin(), books.end(), 0);
  options.documents.jsonl = folder / "books.jsonl";
  test::write_books(options.documents.jsonl, books);
  options.plan.head_list = {{0, 1}};
  options.moments = true;
  const auto expected = test::contents_of(analysed("whole"));
  EXPECT_EQ(expected.size(), 10u + 10u + 1u + 7u);
  for (const long calls : {32L * 3, 32L * 52 + 1}) {
    calls_left = calls;
    EXPECT_THROW(analysed("cut"), error);
    EXPECT_EQ(fs::exists(folder / "cut" / "shard-00000.safetensors"), calls > 32 * 6);
    EXPECT_FALSE(fs::exists(folder / "cut" / "document_heads.csv"));
    calls_left = -1;
    options.resume = true;
    EXPECT_EQ(test::contents_of(analysed("cut")), expected);
    // Complete, but for its tables.
    fs::remove(folder / "cut" / "document_means.csv");
    EXPECT_EQ(test::contents_of(analysed("cut")), expected);
    choice.heatmap = !choice.heatmap;
    EXPECT_THAT(test::message_of([&] { analysed("cut"); }), HasSubstr("with other settings"));
    choice.heatmap = !choice.heatmap;
    options.resume = false;
    fs::remove_all(folder / "cut");
  }
}

// Queries in chunks, as a forward pass in chunks hands them out, and a window.
TEST_F(live_analysis_of, chunks_of_queries_are_the_document) {
  const auto stored = rows("rows");
  const auto& m = stored.manifest();
  const auto buckets = uniform_buckets{20}.edges(m.context_length);
  auto options_of_both = same_analysis();
  options_of_both.precision = pair_precision::f64;  // pairs in f32 err by more than the order of a sum does
  for (const index_t number : stored.layers()) {
    const auto layer = stored.only({4}).read_layer(number);
    auto whole = layer.view<float>();
    whole.window = 150;
    const layer_names names{number, layer.rope, layer.query_heads, layer.key_heads};
    const auto expected = analyse_layer(cpu, whole, names, buckets, m.context_length, options_of_both);
    // The stored heads, numbered by their place in the file.
    analysed_layer chosen{names, layer.key_of_query, whole.window};
    for (std::size_t h = 0; h < chosen.names.query_heads.size(); ++h)
      chosen.names.query_heads[h] = static_cast<index_t>(h);
    for (std::size_t h = 0; h < chosen.names.key_heads.size(); ++h) chosen.names.key_heads[h] = static_cast<index_t>(h);
    for (const std::vector<index_t>& ends : {std::vector<index_t>{320}, {1, 100, 157, 320}}) {
      document_analysis<cpu_context, float> analysis(cpu, chosen, buckets, m.context_length, options_of_both);
      index_t begin = 0;
      for (const index_t end : ends) {
        auto chunk = whole.q;
        chunk.data += begin * chunk.row_stride;
        chunk.rows = end - begin;
        analysis.add_queries(chunk, begin, {whole.q_position.data + begin, end - begin});
        begin = end;
      }
      const auto found = analysis.finish(whole.k, whole.k_position, whole.k_document);
      ASSERT_EQ(found.size(), expected.size());
      const double tolerance = ends.size() == 1 ? 0 : 1e-9;
      for (std::size_t h = 0; h < found.size(); ++h) {
        EXPECT_NEAR(found[h].rotation.bias.strength, expected[h].rotation.bias.strength, tolerance);
        EXPECT_NEAR(found[h].rotation.score_sd, expected[h].rotation.score_sd, tolerance);
        for (std::size_t j = 0; j < 32; ++j) EXPECT_NEAR(found[h].pca.r_q[j], expected[h].pca.r_q[j], tolerance);
        EXPECT_NEAR(found[h].summaries[1].drop.value, expected[h].summaries[1].drop.value, tolerance);
        for (std::size_t c = 0; c < 2; ++c)
          for (std::size_t b = 1; b < 16; ++b) {
            const auto &x = found[h].profiles[c].buckets[b], &y = expected[h].profiles[c].buckets[b];
            EXPECT_NEAR(x.plasticity, y.plasticity, tolerance);
            EXPECT_EQ(x.pairs, y.pairs);
            EXPECT_EQ(x.queries, y.queries);
          }
      }
      // 131 keys are left in the window of the last bucket's middle, tau = 310.
      EXPECT_EQ(found[0].profiles[0].buckets[15].pairs, 139 * 138 / 2);
    }
  }
}

TEST_F(live_analysis_of, what_cannot_be_is_said_in_one_sentence) {
  options.out = folder / "out";
  options.analyse = choice;
  EXPECT_EQ(refusal(), "analyses of every document need a backend to compute them");
  const auto refused = [&] { return test::message_of([&] { analysed("out"); }); };
  options.plan.stage = rope_stage::pre;
  EXPECT_THAT(refused(), HasSubstr("after rotary embedding: --analyse without --pre-rope"));
  options.plan.stage = rope_stage::post;
  choice.covariances = {"joint", "empirical"};
  EXPECT_THAT(refused(), HasSubstr("not 'empirical'"));
  choice.covariances = {};
  EXPECT_THAT(refused(), HasSubstr("--covariance must name a query model"));
  choice.covariances = {"joint"};
  choice.models_of = {folder / "nowhere"};
  EXPECT_THAT(refused(), HasSubstr("nowhere"));
  rows("bare");
  choice.models_of = {folder / "bare"};
  EXPECT_THAT(refused(), HasSubstr("qkgeom-capture --moments makes them"));
  options.moments = true;
  options.statistics_bucket_size = 80;
  rows("coarse");
  choice.models_of = {folder / "coarse"};
  options.statistics_bucket_size = 0;
  EXPECT_THAT(refused(), HasSubstr("over the query buckets of 20 tokens"));
  options.plan.head_list = {{0, 1}};
  rows("one head");
  choice.models_of = {folder / "one head"};
  options.plan.head_list = {{0, 1}, {0, 3}};
  EXPECT_THAT(refused(), HasSubstr("it holds no moments of layer 0, query head 3"));
  options.model = test::bundled / "stage1-step-250";
  EXPECT_THAT(refused(), HasSubstr("its model differs"));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

}  // namespace
}  // namespace qkgeom
