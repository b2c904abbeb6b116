// SPDX-License-Identifier: MIT
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "capture/job/process_group.hpp"

namespace qkgeom::test {

/// Threads in place of processes: one `process_group` for each.
class threads_as_processes {
 public:
  explicit threads_as_processes(int size) : size_(size), texts_(size), barrier_(size), sent_(size) {}

  /// What one process sent: texts by `gather`, their bytes, and reports of progress.
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

   protected:
    index_t next() override {
      const std::lock_guard lock(all_.mutex_);
      all_.taken_by_.push_back(rank_);
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
  int size_;
  std::vector<std::string> texts_;
  std::barrier<> barrier_;
  std::mutex mutex_{};
  index_t next_ = 0;
  std::vector<int> taken_by_{};
  std::vector<messages> sent_;
};

}  // namespace qkgeom::test
