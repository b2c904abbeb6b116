// SPDX-License-Identifier: MIT
// The processes of mpirun as a group: this program starts itself under mpirun.
#include "qkgeom/processes/mpi/mpi_group.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// What a process of mpirun does: writes what it sees into FOLDER/rank-R.
void act_as_rank(const fs::path& folder) {
  run_with_mpi("test", "", [&](process_group& group) {
    std::ofstream out(folder / ("rank-" + std::to_string(group.rank())), std::ios::binary);
    std::vector<index_t> mine;
    index_t seen = 0, shown = 0;
    for (int deals = 0; deals < 3; ++deals)
      group.deal(
          10,
          [&](index_t i) {
            mine.push_back(i);
            seen += i;
            shown += group.passed(1);
          },
          [&](index_t more) { shown += more; });
    const std::string large(3000000 + 1000 * group.rank(), static_cast<char>('a' + group.rank()));
    index_t all = 0, passed = 0;
    std::string sizes;
    for (const auto& text : group.gather(std::to_string(seen) + ' ' + std::to_string(shown) + ' ' + large)) {
      std::istringstream words(text);
      index_t of_rank = 0, by_rank = 0;
      std::string sent;
      words >> of_rank >> by_rank >> sent;
      all += of_rank;
      passed += by_rank;
      sizes += ' ' + std::to_string(sent.size()) + sent.front() + sent.back();
    }
    out << "dealt " << all << ", passed " << passed << ", sizes" << sizes;
  });
}

/// What each of so many processes writes.
std::vector<std::string> by_ranks(int ranks) {
  const test::scratch_folder folder;
  const std::string variables =
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LSAN_OPTIONS=detect_leaks=0 QKGEOM_TEST_FOLDER=" +
      folder.path().string() + ' ';
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command = variables + QKGEOM_MPIEXEC + " -n " + std::to_string(ranks) + ' ' + self +
                              " --gtest_filter=mpi_group.processes_of_mpirun* >" + (folder / "log").string() + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << contents(folder / "log");
  std::vector<std::string> found;
  for (int r = 0; r < ranks; ++r) found.push_back(contents(folder / ("rank-" + std::to_string(r))));
  return found;
}

TEST(mpi_group, processes_of_mpirun_deal_and_gather) {
  if (const char* folder = std::getenv("QKGEOM_TEST_FOLDER")) return act_as_rank(folder);
  for (const int n : {1, 2, 3, 4, 7}) {
    std::string said = "dealt 135, passed 30, sizes";
    for (int r = 0; r < n; ++r)
      said += ' ' + std::to_string(3000000 + 1000 * r) + std::string(2, static_cast<char>('a' + r));
    for (const auto& text : by_ranks(n)) EXPECT_EQ(text, said);
  }
}

}  // namespace
}  // namespace qkgeom
