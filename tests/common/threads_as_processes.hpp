// SPDX-License-Identifier: MIT
#pragma once

#include <barrier>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "qkgeom/processes/process_group.hpp"

namespace qkgeom::test {

/// Threads in place of processes: one `process_group` for each.
class threads_as_processes {
 public:
  /// `last_first`: of the first numbers that are dealt, the last process gets the first.
  explicit threads_as_processes(int size, bool last_first = false)
      : size_(size), first_takers_(last_first ? size : 0), texts_(size), barrier_(size), sent_(size) {}

  /// What one process sent: texts by `gather`, `collect` and `broadcast`, their bytes, and reports of progress.
  struct messages {
    index_t texts = 0, bytes = 0, progress = 0;
  };

  class member final : public process_group {
   public:
    member(threads_as_processes& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }
    using process_group::wait;
    void wait(const std::function<void(index_t)>&) override { all_.barrier_.arrive_and_wait(); }
    index_t passed(index_t units) override {
      const std::lock_guard lock(all_.mutex_);
      ++all_.sent_[rank_].progress;
      return units;
    }
    std::vector<std::string> gather(const std::string& text) override {
      ++all_.sent_[rank_].texts;
      all_.sent_[rank_].bytes += static_cast<index_t>(text.size());
      all_.texts_[rank_] = text;
      all_.barrier_.arrive_and_wait();
      auto texts = all_.texts_;
      all_.barrier_.arrive_and_wait();
      return texts;
    }
    void collect(const std::string& text, const std::function<void(const std::string&)>& take) override {
      for (const auto& one : gather(text))
        if (rank_ == 0) take(one);
    }
    std::string broadcast(const std::string& text) override { return gather(rank_ == 0 ? text : "")[0]; }

   protected:
    index_t next() override {
      std::unique_lock lock(all_.mutex_);
      all_.taken_.wait(lock, [&] { return all_.next_ >= all_.first_takers_ || all_.next_ + rank_ + 1 == all_.size_; });
      all_.taken_by_.push_back(rank_);
      all_.taken_.notify_all();
      return all_.next_++;
    }

   private:
    threads_as_processes& all_;
    int rank_;
  };

  /// Calls f(group) on each thread. Returns what they threw.
  std::vector<std::string> run(const std::function<void(process_group&)>& f) {
    std::vector<std::string> errors(size_);
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([&, r] {
        member group(*this, r);
        try {
          f(group);
        } catch (const std::exception& e) {
          errors[r] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    return errors;
  }
  const std::vector<int>& taken_by() const { return taken_by_; }
  const std::vector<messages>& sent() const { return sent_; }

 private:
  int size_, first_takers_;
  std::vector<std::string> texts_;
  std::barrier<> barrier_;
  std::mutex mutex_{};
  std::condition_variable taken_{};
  index_t next_ = 0;
  std::vector<int> taken_by_{};
  std::vector<messages> sent_;
};

}  // namespace qkgeom::test
