// SPDX-License-Identifier: MIT
#include "capture/evaluate/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <ostream>
#include <set>

#include "capture/evaluate/probes.hpp"
#include "capture/evaluate/restore.hpp"
#include "capture/job/cut.hpp"
#include "capture/job/documents.hpp"
#include "capture/job/estimate.hpp"
#include "capture/job/prepare.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/head_changes.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom {
namespace {

struct evaluation_input {
  std::vector<std::pair<std::string, std::vector<std::int32_t>>> documents;  ///< id, tokens
  std::vector<probe> probes;

  index_t tokens() const {
    std::size_t n = 0;
    for (const auto& d : documents) n += d.second.size();
    for (const auto& p : probes) n += p.ids.size();
    return static_cast<index_t>(n);
  }
};

/// Reads the documents of at least two tokens and makes the probes.
evaluation_input read_input(const evaluation_options& options, prepared_capture& prepared, std::ostream& notes) {
  evaluation_input input;
  const index_t length = prepared.manifest.context_length;
  tokenizer tokens = load_tokenizer(options.capture.inputs, options.capture.model.path, prepared, notes);
  if (options.capture.inputs.named())
    document_list(options.capture.inputs).for_each([&](index_t, const document& d) {
      auto ids = tokens.encode(d.text, length);
      if (ids.size() >= 2) input.documents.emplace_back(d.id, std::move(ids));
    });
  const auto prefix = tokens.prefix();
  tokens.begin_with(std::nullopt);
  const auto encode = [&](std::string_view text) { return tokens.encode(text, length); };
  std::vector<std::int32_t> text;
  for (const auto& d : input.documents)
    text.insert(text.end(), d.second.begin() + static_cast<std::ptrdiff_t>(std::min(prefix.size(), d.second.size())),
                d.second.end());
  std::optional<record_words> words;
  if (!options.records.empty()) words = read_record_words(options.records);
  for (const index_t distance : options.distances)
    for (index_t trial = 0; trial < options.trials; ++trial) {
      input.probes.push_back(copy_probe(prepared.model.vocabulary, distance, trial, options.seed));
      if (words) input.probes.push_back(lookup_probe(*words, encode, text, distance, trial, options.seed));
    }
  for (auto& p : input.probes) {  // a probe begins as a document does
    p.ids.insert(p.ids.begin(), prefix.begin(), prefix.end());
    p.first += static_cast<index_t>(prefix.size());
    require(static_cast<index_t>(p.ids.size()) <= length, "a ", p.kind, " probe over ", p.distance, " tokens takes ",
            p.ids.size(), ", more than the context of ", length);
  }
  require(input.tokens() > 0, "there is nothing to evaluate: neither a document of two tokens nor a probe");
  return input;
}

/// Lists the unchanged model and the conditions of the options.
std::vector<condition> all_conditions(const evaluation_options& options, const decoder_description& model,
                                      std::ostream& notes) {
  std::vector<condition> conditions{{"none", {}}};
  bool any_chosen = options.conditions.empty();
  if (!options.conditions.empty())
    for (auto& c : read_conditions(options.conditions, model)) {
      require(c.name != "none", options.conditions.string(), ": \"none\" names the model as it is");
      for (const auto& change : c.changes)
        require(!change.restore || !options.restore_from.empty(), options.conditions.string(), ": condition \"",
                printable(c.name), "\" restores heads; --restore-from must name their model");
      any_chosen = any_chosen || c.name.find("/chosen/") != std::string::npos;
      conditions.push_back(std::move(c));
    }
  if (!any_chosen) notes << "note: no condition is named RANKING/chosen/CHANGE, as qkgeom interventions wants\n";
  return conditions;
}

/// Makes the forward pass of each condition: over the model's weights, or with heads restored.
class changing_pass {
 public:
  changing_pass(const evaluation_options& options, const decoder_description& model, const checkpoint& weights,
                thread_pool& pool, const forward_pass_factory& make, std::ostream& notes)
      : weights_(weights), notes_(notes), make_([&, type = options.capture.model.compute](const checkpoint& w) {
          return make(model, w, type, model.n_layers() - 1, pool);
        }) {
    if (!options.restore_from.empty()) other_.emplace(model, options.restore_from);
    pass_ = make_(weights);
    pass_->check_output();
  }

  forward_pass& of(const condition& c) {
    const bool restores = std::any_of(c.changes.begin(), c.changes.end(),
                                      [](const head_change& change) { return change.restore.has_value(); });
    if (restores || mixed_) {
      pass_.reset();
      mixed_.reset();
      if (restores) mixed_.emplace(other_->restored(weights_, c, notes_));
      pass_ = make_(mixed_ ? *mixed_ : weights_);
    }
    pass_->change(c.changes);
    return *pass_;
  }

 private:
  const checkpoint& weights_;
  std::ostream& notes_;
  std::function<std::unique_ptr<forward_pass>(const checkpoint&)> make_;
  std::optional<restoring> other_{};
  std::optional<checkpoint> mixed_{};
  std::unique_ptr<forward_pass> pass_;
};

/// A row of condition_loss.csv.
struct stretch_loss {
  std::string condition, document;
  index_t start, end, tokens;
  double loss;
};

/// A row of condition_probes.csv.
struct probe_answer {
  std::string condition;
  const probe* of;
  index_t asked, right;
};

class evaluation {
 public:
  evaluation(changing_pass& model, const evaluation_input& input, index_t bucket, index_t batch_tokens,
             std::function<void(const stretch_loss&)> loss, std::vector<probe_answer>& answers)
      : model_(model),
        input_(input),
        bucket_(bucket),
        batch_tokens_(batch_tokens),
        loss_(std::move(loss)),
        answers_(answers) {
    for (const auto& d : input.documents) ids_.push_back(d.second);
    for (const auto& p : input.probes) ids_.push_back(p.ids);
    for (const auto& ids : ids_) lengths_.push_back(static_cast<index_t>(ids.size()));
  }

  void run(const condition& c, progress& bar) {
    forward_pass& model = model_.of(c);
    for (std::size_t first = 0; first < ids_.size();) {
      const std::size_t end = batch_end(lengths_, first, ids_.size(), batch_tokens_);
      batch_sinks sinks;
      sinks.losses = [&](std::size_t i, const token_predictions& found) { add(c.name, first + i, found); };
      model.run(std::span(ids_).subspan(first, end - first), rope_stage::post, sinks);
      for (; first < end; ++first) bar.add(lengths_[first]);
    }
  }

 private:
  void add(const std::string& name, std::size_t number, const token_predictions& found) {
    const auto documents = input_.documents.size();
    if (number < documents) return add_loss(name, input_.documents[number].first, found.loss);
    const probe& p = input_.probes[number - documents];
    // Token t is predicted at position t - 1.
    const auto right = std::accumulate(found.right.begin() + p.first - 1, found.right.end(), index_t{0});
    answers_.push_back({name, &p, static_cast<index_t>(p.ids.size()) - p.first, right});
  }

  /// Adds the losses of a document; the loss of token t + 1 counts at position t, where it is predicted.
  void add_loss(const std::string& name, const std::string& document, const std::vector<float>& losses) {
    const auto n = static_cast<index_t>(losses.size());
    for (index_t start = 0; start < n; start += bucket_) {
      const index_t end = std::min(start + bucket_, n);
      const double sum = std::accumulate(losses.begin() + start, losses.begin() + end, 0.0);
      loss_({name, document, start, start + bucket_, end - start, sum / static_cast<double>(end - start)});
    }
  }

  changing_pass& model_;
  const evaluation_input& input_;
  index_t bucket_, batch_tokens_;
  std::vector<token_span> ids_;  // documents, then probes
  std::vector<index_t> lengths_;
  std::function<void(const stretch_loss&)> loss_;
  std::vector<probe_answer>& answers_;
};

}  // namespace

void evaluate_model(const evaluation_options& options, std::ostream& notes, const forward_pass_factory& make) {
  prepared_capture prepared = prepare_capture(options.capture, notes);
  if (const std::string note = note_on_context(prepared.manifest); !note.empty()) notes << "note: " << note << '\n';
  const auto conditions = all_conditions(options, prepared.model, notes);
  const evaluation_input input = read_input(options, prepared, notes);
  const checkpoint weights = open_weights(prepared, options.capture.model.path);
  thread_pool pool(options.capture.run.threads);
  changing_pass model(options, prepared.model, weights, pool, make, notes);
  const index_t bucket =
      options.bucket_size > 0 ? options.bucket_size : capture_manifest::sixteenth_of(prepared.manifest.context_length);
  std::vector<probe_answer> answers;
  progress bar("evaluate", input.tokens() * static_cast<index_t>(conditions.size()), "tokens");
  table_columns<stretch_loss> losses;
  losses.add("condition", "name of the condition; `none`: the model as it is", &stretch_loss::condition);
  losses.add("document", "name of the document", &stretch_loss::document);
  losses.add("start", "first position of the stretch from which the next token is predicted", &stretch_loss::start);
  losses.add("end", "end of the stretch, excluded, tokens", &stretch_loss::end);
  losses.add("tokens", "number of tokens predicted", &stretch_loss::tokens);
  losses.add("loss", "mean of -ln p over the tokens, nats; empty: it is no number", &stretch_loss::loss);
  std::set<std::string> broken;  // conditions with losses that are no numbers
  write_csv(options.capture.run.out, "condition_loss.csv", std::move(losses).with_rows([&](const auto& f) {
    const auto add = [&](const stretch_loss& l) {
      if (std::isnan(l.loss)) broken.insert(l.condition);
      f(l);
    };
    evaluation all(model, input, bucket, options.capture.run.batch_tokens, add, answers);
    for (const condition& c : conditions) all.run(c, bar);
  }));
  table_columns<probe_answer> probes;
  probes.add("condition", "name of the condition; `none`: the model as it is", &probe_answer::condition);
  probes.of(&probe_answer::of)
      .add("probe", "`copy`: random tokens that begin again; `lookup`: a record that is asked for again", &probe::kind)
      .add("distance", "tokens between the two places", &probe::distance)
      .add("trial", "number of the probe", &probe::trial);
  probes.add("asked", "number of tokens that are asked for", &probe_answer::asked);
  probes.add("right", "number of tokens asked for that the model finds likeliest", &probe_answer::right);
  write_csv(options.capture.run.out, "condition_probes.csv", std::move(probes).with_rows(answers));
  bar.done();
  if (!broken.empty())
    notes << "note: losses are no numbers under " << broken.size() << " of " << conditions.size()
          << " conditions, such as \"" << printable(*broken.begin())
          << "\": condition_loss.csv has empty cells there\n";
}

void plan_evaluation(const evaluation_options& options, std::ostream& out, std::ostream& notes,
                     const forward_pass_factory& make) {
  prepared_capture prepared = prepare_capture(options.capture, notes);
  const auto conditions = all_conditions(options, prepared.model, notes);
  const evaluation_input input = read_input(options, prepared, notes);
  const auto tokens = static_cast<double>(input.tokens()) * static_cast<double>(conditions.size());
  out << fmt::format("conditions   {}, the model as it is among them\n", conditions.size())
      << fmt::format("each         {} documents and {} probes, {} tokens\n", input.documents.size(),
                     input.probes.size(), input.tokens());
  auto losses = options.capture;
  losses.statistics.loss = true;
  out << fmt::format("peak memory  about {}, and the pages of the weights that the system keeps\n",
                     in_bytes(estimate_capture(losses, notes).peak_bytes));
  const checkpoint weights = open_weights(prepared, options.capture.model.path);
  thread_pool pool(options.capture.run.threads);
  const auto model = make(prepared.model, weights, options.capture.model.compute, prepared.model.n_layers() - 1, pool);
  model->check_output();
  constexpr std::size_t most = 1024;
  token_span ids = input.documents.empty() ? input.probes.front().ids : input.documents.front().second;
  ids = ids.first(std::min(ids.size(), most));
  batch_sinks sinks;
  sinks.losses = [](std::size_t, const token_predictions&) {};
  const auto start = std::chrono::steady_clock::now();
  model->run(std::span(&ids, 1), rope_stage::post, sinks);
  const double rate =
      static_cast<double>(ids.size()) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  out << fmt::format("time         about {} for {:.0f} tokens at {:.3g} tokens per second, measured now on {} tokens\n",
                     in_time(tokens / rate), tokens, rate, ids.size());
}

}  // namespace qkgeom
