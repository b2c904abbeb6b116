// SPDX-License-Identifier: MIT
// The processes of mpirun as a group, and mpi_context on them: this program starts itself under mpirun.
#include "qkgeom/processes/mpi/mpi_group.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/mpi_context.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/planted/heads.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/moments.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// A profile under mpi_context of 9 documents, of which each process plants those that it holds.
std::string profile_bits(process_group& group) {
  std::vector<planted_rows<float>> planted;
  planted_rows<float> own{6, {}, {}, {}, {}, {}, {}};
  for (std::int32_t e = 0; e < 9; ++e) {
    if (e % group.size() != group.rank()) continue;
    auto one = plant<float>({.dim = 6,
                             .context_length = 400,
                             .documents = 1,
                             .rows = 50,
                             .seed = static_cast<std::uint64_t>(e + 1),
                             .drift_q = std::vector<double>(6, 0.01)});
    const auto append = [](auto& to, const auto& more) { to.insert(to.end(), more.begin(), more.end()); };
    append(own.q, one.q);
    append(own.k, one.k);
    append(own.q_position, one.q_position);
    append(own.k_position, one.k_position);
    own.q_document.resize(own.q_position.size(), e);
    own.k_document.resize(own.k_position.size(), e);
  }
  cpu_context cpu{{.threads = 1}};
  mpi_context ctx(cpu, group);
  const auto moments = accumulate(ctx, own.view(), uniform_buckets{100}, {.context_length = 400});
  const auto model = fit_queries(ctx, moments, {.covariance = covariance_kind::joint});
  const auto profile = plasticity_profile(ctx, model, own.view(), all_pairs{}, {.heatmap = true});
  std::string bits = bytes_of(moments.q) + bytes_of(moments.k) + bytes_of(profile.heatmap.sum);
  const auto add = [&](const plasticity_profile_result& p) {
    for (const auto& b : p.buckets) bits += bytes_of(b.plasticity) + bytes_of(b.document_sum);
  };
  add(profile);
  add(plasticity_profile(ctx, model, own.view(), sampled{.n = 30}));
  add(plasticity_profile(ctx, model, own.view(), all_pairs{.across_documents = true}));
  add(empirical_profile(ctx, own.view(), uniform_buckets{100}, 400, {.max_queries = 20}));
  const auto fit = fit_checks(ctx, moments, own.view());
  return bits + bytes_of(std::vector{fit.r2_scalar, fit.mae_proj, fit.residual.ks_distance, fit.noise.ks_distance});
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
    index_t all = 0, passed = 0;
    for (const auto& text : group.gather(std::to_string(seen) + ' ' + std::to_string(shown))) {
      std::istringstream words(text);
      index_t of_rank = 0, by_rank = 0;
      words >> of_rank >> by_rank;
      all += of_rank;
      passed += by_rank;
    }
    out << "dealt " << all << ", passed " << passed;
    const std::string large(3000000 + 1000 * group.rank(), static_cast<char>('a' + group.rank()));
    std::string sizes;
    group.collect(large, [&](const std::string& text) {
      sizes += ' ' + std::to_string(text.size()) + text.front() + text.back();
    });
    out << ", sizes" << group.broadcast(sizes) << '\n' << profile_bits(group);
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

TEST(mpi_group, processes_of_mpirun_deal_send_and_sum_to_the_bits_of_one) {
  if (const char* folder = std::getenv("QKGEOM_TEST_FOLDER")) return act_as_rank(folder);
  const std::string one = by_ranks(1)[0];
  const auto line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  const auto bits = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_EQ(line(one), "dealt 135, passed 30, sizes 3000000aa");
  for (const int n : {2, 3, 4, 7}) {
    std::string said = "dealt 135, passed 30, sizes";
    for (int r = 0; r < n; ++r)
      said += ' ' + std::to_string(3000000 + 1000 * r) + std::string(2, static_cast<char>('a' + r));
    for (const auto& text : by_ranks(n)) {
      EXPECT_EQ(line(text), said);
      EXPECT_TRUE(bits(text) == bits(one)) << n << " ranks";
    }
  }
}

}  // namespace
}  // namespace qkgeom
