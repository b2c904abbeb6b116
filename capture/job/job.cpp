// SPDX-License-Identifier: MIT
#include "capture/job/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
#include <tuple>

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

constexpr const char* weights_field = "weights_sha256";  // manifest field: `checkpoint::fingerprint`

std::vector<index_t> lengths_of(const std::vector<captured_document>& documents) {
  std::vector<index_t> tokens;
  for (const captured_document& d : documents) tokens.push_back(d.tokens);
  return tokens;
}

capture_manifest manifest_in(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  return parse_manifest(read_text(path, max_manifest_bytes), path.string());
}

/// How a capture is cut: shards of documents, and tasks of shards, of which a part has some.
struct capture_cut {
  std::vector<index_t> lengths;        // of the documents
  std::vector<std::size_t> blocks;     // each document's block of moments
  std::vector<document_range> shards;  // documents of each
  std::vector<shard_range> tasks;      // shards of each
  std::size_t first_task, end_task;    // of the part
  std::size_t first_shard, end_shard;  // likewise

  capture_cut(const std::vector<captured_document>& documents, const capture_options& options)
      : lengths(lengths_of(documents)),
        blocks(moment_blocks_of(lengths)),
        shards(shards_of(lengths, options.moments)),
        tasks(tasks_of(shards, blocks, options.moments)) {
    std::vector<index_t> tokens;
    for (const shard_range& t : tasks)
      tokens.push_back(std::accumulate(lengths.begin() + shards[t.first].first,
                                       lengths.begin() + shards[t.second - 1].second, index_t{0}));
    std::tie(first_task, end_task) = tasks_of_part(tokens, options.part.number, options.part.of);
    first_shard = tasks[first_task].first;
    end_shard = tasks[end_task - 1].second;
  }
  std::size_t block_of(std::size_t shard) const { return blocks[shards[shard].first]; }
  /// The documents of the part.
  document_range documents() const { return {shards[first_shard].first, shards[end_shard - 1].second}; }
  /// Blocks of moments of the part.
  std::pair<std::size_t, std::size_t> moment_range() const {
    return {block_of(first_shard), block_of(end_shard - 1) + 1};
  }
};

/// Fields of manifest.json that a part has in place of the whole capture's.
json part_fields(const capture_options& options, const capture_manifest& whole, const capture_cut& cut) {
  json fields = json::object();
  if (options.part.of == 1) return fields;
  fields[part_field] = {{"number", options.part.number}, {"of", options.part.of}};
  if (!options.moments) return fields;
  const auto [first, end] = cut.moment_range();
  fields["moments"] = whole.extra["moments"];
  fields["moments"]["blocks"] = end - first;
  fields["moments"][first_block_field] = first;
  return fields;
}

/// What a job works with; all of it must outlive the job.
struct job_setup {
  const capture_options& options;
  const capture_manifest& manifest;
  const input_check& inputs;
  const capture_cut& cut;
  const std::string& weights;  ///< `checkpoint::fingerprint`
  const decoder_description& model;
  const tokenizer& tokens;
  const moment_function& moments;
  forward_pass& forward;
  live_analysis* analysis;  ///< null: none
  thread_pool& pool;
  process_group& group;
};

/// A running capture: takes one task after another, the documents of each in order, and writes a shard whenever one is
/// full.
class capture_job {
 public:
  explicit capture_job(const job_setup& setup)
      : setup_(setup),
        options_(setup.options),
        cut_(setup.cut),
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
    auto settings = setup.manifest;
    settings.extra.update(part_fields(options_, setup.manifest, cut_));
    state_.settings = manifest_text(settings);
    state_.inputs = setup_.inputs.hash.hex();
    state_.weights = setup_.weights;
    if (moments_) state_.moments.resize(cut_.moment_range().second);
    const auto earlier = read_states(options_.out);
    require(earlier.empty() || options_.resume, options_.out.string(),
            " holds an unfinished capture (progress.json): --resume continues it");
    for (const resume_state& e : earlier) adopt(e);
    check_adopted();
    if (setup_.group.rank() == 0)
      own_ = adopted_;
    else
      state_.moments.assign(state_.moments.size(), "");  // rank 0 has them
  }

  /// What is known to be done, for comparison with other processes.
  std::string adopted() const {
    std::string text = state_.settings + state_.inputs + state_.weights;
    for (const auto& [number, shard] : adopted_) text += shard.file + shard.sha256;
    return sha256().add(text).hex();
  }

  /// Makes one file of the progress of earlier processes; on rank 0.
  void begin() {
    if (setup_.group.rank() != 0) return;
    save_state();
    remove_other_states(options_.out);
  }

  void run(const document_list& documents, capture_summary& summary) {
    index_t left = 0;
    for (std::size_t s = cut_.first_shard; s < cut_.end_shard; ++s)
      if (!adopted_.contains(s)) left += tokens_in(cut_.shards[s]);
    progress bar("capture", left, "tokens");
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      const std::size_t task = cut_.first_task + static_cast<std::size_t>(setup_.group.next());
      if (task >= cut_.end_task) break;
      run_task(cut_.tasks[task], documents, bar, summary);
    }
    setup_.group.wait(bar);
    const bool last = finish(summary);
    bar.done();
    if (!last) return;
    summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::vector<captured_document> documents_of(std::size_t shard) const {
    const captured_document* const all = setup_.inputs.documents.data();
    return {all + cut_.shards[shard].first, all + cut_.shards[shard].second};
  }
  index_t tokens_in(const document_range& range) const {
    return std::accumulate(cut_.lengths.begin() + range.first, cut_.lengths.begin() + range.second, index_t{0});
  }

  /// Counts the shards of an earlier process.
  void adopt(const resume_state& earlier) {
    const std::string where = (options_.out / "progress.json").string();
    require(earlier.settings == state_.settings, where,
            " belongs to a capture with other settings; a capture is resumed with the options it was begun with");
    require(earlier.inputs == state_.inputs && (earlier.weights.empty() || earlier.weights == state_.weights), where,
            " belongs to a capture of other documents, another tokenizer or other weights");
    const auto listed = earlier.done.documents.value_or(std::vector<captured_document>{});
    std::vector<index_t> last(cut_.moment_range().second, -1);
    for (const captured_shard& shard : earlier.done.shards) {
      std::size_t number = cut_.first_shard;
      while (number < cut_.end_shard && shard_name(static_cast<index_t>(number)) != shard.file) ++number;
      require(number < cut_.end_shard, where, " names a shard that this capture does not have: ", shard.file);
      const auto expected = documents_of(number);
      const auto first =
          std::find_if(listed.begin(), listed.end(), [&](const auto& d) { return d.index == expected.front().index; });
      require(static_cast<std::size_t>(listed.end() - first) >= expected.size() &&
                  std::equal(expected.begin(), expected.end(), first) && shard.documents.size() == expected.size(),
              where, " disagrees with the documents about ", shard.file);
      adopted_.insert_or_assign(number, shard);
      last[cut_.block_of(number)] = static_cast<index_t>(number);
    }
    // A block's moments grow with its shards: the process that has the last of them has the hash of all.
    if (!moments_) return;
    for (std::size_t b = 0; b < last.size(); ++b) {
      if (last[b] < 0) continue;
      const auto next = adopted_.upper_bound(static_cast<std::size_t>(last[b]));
      if (next != adopted_.end() && cut_.block_of(next->first) == b) continue;
      state_.moments[b] = b < earlier.moments.size() ? earlier.moments[b] : "";
    }
  }

  /// Reads this process' share of what is adopted: files must be those that were written.
  void check_adopted() const {
    const auto size = static_cast<std::size_t>(setup_.group.size()),
               rank = static_cast<std::size_t>(setup_.group.rank());
    for (const auto& [number, shard] : adopted_) {
      require(!moments_ || number == cut_.first_shard || cut_.block_of(number - 1) != cut_.block_of(number) ||
                  adopted_.contains(number - 1),
              (options_.out / "progress.json").string(), " names ", shard.file, " and not the shard before it");
      if (number % size == rank) check_shard(options_.out, shard);
      const bool ends = !adopted_.contains(number + 1) || ends_block(number);
      if (!moments_ || !ends || number % size != rank) continue;
      const fs::path saved = moments_path(number);
      require(fs::is_regular_file(saved), saved.string(), ": the moments that belong to ",
              (options_.out / "progress.json").string(), " are missing");
      if (const auto& digest = state_.moments[cut_.block_of(number)]; !digest.empty()) check_digest(saved, digest);
    }
  }

  void save_state() {
    state_.done = writer_.manifest();
    for (const auto& [number, shard] : own_) {
      const auto documents = documents_of(number);
      state_.done.documents->insert(state_.done.documents->end(), documents.begin(), documents.end());
      state_.done.shards.push_back(shard);
    }
    write_state(options_.out, state_, setup_.group.rank());
  }

  /// Captures the shards of a task that no earlier process has.
  void run_task(const shard_range& task, const document_list& documents, progress& bar, capture_summary& summary) {
    shard_ = task.first;
    while (shard_ < task.second && adopted_.contains(shard_)) ++shard_;
    if (shard_ == task.second) return;
    if (moments_) {
      moments_->clear();
      if (shard_ > task.first) moments_->read(moments_path(shard_ - 1));
    }
    for (; shard_ < task.second; ++shard_) {
      const auto [first, end] = cut_.shards[shard_];
      for (std::size_t begin = first; begin < end;) {
        const std::size_t stop = batch_end(cut_.lengths, begin, end, options_.batch_tokens);
        setup_.group.works_on(names_of(begin, stop));
        std::vector<std::vector<std::int32_t>> batch;
        for (std::size_t i = begin; i < stop; ++i)
          batch.push_back(
              setup_.tokens.encode(documents.at(static_cast<index_t>(i)).text, writer_.manifest().context_length));
        run_batch(begin, batch, bar);
        summary.documents += static_cast<index_t>(stop - begin);
        summary.tokens += tokens_in({begin, stop});
        begin = stop;
      }
      write_shard();
    }
    setup_.group.works_on("");
  }

  /// Documents [first, end) in words.
  std::string names_of(std::size_t first, std::size_t end) const {
    const auto& documents = setup_.inputs.documents;
    const auto name = [&](std::size_t i) { return "'" + printable(documents[i].id) + "'"; };
    return end - first == 1 ? "document " + name(first) : "documents " + name(first) + " to " + name(end - 1);
  }

  /// Gathers what all processes have done. Rank 0 writes manifest.json, which ends the capture; true there.
  bool finish(capture_summary& summary) {
    if (options_.loss) add_loss(summary);
    auto& s = summary;
    json own = {{"documents", s.documents}, {"tokens", s.tokens}, {"moments", state_.moments}};
    own["loss"] = {s.loss, s.loss_tokens, s.last_loss, s.last_loss_tokens};
    own["shards"] = json::array();
    for (const auto& [number, shard] : own_) own["shards"].push_back({number, shard.rows, shard.sha256});
    const auto texts = setup_.group.gather(own.dump());
    if (setup_.group.rank() != 0) return false;
    std::map<std::size_t, captured_shard> all;
    s.documents = s.tokens = 0;
    s.loss = s.loss_tokens = s.last_loss = s.last_loss_tokens = 0;
    for (const std::string& text : texts) {
      const json found = json::parse(text);
      s.documents += found["documents"].get<index_t>();
      s.tokens += found["tokens"].get<index_t>();
      s.loss += found["loss"][0].get<double>();
      s.loss_tokens += found["loss"][1].get<double>();
      s.last_loss += found["loss"][2].get<double>();
      s.last_loss_tokens += found["loss"][3].get<double>();
      for (const json& shard : found["shards"]) {
        const auto number = shard[0].get<std::size_t>();
        captured_shard& to = all[number];
        to = {shard_name(static_cast<index_t>(number)), {}, shard[1].get<index_t>(), shard[2].get<std::string>()};
        for (const auto& d : documents_of(number)) to.documents.push_back(d.index);
      }
      // Above rank 0 stand blocks that this run has ended; those of rank 0 may be of an earlier run.
      for (std::size_t b = 0; b < state_.moments.size(); ++b)
        if (const auto digest = found["moments"][b].get<std::string>(); !digest.empty()) state_.moments[b] = digest;
    }
    if (s.loss_tokens > 0) s.loss /= s.loss_tokens;
    if (s.last_loss_tokens > 0) s.last_loss /= s.last_loss_tokens;
    for (auto& [number, shard] : all) writer_.append_shard(documents_of(number), std::move(shard));
    json extra = part_fields(options_, setup_.manifest, cut_);
    extra[inputs_field] = state_.inputs;
    extra[weights_field] = state_.weights;
    if (moments_) {
      const std::vector<std::string> digests(state_.moments.begin() + cut_.moment_range().first, state_.moments.end());
      // A capture that was begun without these hashes ends without them.
      if (std::find(digests.begin(), digests.end(), "") == digests.end()) extra[moments_hashes_field] = digests;
    }
    writer_.finish(extra);
    remove_state(options_.out);
    return true;
  }

  void add_loss(capture_summary& summary) const {
    const auto& l = statistics_->loss();
    summary.loss = l.sum;  // of this process
    summary.loss_tokens = l.tokens;
    summary.last_loss = l.last_sum;
    summary.last_loss_tokens = l.last_tokens;
  }

  bool ends_block(std::size_t shard) const {
    return shard + 1 == cut_.shards.size() || cut_.block_of(shard + 1) != cut_.block_of(shard);
  }
  /// File of the moments of a block up to this shard. A block's last shard completes its file.
  fs::path moments_path(std::size_t shard) const {
    const std::string name = moments_name(static_cast<index_t>(cut_.block_of(shard)));
    return options_.out / (ends_block(shard) ? name : name + ".upto-" + std::to_string(shard));
  }
  void write_moments() {
    capture_manifest own = writer_.manifest();
    std::size_t first = shard_;
    while (first > 0 && cut_.block_of(first - 1) == cut_.block_of(shard_)) --first;
    const captured_document* const all = setup_.inputs.documents.data();
    own.documents->assign(all + cut_.shards[first].first, all + cut_.shards[shard_].second);
    state_.moments[cut_.block_of(shard_)] = moments_->write(moments_path(shard_), own);
    if (!ends_block(shard_)) moments_->read(moments_path(shard_));
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
      setup_.group.passed(bar, tokens * (layer + 1) / layers - tokens * layer / layers);
    };
    const auto count = static_cast<index_t>(ids.size());
    const index_t more = static_cast<index_t>(cut_.shards[shard_].second - first) - count;
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
    own_[shard_] = writer_.write_shard(static_cast<index_t>(shard_), documents_of(shard_), rows_.layers(), tensors);
    if (statistics_) statistics_->clear();
    if (setup_.analysis) setup_.analysis->clear();
    if (moments_) write_moments();
    save_state();
    if (moments_ && shard_ > 0 && !ends_block(shard_ - 1)) fs::remove(moments_path(shard_ - 1));
    rows_.clear();
  }

  const job_setup setup_;
  const capture_options& options_;
  const capture_cut& cut_;
  capture_writer writer_;
  row_store rows_;
  std::optional<moment_store> moments_{};
  bool takes_moments_ = false;  // the forward pass fills the store itself
  std::optional<statistics_store> statistics_{};
  bool takes_softmax_ = false;  // likewise
  resume_state state_;
  std::map<std::size_t, captured_shard> adopted_{};  // by number: of earlier runs
  std::map<std::size_t, captured_shard> own_{};      // of this process; on rank 0 those of earlier runs too
  std::size_t shard_ = 0;
};

/// Whether OUT already holds this capture, complete. Throws if it holds one with other settings, or damaged files.
bool is_complete(const capture_options& options, const capture_manifest& manifest, const input_check& inputs,
                 const capture_cut& cut, const std::string& weights, thread_pool& pool) {
  if (!fs::exists(options.out / "manifest.json")) return false;
  require(options.resume, "cannot write a capture to ", options.out.string(), ": it already holds one (manifest.json)");
  const capture existing = capture::open(options.out);
  const std::vector<captured_shard>& shards = existing.manifest().shards;
  capture_manifest found = existing.manifest();
  const auto [first, end] = cut.documents();
  const bool same_documents =
      found.documents && std::equal(found.documents->begin(), found.documents->end(), inputs.documents.begin() + first,
                                    inputs.documents.begin() + end);
  found.documents.reset();
  found.shards.clear();
  found.extra.erase(moments_hashes_field);
  auto wanted = manifest;
  wanted.extra.update(part_fields(options, manifest, cut));
  if (found.extra.contains(inputs_field)) wanted.extra[inputs_field] = inputs.hash.hex();
  if (found.extra.contains(weights_field)) wanted.extra[weights_field] = weights;
  require(same_documents && manifest_text(found) == manifest_text(wanted), options.out.string(),
          " holds a capture of other documents or weights, or with other settings");
  pool.for_each(static_cast<index_t>(shards.size()), [&](index_t s, int) { check_shard(options.out, shards[s]); });
  check_moments(existing);
  return true;
}

void require_fresh(const capture_options& options) {
  if (!fs::is_directory(options.out) || !read_states(options.out).empty()) return;
  for (const auto& entry : fs::directory_iterator(options.out))
    require(entry.path().extension() != ".safetensors", options.out.string(),
            " holds safetensors files that belong to no capture under way: ", entry.path().filename().string());
}

/// Sums up the whole capture, from its files.
void measure(const capture_options& options, const capture_cut& cut, capture_summary& summary) {
  const auto manifest = manifest_in(options.out);
  for (const captured_shard& s : manifest.shards) {
    summary.rows += s.rows;
    summary.bytes += fs::file_size(options.out / s.file);
  }
  const auto [first, end] = cut.moment_range();
  if (options.moments)
    for (std::size_t b = first; b < end; ++b)
      summary.bytes += fs::file_size(options.out / moments_name(static_cast<index_t>(b)));
  summary.shards = static_cast<index_t>(manifest.shards.size());
  summary.empty = std::count_if(manifest.documents->begin(), manifest.documents->end(),
                                [](const auto& d) { return d.tokens == 0; });
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

/// All that a capture needs before its first document runs.
class ready_capture {
 public:
  ready_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend,
                process_group& group)
      : options_(options),
        prepared_(prepare_capture(options, notes)),
        note_(noted(note_on_context(prepared_.manifest), notes)),
        analysis_(options.analyse ? backend.analyses(prepared_.manifest, *options.analyse) : nullptr),
        weights_(prepared_.untrained ? checkpoint(*prepared_.untrained) : checkpoint(options.model)),
        pool_(options.threads),
        forward_(make_forward(backend, notes)),
        tokens_(load_tokenizer(options, prepared_)),
        documents_(options.documents),
        // All documents are read before the first is run, so that a bad line fails now, not after hours.
        inputs_(check_inputs(documents_, tokens_, prepared_.model, prepared_.manifest.context_length,
                             options.untrained ? std::filesystem::path() : options.model)),
        cut_(inputs_.documents, options) {
    require_readable_manifest(inputs_);
    note_documents(notes);
    capture_manifest& manifest = prepared_.manifest;
    note_buckets(manifest, inputs_, options, notes);
    if (options.moments) manifest.extra["moments"]["blocks"] = moment_blocks(cut_.lengths);
    fingerprint_ = weights_.fingerprint();
    complete_ = is_complete(options, manifest, inputs_, cut_, fingerprint_, pool_);
    if (complete_) return;
    require_fresh(options);
    out_.emplace(options.out);
    job_.emplace(job_setup{.options = options,
                           .manifest = manifest,
                           .inputs = inputs_,
                           .cut = cut_,
                           .weights = fingerprint_,
                           .model = prepared_.model,
                           .tokens = tokens_,
                           .moments = backend.moments,
                           .forward = *forward_,
                           .analysis = analysis_.get(),
                           .pool = pool_,
                           .group = group});
  }

  /// The state of the capture, which must be the same for all processes.
  std::string state() const { return complete_ ? "complete" : job_->adopted(); }
  void begin() {
    if (job_) job_->begin();
  }
  capture_summary run(process_group& group) {
    capture_summary summary;
    summary.note = note_;
    summary.rope = rope_in_force(prepared_.model, prepared_.manifest.context_length);
    summary.was_complete = complete_;
    if (job_) job_->run(documents_, summary);
    if (group.rank() != 0) return summary;
    if (complete_) remove_state(options_.out);
    if (analysis_) analysis_->write_tables(options_.out);
    measure(options_, cut_, summary);
    return summary;
  }

 private:
  static std::string noted(std::string note, std::ostream& notes) {
    if (!note.empty()) notes << "note: " << note << '\n';
    return note;
  }
  std::unique_ptr<forward_pass> make_forward(const capture_backend& backend, std::ostream& notes) {
    capture_manifest& manifest = prepared_.manifest;
    if (analysis_) manifest.extra["analyse"].update(analysis_->settings());
    if (weights_.has_fp8())
      notes << "note: weights in FP8 are read as value times scale; activations are not quantised, as they are where a "
               "model runs in FP8\n";
    add_sinks(manifest, prepared_.model, weights_);
    const forward_pass_factory make = backend.forward ? backend.forward : make_decoder;
    auto forward = make(prepared_.model, weights_, options_.plan.compute, manifest.layers.back().layer, pool_);
    if (options_.loss) forward->check_output();
    return forward;
  }
  void note_documents(std::ostream& notes) const {
    for (const captured_document& d : inputs_.documents)
      if (d.tokens == 0) notes << "note: document '" << printable(d.id) << "' is empty and gives no rows\n";
    for (const std::string& field : options_.documents.label_fields)
      if (std::none_of(inputs_.documents.begin(), inputs_.documents.end(),
                       [&](const captured_document& d) { return d.labels.is_object() && d.labels.contains(field); }))
        notes << "note: no document has a field '" << field << "' for a label\n";
  }

  const capture_options& options_;
  prepared_capture prepared_;
  std::string note_;
  std::unique_ptr<live_analysis> analysis_;
  checkpoint weights_;
  thread_pool pool_;
  std::unique_ptr<forward_pass> forward_;
  tokenizer tokens_;
  document_list documents_;
  input_check inputs_;
  capture_cut cut_;
  std::string fingerprint_{};
  bool complete_ = false;
  std::optional<made_folder> out_{};
  std::optional<capture_job> job_{};
};

}  // namespace

capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend,
                            process_group& group) {
  require(!options.moments || backend.moments, "moments of every token need a backend to compute them");
  require(!options.analyse || backend.analyses, "analyses of every document need a backend to compute them");
  std::unique_ptr<ready_capture> capture;
  group.begin([&] { capture = std::make_unique<ready_capture>(options, notes, backend, group); });
  group.agree(capture->state(), "model, documents, settings or unfinished capture");
  group.begin([&] { capture->begin(); });
  return capture->run(group);
}

capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend) {
  process_group alone;
  return run_capture(options, notes, backend, alone);
}

}  // namespace qkgeom
