// SPDX-License-Identifier: MIT
// Runs tile programs (backend/detail/tiles/tile_team.hpp) on the host as a block of threads that are not in step.
#pragma once

#include <deque>

#include "tests/backend/host_launcher.hpp"
#include "tests/common/fibre_block.hpp"

namespace qkgeom::test {

/// When an asynchronous copy is done: at once, or when its thread waits for it.
enum class copy_time { early, late };

struct thread_schedule {
  thread_order order;
  copy_time copies;
};

/// The team of a program as one thread of a block sees it; see `device_team`.
class fibre_team {
 public:
  template <class T>
  struct per_thread {
    T value;
    T& operator[](int) { return value; }
    const T& operator[](int) const { return value; }
  };

  fibre_team(fibre_block& block, int thread, copy_time copies)
      : block_(&block), thread_(thread), lane_(thread % fibre_block::warp), copies_(copies) {}

  template <class F>
  void each(const F& f) const {
    f(thread_);
  }
  void barrier() const { block_->wait_for_block(); }
  template <class F>
  void each_then_wait(const F& f) const {
    each(f);
    barrier();
  }

  template <int Bytes>
  void copy(void* to, const void* from, bool there) const {
    expect_aligned(to, Bytes), expect_aligned(from, Bytes);
    const pending made{to, there ? from : nullptr, Bytes};
    if (copies_ == copy_time::early)
      made();
    else
      open_.push_back(made);
  }
  void commit() const { batches_.push_back(std::exchange(open_, {})); }
  template <int Pending>
  void wait() const {
    for (; batches_.size() > Pending; batches_.pop_front())
      for (const pending& p : batches_.front()) p();
  }

  template <class Row>
  void load_matrices(per_thread<tile::fragment>& x, const Row& row) const {
    const bf16* const mine = row(thread_);
    expect_aligned(mine, 16);
    const auto rows = block_->exchange(mine);
    for (int m = 0; m < 4; ++m)
      std::memcpy(&x.value.word[m], rows[8 * m + lane_ / 4] + lane_ % 4 * 2, sizeof(std::uint32_t));
  }
  void multiply(per_thread<tile::products>& g, int m, int n, const per_thread<tile::fragment>& a,
                const per_thread<tile::fragment>& b, int half) const {
    struct operands {
      tile::fragment a;
      std::uint32_t b[2];
    };
    const auto given = block_->exchange(operands{a.value, {b.value.word[2 * half], b.value.word[2 * half + 1]}});
    const auto value = [](std::uint32_t word, int k) {
      return static_cast<float>(bf16{static_cast<std::uint16_t>(k % 2 == 0 ? word : word >> 16)});
    };
    for (int term = 0; term < 4; ++term) {
      const int row = lane_ / 4, row_half = term / 2, column = lane_ % 4 * 2 + term % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += value(given[row * 4 + k % 8 / 2].a.word[row_half + k / 8 * 2], k) *
               value(given[column * 4 + k % 8 / 2].b[k / 8], k);
      g.value.value[m][n][term] += sum;
    }
  }

  template <class Part>
  void replace_doubtful(per_thread<tile::doubtful_row>& x, const Part& part) const {
    const auto doubtful = block_->exchange(x.value.doubtful);
    for (int owner = 0; owner < fibre_block::warp; ++owner)
      for (int i = 0; i < tile::doubtful_row::size; ++i) {
        if ((doubtful[owner] >> i & 1) == 0) continue;
        per_thread<float> sum{part(thread_ - lane_ + owner, i, lane_)};
        sum_lanes<fibre_block::warp>(sum);
        if (lane_ == owner) x.value.value[i] = sum.value;
      }
  }

  template <class Add>
  void join_lanes(per_thread<tile::joined>& of, const Add& add) const {
    each([&](int t) {
      if (of[t].place >= 0) add(of[t]);
    });
  }

  template <int Width, class T>
  void sum_lanes(per_thread<T>& x) const {
    for (int step = Width / 2; step > 0; step /= 2) x.value += block_->exchange(x.value)[lane_ ^ step];
  }

 private:
  struct pending {
    void* to;
    const void* from;  ///< null: zeros
    int bytes;
    void operator()() const {
      if (from)
        std::memcpy(to, from, static_cast<std::size_t>(bytes));
      else
        std::memset(to, 0, static_cast<std::size_t>(bytes));
    }
  };

  fibre_block* block_;
  int thread_, lane_;
  copy_time copies_;
  mutable std::vector<pending> open_;
  mutable std::deque<std::vector<pending>> batches_;
};

/// A host_launcher whose programs run by threads under a schedule.
class fibre_launcher : public host_launcher {
 public:
  explicit fibre_launcher(const thread_schedule& schedule)
      : schedule_(schedule), block_(std::make_unique<fibre_block>(host_team::threads)) {}

  template <class Program>
  void launch(const Program& program, index_t blocks) const {
    for (index_t b = 0; b < blocks; ++b)
      with_shared_memory(program, [&](unsigned char* shared) {
        block_->run(schedule_.order, [&](int t) { program(fibre_team(*block_, t, schedule_.copies), b, shared); });
      });
  }

 private:
  thread_schedule schedule_;
  std::unique_ptr<fibre_block> block_;
};

}  // namespace qkgeom::test
