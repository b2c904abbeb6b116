// SPDX-License-Identifier: MIT
#include "capture/job/run_capture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "capture/forward/layer_weights.hpp"
#include "capture/job/prepare.hpp"
#include "capture/job/task_runner.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

capture_manifest manifest_in(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  return parse_manifest(read_text(path, max_manifest_bytes), path.string());
}

/// Returns whether OUT holds this capture, complete. Throws `error` if it holds other settings or damaged files.
bool is_complete(const run_options& run, const capture_manifest& manifest, const input_check& inputs,
                 const capture_cut& cut, const std::string& weights, thread_pool& pool, const process_group& group) {
  if (!fs::exists(run.out / "manifest.json")) return false;
  require(run.resume, "cannot write a capture to ", run.out.string(), ": it already holds one (manifest.json)");
  const capture existing = capture::open(run.out);
  const std::vector<captured_shard>& shards = existing.manifest().shards;
  capture_manifest found = existing.manifest();
  const auto [first, end] = cut.documents();
  const bool same_documents =
      found.documents && std::equal(found.documents->begin(), found.documents->end(), inputs.documents.begin() + first,
                                    inputs.documents.begin() + end);
  found.documents.reset();
  found.shards.clear();
  found.extra.erase(moments_hashes_field);
  found.extra.erase(notes_field);
  auto wanted = manifest;
  wanted.extra.erase(notes_field);
  wanted.extra.update(part_fields(run.part, manifest, cut));
  if (found.extra.contains(inputs_field)) wanted.extra[inputs_field] = inputs.hash.hex();
  if (found.extra.contains(weights_field)) wanted.extra[weights_field] = weights;
  require(same_documents && manifest_text(found) == manifest_text(wanted), run.out.string(),
          " holds a capture of other documents or weights, or with other settings");
  // Each process reads its share.
  pool.for_each(static_cast<index_t>(shards.size()), [&](index_t s, int) {
    if (s % group.size() == group.rank()) check_shard(run.out, shards[s]);
  });
  if (group.rank() == 0) check_moments(existing);
  return true;
}

void require_fresh(const fs::path& out) {
  if (!fs::is_directory(out) || !read_states(out).empty()) return;
  for (const auto& entry : fs::directory_iterator(out))
    require(entry.path().extension() != ".safetensors", out.string(),
            " holds safetensors files that belong to no capture under way: ", entry.path().filename().string());
}

/// Sums up the whole capture from its files.
void measure(const fs::path& out, const capture_cut& cut, capture_summary& summary) {
  const auto manifest = manifest_in(out);
  for (const captured_shard& s : manifest.shards) {
    summary.rows += s.rows;
    summary.bytes += fs::file_size(out / s.file);
  }
  const auto [first, end] = cut.moment_range();
  if (manifest.extra.contains("moments"))
    for (std::size_t b = first; b < end; ++b)
      summary.bytes += fs::file_size(out / moments_name(static_cast<index_t>(b)));
  summary.shards = static_cast<index_t>(manifest.shards.size());
  summary.empty = std::count_if(manifest.documents->begin(), manifest.documents->end(),
                                [](const auto& d) { return d.tokens == 0; });
}

/// Throws `error` before the first document runs if the manifest would be too large for readers.
void require_readable_manifest(const input_check& inputs, const document_range& documents) {
  std::size_t values = 0;
  for (std::size_t i = documents.first; i < documents.second; ++i) values += 5 + inputs.documents[i].labels.size();
  require(values <= max_json_values / 2, "the manifest of ", documents.second - documents.first,
          " documents would be too large to be read; capture them in several parts, which programs read as one");
}

/// Notes that documents are too short for a scaling of the rotary embedding, or that buckets will hold too few tokens
/// for profiles of plasticity.
void note_lengths(const prepared_capture& prepared, const input_check& inputs, bool usual_buckets,
                  std::ostream& notes) {
  const capture_manifest& m = prepared.manifest;
  index_t longest = 0, documents = 0;
  for (const captured_document& d : inputs.documents) {
    longest = std::max(longest, d.tokens);
    documents += d.tokens > 0;
  }
  if (documents == 0) return;
  if (const auto note = note_on_scaling(prepared.model.rope, m.context_length, longest); !note.empty())
    notes << "note: " << note << '\n';
  const bool uniform = m.bucket.kind == "uniform";
  const auto sixteenth = capture_manifest::sixteenth_of;
  if (uniform && m.bucket.size >= m.context_length) {
    notes << "note: a bucket of " << m.bucket.size << " tokens covers the whole context of " << m.context_length
          << ", so that no query bucket has earlier keys; --bucket-size " << sixteenth(m.context_length)
          << " is a sixteenth of it\n";
  } else if (2 * longest < m.context_length) {
    notes << "note: the longest document has " << longest << " tokens of a context of " << m.context_length
          << ", whose later buckets stay empty; --max-length " << longest << " ends the context there";
    if (usual_buckets) notes << ", with buckets of " << sixteenth(longest);
    notes << '\n';
  }
  const double queries = static_cast<double>(documents * m.bucket.size) * m.rate;
  constexpr double few = 16;
  if (uniform && !m.extra.contains("moments") && queries < few)
    notes << "note: about " << fmt::format("{:.3g}", queries) << " queries of a head are expected in a bucket, all "
          << "documents together: few for a query model; more documents, --rate or --moments give it more\n";
}

/// A capture that is ready to run its first document.
class ready_capture {
 public:
  ready_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend,
                process_group& group)
      : options_(options),
        prepared_(prepare_capture(options, notes)),
        note_(noted(note_on_context(prepared_.manifest), notes)),
        weights_(open_weights(prepared_, options.model.path)),
        pool_(options.run.threads),
        forward_(make_forward(backend, notes)),
        tokens_(load_tokenizer(options.inputs, options.model.path, prepared_, notes)),
        documents_(options.inputs),
        // Reads all documents before the first one runs, so that a bad line fails now, not after hours.
        inputs_(check_inputs(documents_, tokens_, prepared_.model, prepared_.manifest.context_length)),
        cut_(inputs_.documents, options.statistics.moments, options.run.part) {
    require_readable_manifest(inputs_, cut_.documents());
    require_tokens(options.selection.sampler.skip_first);
    note_documents(notes);
    capture_manifest& manifest = prepared_.manifest;
    note_lengths(prepared_, inputs_, options.selection.sampler.bucket_size == 0, notes);
    if (options.statistics.moments) manifest.extra["moments"]["blocks"] = moment_blocks(cut_.lengths);
    stamps_ = weights_.file_stamps();
    fingerprint_ = fingerprint_of_weights();
    complete_ = is_complete(options.run, manifest, inputs_, cut_, fingerprint_, pool_, group);
    if (complete_) return;
    require_fresh(options.run.out);
    out_.emplace(options.run.out);
    runner_.emplace(task_setup{.options = options,
                               .manifest = manifest,
                               .inputs = inputs_,
                               .cut = cut_,
                               .weights = fingerprint_,
                               .weight_files = stamps_,
                               .check_weights = [this] { check_weights(); },
                               .model = prepared_.model,
                               .tokens = tokens_,
                               .moments = backend.moments,
                               .forward = *forward_,
                               .pool = pool_,
                               .group = group});
  }

  /// Returns the state of the capture, which must be the same on all processes.
  std::string state() const { return complete_ ? "complete" : runner_->adopted(); }
  void begin(const std::string& arithmetic, std::ostream& notes) {
    if (!runner_) return;
    runner_->begin();
    if (!arithmetic.empty()) notes << "note: " << arithmetic << '\n';
  }
  capture_summary run(process_group& group) {
    capture_summary summary;
    summary.note = note_;
    std::vector<index_t> lengths;
    for (const captured_document& d : inputs_.documents)
      if (d.tokens > 0) lengths.push_back(d.tokens);
    summary.rope = rope_in_force(prepared_.model, prepared_.manifest.context_length, lengths);
    summary.was_complete = complete_;
    if (runner_) runner_->run(documents_, summary);
    if (group.rank() != 0) return summary;
    if (complete_) remove_state(options_.run.out);
    measure(options_.run.out, cut_, summary);
    return summary;
  }

 private:
  static std::string noted(std::string note, std::ostream& notes) {
    if (!note.empty()) notes << "note: " << note << '\n';
    return note;
  }
  /// Returns what an interrupted capture kept, if nobody has written to the files since, else reads the weights.
  std::string fingerprint_of_weights() {
    for (const resume_state& earlier : read_states(options_.run.out))
      if (options_.run.resume && !stamps_.empty() && earlier.weight_files == stamps_) return earlier.weights;
    return weights_.fingerprint(pool_);
  }
  void check_weights() {
    const std::string now = weights_.file_stamps();
    if (now == stamps_) return;
    require(weights_.fingerprint(pool_) == fingerprint_,
            "somebody wrote to the weights while they were captured; the shards in ", options_.run.out.string(),
            " are of the old ones, with which --resume goes on");
    stamps_ = now;
  }
  std::unique_ptr<forward_pass> make_forward(const capture_backend& backend, std::ostream& notes) {
    capture_manifest& manifest = prepared_.manifest;
    if (weights_.has_fp8())
      notes << "note: weights in FP8 are read as value times scale; activations are not quantised, as they are where a "
               "model runs in FP8\n";
    add_weights(manifest, prepared_.model, weights_);
    auto forward =
        backend.forward(prepared_.model, weights_, options_.model.compute, manifest.layers.back().layer, pool_);
    if (options_.statistics.loss) {
      forward->check_output();
      if (prepared_.model.tied && has_own_output(prepared_.model, weights_))
        keep_note(manifest, notes, "untied_output",
                  "config.json says that the embedding is the output matrix, but the weights have an output matrix of "
                  "their own, which gives the loss");
    }
    return forward;
  }
  void require_tokens(index_t skipped) const {
    index_t longest = 0;
    for (const captured_document& d : inputs_.documents) longest = std::max(longest, d.tokens);
    require(longest > 0, "the documents are empty: there is nothing to capture");
    require(longest > skipped, "--skip-first ", skipped, " leaves out every token: the longest document has ", longest);
  }
  void note_documents(std::ostream& notes) {
    capture_manifest& m = prepared_.manifest;
    if (const auto n = inputs_.replaced; n > 0)
      keep_note(m, notes, "text_replaced",
                fmt::format("the documents hold {} that {} not UTF-8; U+FFFD stands in {} place",
                            n == 1 ? "a part" : std::to_string(n) + " parts", n == 1 ? "is" : "are",
                            n == 1 ? "its" : "their"));
    if (const auto n = inputs_.begun_twice; n > 0)
      keep_note(m, notes, "second_bos",
                fmt::format("{} with two BOS tokens, the tokenizer's and one in the text; --no-bos leaves the "
                            "tokenizer's out",
                            n == 1 ? "a document begins" : std::to_string(n) + " documents begin"));
    for (const captured_document& d : inputs_.documents)
      if (d.tokens == 0) notes << "note: document '" << printable(d.id) << "' is empty and gives no rows\n";
    for (const std::string& field : options_.inputs.label_fields)
      if (std::none_of(inputs_.documents.begin(), inputs_.documents.end(),
                       [&](const captured_document& d) { return d.labels.is_object() && d.labels.contains(field); }))
        notes << "note: no document has a field '" << field << "' for a label\n";
  }

  const capture_options& options_;
  prepared_capture prepared_;
  std::string note_;
  checkpoint weights_;
  thread_pool pool_;
  std::unique_ptr<forward_pass> forward_;
  tokenizer tokens_;
  document_list documents_;
  input_check inputs_;
  capture_cut cut_;
  std::string stamps_{}, fingerprint_{};
  bool complete_ = false;
  std::optional<made_folder> out_{};
  std::optional<task_runner> runner_{};
};

}  // namespace

capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend,
                            process_group& group) {
  require(!options.statistics.moments || backend.moments, "moments of every token need a backend to compute them");
  std::unique_ptr<ready_capture> capture;
  group.begin([&] { capture = std::make_unique<ready_capture>(options, notes, backend, group); });
  group.agree(capture->state(), "model, documents, settings or unfinished capture");
  group.begin([&] { capture->begin(backend.arithmetic, notes); });
  return capture->run(group);
}

capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend) {
  process_group alone;
  return run_capture(options, notes, backend, alone);
}

}  // namespace qkgeom
