// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/gguf/gguf_model.hpp"
#include "capture/model/untrained.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {

/// The entries of one expert's matrix in a tensor that holds all experts of a layer: (r, c) is the tensor's entry first
/// + r row + c column.
struct expert_part {
  index_t first, row, column;
  /// MXFP4 scales: one exponent per 32 entries; null for other types. `first` counts entries, two per byte.
  const std::byte* scales = nullptr;
};

/// The weights of a model, mapped into memory: model.safetensors of a folder, or the shards that
/// model.safetensors.index.json lists; or a GGUF file (`find_gguf`), with transformers' names and order of rows; or
/// drawn weights. If one tensor holds the experts of a layer, each expert has tensors of its own too
/// (`experts.0.gate_proj.weight`, `.bias`). Such tensors: GPT-OSS' `experts.gate_up_proj` (gate and up alternate, input
/// by output) or `..._blocks` and `..._scales` in MXFP4 (output by input); Llama 4's
/// `feed_forward.experts.gate_up_proj` (gate before up); others without biases (output by input, gate before up).
class checkpoint {
 public:
  /// Opens a model's weights. Throws `error` naming the file that is missing or broken.
  explicit checkpoint(const std::filesystem::path& model);
  /// Draws the weights of an untrained model; reads no file.
  explicit checkpoint(untrained_weights drawn) : untrained_(std::move(drawn)) {}

  /// Returns the name of a tensor that ends in `ending`, behind some other name; empty if there is none.
  std::string name_behind(const std::string& ending) const;
  bool has(const std::string& name) const { return untrained_ ? untrained_->has(name) : tensors_.count(name) != 0; }
  bool is_gguf() const { return !tensors_.empty() && tensors_.begin()->second.gguf; }
  /// Returns whether some weights are FP8. They are read as value times scale; activations are not quantised, unlike in
  /// a model that runs in FP8.
  bool has_fp8() const;

  /// Counts the entries of a tensor's row: the product of all dimensions but the first.
  static index_t row_size(const std::vector<index_t>& shape) {
    index_t n = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) n *= shape[i];
    return n;
  }

  /// Throws `error` unless there is a tensor of that name and shape, in BF16, F16, F32, F8_E4M3 with scales
  /// (NAME_scale_inv: one, or one per block of 128 x 128 entries), MXFP4, or blocks of GGUF.
  void check(const std::string& name, const std::vector<index_t>& shape) const;

  /// Reads rows [first, first + count) of the tensor `name` of shape `shape` (a vector has rows of one entry), widened
  /// to f32. `to_bf16`: rounds them as a model loaded in bf16 does. Throws `error` naming tensor and entry on NaN and
  /// Inf.
  void read(const std::string& name, const std::vector<index_t>& shape, index_t first, index_t count, bool to_bf16,
            float* out) const;

  /// Reads rows rounded to bf16; BF16 weights are copied.
  void read_bf16(const std::string& name, const std::vector<index_t>& shape, index_t first, index_t count,
                 bf16* out) const;

  /// Returns a SHA-256 of the tensors' names, types, shapes and bytes, which `pool` reads. The folder and the division
  /// into files do not matter. For drawn weights: `untrained_weights::fingerprint`.
  std::string fingerprint(thread_pool& pool) const;
  /// Returns a line per file of weights: its name, and what changes when somebody writes to it (size, times, inode).
  std::string file_stamps() const;

  /// Replaces rows [first, first + count) of a tensor by the rows of `from`'s tensor `from_name`; the files stay as
  /// they are. Throws `error` unless both tensors have one shape and one type, BF16, F16 or F32 of safetensors.
  void replace_rows(const std::string& name, index_t first, index_t count, const checkpoint& from,
                    const std::string& from_name);

  /// Writes all tensors of safetensors into one file, as transformers reads it.
  void write(const std::filesystem::path& path) const;

  /// Releases the tensor's pages from this process' memory until it is read again; the system's cache keeps them.
  void forget(const std::string& name) const;

 private:
  /// A tensor and its file, of one of two kinds.
  struct stored {
    tensor_entry entry;
    std::shared_ptr<const safetensors_file> file{};
    std::optional<named_tensor> gguf{};
    std::optional<expert_part> part{};
    std::shared_ptr<std::vector<std::byte>> own{};  ///< a copy with replaced rows, in place of the file's bytes
  };
  const tensor_entry& scales_of(const std::string& name) const;
  const tensor_entry& entry(const std::string& name) const { return tensor(name).entry; }
  const stored& tensor(const std::string& name) const;
  void forget(const stored& t) const;
  void read_folder();
  void add_experts();
  bool read_part(const stored& t, index_t first, index_t count, index_t width, bool to_bf16, float* out) const;

  std::filesystem::path folder_;
  std::map<std::string, stored> tensors_;
  std::optional<untrained_weights> untrained_{};
};

}  // namespace qkgeom
