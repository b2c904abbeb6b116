// SPDX-License-Identifier: MIT
#include "capture/job/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "capture/job/prepare.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {
namespace {

/// Rows of one side of a layer.
using side_rows = tensor_view<const float>;

double entry(const side_rows& x, index_t h, index_t t, index_t c) { return static_cast<double>(x.head(h)(t, c)); }

template <class F>
void each_entry(const side_rows& x, index_t tokens, const F& f) {
  for (index_t h = 0; h < x.heads; ++h)
    for (index_t t = 0; t < tokens; ++t)
      for (index_t c = 0; c < x.dim; ++c) f(h, t, c);
}

double largest(const side_rows& x) {
  double most = 0;
  each_entry(x, x.rows, [&](auto... at) { most = std::max(most, std::abs(entry(x, at...))); });
  return most;
}

/// Returns the largest difference of `ours`, as `f(head, token, channel)` gives it, over the reference's largest entry.
template <class F>
double difference_of(const side_rows& reference, index_t tokens, const F& f) {
  double most = 0;
  each_entry(reference, tokens,
             [&](auto... at) { most = std::max(most, std::abs(entry(reference, at...) - f(at...))); });
  return most / std::max(largest(reference), 1e-30);
}

bool are_parallel(const side_rows& a, const side_rows& b) {
  for (index_t h = 0; h < a.heads; ++h)
    for (index_t t = 0; t < a.rows; ++t) {
      double ab = 0, aa = 0, bb = 0;
      for (index_t c = 0; c < a.dim; ++c) {
        const double x = entry(a, h, t, c), y = entry(b, h, t, c);
        ab += x * y;
        aa += x * x;
        bb += y * y;
      }
      if (!(ab > 0.999 * std::sqrt(aa * bb))) return false;
    }
  return true;
}

/// Returns whether each head of the reference is one of ours with another number.
bool are_heads_in_another_order(const side_rows& ours, const side_rows& reference) {
  const double allowed = large_difference * largest(reference);
  const auto same = [&](index_t h, index_t g) {
    for (index_t t = 0; t < ours.rows; ++t)
      for (index_t c = 0; c < ours.dim; ++c)
        if (!(std::abs(entry(reference, h, t, c) - entry(ours, g, t, c)) <= allowed)) return false;
    return true;
  };
  for (index_t h = 0, g = 0; h < reference.heads; ++h) {
    for (g = 0; g < ours.heads && !same(h, g); ++g) continue;
    if (g == ours.heads) return false;
  }
  return true;
}

/// Returns whether the first token's rows, which are not rotated, hold the same numbers in another order.
bool is_another_order_at_the_first_token(const side_rows& ours, const side_rows& reference) {
  const auto sorted = [](const side_rows& x) {
    std::vector<double> all;
    each_entry(x, 1, [&](auto... at) { all.push_back(entry(x, at...)); });
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto a = sorted(ours), b = sorted(reference);
  const double allowed = large_difference * largest(reference);
  return std::equal(a.begin(), a.end(), b.begin(), [&](double x, double y) { return std::abs(x - y) <= allowed; });
}

/// Returns a likely cause of a difference, by its pattern; empty: unknown.
std::string cause_of(const side_rows& ours, const side_rows& reference) {
  const index_t half = ours.dim / 2;
  const auto differs = [&](const auto& f) { return difference_of(reference, reference.rows, f) > large_difference; };
  const auto own = [&](index_t h, index_t t, index_t c) { return entry(ours, h, t, c); };
  if (!differs([&](index_t h, index_t t, index_t c) { return own(h, t, c % 2 == 0 ? c / 2 : half + c / 2); }) ||
      !differs([&](index_t h, index_t t, index_t c) { return own(h, t, c < half ? 2 * c : 2 * (c - half) + 1); }))
    return "the channels are in another order: pairs of the rotary embedding stand side by side on one side and half a "
           "head apart on the other";
  if (are_heads_in_another_order(ours, reference)) return "the heads are in another order";
  double ab = 0, aa = 0;
  each_entry(ours, ours.rows, [&](auto... at) {
    ab += own(at...) * entry(reference, at...);
    aa += own(at...) * own(at...);
  });
  const double scale = ab / aa;
  if (!differs([&](auto... at) { return scale * own(at...); }))
    return fmt::format("the reference is {:.4g} times as large: a scale", scale);
  if (are_parallel(ours, reference))
    return "rows differ in length alone: a norm of queries and keys, or a growth with position";
  if (reference.rows > 1 && difference_of(reference, 1, own) < large_difference)
    return "the first token agrees and later ones do not: the rotary embedding (base, scaling, pairing), or positions";
  if (is_another_order_at_the_first_token(ours, reference))
    return "the first token, which is not rotated, has the same numbers in another order: the rows of the projection "
           "stand in another order";
  return {};
}

std::vector<std::int32_t> ids_of(const safetensors_file& file, const decoder_description& model) {
  const auto& t = file.at("ids");
  require(t.shape.size() == 1 && (t.dtype == "I32" || t.dtype == "I64"), "ids must be (tokens) in I32 or I64, not ",
          t.dtype, " of shape ", shape_text(t.shape));
  std::vector<std::int32_t> ids;
  const auto take = [&](const auto& values) {
    for (const auto v : values) {
      require(v >= 0 && v < model.vocabulary, "ids holds ", v, ", outside the model's vocabulary of ",
              model.vocabulary);
      ids.push_back(static_cast<std::int32_t>(v));
    }
  };
  if (t.dtype == "I32")
    take(file.values<std::int32_t>("ids"));
  else
    take(file.values<std::int64_t>("ids"));
  require(!ids.empty(), "ids is empty");
  return ids;
}

}  // namespace

std::vector<layer_difference> compare_with_reference(const capture_options& options,
                                                     const std::filesystem::path& reference, std::ostream& notes,
                                                     const capture_backend& backend) {
  capture_options every_layer = options;
  every_layer.selection.include_windowed = true;
  const prepared_capture prepared = prepare_capture(every_layer, notes);
  const auto& model = prepared.model;
  const safetensors_file file(reference);
  const auto ids = ids_of(file, model);
  const checkpoint weights = open_weights(prepared, options.model.path);
  thread_pool pool(options.run.threads);
  const auto pass = backend.forward(model, weights, options.model.compute, model.n_layers() - 1, pool);
  std::vector<layer_difference> layers;
  batch_sinks sinks;
  sinks.rows = [&](std::size_t, index_t layer, auto q, auto k) {
    const std::string number = '.' + std::to_string(layer);
    if (!file.find('q' + number) || !file.find('k' + number)) return;
    layer_difference found{layer, 0, 0, {}};
    for (const auto& [side, ours, error] : {std::tuple{'q', q, &found.q}, std::tuple{'k', k, &found.k}}) {
      const std::string name = side + number;
      const auto& t = file.at(name);
      require(t.shape.size() == 3 && t.dtype == "F32", name, " must be (heads, tokens, head size) in F32, not ",
              t.dtype, " of shape ", shape_text(t.shape));
      const auto values = file.values<float>(name);
      require(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }), name,
              " holds values that are not finite");
      const index_t n = t.shape[1], d = t.shape[2];
      const side_rows theirs{values.data(), n, t.shape[0], d, d, n * d};
      require(ours.heads == theirs.heads && ours.rows == n && ours.dim == d, name, " has ", theirs.heads, " heads, ", n,
              " tokens and head size ", d, ", but the model gives ", ours.heads, ", ", ours.rows, " and ", ours.dim);
      *error = difference_of(theirs, n, [&](auto... at) { return entry(ours, at...); });
      if (*error > large_difference && found.cause.empty())
        if (const auto cause = cause_of(ours, theirs); !cause.empty()) found.cause = side + (": " + cause);
    }
    layers.push_back(std::move(found));
  };
  const token_span document(ids);
  pass->run({&document, 1}, rope_stage::post, sinks);
  require(!layers.empty(), reference.string(), " holds no q.L and k.L of a layer");
  return layers;
}

bool print_differences(std::ostream& out, const std::vector<layer_difference>& layers) {
  out << "layer   queries      keys   (largest difference over the largest entry)\n";
  const layer_difference* first = nullptr;
  for (const auto& l : layers) {
    out << fmt::format("{:5}  {:8.1e}  {:8.1e}{}\n", l.layer, l.q, l.k, l.cause.empty() ? "" : "   " + l.cause);
    if (!first && std::max(l.q, l.k) > large_difference) first = &l;
  }
  if (first)
    out << fmt::format("Layer {} is the first that disagrees{}\n", first->layer,
                       first->cause.empty() ? "; its pattern shows no cause" : ". " + first->cause);
  else
    out << "All layers agree\n";
  return !first;
}

}  // namespace qkgeom
