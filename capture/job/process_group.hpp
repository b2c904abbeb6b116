// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Thrown on every process of a group when some of them cannot begin; the message is the same on all.
class group_error : public error {
 public:
  using error::error;
};

/// Processes that do one piece of work together, by default this one alone. All of them call `wait`, `gather`, `begin`,
/// `agree` and `deal`, in the same order.
class process_group {
 public:
  process_group() = default;
  process_group(const process_group&) = delete;
  process_group& operator=(const process_group&) = delete;
  virtual ~process_group() = default;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  /// Adds to the progress of all processes. Returns on rank 0 the progress of all since its last call, and 0 on others.
  /// Any thread may call it.
  virtual index_t passed(index_t units) { return units; }
  /// Sets the work that a later error's message names.
  virtual void works_on(const std::string&) {}
  /// Waits until all processes are here; meanwhile rank 0 calls `show` with the progress of the others.
  virtual void wait(const std::function<void(index_t)>&) {}
  void wait() {
    wait([](index_t) {});
  }
  virtual std::vector<std::string> gather(const std::string& text) { return {text}; }

  /// Calls f. An exception on some process is thrown on all as a `group_error`; a single process lets it pass.
  void begin(const std::function<void()>& f) {
    if (size() == 1) return f();
    std::string failure;
    try {
      f();
    } catch (const std::exception& e) {
      failure = e.what();
      if (failure.empty()) failure = "unknown error";
    }
    const auto failures = gather(failure);
    const auto first = std::find_if(failures.begin(), failures.end(), [](const auto& text) { return !text.empty(); });
    if (first == failures.end()) return;
    const bool all_alike =
        std::all_of(failures.begin(), failures.end(), [&](const auto& text) { return text == *first; });
    if (all_alike) throw group_error(*first);
    throw group_error("rank " + std::to_string(first - failures.begin()) + ": " + *first);
  }

  /// Throws a `group_error` unless `text` is the same on all processes; `what` names it.
  void agree(const std::string& text, const std::string& what) {
    const auto texts = gather(text);
    for (std::size_t r = 1; r < texts.size(); ++r)
      if (texts[r] != texts[0])
        throw group_error("rank " + std::to_string(r) + " has another " + what + " than rank 0");
  }

  /// Calls f(i) for each i in [0, n) on one of the processes, ascending on each: a free process takes the next. Returns
  /// on all together; `show` as in `wait`.
  template <class F>
  void deal(index_t n, const F& f, const std::function<void(index_t)>& show) {
    for (index_t i = next() - dealt_; i < n; i = next() - dealt_) f(i);
    dealt_ += n + size();  // each process has taken one number past the end
    wait(show);
  }

 protected:
  /// Returns the next number of a count from 0 that all processes share.
  virtual index_t next() { return next_++; }

 private:
  index_t next_ = 0, dealt_ = 0;
};

inline process_group& this_process() {
  static process_group alone;
  return alone;
}

}  // namespace qkgeom
