// SPDX-License-Identifier: MIT
#include "capture/job/task_runner.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "capture/job/plan.hpp"
#include "capture/job/prepare.hpp"
#include "qkgeom/io/capture_check.hpp"
#include "qkgeom/io/capture_moments.hpp"

namespace qkgeom {

namespace fs = std::filesystem;

task_runner::task_runner(const task_setup& setup)
    : setup_(setup),
      options_(setup.options),
      cut_(setup.cut),
      writer_(options_.run.out, setup.manifest),
      rows_(writer_.manifest(), sampler_of(setup.model, options_.selection), options_.model.compute,
            options_.selection.same_positions, options_.inputs.skip) {
  if (options_.statistics.moments) {
    moments_.emplace(writer_.manifest(), grid_of(setup.manifest, "moments"), setup.moments,
                     options_.selection.sampler.skip_first);
    takes_moments_ = setup_.forward.takes_moments(*moments_);
  }
  if (options_.statistics.in_shards())
    statistics_.emplace(writer_.manifest(), setup.model,
                        grid_of(setup.manifest, options_.statistics.loss ? "loss" : "softmax"),
                        options_.statistics.softmax, options_.statistics.loss);
  auto settings = setup.manifest;
  settings.extra.update(part_fields(options_.run.part, setup.manifest, cut_));
  state_.settings = manifest_text(settings);
  state_.inputs = setup_.inputs.hash.hex();
  state_.weights = setup_.weights;
  state_.weight_files = setup_.weight_files;
  if (moments_) state_.moments.resize(cut_.moment_range().second);
  const auto earlier = read_states(options_.run.out);
  require(earlier.empty() || options_.run.resume, options_.run.out.string(),
          " holds an unfinished capture (progress.json): --resume continues it");
  for (const resume_state& e : earlier) adopt(e);
  check_adopted();
  if (setup_.group.rank() == 0)
    own_ = adopted_;
  else
    state_.moments.assign(state_.moments.size(), "");  // rank 0 keeps them
}

std::string task_runner::adopted() const {
  std::string text = state_.settings + state_.inputs + state_.weights;
  for (const auto& [number, shard] : adopted_) text += shard.file + shard.sha256;
  return sha256().add(text).hex();
}

void task_runner::begin() {
  if (setup_.group.rank() != 0) return;
  save_state();
  remove_other_states(options_.run.out);
}

void task_runner::run(const document_list& documents, capture_summary& summary) {
  index_t left = 0;
  for (std::size_t s = cut_.first_shard; s < cut_.end_shard; ++s)
    if (!adopted_.contains(s)) left += tokens_in(cut_.shards[s]);
  progress bar("capture", left, "tokens");
  const auto start = std::chrono::steady_clock::now();
  setup_.group.deal(
      static_cast<index_t>(cut_.end_task - cut_.first_task),
      [&](index_t i) { run_task(cut_.tasks[cut_.first_task + static_cast<std::size_t>(i)], documents, bar, summary); },
      [&](index_t more) { bar.add(more); });
  const bool last = finish(summary);
  bar.done();
  if (!last) return;
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<captured_document> task_runner::documents_of(std::size_t shard) const {
  const captured_document* const all = setup_.inputs.documents.data();
  return {all + cut_.shards[shard].first, all + cut_.shards[shard].second};
}

index_t task_runner::tokens_in(const document_range& range) const {
  return std::accumulate(cut_.lengths.begin() + range.first, cut_.lengths.begin() + range.second, index_t{0});
}

void task_runner::adopt(const resume_state& earlier) {
  const std::string where = (options_.run.out / "progress.json").string();
  require(earlier.settings == state_.settings, where,
          " belongs to a capture with other settings; a capture is resumed with the options it was begun with");
  require(earlier.inputs == state_.inputs && (earlier.weights.empty() || earlier.weights == state_.weights), where,
          " belongs to a capture of other documents, another tokenizer or other weights");
  const auto listed = earlier.done.documents.value_or(std::vector<captured_document>{});
  std::vector<index_t> last(cut_.moment_range().second, -1);
  std::size_t number = cut_.first_shard;  // shards and documents are in ascending order
  auto first = listed.begin();
  for (const captured_shard& shard : earlier.done.shards) {
    while (number < cut_.end_shard && shard_name(static_cast<index_t>(number)) != shard.file) ++number;
    require(number < cut_.end_shard, where, " names a shard that this capture does not have: ", shard.file);
    const auto expected = documents_of(number);
    first = std::find_if(first, listed.end(), [&](const auto& d) { return d.index == expected.front().index; });
    require(static_cast<std::size_t>(listed.end() - first) >= expected.size() &&
                std::equal(expected.begin(), expected.end(), first) && shard.documents.size() == expected.size(),
            where, " disagrees with the documents about ", shard.file);
    adopted_.insert_or_assign(number, shard);
    last[cut_.block_of(number)] = static_cast<index_t>(number);
  }
  // A block's moments grow with its shards: the process that wrote the last shard has the hash of all.
  if (!moments_) return;
  for (std::size_t b = 0; b < last.size(); ++b) {
    if (last[b] < 0) continue;
    const auto next = adopted_.upper_bound(static_cast<std::size_t>(last[b]));
    if (next != adopted_.end() && cut_.block_of(next->first) == b) continue;
    state_.moments[b] = b < earlier.moments.size() ? earlier.moments[b] : "";
  }
}

void task_runner::check_adopted() const {
  const auto size = static_cast<std::size_t>(setup_.group.size()), rank = static_cast<std::size_t>(setup_.group.rank());
  for (const auto& [number, shard] : adopted_) {
    require(!moments_ || number == cut_.first_shard || cut_.block_of(number - 1) != cut_.block_of(number) ||
                adopted_.contains(number - 1),
            (options_.run.out / "progress.json").string(), " names ", shard.file, " and not the shard before it");
    if (number % size == rank) check_shard(options_.run.out, shard);
    const bool ends = !adopted_.contains(number + 1) || ends_block(number);
    if (!moments_ || !ends || number % size != rank) continue;
    const fs::path saved = moments_path(number);
    require(fs::is_regular_file(saved), saved.string(), ": the moments that belong to ",
            (options_.run.out / "progress.json").string(), " are missing");
    if (const auto& digest = state_.moments[cut_.block_of(number)]; !digest.empty()) check_digest(saved, digest);
  }
}

void task_runner::save_state() {
  state_.done = writer_.manifest();
  for (const auto& [number, shard] : own_) {
    const auto documents = documents_of(number);
    state_.done.documents->insert(state_.done.documents->end(), documents.begin(), documents.end());
    state_.done.shards.push_back(shard);
  }
  write_state(options_.run.out, state_, setup_.group.rank());
}

void task_runner::run_task(const shard_range& task, const document_list& documents, progress& bar,
                           capture_summary& summary) {
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
      const std::size_t stop = batch_end(cut_.lengths, begin, end, options_.run.batch_tokens);
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

std::string task_runner::names_of(std::size_t first, std::size_t end) const {
  const auto& documents = setup_.inputs.documents;
  const auto name = [&](std::size_t i) { return "'" + printable(documents[i].id) + "'"; };
  return end - first == 1 ? "document " + name(first) : "documents " + name(first) + " to " + name(end - 1);
}

bool task_runner::finish(capture_summary& summary) {
  auto& s = summary;
  json own = {{"documents", s.documents}, {"tokens", s.tokens}, {"moments", state_.moments}};
  const auto loss = statistics_ ? statistics_->loss() : statistics_store::loss_sums{};
  own["loss"] = {loss.sum, loss.tokens, loss.last_sum, loss.last_tokens};
  own["shards"] = json::array();
  for (const auto& [number, shard] : own_) own["shards"].push_back({number, shard.rows, shard.sha256});
  const auto texts = setup_.group.gather(own.dump());
  if (setup_.group.rank() != 0) return false;
  std::map<std::size_t, captured_shard> all;
  s.documents = s.tokens = 0;
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
    // Ranks above 0 list blocks that this run ended; rank 0 may list blocks of an earlier run.
    for (std::size_t b = 0; b < state_.moments.size(); ++b)
      if (const auto digest = found["moments"][b].get<std::string>(); !digest.empty()) state_.moments[b] = digest;
  }
  if (s.loss_tokens > 0) s.loss /= s.loss_tokens;
  if (s.last_loss_tokens > 0) s.last_loss /= s.last_loss_tokens;
  for (auto& [number, shard] : all) writer_.append_shard(documents_of(number), std::move(shard));
  json extra = part_fields(options_.run.part, setup_.manifest, cut_);
  extra[inputs_field] = state_.inputs;
  extra[weights_field] = state_.weights;
  if (moments_) {
    const std::vector<std::string> digests(state_.moments.begin() + cut_.moment_range().first, state_.moments.end());
    // A capture begun without these hashes ends without them.
    if (std::find(digests.begin(), digests.end(), "") == digests.end()) extra[moments_hashes_field] = digests;
  }
  writer_.finish(extra);
  remove_state(options_.run.out);
  return true;
}

bool task_runner::ends_block(std::size_t shard) const {
  return shard + 1 == cut_.shards.size() || cut_.block_of(shard + 1) != cut_.block_of(shard);
}

fs::path task_runner::moments_path(std::size_t shard) const {
  const std::string name = moments_name(static_cast<index_t>(cut_.block_of(shard)));
  return options_.run.out / (ends_block(shard) ? name : name + ".upto-" + std::to_string(shard));
}

void task_runner::write_moments() {
  capture_manifest own = writer_.manifest();
  std::size_t first = shard_;
  while (first > 0 && cut_.block_of(first - 1) == cut_.block_of(shard_)) --first;
  const captured_document* const all = setup_.inputs.documents.data();
  own.documents->assign(all + cut_.shards[first].first, all + cut_.shards[shard_].second);
  state_.moments[cut_.block_of(shard_)] = moments_->write(moments_path(shard_), own);
  if (!ends_block(shard_)) moments_->read(moments_path(shard_));
}

void task_runner::run_batch(std::size_t first, const std::vector<std::vector<std::int32_t>>& ids, progress& bar) {
  const index_t layers =
      options_.statistics.loss ? writer_.manifest().model.n_layers : writer_.manifest().layers.back().layer + 1;
  batch_sinks sinks;
  row_choice choice;
  const auto document = [&](std::size_t i) { return static_cast<std::int32_t>(first + i); };
  sinks.choose = [&](std::size_t i, index_t layer) {
    return choice = rows_.choose(layer, document(i), static_cast<index_t>(ids[i].size()));
  };
  sinks.chosen = [&](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
    rows_.add(layer, choice, q, k, document(i), ids[i]);
  };
  if (moments_ && !takes_moments_)
    sinks.rows = [&](std::size_t, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
      moments_->add(layer, q, k);
    };
  sinks.passed = [&](std::size_t i, index_t layer) {
    const auto tokens = static_cast<index_t>(ids[i].size());
    const index_t more = setup_.group.passed(tokens * (layer + 1) / layers - tokens * layer / layers);
    if (more > 0) bar.add(more);
  };
  const auto count = static_cast<index_t>(ids.size());
  const index_t more = static_cast<index_t>(cut_.shards[shard_].second - first) - count;
  if (statistics_) statistics_->add_documents(count, more);
  if (options_.statistics.softmax) {
    sinks.measured = [&](std::size_t i, index_t layer) {
      return statistics_->measured(document(i) + options_.inputs.skip, static_cast<index_t>(ids[i].size()), layer);
    };
    sinks.softmax = [&](std::size_t i, index_t layer, const softmax_request& what, index_t at, const auto& measures) {
      statistics_->add(i, layer, what, at, measures);
    };
  }
  if (options_.statistics.loss)
    sinks.losses = [&](std::size_t i, const token_predictions& found) { statistics_->add_losses(i, found.loss); };
  setup_.forward.run(std::vector<token_span>(ids.begin(), ids.end()), options_.selection.stage(), sinks);
}

void task_runner::write_shard() {
  setup_.check_weights();
  const auto tensors = statistics_ ? statistics_->tensors() : std::vector<tensor_to_write>{};
  own_[shard_] = writer_.write_shard(static_cast<index_t>(shard_), documents_of(shard_), rows_.layers(), tensors);
  if (statistics_) statistics_->clear();
  if (moments_) write_moments();
  save_state();
  if (moments_ && shard_ > 0 && !ends_block(shard_ - 1)) fs::remove(moments_path(shard_ - 1));
  rows_.clear();
}

}  // namespace qkgeom
