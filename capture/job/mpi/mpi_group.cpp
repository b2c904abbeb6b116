// SPDX-License-Identifier: MIT
#include "capture/job/mpi/mpi_group.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {
namespace {

/// All ranks of MPI_COMM_WORLD. Rank 0 holds two counters that every rank adds to by itself: the next number and the
/// progress. One call of MPI runs at a time (MPI_THREAD_SERIALIZED).
class mpi_group final : public process_group {
 public:
  mpi_group() {
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given);
    require(given >= MPI_THREAD_SERIALIZED, "this MPI cannot be called from several threads in turn");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    const MPI_Aint bytes = rank_ == 0 ? counters * sizeof(long long) : 0;
    MPI_Win_allocate(bytes, sizeof(long long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory_, &window_);
    if (rank_ == 0) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window_);
      std::fill_n(memory_, counters, 0);
      MPI_Win_unlock(0, window_);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window_);
  }
  ~mpi_group() override {
    idle([] {});  // so that the others do not spin while rank 0 writes tables
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  index_t passed(index_t units) override {
    const std::lock_guard lock(mutex_);
    add(units_passed, units);
    return rank_ == 0 ? unshown() : 0;
  }
  void works_on(const std::string& work) override { work_ = work; }
  using process_group::wait;
  void wait(const std::function<void(index_t)>& show) override {
    idle([&] {
      if (const index_t more = rank_ == 0 ? unshown() : 0; more > 0) show(more);
    });
  }
  std::vector<std::string> gather(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    const int length = static_cast<int>(text.size());
    require(text.size() < 1u << 30, "the processes exchange at most 1 GiB of text each");
    std::vector<int> lengths(size_), begin(size_ + 1);
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
    long long all = 0;
    for (int r = 0; r < size_; ++r) {
      all += lengths[r];
      require(all < 1ll << 31, "the processes exchange at most 2 GiB of text");
      begin[r + 1] = static_cast<int>(all);
    }
    std::string joined(all, '\0');
    MPI_Allgatherv(text.data(), length, MPI_CHAR, joined.data(), lengths.data(), begin.data(), MPI_CHAR,
                   MPI_COMM_WORLD);
    std::vector<std::string> texts;
    for (int r = 0; r < size_; ++r) texts.push_back(joined.substr(begin[r], lengths[r]));
    return texts;
  }

  const std::string& work() const { return work_; }

 protected:
  index_t next() override {
    const std::lock_guard lock(mutex_);
    return add(next_number, 1);
  }

 private:
  enum counter { next_number, units_passed, counters };

  /// Adds to a counter of rank 0 and returns its value before. Hold `mutex_`.
  index_t add(int c, index_t n) {
    const long long more = n;
    long long before = 0;
    MPI_Fetch_and_op(&more, &before, MPI_LONG_LONG, 0, c, MPI_SUM, window_);
    MPI_Win_flush(0, window_);
    return before;
  }
  /// Returns the progress of all ranks since the last call. Hold `mutex_`.
  index_t unshown() {
    const index_t all = add(units_passed, 0), more = all - shown_;
    shown_ = all;
    return more;
  }
  /// Waits for all ranks without keeping a core busy; calls `f` now and then.
  template <class F>
  void idle(const F& f) {
    MPI_Request arrived = MPI_REQUEST_NULL;
    int done = 0;
    for (bool first = true; !done; first = false) {
      {
        const std::lock_guard lock(mutex_);
        if (first) MPI_Ibarrier(MPI_COMM_WORLD, &arrived);
        MPI_Test(&arrived, &done, MPI_STATUS_IGNORE);
        f();
      }
      if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  int rank_ = 0, size_ = 1;
  long long* memory_ = nullptr;
  MPI_Win window_ = MPI_WIN_NULL;
  std::mutex mutex_{};
  index_t shown_ = 0;
  std::string work_{};
};

/// Hashes the running program (SHA-256).
std::string this_build() {
  const mapped_file program("/proc/self/exe");
  return sha256().add(program.bytes()).hex();
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 1);
  return "";
}

/// Notes on rank 0 that ranks run on different CPUs, whose matrix products may differ in their last bits.
void note_other_cpus(mpi_group& group) {
  const auto names = group.gather(cpu_name());
  const auto other = std::find_if(names.begin(), names.end(), [&](const auto& name) { return name != names[0]; });
  if (group.rank() == 0 && other != names.end())
    std::fprintf(
        stderr,
        "note: rank %d runs on another CPU (%s) than rank 0 (%s); their products may differ in the last bits, and "
        "then the bytes of a shard depend on who writes it\n",
        static_cast<int>(other - names.begin()), other->c_str(), names[0].c_str());
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void abort_all(const std::string& program, const std::string& advice, const mpi_group& group, const std::string& why) {
  const std::string work = group.work().empty() ? "" : ", " + group.work();
  std::fflush(stdout);
  std::fprintf(stderr, "%s: rank %d of %d on %s%s: %s; all ranks end%s%s\n", program.c_str(), group.rank(),
               group.size(), host_name().c_str(), work.c_str(), terminal_text(why).c_str(),
               advice.empty() ? "" : ", and ", advice.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 2);
  std::_Exit(2);
}

/// Returns whether a launcher (mpirun, srun --mpi=pmix) started this process, by the variables that it sets.
bool started_by_mpi() {
  // Open MPI and PRRTE; PMIx, as srun --mpi=pmix; MPICH and srun --mpi=pmi2.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

}  // namespace

void run_with_mpi(const std::string& program, const std::string& advice,
                  const std::function<void(process_group&)>& body) {
  if (!started_by_mpi()) return body(this_process());
  auto group = std::make_unique<mpi_group>();
  try {
    require_no_other_process(group->size());  // a launcher of another MPI
    group->agree(this_build(), "build of this program");
    note_other_cpus(*group);
    body(*group);
  } catch (const group_error& e) {
    // mpirun kills the others once one has ended with 2: rank 0 prints before all end together.
    std::fflush(stdout);
    if (group->rank() == 0) std::fprintf(stderr, "%s: %s\n", program.c_str(), terminal_text(e.what()).c_str());
    group.reset();
    std::_Exit(2);
  } catch (const std::bad_alloc&) {
    if (group->size() == 1) throw;
    abort_all(program, advice, *group, "not enough memory");
  } catch (const std::exception& e) {
    if (group->size() == 1) throw;
    abort_all(program, advice, *group, e.what());
  }
}

}  // namespace qkgeom
