// SPDX-License-Identifier: MIT
// What may happen to a program while it runs: nothing that was written is lost, no byte is wrong, and there is one
// sentence.
#include "qkgeom/core/random.hpp"
#include "tests/capture/program_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__)  // more would show it nothing new
constexpr int times = 4;
#else
constexpr int times = 20;
#endif

class faults : public test::capture_program {
 protected:
  /// The bytes of a capture that nothing disturbed.
  std::map<std::string, test::file_bytes> undisturbed(const std::vector<std::string>& arguments) const {
    EXPECT_EQ(run(arguments), 0) << log();
    return contents_of(folder / "undisturbed");
  }
  /// A run that is refused with a sentence that begins with the program's name.
  std::string refused(const std::vector<std::string>& arguments, const test::conditions& given = {}) const {
    EXPECT_EQ(run(arguments, given), 2) << log();
    const std::string text = sentence();
    std::string name = given.program;
    name[name.find('-')] = ' ';  // qkgeom-capture calls itself qkgeom capture
    EXPECT_THAT(text, ::testing::StartsWith(name + ": "));
    return text;
  }
};

TEST_F(faults, killed_at_any_time_it_resumes_to_the_same_bytes) {
  write_documents(48);
  const pid_t undisturbed = start(capture_to("undisturbed"));
  rusage usage{};
  int status = 0;
  ASSERT_EQ(::wait4(undisturbed, &status, 0, &usage), undisturbed);
  ASSERT_EQ(status, 0) << log();
  const double whole = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const auto expected = test::contents_of(folder / "undisturbed");
  EXPECT_EQ(expected.size(), 21u);  // ten shards, their moments and the manifest
  EXPECT_EQ(expected.count("progress.json"), 0u);

  const random_stream stream{.seed = 20, .use = draw::permutation};
  int killed = 0, after_a_shard = 0;
  for (std::uint64_t i = 0; killed < times || after_a_shard < times / 4; ++i) {
    ASSERT_LT(i, 5u * times) << killed << " killed, " << after_a_shard << " after a shard";
    fs::remove_all(folder / "killed");
    const double after = whole * stream.uniform(i);
    if (kill_after(start(capture_to("killed", true)), after)) {
      ++killed;
      after_a_shard += fs::exists(folder / "killed" / "shard-00000.safetensors");
    }
    ASSERT_EQ(run(capture_to("killed", true)), 0) << log();
    ASSERT_EQ(test::contents_of(folder / "killed"), expected) << "killed after " << after << " s";
  }
}

TEST_F(faults, a_full_disk_is_one_sentence_and_can_be_resumed) {
  write_documents(20);
  ASSERT_EQ(run(capture_to("undisturbed")), 0) << log();
  EXPECT_EQ(run(capture_to("o"), {.file_size = 100'000}), 2);
  EXPECT_THAT(log(), HasSubstr("shard-00000.safetensors: File too large"));
  EXPECT_FALSE(fs::exists(folder / "o" / "manifest.json"));
  EXPECT_FALSE(fs::exists(folder / "o" / "shard-00000.safetensors.partial"));

  fs::create_symlink("/dev/full", folder / "o" / "shard-00000.safetensors");
  EXPECT_EQ(run(capture_to("o", true)), 2);
  EXPECT_THAT(log(), HasSubstr("/dev/full: No space left on device"));
  fs::remove(folder / "o" / "shard-00000.safetensors");

  ASSERT_EQ(run(capture_to("o", true)), 0) << log();
  EXPECT_EQ(test::contents_of(folder / "o"), test::contents_of(folder / "undisturbed"));
}

// The rows fit under the limit, the moments or the statistics beside them do not.
TEST_F(faults, a_disk_that_fills_with_moments_or_statistics_leaves_nothing_half_written) {
  write_documents(4);
  const auto small = [&](const std::string& out, const std::vector<std::string>& more) {
    auto a = capture_to(out);
    a.pop_back();  // --moments
    for (const auto& [option, value] : {std::pair{"--max-length", "512"}, std::pair{"--rate", "1"}})
      *(std::find(a.begin(), a.end(), option) + 1) = value;
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  constexpr rlim_t limit = 60'000;
  ASSERT_EQ(run(small("rows", {}), {.file_size = limit}), 0) << log();
  struct kind {
    std::vector<std::string> options;
    std::string file;
  };
  for (const kind& k :
       {kind{{"--moments"}, "moments-00.safetensors"}, kind{{"--softmax", "--loss"}, "shard-00000.safetensors"}}) {
    fs::remove_all(folder / "undisturbed");
    fs::remove_all(folder / "o");
    ASSERT_EQ(run(small("undisturbed", k.options)), 0) << log();
    const auto expected = test::contents_of(folder / "undisturbed");
    const auto nothing_half_written = [&] {
      EXPECT_FALSE(fs::exists(folder / "o" / "manifest.json"));
      for (const auto& e : fs::directory_iterator(folder / "o")) {
        const auto name = e.path().filename().string();
        if (e.is_symlink() || name == "progress.json") continue;
        EXPECT_TRUE(expected.count(name) == 1 && test::get(e.path()) == expected.at(name)) << name;
      }
    };
    EXPECT_EQ(run(small("o", k.options), {.file_size = limit}), 2);
    EXPECT_THAT(log(), HasSubstr(k.file + ": File too large"));
    nothing_half_written();
    EXPECT_FALSE(fs::exists(folder / "o" / k.file));

    auto again = small("o", k.options);
    again.push_back("--resume");
    fs::create_symlink("/dev/full", folder / "o" / k.file);
    EXPECT_EQ(run(again), 2);
    EXPECT_THAT(log(), HasSubstr("/dev/full: No space left on device"));
    nothing_half_written();
    fs::remove(folder / "o" / k.file);

    ASSERT_EQ(run(again), 0) << log();
    EXPECT_EQ(test::contents_of(folder / "o"), expected);
  }
}

TEST_F(faults, a_limit_on_files_anywhere_leaves_what_can_be_resumed) {
  write_documents(20);
  const auto expected = undisturbed(capture_to("undisturbed"));
  std::size_t largest = 0;
  for (const auto& [name, bytes] : expected) largest = std::max(largest, bytes.size());
  const random_stream stream{.seed = 21, .use = draw::permutation};
  for (std::uint64_t i = 0; i < times / 2; ++i) {
    fs::remove_all(folder / "o");
    const rlim_t limit = 1000 + stream.below(i, largest - 1000);  // the log is a file too
    EXPECT_THAT(refused(capture_to("o"), {.file_size = limit}), HasSubstr("File too large"));
    ASSERT_EQ(run(capture_to("o", true)), 0) << log();
    ASSERT_EQ(contents_of(folder / "o"), expected) << limit;
  }
  fs::remove_all(folder / "o");
  EXPECT_THAT(refused(capture_to("o"), {.file_size = 1000}), HasSubstr("progress.json: File too large"));
  EXPECT_FALSE(fs::exists(folder / "o")) << "an empty folder is left";
}

TEST_F(faults, a_damaged_shard_is_refused_whatever_is_damaged) {
  write_documents(20);
  const auto expected = undisturbed(capture_to("undisturbed"));
  const pid_t pid = start(capture_to("unfinished"));
  wait_for("unfinished/shard-00002.safetensors", pid);
  end(pid);
  ASSERT_TRUE(fs::exists(folder / "unfinished" / "progress.json")) << "it ended too early";
  const auto progress = read_json(folder / "unfinished" / "progress.json");
  ASSERT_TRUE(progress.contains("done"));

  const random_stream stream{.seed = 22, .use = draw::permutation};
  const std::vector<std::pair<const char*, std::function<void(const fs::path&, std::uint64_t)>>> damages{
      {"a bit",
       [&](const fs::path& path, std::uint64_t i) {
         std::string bytes = test::get(path);
         bytes[stream.below(2 * i, bytes.size())] ^= static_cast<char>(1 << stream.below(2 * i + 1, 8));
         test::put(path, bytes);
       }},
      {"cut",
       [&](const fs::path& path, std::uint64_t i) { fs::resize_file(path, stream.below(2 * i, fs::file_size(path))); }},
      {"longer", [&](const fs::path& path, std::uint64_t) { test::put(path, test::get(path) + '\n'); }},
      {"zeros", [&](const fs::path& path, std::uint64_t) { test::put(path, std::string(fs::file_size(path), '\0')); }},
      {"another shard",
       [&](const fs::path& path, std::uint64_t) {
         test::put(path, test::get(path.parent_path() / "shard-00001.safetensors"));
       }},
      {"a folder", [&](const fs::path& path, std::uint64_t) { fs::remove(path), fs::create_directory(path); }},
      {"a pipe", [&](const fs::path& path, std::uint64_t) { fs::remove(path), ::mkfifo(path.c_str(), 0600); }},
      {"gone", [&](const fs::path& path, std::uint64_t) { fs::remove(path); }}};
  std::uint64_t trial = 0;
  for (const auto& [what, damage] : damages)
    for (const char* name : {"undisturbed", "unfinished"}) {
      const auto path = folder / name / "shard-00000.safetensors";
      damage(path, trial++);
      EXPECT_THAT(refused(capture_to(name, true)), HasSubstr("shard-00000.safetensors")) << what << " in " << name;
      if (std::string(name) == "undisturbed") {
        EXPECT_THAT(refused({"--verify", (folder / name).string()}), HasSubstr("shard-00000.safetensors")) << what;
      }
      fs::remove_all(path);
      test::put(path, expected.at("shard-00000.safetensors"));
    }
  EXPECT_EQ(run({"--verify", (folder / "undisturbed").string()}), 0) << log();
  ASSERT_EQ(run(capture_to("unfinished", true)), 0) << log();
  EXPECT_EQ(contents_of(folder / "unfinished"), expected);
}

#if !defined(__SANITIZE_ADDRESS__)  // which must be loaded first
class interposed : public faults, public testing::WithParamInterface<const char*> {};

TEST_P(interposed, system_calls_change_nothing) {
  write_documents(4);
  const auto expected = undisturbed(capture_to("undisturbed"));
  const std::string preload = std::string("LD_PRELOAD=") + GetParam();
  ASSERT_EQ(run(capture_to("o"), {.variables = {preload}}), 0) << log();
  EXPECT_EQ(contents_of(folder / "o"), expected);
  const auto tables = [&](const std::string& out, const std::vector<std::string>& variables) {
    EXPECT_EQ(run({(folder / "o").string(), "--out", (folder / out).string()},
                  {.variables = variables, .program = "qkgeom-plasticity"}),
              0)
        << log();
    return test::get(folder / out / "profile.csv");
  };
  const std::string plain = tables("plain", {});
  EXPECT_GT(plain.size(), 1000u);
  EXPECT_EQ(tables("interrupted", {preload}), plain);
}

INSTANTIATE_TEST_SUITE_P(interrupted_and_short_reads_and_writes, interposed, testing::Values(QKGEOM_INTERPOSER));
INSTANTIATE_TEST_SUITE_P(a_clock_that_jumps, interposed, testing::Values(QKGEOM_JUMPING_CLOCK));

TEST_F(faults, too_little_address_space_is_one_sentence) {
  write_documents(2);
  [[maybe_unused]] bool refused_once = false;
  auto with_attention = capture_to("o");
  *(std::find(with_attention.begin(), with_attention.end(), "--layers") + 1) = "0,1";
  for (const rlim_t mebibytes : {110, 150, 300, 450, 600}) {  // below, its shared libraries do not fit
    fs::remove_all(folder / "o");
    const int status = run(with_attention, {.address_space = mebibytes << 20});
    EXPECT_TRUE(status == 0 || status == 2) << log();
    if (status == 2) {
      EXPECT_THAT(sentence(), ::testing::StartsWith("qkgeom capture: "));
    }
    refused_once |= log().find("not enough memory") != std::string::npos;
  }
#if !defined(__AVX__)  // with longer vectors none but our own products may be needed
  EXPECT_TRUE(refused_once);
#endif
}
#endif

TEST_F(faults, of_two_writers_one_is_right_and_the_other_says_why) {
  write_documents(20);
  const auto expected = undisturbed(capture_to("undisturbed"));
  for (const bool resume : {false, true}) {
    fs::remove_all(folder / "o");
    const pid_t first = start(capture_to("o", resume), {.log = "first"});
    const pid_t second = start(capture_to("o", resume), {.log = "second"});
    const int a = wait(first), b = wait(second);
    EXPECT_TRUE((a == 0 && (b == 0 || b == 2)) || (a == 2 && b == 0)) << a << ' ' << b;
    if (a == 2) {
      EXPECT_THAT(sentence("first"), ::testing::StartsWith("qkgeom capture: "));
    }
    if (b == 2) {
      EXPECT_THAT(sentence("second"), ::testing::StartsWith("qkgeom capture: "));
    }
    EXPECT_EQ(contents_of(folder / "o"), expected);
  }
}

TEST_F(faults, a_folder_that_vanishes_or_cannot_be_written_is_one_sentence) {
  write_documents(20);
  const auto expected = undisturbed(capture_to("undisturbed"));
  auto into_proc = capture_to("o");
  *(std::find(into_proc.begin(), into_proc.end(), "--out") + 1) = "/proc/qkgeom";
  EXPECT_THAT(refused(into_proc), HasSubstr("cannot make the folder /proc/qkgeom"));

  const pid_t pid = start(capture_to("o"));
  wait_for("o/shard-00000.safetensors", pid);
  fs::rename(folder / "o", folder / "moved");
  EXPECT_EQ(wait(pid), 2) << log();
  EXPECT_THAT(sentence(), HasSubstr("No such file or directory"));
  EXPECT_FALSE(fs::exists(folder / "o"));
  ASSERT_EQ(run(capture_to("moved", true)), 0) << log();
  EXPECT_EQ(contents_of(folder / "moved"), expected);
}

TEST_F(faults, weights_that_are_cut_short_meanwhile_are_named) {
  write_documents(40);
  test::copy_model(folder / "model");
  auto arguments = capture_to("o");
  *(std::find(arguments.begin(), arguments.end(), "--model") + 1) = (folder / "model").string();
  const pid_t pid = start(arguments);
  wait_for("o/shard-00000.safetensors", pid);
  const auto weights = folder / "model" / "model.safetensors";
  fs::resize_file(weights, 4096);
  EXPECT_EQ(wait(pid), 2) << log();
  EXPECT_EQ(sentence(), "qkgeom capture: " + fs::canonical(weights).string() +
                            ": the file can no longer be read: it was cut short meanwhile, or its disk fails");
}

TEST_F(faults, languages_with_other_commas_and_letters_change_nothing) {
  write_documents(3);
  const auto expected = undisturbed(capture_to("undisturbed"));
  for (const char* language : {"de_DE", "tr_TR"}) {
    const std::string name = std::string(language) + ".UTF-8";
    const std::string make =
        "localedef -i " + std::string(language) + " -f UTF-8 '" + (folder / name).string() + "' > /dev/null 2>&1";
    if (std::system(make.c_str()) != 0 && !fs::exists(folder / name / "LC_NUMERIC")) {
      GTEST_SKIP() << "localedef cannot make " << name;
    }
    const std::vector<std::string> variables{"LOCPATH=" + folder.path().string(), "LC_ALL=" + name, "LANG=" + name};
    fs::remove_all(folder / "o");
    ASSERT_EQ(run(capture_to("o"), {.variables = variables}), 0) << log();
    EXPECT_EQ(contents_of(folder / "o"), expected);
    std::string plain;
    for (const bool with : {false, true}) {
      const auto out = folder / (with ? "with" : "without");
      ASSERT_EQ(run({(folder / "o").string(), "--out", out.string()},
                    {.variables = with ? variables : std::vector<std::string>{}, .program = "qkgeom-pca"}),
                0)
          << log();
      std::string found = test::get(out / "qk.csv") + test::get(out / "qk_scatter.svg");
      found += log().substr(0, log().find("Written to"));
      EXPECT_GT(found.size(), 2000u);
      if (with) {
        EXPECT_EQ(found, plain) << language;
      }
      plain = std::move(found);
    }
  }
}

}  // namespace
}  // namespace qkgeom
