// SPDX-License-Identifier: MIT
// qkgeom-capture as a program: exit status and messages, killed and resumed, a full disk.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/io/file.hpp"
#include "tests/capture/capture_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string program = std::string(QKGEOM_BIN) + "/qkgeom-capture";
const std::string data = test::bundled.string();

class capture_program : public ::testing::Test {
 protected:
  /// Starts the program; its output goes to FOLDER/log. `file_limit` in bytes, 0: none.
  pid_t start(const std::vector<std::string>& arguments, rlim_t file_limit = 0) const {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int log = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    if (file_limit > 0) {
      const rlimit limit{file_limit, file_limit};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  /// The exit status, or -signal.
  static int wait(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int run(const std::vector<std::string>& arguments, rlim_t file_limit = 0) const {
    return wait(start(arguments, file_limit));
  }
  /// Kills the program once it has used that much CPU time; false: it ended before.
  static bool kill_after(pid_t pid, double cpu_seconds) {
    clockid_t clock{};
    timespec worked{};
    siginfo_t ended{};
    EXPECT_EQ(::clock_getcpuclockid(pid, &clock), 0);
    while (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0 &&
           ::clock_gettime(clock, &worked) == 0 && seconds(worked) < cpu_seconds)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    ::kill(pid, SIGKILL);
    return wait(pid) == -SIGKILL;
  }
  static double seconds(const timespec& t) {
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  static double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  std::string log() const { return read_text(folder / "log", 1 << 20); }

  /// A capture of about a second in several shards, of the first layer, so that writing takes most of the time.
  std::vector<std::string> capture_to(const std::string& out, bool resume = false) const {
    std::vector<std::string> a{"--model",       data + "/stage1-step-1000",
                               "--jsonl",       (folder / "documents.jsonl").string(),
                               "--out",         (folder / out).string(),
                               "--max-length",  "1024",
                               "--bucket-size", "64",
                               "--rate",        "8",
                               "--threads",     "2",
                               "--seed",        "7",
                               "--layers",      "0",
                               "--moments"};
    if (resume) a.push_back("--resume");
    return a;
  }
  /// Documents that fill some shards.
  void write_documents(int books) const { test::write_books(folder / "documents.jsonl", books); }

  const test::scratch_folder folder;
};

TEST_F(capture_program, help_and_bad_options_have_their_status) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(log(), HasSubstr("--max-length"));
  write_documents(1);
  const auto refused = [&](std::vector<std::string> a) {
    EXPECT_EQ(run(a), 2);
    const std::string text = log();
    EXPECT_THAT(text, ::testing::StartsWith("qkgeom-capture: "));
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
  refused({});
  refused({"--model", data, "--out", "o"});
  EXPECT_THAT(refused(with({"--sampler", "best"})), HasSubstr("best"));
  EXPECT_THAT(refused(with({"--heads", "x"})), HasSubstr("--heads"));
  EXPECT_THAT(refused(with({"--heads", "0"})), HasSubstr("--heads"));
  EXPECT_THAT(refused(with({"--layers", "99"})), HasSubstr("layer 99"));
  EXPECT_THAT(refused(with({"--rate", "-1"})), HasSubstr("--rate must be positive, not -1"));
  EXPECT_THAT(refused(with({"--dtype", "f16"})), HasSubstr("f16"));
  EXPECT_THAT(refused(with({"--text", "x.txt"})), HasSubstr("--text"));
  refused(with({"--no-such-option"}));
  EXPECT_THAT(refused(with({"--device", "tpu"})), HasSubstr("--device"));
  EXPECT_THAT(refused(with({"--resident", "all"})), HasSubstr("--device cuda"));
  if (!fs::exists("/dev/nvidiactl")) {  // no device, or a build without CUDA
    EXPECT_THAT(refused(with({"--device", "cuda"})), HasSubstr("CUDA"));
  }
  EXPECT_THAT(refused({"--model", data, "--text", "x", "--out", "o"}), HasSubstr("config.json"));
  EXPECT_THAT(refused({"--model", "/nowhere", "--text", "x", "--out", "o"}), HasSubstr("/nowhere"));
  EXPECT_FALSE(fs::exists(folder / "o"));
}

TEST_F(capture_program, a_study_in_a_file_and_its_plan) {
  write_documents(3);
  std::ofstream(folder / "study.json") << R"({"study": "tiny", "n_layers": 8, "n_query_heads": 8, "n_key_heads": 2,
    "family": "SmolLM3", "dtype": "bf16", "max_length": 2048, "bucket_size": 128, "rate": 16, "seed": 3,
    "heads": {"1": [0, 5], "6": [7]}})";
  std::vector<std::string> a{"--study", (folder / "study.json").string(),      "--model",   data + "/stage1-step-1000",
                             "--jsonl", (folder / "documents.jsonl").string(), "--threads", "2"};
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
  ASSERT_EQ(run(a), 0) << log();
  // 3072 rows expected, with a standard deviation of 52.
  const std::string done = log();
  const auto number_before = [](const std::string& text, const std::string& unit) {
    const std::size_t end = text.find(unit), begin = text.find_last_of(" ", end - 1);
    return std::stod(text.substr(begin + 1));
  };
  EXPECT_NEAR(number_before(done, " rows in"), 3072, 5 * 52) << done;
  const double planned_memory = number_before(planned, " MB, and the pages");
  const double memory = number_before(done.substr(done.find("peak memory")), " MB");
#if !defined(__SANITIZE_ADDRESS__)  // it needs memory of its own
  EXPECT_LT(memory, 2 * planned_memory) << planned << done;
#endif
  EXPECT_GT(memory, planned_memory / 2) << planned << done;
  const std::string manifest = read_text(folder / "o" / "manifest.json", 1 << 20);
  EXPECT_THAT(manifest, HasSubstr("\"study\": \"tiny\""));
  EXPECT_THAT(manifest, HasSubstr("\"compute_dtype\": \"bf16\""));
}

TEST_F(capture_program, killed_at_any_time_it_resumes_to_the_same_bytes) {
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

#if defined(__SANITIZE_ADDRESS__)  // more kills would show it nothing new
  constexpr int times = 4;
#else
  constexpr int times = 20;
#endif
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

TEST_F(capture_program, an_unfinished_capture_is_continued_only_with_resume_and_its_options) {
  write_documents(40);
  const pid_t pid = start(capture_to("o"));
  while (!fs::exists(folder / "o" / "shard-00000.safetensors"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(pid, SIGKILL);
  ASSERT_EQ(wait(pid), -SIGKILL) << log();
  EXPECT_EQ(run(capture_to("o")), 2);
  EXPECT_THAT(log(), HasSubstr("--resume continues it"));
  auto other = capture_to("o", true);
  other.insert(other.end(), {"--heads", "3"});
  EXPECT_EQ(run(other), 2);
  EXPECT_THAT(log(), HasSubstr("other settings"));
  write_documents(39);
  EXPECT_EQ(run(capture_to("o", true)), 2);
  EXPECT_THAT(log(), HasSubstr("other documents"));
}

TEST_F(capture_program, a_full_disk_is_one_sentence_and_can_be_resumed) {
  write_documents(20);
  ASSERT_EQ(run(capture_to("undisturbed")), 0) << log();
  EXPECT_EQ(run(capture_to("o"), 100'000), 2);
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
TEST_F(capture_program, a_disk_that_fills_with_moments_or_statistics_leaves_nothing_half_written) {
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
  ASSERT_EQ(run(small("rows", {}), limit), 0) << log();
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
    EXPECT_EQ(run(small("o", k.options), limit), 2);
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

TEST_F(capture_program, analyses_every_token_and_leaves_tables) {
  write_documents(2);
  const auto to = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> a{"--model",   data + "/stage1-step-1000",
                               "--jsonl",   (folder / "documents.jsonl").string(),
                               "--out",     (folder / out).string(),
                               "--threads", "2",
                               "--heads",   "6",
                               "--sampler", "all",
                               "--analyse", "--max-length",
                               "256"};
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  // Buckets of 16 tokens, and the keys before each; two documents, six heads, two query models.
  double pairs = 0;
  for (int b = 0; b < 16; ++b) pairs += 16 * b * (16 * b - 1) / 2.0;
  ASSERT_EQ(run(to("o", {"--plan"})), 0) << log();
  char counted[32];
  std::snprintf(counted, sizeof counted, "%.2e pairs of keys", pairs * 2 * 6 * 2);
  EXPECT_THAT(log(), HasSubstr(counted));
  EXPECT_THAT(log(), HasSubstr("pairs per second, measured now"));
  EXPECT_THAT(log(), HasSubstr("rows         0 of queries, 0 of keys"));

  ASSERT_EQ(run(to("undisturbed", {})), 0) << log();
  EXPECT_THAT(log(), HasSubstr("; 0 rows in 1 shards"));
  const auto expected = test::contents_of(folder / "undisturbed");
  EXPECT_EQ(expected.size(), 2u + 6u);
  // The disk fills when the capture is complete and its tables are written.
  rlim_t limit = 0, largest = 0;
  for (const auto& [name, bytes] : expected)
    (name.ends_with(".csv") ? largest : limit) =
        std::max<rlim_t>(name.ends_with(".csv") ? largest : limit, bytes.size());
  ASSERT_GT(largest, limit);
  EXPECT_EQ(run(to("o", {}), limit), 2);
  EXPECT_THAT(log(), HasSubstr(".csv: File too large"));
  for (const auto& [name, bytes] : test::contents_of(folder / "o")) EXPECT_EQ(expected.at(name), bytes) << name;
  ASSERT_EQ(run(to("o", {"--resume"})), 0) << log();
  EXPECT_THAT(log(), HasSubstr("is already complete: 0 rows in 1 shards"));
  EXPECT_EQ(test::contents_of(folder / "o"), expected);

  EXPECT_EQ(run(to("p", {"--covariance", "best"})), 2);
  EXPECT_THAT(log(), HasSubstr("not 'best'"));
  EXPECT_EQ(run(to("p", {"--pre-rope"})), 2);
  EXPECT_THAT(log(), HasSubstr("--analyse without --pre-rope"));
  EXPECT_EQ(run(to("p", {"--models-of", (folder / "o").string()})), 2);
  EXPECT_THAT(log(), HasSubstr("it holds no moments of every token"));
  auto without = to("p", {"--heatmap"});
  without.erase(std::find(without.begin(), without.end(), "--analyse"));
  EXPECT_EQ(run(without), 2);
  EXPECT_THAT(log(), HasSubstr("--heatmap requires --analyse"));
  EXPECT_FALSE(fs::exists(folder / "p"));
}

}  // namespace
}  // namespace qkgeom
