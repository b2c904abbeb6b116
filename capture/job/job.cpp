// SPDX-License-Identifier: MIT
#include "capture/job/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "capture/forward/cpu_forward_pass.hpp"
#include "capture/job/batches.hpp"
#include "capture/job/inputs.hpp"
#include "capture/job/prepare.hpp"
#include "capture/job/stores/moment_store.hpp"
#include "capture/job/stores/resume_state.hpp"
#include "capture/job/stores/row_store.hpp"
#include "capture/job/stores/statistics_store.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/progress.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

// Manifest fields: hash of the tokenised documents and of the first bytes of the weights; `checkpoint::fingerprint`.
constexpr const char *inputs_field = "inputs_sha256", *weights_field = "weights_sha256";

std::vector<index_t> lengths_of(const std::vector<captured_document>& documents) {
  std::vector<index_t> tokens;
  for (const captured_document& d : documents) tokens.push_back(d.tokens);
  return tokens;
}

capture_manifest manifest_in(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  return parse_manifest(read_text(path, max_manifest_bytes), path.string());
}

/// What a job works with; all of it must outlive the job.
struct job_setup {
  const capture_options& options;
  const capture_manifest& manifest;
  const input_check& inputs;
  const std::string& weights;  ///< `checkpoint::fingerprint`
  const decoder_description& model;
  const tokenizer& tokens;
  const moment_function& moments;
  forward_pass& forward;
  live_analysis* analysis;  ///< null: none
  thread_pool& pool;
};

/// A running capture: takes the documents in order and writes a shard whenever one is full.
class capture_job {
 public:
  explicit capture_job(const job_setup& setup)
      : setup_(setup),
        options_(setup.options),
        lengths_(lengths_of(setup.inputs.documents)),
        blocks_(moment_blocks_of(lengths_)),
        ranges_(shards_of(lengths_, options_.moments)),
        writer_(options_.out, setup.manifest),
        rows_(writer_.manifest(), sampler_of(setup.model, options_.plan), options_.plan.compute,
              options_.plan.same_positions, options_.documents.skip) {
    if (options_.moments) {
      moments_.emplace(writer_.manifest(), grid_of(setup.manifest, "moments"), setup.moments,
                       options_.plan.sampler.skip_first);
      takes_moments_ = setup_.forward.takes_moments(*moments_);
    }
    if (options_.softmax || options_.loss)
      statistics_.emplace(writer_.manifest(), setup.model, grid_of(setup.manifest, options_.loss ? "loss" : "softmax"),
                          options_.softmax, options_.loss);
    takes_softmax_ = options_.softmax && setup_.forward.takes_softmax(*statistics_);
    state_.settings = manifest_text(setup.manifest);
    state_.inputs = setup_.inputs.hash.hex();
    state_.weights = setup_.weights;
    if (const auto earlier = read_state(options_.out)) adopt(*earlier);
    write_state(options_.out, state_);
  }

  void run(const document_list& documents, capture_summary& summary) {
    index_t left = 0;
    for (std::size_t i = first_document(); i < setup_.inputs.documents.size(); ++i)
      left += setup_.inputs.documents[i].tokens;
    progress bar("capture", left, "tokens");
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::vector<std::int32_t>> batch;
    std::size_t begin = first_document(), end = begin;
    documents.for_each([&](index_t index, const document& d) {
      const std::size_t i = index;
      if (i < begin) return;
      if (batch.empty()) end = batch_end(lengths_, begin, ranges_[shard_].second, options_.batch_tokens);
      batch.push_back(setup_.tokens.encode(d.text, writer_.manifest().context_length));
      ++summary.documents;
      summary.tokens += lengths_[i];
      if (i + 1 < end) return;
      run_batch(begin, batch, bar);
      batch.clear();
      begin = end;
      if (end == ranges_[shard_].second) write_shard();
    });
    json extra = {{inputs_field, state_.inputs}, {weights_field, state_.weights}};
    if (!state_.moments.empty()) extra[moments_hashes_field] = state_.moments;
    writer_.finish(extra);
    remove_state(options_.out);
    bar.done();
    if (options_.loss) add_loss(summary);
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::size_t first_document() const {
    return shard_ < ranges_.size() ? ranges_[shard_].first : setup_.inputs.documents.size();
  }

  std::vector<captured_document> documents_of(std::size_t shard) const {
    const captured_document* const all = setup_.inputs.documents.data();
    return {all + ranges_[shard].first, all + ranges_[shard].second};
  }

  void adopt(const resume_state& earlier) {
    const std::string where = (options_.out / "progress.json").string();
    require(options_.resume, options_.out.string(),
            " holds an unfinished capture (progress.json): --resume continues it");
    require(earlier.settings == state_.settings, where,
            " belongs to a capture with other settings; a capture is resumed with the options it was begun with");
    require(earlier.inputs == state_.inputs && (earlier.weights.empty() || earlier.weights == state_.weights), where,
            " belongs to a capture of other documents, another tokenizer or other weights");
    require(earlier.done.shards.size() <= ranges_.size(), where, " names more shards than there are");
    const auto documents = earlier.done.documents.value_or(std::vector<captured_document>{});
    for (const captured_shard& shard : earlier.done.shards) {
      const auto expected = documents_of(shard_);
      const captured_document* const first = documents.data() + ranges_[shard_].first;
      require(documents.size() >= ranges_[shard_].second && std::equal(expected.begin(), expected.end(), first), where,
              " disagrees with the documents about ", shard.file);
      writer_.adopt_shard(expected, shard);
      ++shard_;
    }
    state_.done = writer_.manifest();
    if (!moments_ || shard_ == 0) return;
    state_.moments = earlier.moments;
    const std::size_t blocks = block_of(shard_ - 1) + 1;
    require(state_.moments.empty() || state_.moments.size() == blocks, where, " must list ", blocks,
            " files of moments, not ", state_.moments.size());
    for (std::size_t b = 0; b < state_.moments.size(); ++b)
      check_digest(b + 1 < blocks ? options_.out / moments_name(static_cast<index_t>(b)) : moments_path(shard_ - 1),
                   state_.moments[b]);
    const fs::path saved = moments_path(shard_ - 1);
    require(fs::is_regular_file(saved), saved.string(), ": the moments that belong to ", where, " are missing");
    if (!ends_block(shard_ - 1)) moments_->read(saved);
  }

  void add_loss(capture_summary& summary) const {
    const auto& l = statistics_->loss();
    summary.loss_tokens = l.tokens;
    summary.last_loss_tokens = l.last_tokens;
    if (l.tokens > 0) summary.loss = l.sum / l.tokens;
    if (l.last_tokens > 0) summary.last_loss = l.last_sum / l.last_tokens;
  }

  std::size_t block_of(std::size_t shard) const { return blocks_[ranges_[shard].first]; }
  bool ends_block(std::size_t shard) const {
    return shard + 1 == ranges_.size() || block_of(shard + 1) != block_of(shard);
  }
  /// File of the moments of a block up to this shard. A block's last shard completes its file.
  fs::path moments_path(std::size_t shard) const {
    const std::string name = moments_name(static_cast<index_t>(block_of(shard)));
    return options_.out / (ends_block(shard) ? name : name + ".upto-" + std::to_string(shard));
  }
  void write_moments() {
    capture_manifest own = writer_.manifest();
    std::size_t first = shard_;
    while (first > 0 && block_of(first - 1) == block_of(shard_)) --first;
    const captured_document* const all = setup_.inputs.documents.data();
    own.documents->assign(all + ranges_[first].first, all + ranges_[shard_].second);
    // A capture that was begun without these hashes goes on without them.
    const bool known = state_.moments.size() >= block_of(shard_);
    const std::string digest = moments_->write(moments_path(shard_), own);
    if (known) {
      state_.moments.resize(block_of(shard_) + 1);
      state_.moments.back() = digest;
    }
    if (ends_block(shard_))
      moments_->clear();
    else
      moments_->read(moments_path(shard_));
  }

  /// Runs a batch of documents, `first` and those after it. Each layer hands them out in order, so that stores by layer
  /// hold them in order whatever the batches.
  void run_batch(std::size_t first, const std::vector<std::vector<std::int32_t>>& ids, progress& bar) {
    const index_t layers =
        options_.loss ? writer_.manifest().model.n_layers : writer_.manifest().layers.back().layer + 1;
    batch_sinks sinks;
    row_choice choice;
    const auto document = [&](std::size_t i) { return static_cast<std::int32_t>(first + i); };
    if (keeps_rows(options_)) {
      sinks.choose = [&](std::size_t i, index_t layer) {
        return choice = rows_.choose(layer, document(i), static_cast<index_t>(ids[i].size()));
      };
      sinks.chosen = [&](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
        rows_.add(layer, choice, q, k, document(i), ids[i]);
      };
    }
    if (moments_ && !takes_moments_)
      sinks.rows = [&](std::size_t, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
        moments_->add(layer, q, k);
      };
    sinks.passed = [&](std::size_t i, index_t layer) {
      const auto tokens = static_cast<index_t>(ids[i].size());
      bar.add(tokens * (layer + 1) / layers - tokens * layer / layers);
    };
    const auto count = static_cast<index_t>(ids.size());
    const index_t more = static_cast<index_t>(ranges_[shard_].second - first) - count;
    if (statistics_) statistics_->add_documents(count, more);
    if (setup_.analysis) setup_.analysis->add_documents(count, more);
    const auto analyse = setup_.analysis ? setup_.analysis->sink() : nullptr;
    const bool measures = options_.softmax && !takes_softmax_;
    if (measures || analyse)
      sinks.attended = [&](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
        if (measures) measure_softmax(i, layer, q, k);
        if (analyse) analyse(i, layer, q, k);
      };
    if (options_.loss)
      sinks.losses = [&](std::size_t i, const token_predictions& found) { statistics_->add_losses(i, found.loss); };
    setup_.forward.run(std::vector<token_span>(ids.begin(), ids.end()), options_.plan.stage, sinks);
  }

  void measure_softmax(std::size_t document, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
    if (const auto measured = statistics_->measured(layer))
      statistics_->add(document, layer, measure_attention(setup_.pool, q, k, *measured));
  }

  void write_shard() {
    auto tensors = statistics_ ? statistics_->tensors() : std::vector<tensor_to_write>{};
    if (setup_.analysis)
      for (auto& tensor : setup_.analysis->tensors()) tensors.push_back(std::move(tensor));
    writer_.add_shard(documents_of(shard_), rows_.layers(), tensors);
    if (statistics_) statistics_->clear();
    if (setup_.analysis) setup_.analysis->clear();
    if (moments_) write_moments();
    state_.done = writer_.manifest();
    write_state(options_.out, state_);
    if (moments_ && shard_ > 0 && !ends_block(shard_ - 1)) fs::remove(moments_path(shard_ - 1));
    rows_.clear();
    ++shard_;
  }

  const job_setup setup_;
  const capture_options& options_;
  std::vector<index_t> lengths_;
  std::vector<std::size_t> blocks_;     // each document's block of moments
  std::vector<document_range> ranges_;  // documents of each shard
  capture_writer writer_;
  row_store rows_;
  std::optional<moment_store> moments_{};
  bool takes_moments_ = false;  // the forward pass fills the store itself
  std::optional<statistics_store> statistics_{};
  bool takes_softmax_ = false;  // likewise
  resume_state state_;
  std::size_t shard_ = 0;
};

/// Whether OUT already holds this capture, complete. Throws if it holds one with other settings, or damaged files.
bool is_complete(const capture_options& options, const capture_manifest& manifest, const input_check& inputs,
                 const std::string& weights, thread_pool& pool) {
  if (!fs::exists(options.out / "manifest.json")) return false;
  require(options.resume, "cannot write a capture to ", options.out.string(), ": it already holds one (manifest.json)");
  const capture existing = capture::open(options.out);
  const std::vector<captured_shard>& shards = existing.manifest().shards;
  capture_manifest found = existing.manifest();
  const bool same_documents = found.documents == inputs.documents;
  found.documents.reset();
  found.shards.clear();
  found.extra.erase(moments_hashes_field);
  auto wanted = manifest;
  if (found.extra.contains(inputs_field)) wanted.extra[inputs_field] = inputs.hash.hex();
  if (found.extra.contains(weights_field)) wanted.extra[weights_field] = weights;
  require(same_documents && manifest_text(found) == manifest_text(wanted), options.out.string(),
          " holds a capture of other documents or weights, or with other settings");
  pool.for_each(static_cast<index_t>(shards.size()), [&](index_t s, int) { check_shard(options.out, shards[s]); });
  check_moments(existing);
  return true;
}

void require_fresh(const capture_options& options) {
  if (!fs::is_directory(options.out) || fs::exists(options.out / "progress.json")) return;
  for (const auto& entry : fs::directory_iterator(options.out))
    require(entry.path().extension() != ".safetensors", options.out.string(),
            " holds safetensors files that belong to no capture under way: ", entry.path().filename().string());
}

/// Sums up the whole capture, from its files.
void measure(const capture_options& options, const input_check& inputs, capture_summary& summary) {
  const auto manifest = manifest_in(options.out);
  for (const captured_shard& s : manifest.shards) {
    summary.rows += s.rows;
    summary.bytes += fs::file_size(options.out / s.file);
  }
  if (options.moments)
    for (std::size_t b = 0; b < moment_blocks(lengths_of(inputs.documents)); ++b)
      summary.bytes += fs::file_size(options.out / moments_name(static_cast<index_t>(b)));
  summary.shards = static_cast<index_t>(manifest.shards.size());
  summary.empty =
      std::count_if(inputs.documents.begin(), inputs.documents.end(), [](const auto& d) { return d.tokens == 0; });
}

std::unique_ptr<forward_pass> make_decoder(const decoder_description& model, const checkpoint& weights,
                                           compute_type type, index_t last_layer, thread_pool& pool) {
  return cpu_forward_pass(model, weights, type, last_layer, pool);
}

/// Throws before the first document runs if the manifest would be larger than readers accept.
void require_readable_manifest(const input_check& inputs) {
  std::size_t values = 0;
  for (const captured_document& d : inputs.documents) values += 5 + d.labels.size();
  require(values <= max_json_values / 2, "the manifest of ", inputs.documents.size(),
          " documents would be too large to be read; capture them in several parts, which programs read as one");
}

/// Notes that buckets will hold too little for profiles of plasticity.
void note_buckets(const capture_manifest& m, const input_check& inputs, const capture_options& o, std::ostream& notes) {
  index_t longest = 0, documents = 0;
  for (const captured_document& d : inputs.documents) {
    longest = std::max(longest, d.tokens);
    documents += d.tokens > 0;
  }
  if (documents == 0) return;
  const bool uniform = m.bucket.kind == "uniform";
  const auto sixteenth = capture_manifest::sixteenth_of;
  if (uniform && m.bucket.size >= m.context_length) {
    notes << "note: a bucket of " << m.bucket.size << " tokens covers the whole context of " << m.context_length
          << ", so that no query bucket has earlier keys; --bucket-size " << sixteenth(m.context_length)
          << " is a sixteenth of it\n";
  } else if (2 * longest < m.context_length) {
    notes << "note: the longest document has " << longest << " tokens of a context of " << m.context_length
          << ", whose later buckets stay empty; --max-length " << longest << " ends the context there";
    if (o.plan.sampler.bucket_size == 0) notes << ", with buckets of " << sixteenth(longest);
    notes << '\n';
  }
  const double queries = static_cast<double>(documents * m.bucket.size) * m.rate;
  constexpr double few = 16;
  if (uniform && !o.moments && queries < few)
    notes << "note: about " << fmt::format("{:.3g}", queries) << " queries of a head are expected in a bucket, all "
          << "documents together: few for a query model; more documents, --rate or --moments give it more\n";
}

}  // namespace

capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend) {
  require(!options.moments || backend.moments, "moments of every token need a backend to compute them");
  require(!options.analyse || backend.analyses, "analyses of every document need a backend to compute them");
  prepared_capture prepared = prepare_capture(options, notes);
  const decoder_description& model = prepared.model;
  capture_manifest& manifest = prepared.manifest;
  const std::string context_note = note_on_context(manifest);
  if (!context_note.empty()) notes << "note: " << context_note << '\n';
  const auto analysis = options.analyse ? backend.analyses(manifest, *options.analyse) : nullptr;
  if (analysis) manifest.extra["analyse"].update(analysis->settings());
  const checkpoint weights(options.model);
  if (weights.has_fp8())
    notes << "note: weights in FP8 are read as value times scale; activations are not quantised, as they are where a "
             "model runs in FP8\n";
  add_sinks(manifest, model, weights);
  thread_pool pool(options.threads);
  const forward_pass_factory make_forward = backend.forward ? backend.forward : make_decoder;
  const auto forward = make_forward(model, weights, options.plan.compute, manifest.layers.back().layer, pool);
  if (options.loss) forward->check_output();
  const tokenizer tokens = load_tokenizer(options, prepared);
  const document_list documents(options.documents);
  // All documents are read before the first is run, so that a bad line fails now, not after hours.
  const input_check inputs = check_inputs(documents, tokens, model, manifest.context_length, options.model);
  require_readable_manifest(inputs);
  for (const captured_document& d : inputs.documents)
    if (d.tokens == 0) notes << "note: document '" << printable(d.id) << "' is empty and gives no rows\n";

  for (const std::string& field : options.documents.label_fields)
    if (std::none_of(inputs.documents.begin(), inputs.documents.end(),
                     [&](const captured_document& d) { return d.labels.is_object() && d.labels.contains(field); }))
      notes << "note: no document has a field '" << field << "' for a label\n";
  note_buckets(manifest, inputs, options, notes);
  if (options.moments) manifest.extra["moments"]["blocks"] = moment_blocks(lengths_of(inputs.documents));
  capture_summary summary;
  summary.note = context_note;
  summary.rope = rope_in_force(model, manifest.context_length);
  const std::string fingerprint = weights.fingerprint();
  summary.was_complete = is_complete(options, manifest, inputs, fingerprint, pool);
  if (!summary.was_complete) {
    require_fresh(options);
    const made_folder out(options.out);
    const job_setup setup{.options = options,
                          .manifest = manifest,
                          .inputs = inputs,
                          .weights = fingerprint,
                          .model = model,
                          .tokens = tokens,
                          .moments = backend.moments,
                          .forward = *forward,
                          .analysis = analysis.get(),
                          .pool = pool};
    capture_job(setup).run(documents, summary);
  } else {
    remove_state(options.out);
  }
  if (analysis) analysis->write_tables(options.out);
  measure(options, inputs, summary);
  return summary;
}

}  // namespace qkgeom
