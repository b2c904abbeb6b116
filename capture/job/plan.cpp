// SPDX-License-Identifier: MIT
#include "capture/job/plan.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace qkgeom {
namespace {

/// Returns whether a layer attends within chunks; a context of one chunk has full attention.
bool is_parted(const layer_description& l, index_t context) { return l.chunk && *l.chunk < context; }

/// Throws `error` on layers whose heads differ in size or in the number of key heads: a capture has one of each.
void require_same_heads(const decoder_description& model, const std::vector<index_t>& layers) {
  std::vector<index_t> alike;
  const head_shape first = model.heads_of(model.layers[layers.front()]);
  std::copy_if(layers.begin(), layers.end(), std::back_inserter(alike),
               [&](index_t l) { return model.heads_of(model.layers[l]) == first; });
  require(alike.size() == layers.size(), "layers ", ranges_text(layers), " differ in size or number of their heads; ",
          "a capture holds layers of one kind, such as --layers ", ranges_text(alike));
}

/// Returns what a model has in place of attention, in the singular and the plural.
std::pair<const char*, const char*> name_of_nets(const decoder_description& model) {
  switch (model.delta ? model.delta->kind : net_kind::delta) {
    case net_kind::state_space:
      return {"a state space", "are state spaces"};
    case net_kind::convolution:
      return {"a convolution", "are convolutions"};
    default:
      return {"a gated delta net", "are gated delta nets"};
  }
}

}  // namespace

std::string left_out_text(const decoder_description& model, const selection_options& options) {
  if (!options.layers.empty()) return {};
  const index_t context = context_of(model, options);
  std::vector<index_t> windowed, parted, nets, images, sharing;
  for (index_t l = 0; l < model.n_layers(); ++l) {
    const layer_description& layer = model.layers[l];
    if (layer.delta)
      nets.push_back(l);
    else if (layer.skipped)
      images.push_back(l);
    else if (!model.attends(l))
      sharing.push_back(l);
    else if (is_parted(layer, context))
      parted.push_back(l);
    else if (model.slides(layer, context) && !options.include_windowed)
      windowed.push_back(l);
  }
  std::string text;
  for (const auto& [layers, why] : {std::pair{&windowed, "have a sliding window (--include-windowed captures them)"},
                                    {&parted, "attend within chunks"},
                                    {&nets, name_of_nets(model).second},
                                    {&images, "attend to images"},
                                    {&sharing, "have no indexer of their own"}})
    if (!layers->empty())
      text += (text.empty() ? "" : "; ") + std::string("layers ") + ranges_text(*layers) + ", which " + why;
  return text;
}

std::vector<index_t> choose_layers(const decoder_description& model, const selection_options& options) {
  const index_t context = context_of(model, options);
  std::vector<index_t> layers = options.layers;
  for (const index_t l : layers) {
    require(l < model.n_layers(), "layer ", l, " was asked for, but the model has the layers 0 to ",
            model.n_layers() - 1);
    require(!model.layers[l].skipped, "layer ", l, " was asked for, but it attends to images alone");
    require(!model.layers[l].delta, "layer ", l, " was asked for, but it is ", name_of_nets(model).first,
            ", which has no queries and keys");
    require(model.attends(l), "layer ", l,
            " was asked for, but it has no indexer of its own: it takes the keys that the ",
            "layer before it attends to");
    const index_t chunk = model.layers[l].chunk.value_or(0);
    require(!is_parted(model.layers[l], context), "layer ", l, " was asked for, but it attends within chunks of ",
            chunk, " tokens, which analyses do not know; --max-length ", chunk, " cuts documents there");
  }
  if (layers.empty())
    for (index_t l = 0; l < model.n_layers(); ++l) {
      const layer_description& layer = model.layers[l];
      if (model.attends(l) && !is_parted(layer, context) && !layer.heads &&
          (options.include_windowed || !model.slides(layer, context)))
        layers.push_back(l);
    }
  require(!layers.empty(),
          "every layer of the model has a sliding window, or attends within chunks; --include-windowed ",
          "captures the former");
  require_same_heads(model, layers);
  return layers;
}

namespace {

/// Returns the heads of the list that are in these layers.
std::vector<head_id> listed_heads(const decoder_description& model, const selection_options& options,
                                  const std::vector<index_t>& layers) {
  std::vector<head_id> heads;
  for (const head_id& h : options.head_list) {
    require(h.layer < model.n_layers() && h.head < model.query_heads, "layer ", h.layer, " head ", h.head,
            " was asked for, but the model has ", model.n_layers(), " layers of ", model.query_heads, " query heads");
    if (std::binary_search(layers.begin(), layers.end(), h.layer)) heads.push_back(h);
  }
  return heads;
}

std::vector<head_id> choose_heads(const decoder_description& model, const selection_options& options) {
  const std::vector<index_t> layers = choose_layers(model, options);
  if (options.head_list.empty()) {
    const index_t all = static_cast<index_t>(layers.size()) * model.query_heads;
    return draw_heads(layers, model.query_heads, options.heads.value_or(all), options.seed);
  }
  auto heads = listed_heads(model, options, layers);
  if (heads.empty())  // a layer that no option captures says why
    choose_layers(model, {.max_length = options.max_length, .layers = {options.head_list.front().layer}});
  require(!heads.empty(), "none of the ", options.head_list.size(), " heads asked for stands in a layer that is ",
          "captured; --include-windowed captures layers with a sliding window too, --layers those that it names");
  return heads;
}

}  // namespace

index_t heads_without_data(const decoder_description& model, const selection_options& options) {
  const auto kept = listed_heads(model, options, choose_layers(model, options));
  return static_cast<index_t>(options.head_list.size() - kept.size());
}

capture_manifest plan_capture(const decoder_description& model, const std::string& name,
                              const std::string& config_sha256, const selection_options& options,
                              compute_type compute) {
  require(options.max_length >= 0 && options.max_length <= most_tokens, "max-length must be from 1 to ", most_tokens,
          " tokens, not ", options.max_length);
  require(!options.heads || *options.heads > 0, "at least one head must be captured, not ", options.heads.value_or(0));
  capture_manifest m;
  const std::vector<head_id> chosen = choose_heads(model, options);
  const layer_description& first = model.layers[chosen.front().layer];
  const head_shape heads = model.heads_of(first);
  m.model = {name,
             model.model_type,
             config_sha256,
             heads.head_dim,
             model.n_layers(),
             model.query_heads,
             heads.key_heads,
             model.context};
  m.context_length = context_of(model, options);
  const token_sampler s = sampler_of(model, options);
  m.bucket = {std::string(name_of(s.kind)), s.bucket_size};
  // The format states a probability for uniform buckets, expected tokens per bucket for log2.
  m.rate = s.kind == sampler_kind::log2 ? s.rate : s.probability(s.skip_first);
  m.rope_stage = options.pre_rope ? "pre" : "post";
  m.seed = options.seed;
  m.compute_dtype = std::string(name_of(compute));
  if (std::any_of(model.layers.begin(), model.layers.end(), [](const auto& l) { return l.rope; }))
    m.rope = captured_rope_of(first.heads ? model.rope_of(first) : model.rope, m.context_length);
  m.score_scale = model.score_scale;
  if (model.score_cap > 0) m.score_softcap = model.score_cap;
  if (model.growth) m.extra["query_growth"] = {{"beta", model.growth->beta}, {"context", model.growth->context}};
  if (model.growth_unrotated) m.extra["query_growth"]["layers"] = "nope";
  m.written_by = "qkgeom-capture";

  for (const head_id& h : chosen) {
    if (m.layers.empty() || m.layers.back().layer != h.layer) {
      const layer_description& l = model.layers[h.layer];
      m.layers.push_back({h.layer, l.rope, model.slides(l, m.context_length) ? l.window : std::nullopt, {}, {}, {}});
      if (l.local_rope) m.layers.back().rope_parameters = captured_rope_of(*model.local_rope, m.context_length);
      if (model.norms_rotated(l)) m.layers.back().norm = captured_norm{.eps = model.norm_eps};
    }
    captured_layer_info& info = m.layers.back();
    info.query_heads.push_back(h.head);
    const index_t key = key_head_of(h.head, model.query_heads, heads.key_heads);
    if (info.key_heads.empty() || info.key_heads.back() != key) info.key_heads.push_back(key);
  }
  return m;
}

decoder_description captured_heads(const decoder_description& model, const selection_options& options) {
  decoder_description d = model;
  if (options.heads_of == head_owner::attention) return d;
  require(model.indexer.has_value(), "--heads-of indexer: a model of type ", model.model_type, " has no indexers");
  d.indexer_rows = true;
  d.query_heads = model.indexer->heads;
  d.key_heads = 1;
  d.head_dim = model.indexer->dim;
  d.rope.first = 0;
  d.score_scale.reset();
  return d;
}

std::vector<index_t> layers_with_other_heads(const decoder_description& model) {
  std::vector<index_t> layers;
  for (index_t l = 0; l < model.n_layers(); ++l)
    if (model.layers[l].heads) layers.push_back(l);
  return layers;
}

std::string ranges_text(const std::vector<index_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (j > i) text += '-' + std::to_string(numbers[j]);
    i = j + 1;
  }
  return text;
}

std::vector<index_t> parse_layers(const std::string& text) {
  if (text == "all") return {};
  std::vector<index_t> layers;
  const char *p = text.data(), *const end = p + text.size();
  const auto number = [&] {
    index_t n = -1;
    const auto [next, code] = std::from_chars(p, end, n);
    require(code == std::errc() && n >= 0 && n < 100000, "layers must be a list such as 0,3,5-7 or all, not '", text,
            "'");
    p = next;
    return n;
  };
  for (;;) {
    const index_t first = number();
    index_t last = first;
    if (p != end && *p == '-') {
      ++p;
      last = number();
      require(first <= last, "layers must ascend, but ", text, " names ", first, '-', last);
    }
    for (index_t l = first; l <= last; ++l) layers.push_back(l);
    if (p == end) break;
    require(*p == ',', "layers must be a list such as 0,3,5-7 or all, not '", text, "'");
    ++p;
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

}  // namespace qkgeom
