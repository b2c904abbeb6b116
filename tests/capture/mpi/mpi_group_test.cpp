// SPDX-License-Identifier: MIT
// Processes of mpirun: as a group, for which this program starts itself, and as those of qkgeom-capture.
#include "capture/job/mpi/mpi_group.hpp"

#include <sys/stat.h>

#include <charconv>
#include <sstream>

#include "qkgeom/core/random.hpp"
#include "tests/capture/program_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Ranks of a capture with this argument.
std::vector<pid_t> ranks_with(const std::string& argument) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr != name.data() + name.size()) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::string line;
    std::getline(file, line, '\n');  // it is empty where the process ends here; an istreambuf_iterator would throw
    if (line.find("/qkgeom-capture") < line.find('\0') && line.find(argument) != line.npos) found.push_back(pid);
  }
  return found;
}

class mpi_group : public test::capture_program {
 protected:
  /// Runs the command of `capture_to` on `ranks` processes. Returns the exit status.
  int together(int ranks, const std::string& out, bool resume = false) {
    return end_of(start_together(ranks, out, resume), out);
  }
  pid_t start_together(int ranks, const std::string& out, bool resume = false) {
    auto capture = capture_to(out, resume);
    *(std::find(capture.begin(), capture.end(), "--threads") + 1) = "1";
    return start(capture, on_ranks(ranks));
  }
  /// A machine with few cores, no second between the signals that end ranks, Open MPI's permission where the tests run
  /// as root, and the memory that it keeps to the end, which LeakSanitizer would name.
  static test::conditions on_ranks(int ranks) {
    return {.variables = {"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_odls_base_sigkill_timeout=0",
                          "OMPI_MCA_hwloc_base_binding_policy=none", "OMPI_ALLOW_RUN_AS_ROOT=1",
                          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "LSAN_OPTIONS=detect_leaks=0"},
            .launcher = {QKGEOM_MPIEXEC, "-n", std::to_string(ranks)}};
  }
  /// Waits for a job that writes to `out`; the exit status, or -signal. Where a rank was killed while it connected to
  /// mpiexec, PMIx 4.2 can leave a lock locked that mpiexec waits for at its end: mpiexec is killed once it has had no
  /// ranks for ten seconds.
  int end_of(pid_t job, const std::string& out) const {
    using clock = std::chrono::steady_clock;
    auto seen = clock::now();
    for (int i = 1; runs(job); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (i % 200 == 0 && !ranks_of(out).empty()) seen = clock::now();
      if (clock::now() - seen > std::chrono::seconds(10)) ::kill(job, SIGKILL);
    }
    return wait(job);
  }
  std::vector<pid_t> ranks_of(const std::string& out) const { return ranks_with((folder / out).string()); }
};

/// What a process of mpirun does: takes numbers and sends a text; writes what it sees of all into FOLDER/rank-R.
void act_as_rank(const fs::path& folder) {
  run_with_mpi("test", "", [&](process_group& group) {
    index_t seen = 0, shown = 0;
    for (int deals = 0; deals < 3; ++deals)
      group.deal(
          10,
          [&](index_t i) {
            seen += i;
            shown += group.passed(1);
          },
          [&](index_t more) { shown += more; });
    index_t all = 0, passed = 0;
    for (const auto& text : group.gather(std::to_string(seen) + ' ' + std::to_string(shown))) {
      index_t of_rank = 0, by_rank = 0;
      std::istringstream(text) >> of_rank >> by_rank;
      all += of_rank;
      passed += by_rank;
    }
    std::string sizes;
    for (const auto& large :
         group.gather(std::string(3000000 + 1000 * group.rank(), static_cast<char>('a' + group.rank()))))
      sizes += ' ' + std::to_string(large.size()) + large.front() + large.back();
    std::ofstream(folder / ("rank-" + std::to_string(group.rank())))
        << "dealt " << all << ", passed " << passed << ", sizes" << sizes;
  });
}

TEST_F(mpi_group, processes_of_mpirun_deal_and_gather) {
  if (const char* shared = std::getenv("QKGEOM_TEST_FOLDER")) return act_as_rank(shared);
  for (const int n : {1, 2, 3, 4, 7}) {
    auto given = on_ranks(n);
    given.program = "qkgeom_test_capture";
    given.variables.push_back("QKGEOM_TEST_FOLDER=" + folder.path().string());
    ASSERT_EQ(wait(start({"--gtest_filter=mpi_group.processes_of_mpirun*"}, given)), 0) << log();
    std::string said = "dealt 135, passed 30, sizes";
    for (int r = 0; r < n; ++r)
      said += ' ' + std::to_string(3000000 + 1000 * r) + std::string(2, static_cast<char>('a' + r));
    for (int r = 0; r < n; ++r) EXPECT_EQ(test::get(folder / ("rank-" + std::to_string(r))), said);
  }
}

TEST_F(mpi_group, any_number_of_ranks_writes_the_bytes_of_one_process) {
  write_documents(4);  // a block of moments each
  ASSERT_EQ(run(capture_to("whole")), 0) << log();
  const auto whole = test::contents_of(folder / "whole");
  for (const int n : {1, 3}) {
    const std::string out = "by-" + std::to_string(n);
    ASSERT_EQ(together(n, out), 0) << log();
    EXPECT_THAT(log(), HasSubstr("4 documents, 4096 tokens in "));
    EXPECT_EQ(test::contents_of(folder / out), whole);
  }
  EXPECT_NE(together(2, "by-3"), 0);
  EXPECT_THAT(log(), HasSubstr("it already holds one (manifest.json)"));
}

TEST_F(mpi_group, a_rank_that_cannot_write_its_shard_ends_all_and_another_number_of_ranks_goes_on) {
  write_documents(9);
  ASSERT_EQ(run(capture_to("whole")), 0) << log();
  fs::create_directories(folder / "cut");
  ASSERT_EQ(::mkfifo((folder / "cut" / "shard-00003.safetensors.partial").c_str(), 0600), 0);
  EXPECT_NE(together(2, "cut"), 0);
  EXPECT_THAT(log(), testing::ContainsRegex("qkgeom capture: rank [01] of 2 on [^ ]+, document '[^']+': cannot write "
                                            ".*shard-00003.safetensors: .* is a pipe or a device; remove it; all ranks "
                                            "end, and the same command with --resume goes on"));
  fs::remove(folder / "cut" / "shard-00003.safetensors.partial");
  EXPECT_FALSE(fs::exists(folder / "cut" / "manifest.json"));
  EXPECT_EQ(together(3, "cut", true), 0) << log();
  EXPECT_EQ(test::contents_of(folder / "cut"), test::contents_of(folder / "whole"));
}

TEST_F(mpi_group, ranks_that_are_killed_at_20_moments_leave_what_others_finish) {
  write_documents(4);
  ASSERT_EQ(run(capture_to("whole")), 0) << log();
  const auto whole = test::contents_of(folder / "whole");
  const auto finished = [&] { return fs::exists(folder / "cut" / "manifest.json"); };
  const random_stream draws{5, 0, 0, draw::query_subset};
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(together(2, "timed"), 0) << log();
  const std::chrono::duration<double> usual = std::chrono::steady_clock::now() - start;
  int killed = 0;
  for (std::uint64_t i = 0; killed < 20 && i < 60; ++i) {
    if (finished()) {  // a killed rank may have left progress.json beside the manifest: --resume removes it
      EXPECT_EQ(run(capture_to("cut", true)), 0) << log();
      EXPECT_EQ(test::contents_of(folder / "cut"), whole);
      fs::remove_all(folder / "cut");
    }
    const pid_t job = start_together(2 + static_cast<int>(i % 2), "cut", true);
    std::this_thread::sleep_for(usual * draws.uniform(2 * i));
    const auto ranks = ranks_of("cut");
    if (!ranks.empty())
      killed += ::kill(ranks[static_cast<std::size_t>(draws.uniform(2 * i + 1) * static_cast<double>(ranks.size()))],
                       SIGKILL) == 0;
    end_of(job, "cut");
  }
  EXPECT_EQ(killed, 20);
  EXPECT_EQ(together(3, "cut", true), 0) << log();
  EXPECT_EQ(test::contents_of(folder / "cut"), whole);
}

}  // namespace
}  // namespace qkgeom
