// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/progress.hpp"

namespace qkgeom {

/// Thrown on every process of a group when some of them cannot begin; the sentence is the same on all.
class group_error : public error {
 public:
  using error::error;
};

/// The processes that make one capture together, by default this one alone. All processes call `gather` and `wait`, in
/// the same order.
class process_group {
 public:
  process_group() = default;
  process_group(const process_group&) = delete;
  process_group& operator=(const process_group&) = delete;
  virtual ~process_group() = default;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  /// The next number of a count from 0 that all processes share.
  virtual index_t next() { return next_++; }
  /// Adds to the progress of all processes, which `bar` of rank 0 shows. Any thread may call it.
  virtual void passed(progress& bar, index_t tokens) { bar.add(tokens); }
  /// The work that an error is about, for its message.
  virtual void works_on(const std::string&) {}
  /// Waits until all processes are here; meanwhile the bar goes on.
  virtual void wait(progress&) {}
  /// The texts of all processes, by rank.
  virtual std::vector<std::string> gather(const std::string& text) { return {text}; }

  /// Calls f. What it throws on some process is thrown on all as a `group_error`; alone it passes through.
  void begin(const std::function<void()>& f);
  /// Throws a `group_error` unless `text` is the same on all processes; `what` names it.
  void agree(const std::string& text, const std::string& what);

 private:
  index_t next_ = 0;
};

}  // namespace qkgeom
