// SPDX-License-Identifier: MIT
// From documents and a checkpoint to a capture folder.
#include <unistd.h>
#include <regex>
#include <sstream>

#include "capture/job/documents.hpp"
#include "capture/job/estimate.hpp"
#include "capture/job/plan.hpp"
#include "capture/job/prepare.hpp"
#include "capture/job/run_capture.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr, ::testing::Not;

using test::bundled, test::put;

class job : public test::capture_test {
 protected:
  job() {
    options.inputs.text = {write("a.txt", "Amen")};
    options.selection.max_length = 48;
    options.selection.sampler = {sampler_kind::all, 16, 1};
  }
  /// Goes on with these lines as documents.
  void write_lines(const std::string& lines) {
    options.inputs.text.clear();
    options.inputs.jsonl = write("d.jsonl", lines);
  }
  /// The notes of a run into a folder of that name.
  std::string notes_of(const std::string& name) {
    options.run.out = folder / name;
    run();
    return notes.str();
  }
  /// A copy of the model's folder whose config or weights a test may damage.
  void copy_model() {
    options.model.path = folder / "model";
    test::copy_model(options.model.path);
  }
  /// A model as that family's fixture describes it, with drawn weights and the bundled tokenizer, and a book.
  void draw_model(const std::string& family) {
    auto config = read_json(family_fixture(family).folder + "/config.json");
    config["vocab_size"] = read_json(bundled / "stage1-step-1000" / "config.json")["vocab_size"];
    options.model.path = folder / "model";
    fs::create_directory(options.model.path);
    put(options.model.path / "config.json", config.dump());
    fs::copy(bundled / "tokenizer.json", options.model.path);
    options.model.untrained = 1;
    test::write_books(folder / "books.jsonl", 1);
    write_lines(test::get(folder / "books.jsonl"));
  }
  /// A copy of the model with other weights.
  void change_weights(const std::function<void(model_weights<bf16>&)>& change) {
    copy_model();
    auto weights = read_weights(options.model.path);
    change(weights);
    write_weights(options.model.path, weights);
  }
};

TEST_F(job, empty_short_and_long_documents) {
  write_lines(
      "{\"id\": \"none\", \"text\": \"\"}\n\n{\"id\": 7, \"text\": \"Amen\"}\n"
      "{\"text\": \"" +
      std::string(400, 'x') + "\"}\r\n{\"id\": \"bad\", \"text\": \"a\xff z\"}");
  const auto s = run();
  EXPECT_EQ(s.documents, 4);
  EXPECT_EQ(s.empty, 1);
  EXPECT_THAT(notes.str(), HasSubstr("'none'"));
  const auto c = capture::open(options.run.out);
  const auto& documents = *c.manifest().documents;
  ASSERT_EQ(documents.size(), 4u);
  EXPECT_EQ(documents[0].tokens, 0);
  EXPECT_EQ(documents[1].id, "7");
  EXPECT_LT(documents[1].tokens, 16);
  EXPECT_EQ(documents[2].id, "2");
  EXPECT_EQ(documents[2].tokens, 48);
  EXPECT_EQ(documents[3].id, "bad");
  index_t rows = 0;
  for (const auto& e : documents) rows += e.tokens;
  EXPECT_EQ(c.read_layer(0).q.position.size, rows);
  EXPECT_EQ(c.manifest().context_length, 48);
  EXPECT_EQ(c.manifest().layers.size(), 8u);
  EXPECT_FALSE(c.manifest().layers[3].rope);
}

TEST_F(job, rows_are_those_of_the_forward_pass) {
  options.inputs.text = {write("a.txt", "In the beginning God created the heaven and the earth."),
                         write("b.txt", "And the earth")};
  options.selection.sampler = {sampler_kind::uniform, 16, 6};
  options.selection.heads = 9;
  options.selection.seed = 4;
  const auto c = captured();
  const auto d = read_description(read_json(options.model.path / "config.json"));
  const auto tokens = tokenizer::load(bundled / "tokenizer.json");
  std::map<index_t, index_t> next;  // row of a layer
  index_t heads = 0;
  for (std::uint32_t document = 0; document < 2; ++document) {
    const auto ids = tokens.encode(read_text(options.inputs.text[document], 1000), 48);
    std::vector<std::int32_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    const auto rows = rows_of(options.model.path, d, ids, positions, compute_type::f32);
    for (const auto& info : c.manifest().layers) {
      const auto& q = rows.at("layer." + std::to_string(info.layer) + ".q");  // (heads, tokens, dim)
      const auto layer = c.read_layer(info.layer);
      const auto view = layer.view<float>();
      heads += document == 0 ? view.q.heads : 0;
      const random_stream key{4, document, static_cast<std::uint32_t>(info.layer), draw::query_token};
      for (const std::int32_t t : draw_tokens(options.selection.sampler, std::ssize(ids), key)) {
        const index_t r = next[info.layer]++;
        ASSERT_LT(r, view.q.rows);
        EXPECT_EQ(view.q_position[r], t);
        EXPECT_EQ(view.q_document[r], document);
        for (index_t h = 0; h < view.q.heads; ++h)
          ASSERT_TRUE(std::equal(view.q.head(h).row(r), view.q.head(h).row(r) + view.q.dim,
                                 q.data() + (info.query_heads[h] * std::ssize(ids) + t) * view.q.dim));
      }
    }
  }
  EXPECT_EQ(heads, 9);
}

TEST_F(job, first_tokens_are_skipped_and_keys_stand_where_queries_do) {
  options.inputs.text = {write("a.txt", "In the beginning God created the heaven and the earth.")};
  options.selection.sampler = {sampler_kind::uniform, 4, 2, 5};
  options.selection.same_positions = true;
  const auto stand_alike = [](const captured_layer& l) { return std::ranges::equal(l.q.position, l.k.position); };
  const auto same = captured();
  index_t kept = 0;
  for (const index_t layer : same.layers()) {
    const auto rows = same.read_layer(layer);
    EXPECT_TRUE(stand_alike(rows));
    for (const std::int32_t t : rows.q.position) EXPECT_GE(t, 5);
    kept += rows.q.rows;
  }
  EXPECT_GT(kept, 8);
  EXPECT_EQ(same.manifest().extra["skip_first"], 5);
  EXPECT_EQ(same.manifest().extra["same_positions"], true);
  EXPECT_EQ(same.manifest().rate, 0.5);
  options.selection.same_positions = false;
  const auto apart = captured("apart");
  bool different = false;
  for (const index_t layer : apart.layers()) different |= !stand_alike(apart.read_layer(layer));
  EXPECT_TRUE(different);
}

TEST_F(job, listed_heads_family_revision_and_labels_stand_in_the_manifest) {
  write_lines(R"({"text": "Amen", "labels": {"task": "T3.1", "bin": 128}, "language": "en"}
{"text": "Amen amen", "language": "zh", "length": null}
)");
  options.inputs.label_fields = {"language", "length"};
  options.selection.head_list = {{1, 7}, {4, 0}, {4, 3}};
  options.model.family = "SmolLM3";
  options.model.revision = "step-1000";
  options.protocol.name = "mine";
  options.model.rope_theta = 2e4;
  const auto c = captured();
  const auto& m = c.manifest();
  ASSERT_EQ(m.layers.size(), 2u);
  EXPECT_THAT(m.layers[0].query_heads, ::testing::ElementsAre(7));
  EXPECT_THAT(m.layers[0].key_heads, ::testing::ElementsAre(1));
  EXPECT_THAT(m.layers[1].query_heads, ::testing::ElementsAre(0, 3));
  EXPECT_EQ(m.family, "SmolLM3");
  EXPECT_EQ(m.revision, "step-1000");
  EXPECT_EQ(m.extra["study"], "mine");
  EXPECT_EQ((*m.documents)[0].labels, json({{"task", "T3.1"}, {"bin", 128}, {"language", "en"}}));
  EXPECT_EQ((*m.documents)[1].labels, json({{"language", "zh"}}));
  // Frequencies of the other base: theta^(-2 / 32).
  EXPECT_FLOAT_EQ(static_cast<float>(m.rope->inv_freq[1]), static_cast<float>(std::pow(2e4, -1.0 / 16)));
  options.run.out = folder / "none";
  options.selection.head_list = {{8, 0}};
  EXPECT_THAT(refusal(), HasSubstr("layer 8 head 0 was asked for, but the model has 8 layers of 8 query heads"));
  options.selection.head_list.clear();
  write_lines(R"({"text": "Amen", "labels": {"list": [1]}})");
  EXPECT_THAT(refusal(), HasSubstr("line 1: label list must be"));
  // What readers of the capture would refuse is refused before the first document runs.
  const std::string name(5000, 'n');
  for (const json& line : {json{{"text", "Amen"}, {"id", name}}, json{{"text", "Amen"}, {"labels", {{name, 1}}}},
                           json{{"text", "Amen"}, {"labels", {{"task", name}}}}}) {
    write_lines(line.dump());
    EXPECT_THAT(refusal(), HasSubstr("has 5000 bytes, more than the 4096 allowed"));
  }
}

TEST_F(job, documents_begin_with_bos_or_with_nothing_by_option) {
  copy_model();
  fs::create_directories(folder / "tok");
  fs::rename(options.model.path / "tokenizer.json", folder / "tok" / "tokenizer.json");
  options.inputs.tokenizer = folder / "tok";  // a folder
  options.selection.layers = {0};
  const auto first_tokens = [&](const char* name) {
    const auto rows = captured(name).read_layer(0);
    return std::vector(rows.q.token.begin(), rows.q.token.end());
  };
  const auto plain = first_tokens("plain");
  options.inputs.bos = bos_rule::prepend;
  test::change_config(options.model.path, [](json& config) { config.erase("bos_token_id"); });
  EXPECT_THAT(refusal(), HasSubstr("names a BOS token"));
  test::change_config(options.model.path, [](json& config) { config["bos_token_id"] = 7; });
  auto expected = plain;
  expected.insert(expected.begin(), 7);
  EXPECT_EQ(first_tokens("config"), expected);
  // The tokenizer's own BOS token counts first, and is not put before a text twice.
  auto file = read_json(folder / "tok" / "tokenizer.json");
  file["added_tokens"].push_back({{"id", 9}, {"content", "<s>"}, {"special", true}});
  file["model"]["vocab"]["<s>"] = 9;
  for (auto& [word, id] : file["model"]["vocab"].items())
    if (id == 9 && word != "<s>") id = 1023;
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                            {"special_tokens", {{"<s>", {{"ids", {9}}}}}}};
  write("tok/tokenizer.json", file.dump());
  write("tok/tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "add_bos_token": false})");
  expected[0] = 9;
  EXPECT_EQ(first_tokens("tokenizer"), expected);
  options.inputs.bos = bos_rule::as_tokenizer;
  EXPECT_EQ(first_tokens("as-tokenizer"), expected);
  EXPECT_THAT(notes.str(), HasSubstr("tokenizer_config.json says add_bos_token false"));
  options.inputs.text = {write("b.txt", "<s>Amen")};
  EXPECT_EQ(first_tokens("twice")[1], 9);
  EXPECT_THAT(notes.str(), HasSubstr("a document begins with two BOS tokens"));
  options.inputs.text = {folder / "a.txt"};
  options.inputs.bos = bos_rule::none;
  EXPECT_EQ(first_tokens("none"), plain);
  EXPECT_EQ(capture::open(options.run.out).manifest().extra["bos"], "none");
}

TEST_F(job, pre_rope_rows_differ_where_there_is_rotary_embedding) {
  options.inputs.text = {write("a.txt", "In the beginning God created the heaven and the earth.")};
  options.model.compute = compute_type::bf16;
  const auto post = captured();
  options.selection.pre_rope = true;
  const auto pre = captured("pre");
  EXPECT_EQ(pre.manifest().rope_stage, "pre");
  for (const index_t layer : {index_t{0}, index_t{3}}) {
    const auto a = post.read_layer(layer), b = pre.read_layer(layer);
    EXPECT_EQ(a.element, dtype::bf16);
    ASSERT_EQ(a.q.bytes(), b.q.bytes());
    EXPECT_EQ(std::memcmp(a.q.data, b.q.data, a.q.bytes()) == 0, layer == 3);
  }
}

TEST_F(job, bad_lines_are_named_before_anything_is_written) {
  test::expect_refusals("lines", [&](const json& text) {
    write_lines("{\"text\": \"good\"}\n" + text.get<std::string>());
    run();
  });
  EXPECT_FALSE(fs::exists(options.run.out));
  write_lines("\n");
  EXPECT_THAT(refusal(), HasSubstr("no document"));
}

TEST_F(job, escapes_of_half_characters_are_read_as_ill_formed_utf8_is) {
  const auto ids = [&](const std::string& text) {
    write_lines("{\"text\": \"" + text + "\"}");
    std::string read;
    document_list(options.inputs).for_each([&](index_t, const document& d) { read = d.text; });
    return read;
  };
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(ids("a\\ud800b"), "a" + mark + "b");
  EXPECT_EQ(ids("\\uDC00"), mark);
  EXPECT_EQ(ids("\\ud800\\ud83d\\ude00\\ude00"), mark + "\xf0\x9f\x98\x80" + mark) << "a pair stays a character";
  EXPECT_EQ(ids("\\\\ud800"), "\\ud800") << "a backslash that is one";
}

TEST_F(job, text_is_in_utf8_or_refused_by_name) {
  using namespace std::string_literals;
  const auto read = [&](const std::string& bytes) {
    options.inputs.text = {write("a.txt", bytes)};
    return document_list(options.inputs).at(0);
  };
  EXPECT_EQ(read("\xef\xbb\xbfHi").text, "Hi") << "without the mark";
  EXPECT_EQ(read("na\xc3\xafve caf\xc3\xa9 \xff").replaced, 1u) << "a damaged byte";
  const auto refused = [&](const std::string& bytes) { return test::message_of([&] { read(bytes); }); };
  EXPECT_THAT(refused("\xff\xfeH\0i\0"s), HasSubstr("a.txt is in UTF-16, and documents are in UTF-8"));
  EXPECT_THAT(refused("\xfe\xff\0H"s), HasSubstr("is in UTF-16"));
  EXPECT_THAT(refused("\xff\xfe\0\0H\0\0\0"s), HasSubstr("is in UTF-32"));
  EXPECT_THAT(refused("\0\0\xfe\xff\0\0\0H"s), HasSubstr("is in UTF-32"));
  EXPECT_THAT(refused("H\0i\0"s), HasSubstr("byte 1 is NUL"));
  EXPECT_THAT(refused("PK\3\4\x14\0\0\0"s), HasSubstr("byte 5 is NUL"));
  EXPECT_THAT(refused("Caf\xe9"), HasSubstr("1 of its 1 characters beyond ASCII are not, first at byte 3"));
  options.inputs = {.jsonl = write("d.jsonl", "\xef\xbb\xbf{\"text\": \"a\xff\"}\n{\"text\": \"<s>\xfe\xff\"}\n")};
  run();
  EXPECT_THAT(notes.str(), HasSubstr("the documents hold 3 parts that are not UTF-8"));
  const auto manifest = capture::open(options.run.out).manifest();
  EXPECT_EQ(manifest.extra[notes_field][0]["note"], "text_replaced");
  write_lines("\xff\xfe{\0}\0"s);
  EXPECT_QKGEOM_ERROR("UTF-16", document_list all(options.inputs));
}

TEST_F(job, documents_come_through_a_pipe_of_the_shell) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "{\"text\": \"Amen\"}\n", 17), 17);
  ::close(ends[1]);
  options.inputs = {.jsonl = "/dev/fd/" + std::to_string(ends[0])};
  const document_list documents(options.inputs);
  for (int time = 0; time < 2; ++time) EXPECT_EQ(documents.at(0).text, "Amen");
  ::close(ends[0]);
}

TEST_F(job, a_capture_without_a_token_is_refused_before_it_begins) {
  options.inputs.text = {write("a.txt", "")};
  EXPECT_THAT(refusal(), HasSubstr("the documents are empty"));
  write("a.txt", "Amen");
  options.selection.sampler.skip_first = 100;
  EXPECT_THAT(refusal(), HasSubstr("--skip-first 100 leaves out every token: the longest document has"));
  EXPECT_FALSE(fs::exists(options.run.out));
}

TEST_F(job, an_output_matrix_that_is_tied_by_name_alone_is_noted) {
  options.statistics.loss = true;
  for (const bool same : {true, false}) {
    change_weights([&](auto& weights) {
      auto& own = weights["lm_head.weight"] = weights.at("model.embed_tokens.weight");
      if (!same) own.values.back() = bf16::round(1.0f);
    });
    EXPECT_EQ(notes_of(same ? "same" : "other").find("an output matrix of their own") == std::string::npos, same);
  }
}

TEST_F(job, weights_that_differ_past_the_first_megabyte_are_other_weights) {
  options.inputs.text = {write("a.txt", "In the beginning God created")};
  options.selection.max_length = 4;
  options.run.resume = true;
  const std::string last = "model.layers.5.mlp.down_proj.weight";
  const auto change_last = [&] {
    change_weights([&](auto& weights) { weights.at(last).values[1000] = bf16::round(0.75f); });
  };
  copy_model();
  {
    const safetensors_file file(options.model.path / "model.safetensors");
    ASSERT_GT(file.at(last).data - file.tensors()[0].data, 1 << 20) << "it must lie past the first megabyte";
  }
  run();
  EXPECT_TRUE(run().was_complete);
  fs::rename(options.model.path, folder / "elsewhere");
  fs::create_directories(folder / "x");
  fs::rename(folder / "elsewhere", folder / "x" / "model");
  options.model.path = folder / "x" / "model";
  EXPECT_TRUE(run().was_complete) << "the same checkpoint in another place";
  change_last();
  EXPECT_THAT(refusal(), HasSubstr("other documents or weights"));
  // An unfinished capture, of the first of two blocks of moments, under the old weights.
  copy_model();
  options.run.out = folder / "unfinished";
  options.inputs.text.push_back(write("b.txt", "the heaven and the earth"));
  options.statistics.moments = true;
  options.statistics.bucket_size = 4;
  auto failing = backend;
  failing.moments = [&, calls = 0](auto&&... rows) mutable {
    require(++calls <= 2 * 8, "the power fails");  // queries and keys of eight layers
    return backend.moments(rows...);
  };
  EXPECT_QKGEOM_ERROR("the power fails", run(failing));
  const auto progress = test::get(options.run.out / "progress.json");
  options.run.resume = false;
  EXPECT_THAT(refusal(), HasSubstr("--resume continues it"));
  options.run.resume = true;
  options.selection.heads = 3;
  EXPECT_THAT(refusal(), HasSubstr("other settings"));
  options.selection.heads.reset();
  change_last();
  EXPECT_QKGEOM_ERROR("of other documents, another tokenizer or other weights", run());
  copy_model();
  put(options.run.out / "progress.json", progress);
  EXPECT_EQ(run().documents, 1) << "the second";
  // What was kept stands for the weights while nobody writes to the files.
  auto kept = json::parse(progress);
  kept["weights"] = "kept";
  kept["weight_files"] = checkpoint(options.model.path).file_stamps();
  put(options.run.out / "progress.json", kept.dump());
  fs::remove(options.run.out / "manifest.json");
  run();
  EXPECT_EQ(read_json(options.run.out / "manifest.json")["weights_sha256"], "kept");
}

TEST_F(job, weights_that_are_overwritten_while_they_are_captured_end_it) {
  copy_model();
  options.inputs.text = {write("a.txt", "In the beginning God created"), write("b.txt", "the heaven and the earth")};
  options.statistics.moments = true;
  const auto with = [&](const std::function<void()>& meddle) {
    auto meddling = backend;
    meddling.moments = [&, done = false](auto&&... arguments) mutable {
      if (!std::exchange(done, true)) meddle();
      return backend.moments(arguments...);
    };
    fs::remove_all(options.run.out);
    run(meddling);
  };
  const fs::path weights = options.model.path / "model.safetensors";
  EXPECT_NO_THROW(with([&] { fs::last_write_time(weights, fs::file_time_type::clock::now()); })) << "only touched";
  EXPECT_QKGEOM_ERROR("somebody wrote to the weights while they were captured", with([&] {
                        std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
                        file.seekp(static_cast<std::streamoff>(fs::file_size(weights) / 2));
                        file.write("\1\2\3\4", 4);
                      }));
}

TEST_F(job, a_damaged_shard_is_neither_complete_nor_continued) {
  options.inputs.text = {write("a.txt", "In the beginning God created")};
  options.statistics.moments = true;
  options.run.resume = true;
  run();
  EXPECT_TRUE(run().was_complete);
  for (const char* name : {"shard-00000.safetensors", "moments-00.safetensors"}) {
    const std::string good = test::get(options.run.out / name);
    for (const std::size_t at : {std::size_t{9}, good.size() / 2, good.size() - 1}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 16);
      put(options.run.out / name, bad);
      EXPECT_QKGEOM_ERROR(std::string(name) + " is damaged", run());
    }
    put(options.run.out / name, good.substr(0, 500));
    EXPECT_QKGEOM_ERROR(std::string(name) + " is damaged", run());
    put(options.run.out / name, good);
  }
  EXPECT_TRUE(run().was_complete);
}

TEST_F(job, captures_of_parts_equal_one_of_all_row_for_row) {
  test::write_books(folder / "books.jsonl", 5);
  write_lines(test::get(folder / "books.jsonl") + "{\"text\": \"In the beginning\"}\n");  // its id is its number
  options.selection.sampler = {sampler_kind::uniform, 16, 5};
  const auto whole = captured();
  std::vector<capture> parts;
  for (const index_t first : {index_t{0}, index_t{2}}) {
    options.inputs.skip = first;
    options.inputs.count = first == 0 ? 2 : -1;
    parts.push_back(captured("part" + std::to_string(first)));
  }
  EXPECT_FALSE(parts[0].manifest().extra.contains("skip_examples"));
  EXPECT_EQ(parts[1].manifest().extra["skip_examples"], 2);
  const capture_set set(std::move(parts));
  EXPECT_EQ(set.listed_documents(), *whole.manifest().documents);
  EXPECT_EQ(whole.manifest().documents->back().id, "5");
  EXPECT_GT(whole.read_layer(0).q.rows, 20);
  test::expect_same_rows(set, capture_set(whole));
  options.inputs.skip = 6;
  options.run.out = folder / "none";
  EXPECT_THAT(refusal(), HasSubstr("there is no document"));
}

TEST_F(job, a_model_is_called_by_its_name) {
  const auto name = [&] { return prepare_capture(options, notes).manifest.model.name; };
  EXPECT_EQ(name(), "stage1-step-1000") << "the folder";
  copy_model();
  const std::string hash = "93efa2f097d58c2a74874c7e644dbc9b0cee75a2";
  const auto move_to = [&](const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::rename(options.model.path, to);
    options.model.path = to;
  };
  move_to(folder / "models--HuggingFaceTB--SmolLM2-135M" / "snapshots" / hash);
  EXPECT_EQ(name(), "SmolLM2-135M");
  fs::create_directory_symlink(options.model.path, folder / "link");
  options.model.path = folder / "link";
  EXPECT_EQ(name(), "SmolLM2-135M");
  options.model.path = fs::canonical(options.model.path);
  move_to(folder / hash);
  EXPECT_EQ(name(), hash);
  test::change_config(options.model.path, [](json& config) { config["_name_or_path"] = "org/Model-7B"; });
  EXPECT_EQ(name(), "Model-7B");
  move_to(folder / "fine-tuned");
  EXPECT_EQ(name(), "fine-tuned") << "there _name_or_path is the model that it was made from";
  options.model.name = "mine";
  EXPECT_EQ(name(), "mine");
}

TEST_F(job, a_length_beyond_the_models_context_is_noted) {
  options.selection.max_length = 512;
  EXPECT_EQ(run().note, "");
  EXPECT_FALSE(capture::open(options.run.out).manifest().extra.contains("model_context"));
  options.selection.max_length = 513;
  options.run.out = folder / "longer";
  EXPECT_THAT(run().note, HasSubstr("cut at 513 tokens, beyond the 512 that the model was made for"));
  EXPECT_THAT(notes.str(), HasSubstr("note: documents are cut at 513 tokens"));
  EXPECT_EQ(capture::open(options.run.out).manifest().extra["model_context"], 512);
  std::ostringstream plan, none;
  print_estimate(plan, estimate_capture(options, none));
  EXPECT_THAT(plan.str(), HasSubstr("documents are cut at 513 tokens, beyond the 512"));
  for (const char* scaling : {"yarn:4:512", "linear:2", "llama3:4:1:4:512", "dynamic:2"}) {
    options.model.rope_scaling = scaling;
    options.run.out = folder / scaling;
    EXPECT_EQ(run().note, "") << "the scaling stretches the context";
  }
  options.selection.max_length = 512;
  EXPECT_THAT(notes_of("short"), HasSubstr("dynamic scaling of the rotary embedding acts past 512 tokens, and never in "
                                           "a context of 512"));
  EXPECT_EQ(capture::open(options.run.out).manifest().rope->by_length->context, 512);
  EXPECT_EQ(capture::open(options.run.out).manifest().model.context, 512);
  const char* const too_short =
      "note: the dynamic scaling of the rotary embedding acts past 512 tokens, and the longest document has 3\n";
  EXPECT_THAT(notes.str(), Not(HasSubstr(too_short))) << "the context ends there";
  options.selection.max_length = 1024;
  EXPECT_THAT(notes_of("long"), HasSubstr(too_short));
  std::ostringstream planned;
  estimate_capture(options, planned);
  EXPECT_THAT(planned.str(), HasSubstr(too_short));
  options.inputs.text = {bundled / "tokenizer.json"};
  estimate_capture(options, none);
  EXPECT_THAT(none.str(), Not(HasSubstr("the longest document has")));
}

TEST_F(job, a_bucket_is_a_sixteenth_of_the_context_where_nobody_says_otherwise) {
  options.inputs.text = {bundled / "tokenizer.json"};
  options.selection.max_length = 50;
  options.selection.sampler = {.bucket_size = 0, .rate = 4};  // of 4 tokens: all are kept
  EXPECT_EQ(run().rows, 8 * (50 + 50));                       // queries and keys of eight layers
  const auto manifest = capture::open(options.run.out).manifest();
  EXPECT_EQ(manifest.bucket.size, 4);
  EXPECT_EQ(manifest.rate, 1);
  EXPECT_EQ(manifest.usual_bucket_size(), 4);
}

TEST_F(job, few_tokens_for_a_query_model_are_noted) {
  options.inputs.text = {folder / "a.txt", bundled / "tokenizer.json", bundled / "tokenizer.json"};
  options.selection.sampler = {.bucket_size = 0, .rate = 2};
  EXPECT_THAT(notes_of("out"), testing::AllOf(HasSubstr("about 6 queries of a head are expected in a bucket"),
                                              Not(HasSubstr("later buckets stay empty"))));
  options.selection.max_length = 4096;
  options.selection.sampler.rate = 16;
  options.inputs.text.resize(1);
  EXPECT_THAT(notes_of("short"), testing::AllOf(HasSubstr("--max-length 3 ends the context there, with buckets of 1\n"),
                                                Not(HasSubstr("are expected"))));
}

TEST_F(job, labels_that_no_document_has_and_heads_that_are_not_there_are_noted) {
  write_lines("{\"text\": \"Amen\", \"kind\": 1}\n{\"text\": \"Amen\"}\n");
  options.inputs.label_fields = {"kind", "knid"};
  options.selection.heads = 65;
  EXPECT_THAT(notes_of("out"), testing::AllOf(HasSubstr("no document has a field 'knid'"), Not(HasSubstr("'kind'")),
                                              HasSubstr("have 64 query heads; all are taken, not 65")));
}

TEST_F(job, a_bucket_as_long_as_the_context_is_noted) {
  options.selection.sampler = {sampler_kind::uniform, 48, 1};
  EXPECT_THAT(notes_of("out"), HasSubstr("--bucket-size 3 is a sixteenth"));
  options.selection.sampler.bucket_size = 47;  // a size that was asked for stays
  EXPECT_THAT(notes_of("narrower"), testing::AllOf(HasSubstr("--max-length 3 ends the context there\n"),
                                                   Not(HasSubstr("covers the whole context"))));
}

TEST_F(job, a_finished_or_foreign_folder_is_not_overwritten) {
  options.inputs.text = {write("a.txt", "In the beginning God created")};
  options.selection.max_length = 4;
  run();
  EXPECT_THAT(refusal(), HasSubstr("already holds one"));
  options.run.resume = true;
  EXPECT_TRUE(run().was_complete);
  write("a.txt", "And the earth was without form");  // the same name and number of tokens
  EXPECT_THAT(refusal(), HasSubstr("other documents or weights"));
  options.selection.seed = 9;
  EXPECT_THAT(refusal(), HasSubstr("other settings"));
  options.run.out = folder / "foreign";
  fs::create_directories(options.run.out);
  write("foreign/x.safetensors", "");
  EXPECT_THAT(refusal(), HasSubstr("x.safetensors"));
}

TEST_F(job, weights_that_are_missing_misshapen_or_not_finite) {
  const std::string name = "model.layers.2.self_attn.k_proj.weight";
  change_weights([&](auto& weights) { weights.erase(name); });
  EXPECT_THAT(refusal(), HasSubstr("has no tensor " + name));
  change_weights([&](auto& weights) { weights.at(name).shape = {128, 64}; });
  EXPECT_THAT(refusal(), HasSubstr(name + " must have shape (64, 128)"));
  change_weights([&](auto& weights) { weights.at(name).values[77] = bf16{0x7fc0}; });
  EXPECT_THAT(refusal(), HasSubstr(name + " holds NaN at entry 77"));
  std::vector<bf16> rows(64 * 128);
  const checkpoint weights(options.model.path);
  weights.read_bf16(name, {64, 128}, 1, 63, rows.data());
  EXPECT_QKGEOM_ERROR(name + " holds NaN at entry 77", weights.read_bf16(name, {64, 128}, 0, 64, rows.data()));
  EXPECT_FALSE(fs::exists(options.run.out / "manifest.json"));
}

TEST_F(job, layers_after_the_last_captured_one_and_the_rest_of_that_one_are_not_read) {
  options.inputs.text = {write("a.txt", "In the beginning God created the heaven and the earth.")};
  options.selection.layers = {0, 2};
  run();
  const std::string whole = read_text(options.run.out / "shard-00000.safetensors", 1 << 20);
  change_weights([](auto& weights) {
    std::erase_if(weights, [](const auto& tensor) {
      return !std::regex_search(tensor.first, std::regex("embed|layers.[01]|layers.2.*(input_layernorm|[qk]_proj)"));
    });
  });
  fs::rename(options.model.path, folder / "stage1-step-1000");
  options.model.path = folder / "stage1-step-1000";
  options.run.out = folder / "cut";
  run();
  EXPECT_EQ(read_text(options.run.out / "shard-00000.safetensors", 1 << 20), whole);
  options.statistics.loss = true;
  options.run.out = folder / "loss";
  EXPECT_THAT(refusal(), HasSubstr("has no tensor model.layers.2."));
}

TEST_F(job, models_that_are_not_whole_are_refused_by_their_cause) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n";
  for (const char* file : {"model.safetensors", "tokenizer.json", "config.json"}) {
    copy_model();
    put(options.model.path / file, pointer);
    EXPECT_THAT(refusal(), HasSubstr(std::string(file) + " is a pointer of git-lfs")) << file;
  }
  change_weights([](auto& weights) { weights.at("model.layers.3.self_attn.q_proj.weight") = {{0}, {}}; });
  EXPECT_THAT(refusal(), HasSubstr("is empty, as ZeRO stage 3 writes"));
  change_weights([](auto& weights) {
    model_weights<bf16> renamed;
    for (auto& [name, t] : weights) renamed["_orig_mod." + name] = t;
    weights = renamed;
  });
  EXPECT_THAT(refusal(), HasSubstr("names begin with \"_orig_mod.model.\", as those of a model within another one do"));
  fs::remove(options.model.path / "config.json");
  EXPECT_THAT(refusal(), HasSubstr("has no config.json"));
  write("model/adapter_config.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("holds an adapter and no model"));
  ::setenv("HF_HOME", folder.path().c_str(), 1);
  options.model.path = "owner/name";
  EXPECT_THAT(refusal(), HasSubstr("`hf download owner/name` fetches"));
  const fs::path cached = folder / "hub/models--owner--name";
  fs::create_directories(cached / "snapshots/0123abcd");
  EXPECT_THAT(refusal(),
              HasSubstr("owner/name is not a folder; the hub's model of that name is in " + cached.string()));
  options.model.path = cached;
  EXPECT_THAT(refusal(), HasSubstr("the model is in " + (cached / "snapshots/0123abcd").string()));
  ::unsetenv("HF_HOME");
}

TEST_F(job, shards_of_an_index_that_are_missing_or_broken) {
  copy_model();
  fs::remove(options.model.path / "model.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("neither model.safetensors nor"));
  write("model/model.safetensors.index.json", R"({"weight_map": {"a": "gone.safetensors"}})");
  EXPECT_THAT(refusal(), HasSubstr("gone.safetensors"));
  write("model/model.safetensors.index.json", R"({"weight_map": {"a": "../outside"}})");
  EXPECT_THAT(refusal(), HasSubstr("plain name"));
  fs::create_directory(options.model.path / "unreadable");
  write("model/model.safetensors.index.json", R"({"weight_map": {"a": "unreadable"}})");
  EXPECT_THAT(refusal(), HasSubstr("unreadable"));
  write("model/model.safetensors", "short");
  EXPECT_THAT(refusal(), HasSubstr("not a safetensors file"));
}

TEST_F(job, a_tokenizer_of_another_model_is_noticed) {
  copy_model();
  auto file = read_json(options.model.path / "tokenizer.json");
  file["added_tokens"].push_back({{"id", 5000}, {"content", "Amen"}, {"special", true}});
  write("model/tokenizer.json", file.dump());
  EXPECT_THAT(refusal(), HasSubstr("token id 5000 at position 0 is outside the model's vocabulary of 1024"));
  fs::remove(options.model.path / "tokenizer.json");
  EXPECT_THAT(refusal(), HasSubstr("no tokenizer.json"));
}

// The bundled model's README has 3.074 nats per token for this checkpoint, over sixteen contexts of each book; here is
// the first of each.
TEST_F(job, softmax_and_losses_stand_in_a_capture_by_document) {
  write_lines("{\"text\": \"\"}\n" + test::get(test::bundled / "heldout.jsonl"));
  options.statistics.softmax = options.statistics.loss = true;
  options.selection.max_length = 513;
  options.selection.head_list = {{0, 3}, {1, 0}};
  options.selection.sampler = {.bucket_size = 100};
  options.statistics.bucket_size = 100;
  const auto summary = run();
  EXPECT_EQ(summary.loss_tokens, 12 * 512);
  EXPECT_NEAR(summary.loss, 3.07, 0.25);
  const auto c = capture::open(options.run.out);
  const auto file = c.file(0);
  const auto count = file->values<double>("layer.0.attention.count"), sums = file->values<double>("loss.sum");
  const auto tokens = file->values<double>("loss.count"), distance = file->values<double>("layer.0.attention.distance");
  ASSERT_EQ(count.size(), 13u * 6);
  const auto sum = [](const auto& x) { return std::accumulate(x.begin(), x.end(), 0.0); };
  for (std::size_t b = 0; b < 6; ++b) EXPECT_EQ(count[b] + tokens[b] + sums[b], 0);  // the empty document
  for (std::size_t b = 6; b < 12; ++b) EXPECT_EQ(count[b], b < 11 ? 100 : 13);
  EXPECT_NEAR(sum(sums) / (12 * 512), summary.loss, 1e-12);
  EXPECT_NEAR(sum(distance), sum(count), 1e-6);
  EXPECT_EQ(file->at("layer.1.attention.first").shape, (std::vector<index_t>{13, 1, 6, 3}));
  EXPECT_EQ(file->at("layer.1.attention.distance").shape, (std::vector<index_t>{13, 1, 6, 11}));
}

TEST(sinks, of_captured_heads_are_in_the_manifest) {
  const auto f = family_fixture("gpt-oss");
  const auto d = f.description();
  capture_manifest m = plan_capture(d, "m", "", {.head_list = {{0, 3}, {1, 0}, {1, 5}}, .include_windowed = true});
  add_weights(m, d, checkpoint(f.folder));
  const safetensors_file weights(f.folder + "/model.safetensors");
  const auto first = weights.values<bf16>("model.layers.0.self_attn.sinks"),
             second = weights.values<bf16>("model.layers.1.self_attn.sinks");
  const json expected{{"0", {static_cast<float>(first[3])}},
                      {"1", {static_cast<float>(second[0]), static_cast<float>(second[5])}}};
  EXPECT_EQ(parse_manifest(manifest_text(m), "m").extra["sinks"], expected);
}

/// Gemma 4: full layers and sliding ones have heads of their own sizes, and a capture has one.
TEST_F(job, layers_with_other_heads_take_a_capture_of_their_own) {
  draw_model("gemma4-text");
  options.statistics.softmax = options.statistics.loss = true;
  run();
  EXPECT_THAT(notes.str(), HasSubstr("layers 0,2 (2 key heads of size 20)"));
  const auto full = capture_set::open({options.run.out});
  EXPECT_EQ(full.manifest().layers.size(), 2u);
  EXPECT_EQ(full.read_layer(3).view<float>().q.dim, 24);
  EXPECT_EQ(full.read_layer(3).view<float>().k.heads, 1);
  EXPECT_EQ(full.manifest().rope_of(full.manifest().layers[0])->inv_freq.back(), 0);

  options.selection.layers = {0, 2};
  const auto sliding = capture_set(captured("sliding"));
  EXPECT_EQ(sliding.manifest().model.head_dim, 20);
  EXPECT_EQ(sliding.manifest().rope_of(sliding.manifest().layers[0])->rotary_dim, 20);
  EXPECT_EQ(sliding.read_layer(2).view<float>().k.heads, 2);
  options.selection.layers = {0, 1};
  EXPECT_THAT(refusal(), HasSubstr("a capture holds layers of one kind, such as --layers 0"));
}

/// Latent attention: a capture names the parts of its heads, and each can be read alone, with the whole's scale.
TEST_F(job, head_parts_are_in_the_manifest_and_are_read_apart) {
  draw_model("deepseek-v3");
  const auto whole = capture_set(captured());
  const auto& m = whole.manifest();
  EXPECT_EQ(m.model.head_dim, 20);
  EXPECT_EQ(m.extra.at("head_parts"), (json{{"nope", {0, 12}}, {"rope", {12, 20}}}));
  EXPECT_EQ(m.rope->first, 12);
  EXPECT_EQ(m.rope->rotary_dim, 8);
  const double growth = 0.1 * 0.7 * std::log(4.0) + 1;
  EXPECT_NEAR(m.score_scale.value(), growth * growth / std::sqrt(20.0), 1e-12);

  const auto nope = head_part(whole, "nope"), rope = head_part(whole, "rope");
  EXPECT_EQ(nope.manifest().score_scale, m.score_scale);
  EXPECT_FALSE(nope.manifest().layers[1].rope);
  EXPECT_FALSE(nope.manifest().rope);
  EXPECT_EQ(rope.manifest().rope->first, 0);
  EXPECT_EQ(rope.manifest().rope->inv_freq, m.rope->inv_freq);
  const auto all = whole.read_layer(1), first = nope.read_layer(1), second = rope.read_layer(1);
  const auto x = all.view<float>().k, a = first.view<float>().k, b = second.view<float>().k;
  ASSERT_EQ(a.dim, 12);
  ASSERT_EQ(b.dim, 8);
  ASSERT_GT(x.rows, 3);
  for (index_t h = 0; h < x.heads; ++h)
    for (index_t r = 0; r < x.rows; ++r) {
      const float* const row = x.head(h).row(r);
      EXPECT_TRUE(std::equal(row, row + 12, a.head(h).row(r)) && std::equal(row + 12, row + 20, b.head(h).row(r)));
    }
  EXPECT_THROW(head_part(whole, "value"), error);
  EXPECT_THROW(head_part(nope, "nope"), error);
  options.selection.heads_of = head_owner::indexer;
  EXPECT_THAT(refusal(), HasSubstr("--heads-of indexer: a model of type deepseek_v3 has no indexers"));
}

/// The heads of indexers are captured in place of the attention's: one key head, another head size, their own place of
/// the rotation, and the layers that have an indexer.
TEST_F(job, heads_of_indexers_are_captured_in_place_of_the_attentions) {
  draw_model("glm-5");
  options.selection.max_length = 64;
  const auto attention = capture_set(captured()).manifest();
  EXPECT_EQ(attention.layers.size(), 3u);
  EXPECT_EQ(attention.model.n_query_heads, 6);
  EXPECT_FALSE(attention.extra.contains("heads_of"));
  EXPECT_EQ(attention.extra.at(notes_field)[0]["note"], "chosen_keys");
  options.selection.heads_of = head_owner::indexer;
  const auto set = capture_set(captured("indexer"));
  const auto& m = set.manifest();
  EXPECT_EQ(m.extra.at("heads_of"), "indexer");
  EXPECT_EQ(m.extra.at(notes_field)[0]["note"], "indexer_heads");
  EXPECT_EQ(m.extra.at("head_parts"), (json{{"nope", {8, 14}}, {"rope", {0, 8}}}));
  EXPECT_EQ(m.model.head_dim, 14);
  EXPECT_EQ(m.model.n_query_heads, 18);
  EXPECT_EQ(m.model.n_key_heads, 1);
  EXPECT_EQ(m.rope->first, 0);
  EXPECT_EQ(m.rope->rotary_dim, 8);
  EXPECT_FALSE(m.score_scale);
  EXPECT_EQ(set.layers(), (std::vector<index_t>{0, 2}));
  const auto layer = set.read_layer(2);
  EXPECT_EQ(layer.view<float>().q.heads, 18);
  EXPECT_EQ(layer.view<float>().k.heads, 1);
  EXPECT_THAT(notes.str(), HasSubstr("layers 1, which have no indexer of their own"));

  options.run.out = folder / "refused";
  options.selection.layers = {1};
  EXPECT_THAT(refusal(), HasSubstr("layer 1 was asked for, but it has no indexer of its own"));
  options.selection.layers = {};
  options.selection.head_list = {{1, 0}};
  EXPECT_THAT(refusal(), HasSubstr("layer 1 was asked for, but it has no indexer of its own"));
  options.selection.head_list = {};
  options.statistics.softmax = true;
  EXPECT_THAT(refusal(), HasSubstr("--softmax: indexers have none"));
  options.selection.heads_of = head_owner::attention;
  EXPECT_THAT(refusal(), HasSubstr("--max-length 40 cuts documents there"));
  options.selection.max_length = 40;  // none is left out
  run();
  EXPECT_FALSE(capture_set::open({options.run.out}).manifest().extra.contains(notes_field));
}

}  // namespace
}  // namespace qkgeom
