// SPDX-License-Identifier: MIT
#include "bench/common/ceilings.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "bench/common/rates.hpp"

namespace qkgeom::bench {

namespace {

template <class T>
double eigen_rate(int threads, Eigen::Index n) {
  using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  struct matrices {
    matrix a, b, c;
  };
  std::vector<matrices> own(threads);
  for (auto& m : own) m = {matrix::Random(n, n), matrix::Random(n, n), matrix::Zero(n, n)};
  const double seconds = best_round(threads, 1.5, [&](int t) {
    auto& m = own[t];
    m.c.noalias() = m.a.transpose() * m.b;
  });
  return 2.0 * static_cast<double>(n * n * n) * threads / seconds;
}

/// OpenBLAS's kernel sets that this CPU can run, as OPENBLAS_CORETYPE names them; "" leaves the choice to OpenBLAS.
std::vector<std::string> openblas_kernel_sets() {
  std::vector<std::string> sets{""};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.insert(sets.end(), {"HASWELL", "ZEN"});
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) sets.emplace_back("SKYLAKEX");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) sets.insert(sets.end(), {"COOPERLAKE", "SAPPHIRERAPIDS"});
#endif
  return sets;
}

/// Runs the program `gemm_rates`, if it is there and OpenBLAS knows the kernel set.
void add_openblas(const std::string& kernels, int threads, std::vector<gemm_rate>& rates) {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "gemm_rates";
  if (none || !std::filesystem::exists(program)) return;
  const std::string command = (kernels.empty() ? "" : "OPENBLAS_CORETYPE=" + kernels + " ") +
                              "OPENBLAS_NUM_THREADS=1 '" + program.string() + "' " + std::to_string(threads) +
                              " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char core[64];
  gemm_rate rate;
  if (!pipe || std::fscanf(pipe.get(), "%63s %lf %lf", core, &rate.sgemm, &rate.dgemm) != 3) return;
  rate.name = "OpenBLAS " + std::string(core) + (kernels.empty() ? " (its own choice)" : "");
  const auto same = [&](const gemm_rate& r) { return r.name == rate.name; };
  if (std::none_of(rates.begin(), rates.end(), same)) rates.push_back(rate);
}

double copy_rate(int threads) {
  constexpr std::size_t bytes = std::size_t{512} << 20;
  const std::unique_ptr<char[]> from(new char[bytes]), to(new char[bytes]);
  const std::size_t share = bytes / static_cast<std::size_t>(threads);
  const auto slice = [&](int t) { return static_cast<std::size_t>(t) * share; };
  best_round(threads, 0, [&](int t) {
    std::memset(from.get() + slice(t), 1, share);
    std::memset(to.get() + slice(t), 2, share);
  });
  const double seconds =
      best_round(threads, 1.5, [&](int t) { std::memcpy(to.get() + slice(t), from.get() + slice(t), share); });
  return 2.0 * static_cast<double>(share) * threads / seconds;
}

}  // namespace

double ceilings::best_sgemm() const {
  double best = 0;
  for (const auto& g : gemm) best = std::max(best, g.sgemm);
  return best;
}

double ceilings::best_dgemm() const {
  double best = 0;
  for (const auto& g : gemm) best = std::max(best, g.dgemm);
  return best;
}

const ceilings& measured_ceilings(int threads) {
  static std::map<int, ceilings> known;
  const auto [at, is_new] = known.try_emplace(threads);
  if (!is_new) return at->second;
  auto& c = at->second;
  c.threads = threads;
  c.gemm.push_back({"Eigen", eigen_rate<float>(threads, 1024), eigen_rate<double>(threads, 768)});
  for (const auto& kernels : openblas_kernel_sets()) add_openblas(kernels, threads, c.gemm);
  c.copy = copy_rate(threads);
  return c;
}

}  // namespace qkgeom::bench
