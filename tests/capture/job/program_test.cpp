// SPDX-License-Identifier: MIT
// qkgeom-capture as a program: exit status and messages. tests/faults has what may happen to it while it runs.
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/capture/program_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using capture_program = test::capture_program;

const std::string data = test::bundled.string();

TEST_F(capture_program, help_and_bad_options_have_their_status) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(log(), HasSubstr("--max-length"));
  write_documents(1);
  const auto refused = [&](const std::vector<std::string>& a) {
    const std::string text = this->refused(a);
    EXPECT_THAT(text, ::testing::StartsWith("qkgeom capture: "));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    return text;
  };
  // A good capture with these options added or replaced.
  const auto with = [&](std::vector<std::string> more) {
    auto a = capture_to("o");
    const auto there = std::find(a.begin(), a.end(), more[0]);
    if (there != a.end()) a.erase(there, there + 2);
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_THAT(log(), ::testing::MatchesRegex("qkgeom capture [0-9]+\\.[0-9]+\\.[0-9]+, kernels for .*\n"));
  refused({});
  refused({"--model", data, "--out", "o"});
  for (const auto& line : test::json_data("refusals.json").at("options"))
    EXPECT_THAT(refused(with(line[0])), HasSubstr(line[1].get<std::string>()));
  if (!fs::exists("/dev/nvidiactl")) {  // no device, or a build without CUDA
    EXPECT_THAT(refused(with({"--device", "cuda"})), HasSubstr("CUDA"));
  }
  EXPECT_THAT(refused({"--model", data, "--text", "x", "--out", "o"}), HasSubstr("config.json"));
  EXPECT_THAT(refused({"--model", "/nowhere", "--text", "x", "--out", "o"}), HasSubstr("/nowhere"));
  EXPECT_FALSE(fs::exists(folder / "o"));
}

TEST_F(capture_program, check_ends_with_status_1_where_layers_disagree) {
  const forward_fixture qwen = family_fixture("qwen3");
  const auto check = [&](float factor) {
    const auto ids = qwen.ids();
    const auto d = qwen.description();
    std::vector<std::int32_t> positions(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    auto rows = rows_of(qwen.folder, d, ids, positions, compute_type::f32);
    for (auto& [name, values] : rows)
      for (float& x : values) x *= factor;
    write_reference(folder / "reference.safetensors", d, ids, rows);
    return run({"--model", qwen.folder, "--check", (folder / "reference.safetensors").string()});
  };
  EXPECT_EQ(check(1), 0);
  EXPECT_THAT(log(), HasSubstr("All layers agree"));
  EXPECT_EQ(check(2), 1);
  EXPECT_THAT(log(), HasSubstr("Layer 0 is the first that disagrees"));
}

TEST_F(capture_program, a_protocol_in_a_file_and_its_plan) {
  write_documents(3);
  std::ofstream(folder / "protocol.json") << R"({"study": "tiny", "n_layers": 8, "n_query_heads": 8, "n_key_heads": 2,
    "family": "SmolLM3", "dtype": "bf16", "max_length": 2048, "bucket_size": 128, "rate": 16, "seed": 3,
    "heads": {"1": [0, 5], "6": [7]}})";
  std::vector<std::string> a{
      "--protocol", (folder / "protocol.json").string(),   "--model",   data + "/stage1-step-1000",
      "--jsonl",    (folder / "documents.jsonl").string(), "--threads", "2"};
  auto plan = a;
  plan.push_back("--plan");
  plan.push_back("--moments");
  ASSERT_EQ(run(plan), 0) << log();
  // Three heads of 16 buckets of 32 x 32 f64 and some vectors, in three blocks of a document each.
  EXPECT_THAT(log(), HasSubstr(" kB, and 1.5 MB of moments"));
  plan.pop_back();
  ASSERT_EQ(run(plan), 0) << log();
  const std::string planned = log();
  EXPECT_THAT(planned, HasSubstr("2 captured: 1,6"));
  EXPECT_THAT(planned, HasSubstr("3 query heads, 3 key heads"));
  EXPECT_THAT(planned, HasSubstr("3 read, 6144 tokens"));
  EXPECT_THAT(planned, HasSubstr("1536 of queries, 1536 of keys (expected)"));
  a.insert(a.end(), {"--out", (folder / "o").string()});
  const std::vector<char> not_the_program_s(std::size_t{200} << 20, 1);
  ASSERT_EQ(run(a), 0) << log();
  // 3072 rows expected, with a standard deviation of 52.
  const std::string done = log();
  const auto number_before = [](const std::string& text, const std::string& unit) {
    const std::size_t end = text.find(unit), begin = text.find_last_of(" ", end - 1);
    return std::stod(text.substr(begin + 1));
  };
  EXPECT_NEAR(number_before(done, " rows in"), 3072, 5 * 52) << done;
  // A plane turns once in 2048 tokens at 16 ln(2048 / 2 pi) / ln 1e4 = 10.05.
  const std::string rope =
      "no scaling, base 10000, 16 planes, 5 of which turn less than once in 2048 tokens; 2 of 8 layers without\n";
  EXPECT_THAT(planned, HasSubstr("rotary       " + rope));
  EXPECT_THAT(done, HasSubstr("rotary embedding: " + rope));
  const double planned_memory = number_before(planned, " MB, and the pages");
  const double memory = number_before(done.substr(done.find("peak memory")), " MB");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need memory of their own
  EXPECT_LT(memory, 2 * planned_memory) << planned << done;
#endif
  EXPECT_GT(memory, planned_memory / 2) << planned << done;
  const std::string manifest = read_text(folder / "o" / "manifest.json", 1 << 20);
  EXPECT_THAT(manifest, HasSubstr("\"study\": \"tiny\""));
  EXPECT_THAT(manifest, HasSubstr("\"compute_dtype\": \"bf16\""));
}

TEST_F(capture_program, verifies_a_capture) {
  write_documents(3);
  ASSERT_EQ(run(capture_to("o")), 0) << log();
  const std::string out = (folder / "o").string();
  EXPECT_EQ(run({"--verify", out}), 0);
  EXPECT_THAT(log(), ::testing::MatchesRegex(".*/o: [0-9]+ rows of 3 documents in 3 shards and 3 files of moments, as "
                                             "the manifest says and all finite; SHA-256 of 6 of 6 files compared\n"));
  const auto moments = folder / "o" / "moments-01.safetensors";
  auto bytes = test::get(moments);
  bytes[bytes.size() / 2] ^= 1;
  test::put(moments, bytes);
  EXPECT_EQ(run({"--verify", out}), 2);
  EXPECT_THAT(log(), HasSubstr("moments-01.safetensors is damaged: its SHA-256"));
  // Without the hash, the counts tell.
  auto manifest = json::parse(test::get(folder / "o" / "manifest.json"));
  manifest.erase("moments_sha256");
  test::put(folder / "o" / "manifest.json", manifest.dump());
  fs::copy_file(folder / "o" / "moments-00.safetensors", moments, fs::copy_options::overwrite_existing);
  auto& tokens = manifest["examples"][1]["tokens"];
  tokens = tokens.get<int>() + 1;
  test::put(folder / "o" / "manifest.json", manifest.dump());
  EXPECT_EQ(run({"--verify", out}), 2);
  EXPECT_THAT(log(), HasSubstr("o: the moments of layer 0 count"));
  EXPECT_EQ(run({"--verify", (folder / "none").string()}), 2);
  EXPECT_THAT(log(), HasSubstr("none"));
}

TEST_F(capture_program, leaves_the_users_number_of_threads_to_openblas_and_says_its_kernels) {
  write_documents(40);
  const pid_t pid = start(capture_to("o"), {.variables = {"OPENBLAS_NUM_THREADS=3"}});
  wait_for("o/shard-00000.safetensors", pid);
  EXPECT_THAT(test::get("/proc/" + std::to_string(pid) + "/environ"), HasSubstr("OPENBLAS_NUM_THREADS=3"));
  end(pid);
  EXPECT_THAT(log(), HasSubstr(std::string("note: products in f32, kernels for ") + cpu_context::kernels() + "\n"));
}

}  // namespace
}  // namespace qkgeom
