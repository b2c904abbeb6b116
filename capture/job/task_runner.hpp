// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "capture/job/cut.hpp"
#include "capture/job/documents.hpp"
#include "capture/job/run_capture.hpp"
#include "capture/job/stores/moment_store.hpp"
#include "capture/job/stores/resume_state.hpp"
#include "capture/job/stores/row_store.hpp"
#include "capture/job/stores/statistics_store.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom {

/// Inputs of a task runner; all must outlive it.
struct task_setup {
  const capture_options& options;
  const capture_manifest& manifest;
  const input_check& inputs;
  const capture_cut& cut;
  const std::string& weights;       ///< `checkpoint::fingerprint`
  const std::string& weight_files;  ///< `checkpoint::file_stamps`, from before the fingerprint
  /// Throws `error` if the weights have changed since.
  std::function<void()> check_weights;
  const decoder_description& model;
  const tokenizer& tokens;
  const moment_function& moments;
  forward_pass& forward;
  thread_pool& pool;
  process_group& group;
};

/// Runs a capture: takes one task after another, each task's documents in order, and writes every full shard.
class task_runner {
 public:
  explicit task_runner(const task_setup& setup);
  /// Returns the shards known to be complete, for comparison with other processes.
  std::string adopted() const;
  /// Merges the progress of earlier processes into one file; on rank 0.
  void begin();
  void run(const document_list& documents, capture_summary& summary);

 private:
  std::vector<captured_document> documents_of(std::size_t shard) const;
  index_t tokens_in(const document_range& range) const;
  /// Counts the shards of an earlier process.
  void adopt(const resume_state& earlier);
  void check_adopted() const;
  void save_state();
  /// Captures the shards of a task that no earlier process has captured.
  void run_task(const shard_range& task, const document_list& documents, progress& bar, capture_summary& summary);
  /// Names documents [first, end) in words.
  std::string names_of(std::size_t first, std::size_t end) const;
  /// Gathers the work of all processes. Rank 0 writes manifest.json, which ends the capture, and returns true.
  bool finish(capture_summary& summary);
  bool ends_block(std::size_t shard) const;
  /// Returns the file of a block's moments up to this shard. A block's last shard completes its file.
  std::filesystem::path moments_path(std::size_t shard) const;
  void write_moments();
  /// Runs a batch of documents from `first` on. Each layer passes them on in order, so that stores by layer hold them
  /// in order for any division into batches.
  void run_batch(std::size_t first, const std::vector<std::vector<std::int32_t>>& ids, progress& bar);
  void write_shard();

  const task_setup setup_;
  const capture_options& options_;
  const capture_cut& cut_;
  capture_writer writer_;
  row_store rows_;
  std::optional<moment_store> moments_{};
  bool takes_moments_ = false;  // the forward pass fills the store itself
  std::optional<statistics_store> statistics_{};
  resume_state state_;
  std::map<std::size_t, captured_shard> adopted_{};  // by number: shards of earlier runs
  std::map<std::size_t, captured_shard> own_{};      // shards of this process; on rank 0 those of earlier runs too
  std::size_t shard_ = 0;
};

}  // namespace qkgeom
