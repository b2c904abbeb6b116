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
#include "qkgeom/io/progress.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

// Of manifest.json: documents as tokens, beginning of the weights.
constexpr const char* inputs_field = "inputs_sha256";

std::vector<index_t> lengths_of(const std::vector<captured_document>& documents) {
  std::vector<index_t> tokens;
  for (const captured_document& e : documents) tokens.push_back(e.tokens);
  return tokens;
}

/// The capture under way: takes the documents in order and writes a shard whenever one is full.
class capture_job {
 public:
  capture_job(const capture_options& options, const capture_manifest& manifest, input_check inputs,
              const decoder_description& model, forward_pass& forward, const tokenizer& tokens, thread_pool& pool,
              const moment_function& moments, live_analysis* analyses)
      : options_(options),
        inputs_(std::move(inputs)),
        lengths_(lengths_of(inputs_.documents)),
        blocks_(moment_blocks_of(lengths_)),
        ranges_(shards_of(lengths_, options.moments)),
        forward_(forward),
        tokens_(tokens),
        pool_(pool),
        writer_(options.out, manifest),
        analyses_(analyses),
        rows_(writer_.manifest(), sampler_of(model, options.plan), options.plan.compute, options.plan.same_positions) {
    if (options.moments) {
      moments_.emplace(writer_.manifest(), grid_of(manifest, "moments"), moments, options.plan.sampler.skip_first);
      takes_moments_ = forward_.takes_moments(*moments_);
    }
    if (options.softmax || options.loss)
      statistics_.emplace(writer_.manifest(), model, grid_of(manifest, options.loss ? "loss" : "softmax"),
                          options.softmax, options.loss);
    takes_softmax_ = options.softmax && forward_.takes_softmax(*statistics_);
    state_.settings = manifest_text(manifest);
    state_.inputs = inputs_.hash.hex();
    if (const auto earlier = read_state(options.out)) adopt(*earlier);
    write_state(options.out, state_);
  }

  void run(const document_list& documents, capture_summary& summary) {
    index_t left = 0;
    for (std::size_t i = first_document(); i < inputs_.documents.size(); ++i) left += inputs_.documents[i].tokens;
    progress bar("capture", left, "tokens");
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::vector<std::int32_t>> batch;
    std::size_t begin = first_document(), end = begin;
    documents.for_each([&](index_t index, const document& d) {
      const auto i = static_cast<std::size_t>(index);
      if (i < begin) return;
      if (batch.empty()) end = batch_end(lengths_, begin, ranges_[shard_].second, options_.batch_tokens);
      batch.push_back(tokens_.encode(d.text, writer_.manifest().context_length));
      ++summary.documents;
      summary.tokens += lengths_[i];
      if (i + 1 < end) return;
      run_batch(begin, batch, bar);
      batch.clear();
      begin = end;
      if (end == ranges_[shard_].second) write_shard();
    });
    writer_.finish({{inputs_field, state_.inputs}});
    remove_state(options_.out);
    bar.done();
    if (options_.loss) add_loss(summary);
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::size_t first_document() const {
    return shard_ < ranges_.size() ? ranges_[shard_].first : inputs_.documents.size();
  }

  std::vector<captured_document> documents_of(std::size_t shard) const {
    const auto begin = inputs_.documents.begin();
    return {begin + static_cast<std::ptrdiff_t>(ranges_[shard].first),
            begin + static_cast<std::ptrdiff_t>(ranges_[shard].second)};
  }

  void adopt(const resume_state& earlier) {
    const std::string where = (options_.out / "progress.json").string();
    require(options_.resume, options_.out.string(),
            " holds an unfinished capture (progress.json): --resume continues it");
    require(earlier.settings == state_.settings, where,
            " belongs to a capture with other settings; a capture is resumed with ", "the options it was begun with");
    require(earlier.inputs == state_.inputs, where,
            " belongs to a capture of other documents, another tokenizer or other ", "weights");
    require(earlier.done.shards.size() <= ranges_.size(), where, " names more shards than there are");
    std::vector<captured_document> documents;
    if (earlier.done.documents) documents = *earlier.done.documents;
    for (const captured_shard& shard : earlier.done.shards) {
      const auto expected = documents_of(shard_);
      const auto first = documents.begin() + static_cast<std::ptrdiff_t>(ranges_[shard_].first);
      require(documents.size() >= ranges_[shard_].second && std::equal(expected.begin(), expected.end(), first), where,
              " disagrees with the documents about ", shard.file);
      writer_.adopt_shard(expected, shard);
      ++shard_;
    }
    state_.done = writer_.manifest();
    if (!moments_ || shard_ == 0) return;
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
  /// Where the moments up to and with a shard are kept: a block's last shard completes its file.
  fs::path moments_path(std::size_t shard) const {
    const std::string name = moments_name(static_cast<index_t>(block_of(shard)));
    return options_.out / (ends_block(shard) ? name : name + ".upto-" + std::to_string(shard));
  }
  void write_moments() {
    capture_manifest own = writer_.manifest();
    std::size_t first = shard_;
    while (first > 0 && block_of(first - 1) == block_of(shard_)) --first;
    own.documents->assign(inputs_.documents.begin() + static_cast<std::ptrdiff_t>(ranges_[first].first),
                          inputs_.documents.begin() + static_cast<std::ptrdiff_t>(ranges_[shard_].second));
    moments_->write(moments_path(shard_), own);
    if (ends_block(shard_))
      moments_->clear();
    else
      moments_->read(moments_path(shard_));
  }

  /// Runs documents from `first` on through the layers together. Of each layer they come in their order, so what is
  /// kept by layer is in the order of the documents, however they are parted.
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
    if (analyses_) analyses_->add_documents(count, more);
    const auto analyse = analyses_ ? analyses_->sink() : nullptr;
    const bool measures = options_.softmax && !takes_softmax_;
    if (measures || analyse)
      sinks.attended = [&](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
        if (measures) measure_softmax(i, layer, q, k);
        if (analyse) analyse(i, layer, q, k);
      };
    if (options_.loss)
      sinks.losses = [&](std::size_t i, const token_predictions& found) { statistics_->add_losses(i, found.loss); };
    forward_.run(std::vector<token_span>(ids.begin(), ids.end()), options_.plan.stage, sinks);
  }

  void measure_softmax(std::size_t document, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
    if (const auto asked = statistics_->measured(layer))
      statistics_->add(document, layer, measure_attention(pool_, q, k, *asked));
  }

  void write_shard() {
    auto beside = statistics_ ? statistics_->tensors() : std::vector<tensor_to_write>{};
    if (analyses_)
      for (auto& found : analyses_->tensors()) beside.push_back(std::move(found));
    writer_.add_shard(documents_of(shard_), rows_.layers(), beside);
    if (statistics_) statistics_->clear();
    if (analyses_) analyses_->clear();
    if (moments_) write_moments();
    state_.done = writer_.manifest();
    write_state(options_.out, state_);
    if (moments_ && shard_ > 0 && !ends_block(shard_ - 1)) fs::remove(moments_path(shard_ - 1));
    rows_.clear();
    ++shard_;
  }

  const capture_options& options_;
  input_check inputs_;
  std::vector<index_t> lengths_;
  std::vector<std::size_t> blocks_;     // of moments, of each document
  std::vector<document_range> ranges_;  // of the shards
  forward_pass& forward_;
  const tokenizer& tokens_;
  thread_pool& pool_;
  capture_writer writer_;
  live_analysis* analyses_;  // null: none
  row_store rows_;
  std::optional<moment_store> moments_{};
  bool takes_moments_ = false;  // the forward pass brings them
  std::optional<statistics_store> statistics_{};
  bool takes_softmax_ = false;  // likewise
  resume_state state_;
  std::size_t shard_ = 0;
};

/// Whether OUT already holds this very capture, finished. One with other settings throws.
bool is_complete(const capture_options& options, const capture_manifest& manifest, const input_check& inputs) {
  const fs::path path = options.out / "manifest.json";
  if (!fs::exists(path)) return false;
  require(options.resume, "cannot write a capture to ", options.out.string(), ": it already holds one (manifest.json)");
  capture_manifest there = parse_manifest(read_text(path, std::size_t{1} << 30), path.string());
  const bool same_documents = there.documents == inputs.documents;
  there.documents.reset();
  there.shards.clear();
  auto wanted = manifest;
  if (there.extra.contains(inputs_field)) wanted.extra[inputs_field] = inputs.hash.hex();
  require(same_documents && manifest_text(there) == manifest_text(wanted), options.out.string(),
          " holds a capture of other documents or weights, or with other settings");
  return true;
}

void require_fresh(const capture_options& options) {
  if (!fs::is_directory(options.out) || fs::exists(options.out / "progress.json")) return;
  for (const auto& entry : fs::directory_iterator(options.out))
    require(entry.path().extension() != ".safetensors", options.out.string(),
            " holds safetensors files that belong to no capture under way: ", entry.path().filename().string());
}

void measure(const capture_options& options, const input_check& inputs, capture_summary& summary) {
  const fs::path path = options.out / "manifest.json";
  const auto manifest = parse_manifest(read_text(path, std::size_t{1} << 30), path.string());
  for (const captured_shard& s : manifest.shards) {
    summary.rows += s.rows;
    summary.bytes += fs::file_size(options.out / s.file);
  }
  if (options.moments)
    for (std::size_t b = 0; b < moment_blocks(lengths_of(inputs.documents)); ++b)
      summary.bytes += fs::file_size(options.out / moments_name(static_cast<index_t>(b)));
  summary.shards = static_cast<index_t>(manifest.shards.size());
  summary.empty =
      std::count_if(inputs.documents.begin(), inputs.documents.end(), [](const auto& e) { return e.tokens == 0; });
}

std::unique_ptr<forward_pass> make_decoder(const decoder_description& model, const checkpoint& weights,
                                           compute_type type, index_t last_layer, thread_pool& pool) {
  return std::make_unique<cpu_forward_pass>(model, weights, type, last_layer, pool);
}

/// Says where buckets will hold too little for profiles of plasticity.
void note_buckets(const capture_manifest& m, const input_check& inputs, const capture_options& o, std::ostream& notes) {
  index_t longest = 0, documents = 0;
  for (const captured_document& e : inputs.documents) {
    longest = std::max(longest, e.tokens);
    documents += e.tokens > 0;
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
  const auto analyses = options.analyse ? backend.analyses(manifest, *options.analyse) : nullptr;
  if (analyses) manifest.extra["analyse"].update(analyses->settings());
  const checkpoint weights(options.model);
  if (weights.has_fp8())
    notes << "note: weights in FP8 are read as value times scale; activations are not quantised, as they are where a "
             "model runs in FP8\n";
  thread_pool pool(options.threads);
  const forward_pass_factory make_forward = backend.forward ? backend.forward : make_decoder;
  const auto forward = make_forward(model, weights, options.plan.compute, manifest.layers.back().layer, pool);
  if (options.loss) forward->check_output();
  const tokenizer tokens = load_tokenizer(options, prepared);
  const document_list documents(options.documents);
  // All documents are read once before the first is run: a bad line shows now, not after hours.
  const input_check inputs = check_inputs(documents, tokens, model, manifest.context_length, options.model);
  for (const captured_document& e : inputs.documents)
    if (e.tokens == 0) notes << "note: document '" << e.id << "' is empty and gives no rows\n";

  for (const std::string& field : options.documents.label_fields)
    if (std::none_of(inputs.documents.begin(), inputs.documents.end(),
                     [&](const captured_document& e) { return e.labels.is_object() && e.labels.contains(field); }))
      notes << "note: no document has a field '" << field << "' for a label\n";
  note_buckets(manifest, inputs, options, notes);
  if (options.moments) manifest.extra["moments"]["blocks"] = moment_blocks(lengths_of(inputs.documents));
  capture_summary summary;
  summary.was_complete = is_complete(options, manifest, inputs);
  if (!summary.was_complete) {
    require_fresh(options);
    capture_job(options, manifest, inputs, model, *forward, tokens, pool, backend.moments, analyses.get())
        .run(documents, summary);
  } else {
    remove_state(options.out);
  }
  if (analyses) analyses->write_tables(options.out);
  measure(options, inputs, summary);
  return summary;
}

}  // namespace qkgeom
