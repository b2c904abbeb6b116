// SPDX-License-Identifier: MIT
// analyse() of arrays, and the steps behind it. Each of the library's templates is instantiated here alone.
#include <nanobind/stl/variant.h>
#include <cmath>
#include <exception>

#include "arguments.hpp"
#include "python.hpp"
#include "qkgeom/report/analyse_layer.hpp"
#include "qkgeom/sampling/head_draw.hpp"
#include "watched_context.hpp"

namespace qkgeom::python {

array_layer::array_layer(nb::handle q_, nb::handle k_, nb::handle positions_, nb::handle documents_,
                         nb::handle key_positions_, nb::handle key_documents_, std::optional<index_t> window_)
    : q(q_, "q", readable::host_or_cuda),
      k(k_, "k", readable::host_or_cuda),
      positions([&]() -> array_ints {
        if (!positions_.is_none()) return array_ints(positions_, "positions", readable::host_or_cuda);
        require(documents_.is_none() && key_positions_.is_none() && q.rows() == k.rows(),
                "positions may be left out where q and k hold one document, token by token from its first: positions "
                "are the tokens' numbers in their documents, from 0");
        return array_ints(q.rows(), 1);
      }()),
      documents([&]() -> array_ints {
        if (documents_.is_none()) return array_ints(q.rows(), 0);
        return array_ints(documents_, "documents", readable::host_or_cuda);
      }()),
      window(window_) {
  if (!key_positions_.is_none()) key_positions.emplace(key_positions_, "key_positions", readable::host_or_cuda);
  if (!key_documents_.is_none())
    key_documents.emplace(key_documents_, "key_documents", readable::host_or_cuda);
  else if (documents_.is_none() && k.rows() != q.rows())
    key_documents.emplace(k.rows(), 0);
  require(q.one_head == k.one_head, "q and k must both be (rows, d) or both (rows, heads, d), but q has ",
          text_of(q.array), " and k ", text_of(k.array));
  require_type(q.element == k.element, "q and k must hold the same type, but q has ", text_of(q.array), " and k ",
               text_of(k.array));
  require(q.array.device_type() == k.array.device_type() && q.array.device_id() == k.array.device_id(),
          "q and k must lie in the same memory, but q is on device (", q.array.device_type(), ", ", q.array.device_id(),
          ") of DLPack and k on (", k.array.device_type(), ", ", k.array.device_id(), ")");
  require(positions.view().size == q.rows(), "positions has ", positions.view().size, " entries for ", q.rows(),
          " rows of q");
  require(documents.view().size == q.rows(), "documents has ", documents.view().size, " entries for ", q.rows(),
          " rows of q");
  const auto kp = key_positions ? key_positions->view().size : positions.view().size;
  require(kp == k.rows(), "k has ", k.rows(), " rows for ", kp, " positions: key_positions gives the keys' own");
  const auto kd = key_documents ? key_documents->view().size : documents.view().size;
  require(kd == k.rows(), "k has ", k.rows(), " rows for ", kd, " documents: key_documents gives the keys' own");
  require(q.heads() > 0 && k.heads() > 0 && q.heads() % k.heads() == 0, "q has ", q.heads(),
          " heads, which must be a multiple of the ", k.heads(), " of k");
  require(!window || *window > 0, "window must be at least 1 token");
}

cuda_rows array_layer::on_device() const {
  constexpr auto device = memory_space::device;
  return {place_of(q.array), q.element,    q.view<char, device>(), k.view<char, device>(), positions.view(),
          documents.view(),  k_position(), k_document(),           key_of_query(),         window};
}

index_t array_layer::length() const {
  std::int32_t last = -1;
  for (const auto& view : {positions.view(), k_position()})
    for (const std::int32_t t : view) last = std::max(last, t);
  return index_t{last} + 1;
}

namespace {

/// Calls on_device(cuda_calls&, cuda_rows) for rows on a CUDA device, else on_host(cpu_context&, layer_view<T>).
template <class OnDevice, class OnHost>
auto run_where_it_lies(const array_layer& rows, const OnDevice& on_device, const OnHost& on_host) {
  if (rows.on_cuda()) {
    const auto there = rows.on_device();
    auto& cuda = cuda_library("q");
    return run_alone([&] { return on_device(cuda, there); });
  }
  return run([&](cpu_context& ctx) { return rows.visit([&](const auto& view) { return on_host(ctx, view); }); });
}

bucket_edges edges_of(const buckets_argument& buckets, index_t length) {
  if (!buckets) return uniform_buckets{capture_manifest::sixteenth_of(length)}.edges(length);
  if (const auto* edges = std::get_if<std::vector<index_t>>(&*buckets)) return bucket_edges(*edges);
  return uniform_buckets{std::get<index_t>(*buckets)}.edges(length);
}

/// Returns the scale of scores for the library, whose 0 is 1/sqrt(d).
double scale_of(const std::optional<double>& score_scale) {
  require(!score_scale || (*score_scale > 0 && std::isfinite(*score_scale)), "score_scale must be above 0");
  return score_scale.value_or(0);
}

/// Notes positions past the context, and those that stand twice where all rows are of one document.
void note_positions(model_report& report, vector_view<const std::int32_t> positions, bool one_document) {
  std::vector<char> seen(static_cast<std::size_t>(report.context_length));
  index_t past = 0, twice = -1;
  for (const std::int32_t t : positions) {
    if (t < 0 || t >= report.context_length)
      ++past;
    else if (std::exchange(seen[static_cast<std::size_t>(t)], 1) && twice < 0)
      twice = t;
  }
  if (past > 0)
    note_missing(report, std::to_string(past) + " of " + std::to_string(positions.size) +
                             " queries stand past the context_length of " + std::to_string(report.context_length) +
                             " tokens, in no query bucket");
  if (one_document && twice >= 0)
    note_missing(report, "position " + std::to_string(twice) +
                             " stands twice, and all rows are taken as one document: documents tells them apart");
}

model_report analyse_arrays(nb::object q, nb::object k, nb::object positions, nb::object documents,
                            buckets_argument buckets, std::optional<index_t> context_length,
                            const covariance_argument& covariance, nb::object key_positions, nb::object key_documents,
                            std::optional<index_t> window, std::optional<double> score_scale, std::string pairs,
                            index_t sampled_pairs, bool heatmap, std::uint64_t seed, index_t layer, bool rope) {
  const array_layer rows(q, k, positions, documents, key_positions, key_documents, window);
  auto options = options_of(buckets, names_of(covariance), pairs, sampled_pairs, heatmap, seed);
  options.rotation.score_scale = scale_of(score_scale);
  require(!context_length || *context_length > 0, "context_length must be at least 1 token");
  model_report report;
  report.context_length = context_length.value_or(rows.length());
  report.buckets = edges_of(buckets, report.context_length);
  require(report.buckets.count() <= max_query_buckets, "buckets: ", report.buckets.count(), " are more than the ",
          max_query_buckets, " allowed");
  report.weighting = options.weighting;
  layer_names names{layer, rope, {}, {}};
  for (index_t h = 0; h < rows.q.heads(); ++h) names.query_heads.push_back(h);
  for (index_t h = 0; h < rows.k.heads(); ++h) names.key_heads.push_back(h);
  report.heads = run_where_it_lies(
      rows,
      [&](cuda_calls& cuda, const cuda_rows& there) {
        return cuda.analyse(there, names, report.buckets, report.context_length, options);
      },
      [&](cpu_context& ctx, const auto& view) {
        return analyse_layer(ctx, view, names, report.buckets, report.context_length, options);
      });
  note_positions(report, rows.positions.view(), documents.is_none());
  note_pairs(report);
  for (const auto& note : report.notes)
    if (PyErr_WarnEx(PyExc_UserWarning, note.text.c_str(), 2) != 0) throw nb::python_error();
  return report;
}

layer_moments moments_of(nb::object q, nb::object k, nb::object positions, nb::object documents,
                         buckets_argument buckets, std::optional<index_t> context_length, nb::object key_positions,
                         nb::object key_documents) {
  const array_layer rows(q, k, positions, documents, key_positions, key_documents, {});
  const index_t length = context_length.value_or(rows.length());
  const auto edges = edges_of(buckets, length);
  return run_where_it_lies(
      rows, [&](cuda_calls& cuda, const cuda_rows& there) { return cuda.accumulate(there, edges, length); },
      [&](cpu_context& ctx, const auto& view) {
        return accumulate(ctx, view, edge_buckets{edges.edges()}, {.context_length = length});
      });
}

/// Pairs of keys by name, or by their weights.
using weight_function = nb::typed<nb::callable, double(key_pair)>;
using pairs_argument = std::variant<std::string, weight_function>;

std::vector<plasticity_profile_result> profiles_of(const std::vector<query_model>& models, nb::object q, nb::object k,
                                                   nb::object positions, nb::object documents, nb::object key_positions,
                                                   nb::object key_documents, std::optional<index_t> window,
                                                   const pairs_argument& pairs, bool heatmap, bool across_documents) {
  const array_layer rows(q, k, positions, documents, key_positions, key_documents, window);
  std::exception_ptr failure;  // of the weight: set and read with the GIL held
  const auto weight = [&](const key_pair& p) {
    const nb::gil_scoped_acquire gil;
    if (failure) throw interrupted{};
    const calling_back mark;
    try {
      const nb::object given = std::get<weight_function>(pairs)(p);
      double w = 0;
      if (nb::try_cast(given, w)) return w;
      require_type(false, "pairs must return the weight of a pair, a number, not ", class_name_of(given));
    } catch (...) {
      failure = std::current_exception();
    }
    throw interrupted{};
  };
  const auto* named = std::get_if<std::string>(&pairs);
  const std::string name = named ? *named : "";
  require(!named || name == "all" || name == "prefix_uniform", "pairs must be all, prefix_uniform or a function, not ",
          name);
  require(named || !rows.on_cuda(),
          "pairs: a function in Python weighs pairs on the host alone: pass q.cpu() and k.cpu()");
  const profile_options options{.heatmap = heatmap};
  try {
    return run_where_it_lies(
        rows,
        [&](cuda_calls& cuda, const cuda_rows& there) {
          const auto set = name == "all" ? pairs_of_profile::all : pairs_of_profile::prefix_uniform;
          return cuda.profiles(models, there, set, across_documents, options);
        },
        [&](cpu_context& ctx, const auto& view) {
          if (!named)
            return plasticity_profile(
                ctx, models, view, weighted_pairs{.weight_of = weight, .across_documents = across_documents}, options);
          if (name == "all") return plasticity_profile(ctx, models, view, all_pairs{across_documents}, options);
          return plasticity_profile(ctx, models, view, prefix_uniform{across_documents}, options);
        });
  } catch (...) {
    if (failure) std::rethrow_exception(failure);
    throw;
  }
}

void bind_moments(nb::module_& m) {
  const auto d_by_d = [](const row_moments& r) { return shape_type(r.has_full_scatter() ? 2 : 1, r.mean.size()); };
  record<row_moments>(m, "RowMoments", "Count, mean and sums of products about the means of rows x at positions t.")
      .field("count", &row_moments::count)
      .field("mean_t", &row_moments::mean_t, "tokens")
      .field("tt", &row_moments::tt, "sum of (t - mean_t)^2")
      .array("mean", &row_moments::mean, "(d)")
      .array("xt", &row_moments::xt, "(d) sum of (x - mean)(t - mean_t)")
      .array("xx", &row_moments::xx, d_by_d, "(d, d) sum of (x - mean)(x - mean)', or its diagonal (d)");
  record<side_moments>(m, "SideMoments", "Moments of one side of a head: of all rows, and per bucket.")
      .field("total", &side_moments::total)
      .field("bucket", &side_moments::bucket, "(buckets)");
  record<layer_moments>(m, "Moments", "Moments of the heads of a layer, each key head once; they merge exactly.")
      .field(
          "buckets", [](const layer_moments& x) { return x.buckets.edges(); }, "edges, tokens")
      .field("q", &layer_moments::q, "(query heads)")
      .field("k", &layer_moments::k, "(key heads)")
      .kept(&layer_moments::buckets)
      .field("key_of_query", &layer_moments::key_of_query)
      .def(
          "merge", [](const layer_moments& a, const layer_moments& b) { return merge(a, b); }, nb::arg("other"),
          "Moments of the rows of both together. Raises ValueError unless heads and buckets fit.")
      .def(
          "__eq__", [](const layer_moments& a, const layer_moments& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, other: object, /) -> bool"));
}

void bind_models(nb::module_& m) {
  record<query_bucket>(m, "QueryBucket", "Query model of one bucket, in Householder coordinates.")
      .field("queries", &query_bucket::queries, "fewer than 2: no model")
      .field("tau", &query_bucket::tau, "query position, tokens")
      .array("mean", &query_bucket::mean, "(d) mean query at tau")
      .array("variance", &query_bucket::variance, "(d)")
      .kept(&query_bucket::root);
  pickled_members<semidefinite_root> = {[](pickle& p, semidefinite_root& x) {
    exchange(p, x.rank);
    exchange(p, x.factor);
  }};
  record<query_model>(m, "QueryModel", "Gaussian model of a head's queries per query bucket (4.9 to 4.12).")
      .field("covariance", [](const query_model& x) { return std::string(name_of(x.covariance)); })
      .field(
          "buckets", [](const query_model& x) { return x.buckets.edges(); }, "edges, tokens")
      .array("reflector", &query_model::reflector, "unit u of H = I - 2uu' (4.10); empty: H = I")
      .field("alpha_pos", &query_model::alpha_pos)
      .field("beta_pos", &query_model::beta_pos, "drift |beta| per token")
      .field("sigma2_pos", &query_model::sigma2_pos)
      .field("r2_pos", &query_model::r2_pos)
      .field("bucket", &query_model::bucket)
      .kept(&query_model::covariance, &query_model::buckets);
  record<key_pair>(m, "KeyPair", "Argument of a pair's weight.")
      .field("i", &key_pair::i, "rank of the earlier key among the admitted keys")
      .field("j", &key_pair::j)
      .field("keys", &key_pair::keys, "admitted keys of the document")
      .field("t_i", &key_pair::t_i, "position, tokens")
      .field("t_j", &key_pair::t_j)
      .field("document_i", &key_pair::document_i)
      .field("document_j", &key_pair::document_j)
      .field("tau", &key_pair::tau, "query position of the bucket, tokens")
      .field(
          "distance", [](const key_pair& p) { return p.distance(); }, "t_j - t_i, tokens");
}

}  // namespace

void bind_analysis(nb::module_& m) {
  bind_moments(m);
  bind_models(m);
  const auto none = nb::none();
  m.def(
      "analyse", &analyse_arrays, nb::arg("q"), nb::arg("k"), nb::arg("positions") = none, nb::arg("documents") = none,
      nb::arg("buckets") = none, nb::arg("context_length") = none, nb::arg("covariance") = "joint", nb::kw_only(),
      nb::arg("key_positions") = none, nb::arg("key_documents") = none, nb::arg("window") = none,
      nb::arg("score_scale") = none, nb::arg("pairs") = "all", nb::arg("sampled_pairs") = 0, nb::arg("heatmap") = true,
      nb::arg("seed") = 0, nb::arg("layer") = 0, nb::arg("rope") = true,
      "PCA (4.2), rotation (4.3 to 4.6) and plasticity (4.4) of one head or of the heads of a layer.\n\n"
      "q: queries (n, d), or (n, query heads, d), after the rotary embedding.\n"
      "k: keys (n, d), or (n, key heads, d). Rows of float64, float32, float16 or bfloat16 are viewed without a copy\n"
      "at any stride of rows and heads; lists and integers are copied as float64.\n"
      "positions: (n) integers, tokens from 0; None: the rows are one document, token by token.\n"
      "documents: (n) integers, ids of documents; None: one document.\n"
      "buckets: width of the query buckets in tokens, or their edges; None: a sixteenth of the context.\n"
      "context_length: L in tokens; None: one past the last position.\n"
      "covariance: 'diagonal', 'full', 'joint' or 'linear_drift', or several, of which the first is the headline, and\n"
      "'empirical' for the observed queries, which take longer than a query model.\n"
      "key_positions, key_documents: (keys), where keys stand elsewhere than queries.\n"
      "window: tokens of a sliding window. score_scale: what the softmax multiplies q . k by; None: 1/sqrt(d).\n"
      "pairs: 'all', 'per_document' or 'prefix_uniform' (Definition 4.3).\n"
      "sampled_pairs: pairs drawn per query bucket, with seed; 0: all are used. heatmap: also plasticity by the\n"
      "distance of two keys and of the query. layer, rope: stand in the tables; rope=False: a layer without rotary\n"
      "embedding (NoPE).\n"
      "Raises ValueError or TypeError that names the argument.");
  m.def("accumulate", &moments_of, nb::arg("q"), nb::arg("k"), nb::arg("positions") = none, nb::arg("documents") = none,
        nb::arg("buckets") = none, nb::arg("context_length") = none, nb::kw_only(), nb::arg("key_positions") = none,
        nb::arg("key_documents") = none, "Mergeable moments of the rows, in float64; arguments as those of analyse.");
  m.def(
      "pca", [](const layer_moments& x) { return run([&](cpu_context& c) { return pca(c, x); }); }, nb::arg("moments"),
      "PCA of pooled queries and keys (4.2), one result per query head.");
  m.def(
      "planar_rotation",
      [](const layer_moments& x, std::optional<index_t> length, std::optional<double> score_scale) {
        const rotation_options options{.context_length = length.value_or(0), .score_scale = scale_of(score_scale)};
        return run([&](cpu_context& c) { return planar_rotation(c, x, options); });
      },
      nb::arg("moments"), nb::arg("context_length") = none, nb::arg("score_scale") = none,
      "Drift axis a, separation axis b and bias strength (4.3 to 4.6), one result per query head.\n\n"
      "score_scale: what the softmax multiplies q . k by; None: 1/sqrt(d).");
  m.def(
      "fit_queries",
      [](const layer_moments& x, const std::string& covariance, bool no_drift) {
        const auto kind = covariance_of(covariance);
        return run([&](cpu_context& c) { return fit_queries(c, x, {.covariance = kind, .no_drift = no_drift}); });
      },
      nb::arg("moments"), nb::arg("covariance") = "joint", nb::arg("no_drift") = false,
      "Gaussian query models (4.9 to 4.12), one per query head.\n\ncovariance: 'diagonal', 'full', 'joint' or "
      "'linear_drift'. no_drift: without the drift of the mean.");
  m.def(
      "plasticity_profile", &profiles_of, nb::arg("models"), nb::arg("q"), nb::arg("k"), nb::arg("positions") = none,
      nb::arg("documents") = none, nb::kw_only(), nb::arg("key_positions") = none, nb::arg("key_documents") = none,
      nb::arg("window") = none, nb::arg("pairs") = "all", nb::arg("heatmap") = false,
      nb::arg("across_documents") = false,
      "Mean pairwise plasticity PP = 4 Phi(z) Phi(-z) (4.7, 4.8) per query bucket, one profile per model.\n\n"
      "models: those of fit_queries for the same heads. pairs: 'all', 'prefix_uniform' (Definition 4.3), or a\n"
      "function of a KeyPair that returns a weight of at least 0. Such a function is called for every pair under\n"
      "the GIL: about a microsecond a pair, some thousand times what the pair itself costs. heatmap: makes one; pairs\n"
      "are then summed in another order, so that means may differ from those without in the last digit, and equal\n"
      "analyse's to the bit where its heatmap is the same.");
  m.def(
      "summarize", [](const plasticity_profile_result& p, index_t length) { return summarize(p, length); },
      nb::arg("profile"), nb::arg("context_length"), "Means of a profile over [0, L) tokens and its ends (4.4.5).");
  m.def(
      "viewed",
      [](nb::object x) {
        const array_rows rows(x, "x");
        return nb::make_tuple(reinterpret_cast<std::uintptr_t>(rows.array.data()), std::string(name_of(rows.element)));
      },
      nb::sig("def viewed(x: object) -> tuple[int, str]"),
      "Address and element type of the rows that a call would read.");
  m.def(
      "set_threads",
      [](int threads) {
        require(threads >= 0, "threads must be at least 1, or 0 for one per core, not ", threads);
        run_alone([&] {
          the_context().threads = threads;
          the_context().context.reset();
        });
      },
      nb::arg("threads"),
      "Threads of all later calls; 0: one per core that this process may use. Results do not depend on it.");
}

}  // namespace qkgeom::python
