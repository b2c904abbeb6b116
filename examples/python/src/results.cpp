// SPDX-License-Identifier: MIT
// The result classes: small, with the fields of the C++ structures.
#include <nanobind/stl/variant.h>

#include "python.hpp"
#include "qkgeom/report/head_tables.hpp"
#include "table.hpp"

namespace qkgeom::python {

namespace {

std::string text(std::string_view x) { return std::string(x); }

/// Puts the name of a query model in place of a copy of it.
void exchange_covariance(pickle& p, plasticity_profile_result& x) {
  std::string name(x.covariance);
  exchange(p, name);
  x.covariance = "empirical";
  for (const covariance_kind kind : all_covariance_kinds)
    if (name == name_of(kind)) x.covariance = name_of(kind);
}

void bind_profiles(nb::module_& m) {
  record<estimate>(m, "Estimate", "A number and its standard error; NaN where there is none.")
      .field("value", &estimate::value)
      .field("error", &estimate::error, "jackknife over documents, the query model kept")
      .field("freedom", &estimate::freedom, "degrees of freedom of the error");
  record<profile_summary>(m, "ProfileSummary", "Means of a profile (4.4.5) over the context [0, L) and its ends.")
      .field("overall", &profile_summary::overall, "over the whole context")
      .field("first20", &profile_summary::first20, "over [0, 0.2 L)")
      .field("last20", &profile_summary::last20, "over [0.8 L, L)")
      .field("drop", &profile_summary::drop, "first20 - last20")
      .field("pairs", &profile_summary::pairs);
  record<profile_bucket>(m, "ProfileBucket", "Attention plasticity of one query bucket.")
      .field("start", &profile_bucket::start, "tokens")
      .field("end", &profile_bucket::end, "tokens")
      .field("queries", &profile_bucket::queries)
      .field("queries_used", &profile_bucket::queries_used)
      .field("pairs", &profile_bucket::pairs)
      .field("plasticity", &profile_bucket::plasticity, "mean of PP = 4 Phi(z) Phi(-z) (4.7, 4.8); NaN without pairs")
      .field("standard_error", &profile_bucket::standard_error, "jackknife over documents, given the query model")
      .field("drawn", &profile_bucket::drawn)
      .field("sampling_error", &profile_bucket::sampling_error)
      .array("document_sum", &profile_bucket::document_sum, "(documents)")
      .array("document_weight", &profile_bucket::document_weight, "(documents)");
  const auto square = [](const plasticity_heatmap& h) { return shape_type(2, static_cast<std::size_t>(h.width)); };
  record<plasticity_heatmap>(m, "Heatmap", "Plasticity by key distance |t_i - t_j| and query distance, in tokens.")
      .field("cell", &plasticity_heatmap::cell, "cell width, tokens")
      .field("width", &plasticity_heatmap::width, "cells along each side")
      .array("sum", &plasticity_heatmap::sum, square, "(key distance, query distance) sums of plasticity")
      .array("weight", &plasticity_heatmap::weight, square, "(key distance, query distance) weights of the pairs")
      .def("mean", &plasticity_heatmap::mean, nb::arg("key_distance"), nb::arg("query_distance"),
           "Mean of a cell by its indices; NaN without pairs.");
  record<plasticity_profile_result>(m, "Profile", "Plasticity profile of a head over query buckets (4.4.5).")
      .field(
          "covariance", [](const plasticity_profile_result& p) { return text(p.covariance); },
          "the query model, or empirical")
      .field("documents", &plasticity_profile_result::documents, "ids of the document sums; -1: all as one")
      .field("buckets", &plasticity_profile_result::buckets)
      .field("heatmap", &plasticity_profile_result::heatmap)
      .field("model", &plasticity_profile_result::model, "fingerprint of the query model")
      .kept(&plasticity_profile_result::documents_weigh_same)
      .def_prop_ro(
          "plasticity",
          [](const plasticity_profile_result& p) {
            std::vector<double> v;
            for (const auto& b : p.buckets) v.push_back(b.plasticity);
            return v;
          },
          "(buckets) the buckets' plasticity")
      .def(
          "summarize", [](const plasticity_profile_result& p, index_t length) { return summarize(p, length); },
          nb::arg("context_length"), "Means over the context of that many tokens and over its ends (4.4.5).");
  pickled_members<plasticity_profile_result>.emplace_back(exchange_covariance);
}

void bind_geometry(nb::module_& m) {
  const auto d_by_d = [](const pca_result& p) {
    const auto d = p.r_q.size();
    return shape_type{p.components.empty() ? 0 : d, d};
  };
  record<pca_result>(m, "Pca", "PCA of the pooled queries and keys of a head (4.2); components by descending variance.")
      .field("head_class", [](const pca_result& p) { return text(name_of(p.head_class)); })
      .array("explained_variance", &pca_result::explained_variance, "(d) lambda_j / sum of lambda")
      .array("r_q", &pca_result::r_q, "(d) correlation of q . v_j with position")
      .array("r_k", &pca_result::r_k, "(d) correlation of k . v_j with position")
      .array("components", &pca_result::components, d_by_d,
             "(d, d) row j is v_j; (0, d) in reports, which do not keep them")
      .field("total_variance", &pca_result::total_variance)
      .field("q_linear_share", &pca_result::q_linear_share)
      .field("k_linear_share", &pca_result::k_linear_share)
      .field("q_component_share", &pca_result::q_component_share)
      .field("k_component_share", &pca_result::k_component_share)
      .kept(&pca_result::head_class);
  record<axis_projection>(m, "AxisProjection", "One side of a head, projected on the drift axis a.")
      .field("r", &axis_projection::r, "correlation with position")
      .field("alpha", &axis_projection::alpha, "slope per token")
      .field("alpha_context", &axis_projection::alpha_context, "slope per context")
      .field("mu", &axis_projection::mu, "mean")
      .field("mu_b", &axis_projection::mu_b, "mean on axis b")
      .field("cos_a_beta", &axis_projection::cos_a_beta)
      .field("drift_off_a", &axis_projection::drift_off_a);
  record<position_bias>(m, "PositionBias", "What position adds to scores along axis a (4.6) and along b.")
      .field("strength", &position_bias::strength, "mu_q_a alpha_k, score per token; positive: later keys score higher")
      .field("context", &position_bias::context, "strength times the context length")
      .field("alpha_k_b", &position_bias::alpha_k_b)
      .field("alpha_k_b_context", &position_bias::alpha_k_b_context)
      .field("strength_b", &position_bias::strength_b)
      .field("context_b", &position_bias::context_b)
      .field("context_in_sd", &position_bias::context_in_sd, "context over score_sd")
      .field("context_in_sd_mean_query", &position_bias::context_in_sd_mean_query)
      .field("strength_logits", &position_bias::strength_logits, "in logits per token")
      .field("context_logits", &position_bias::context_logits, "in logits per context");
  record<rotation_result>(m, "Rotation", "The plane {a, b} of a head (4.3 to 4.6).")
      .array("drift_axis", &rotation_result::drift_axis, "a (d): Cov(x, t) of the pooled rows, normalised (4.3)")
      .array("separation_axis", &rotation_result::separation_axis, "b (d): mu_Q - mu_K made orthogonal to a (4.5)")
      .field("q", &rotation_result::q)
      .field("k", &rotation_result::k)
      .field("bias", &rotation_result::bias)
      .field("var_frac_a", &rotation_result::var_frac_a)
      .field("var_frac_b", &rotation_result::var_frac_b)
      .field("plane_var_fraction", &rotation_result::plane_var_fraction)
      .field("separation_strength", &rotation_result::separation_strength)
      .field("content_var_b", &rotation_result::content_var_b)
      .field("residual_pos_r", &rotation_result::residual_pos_r)
      .field("score_sd", &rotation_result::score_sd, "of q . (k_i - k_j) over pairs of keys")
      .field("score_sd_mean_query", &rotation_result::score_sd_mean_query)
      .field("score_scale", &rotation_result::score_scale, "logits of a unit of q . k")
      .field("score_sd_logits", &rotation_result::score_sd_logits);
}

void bind_reports(nb::module_& m) {
  record<report_note>(m, "Note", "Something odd about a capture or its analysis.")
      .field("name", &report_note::name)
      .field("text", &report_note::text)
      .field("brief", &report_note::brief);
  record<head_report>(m, "HeadReport", "Results of all analyses of one query head.")
      .field("layer", &head_report::layer)
      .field("q_head", &head_report::q_head)
      .field("k_head", &head_report::k_head, "the key head that it reads")
      .field("rope", &head_report::rope)
      .field("window", &head_report::window, "tokens; None: full attention")
      .field("queries", &head_report::queries, "rows")
      .field("keys", &head_report::keys, "rows")
      .field("pca", &head_report::pca)
      .field("rotation", &head_report::rotation)
      .field("alpha_pos", &head_report::alpha_pos, "of the headline query model")
      .field("beta_pos", &head_report::beta_pos, "drift per token")
      .field("sigma2_pos", &head_report::sigma2_pos)
      .field("r2_pos", &head_report::r2_pos)
      .field("profiles", &head_report::profiles, "one per query model; the first is the headline")
      .field("summaries", &head_report::summaries, "of profiles")
      .field("empirical", &head_report::empirical, "plug-in form of the observed queries")
      .field("empirical_summary", &head_report::empirical_summary)
      .field("empirical_unbiased", &head_report::empirical_unbiased);
  record<model_report>(m, "Report", "All heads that were analysed, by layer, then query head.")
      .field("model", &model_report::model)
      .field("context_length", &model_report::context_length, "tokens")
      .field(
          "buckets", [](const model_report& r) { return r.buckets.edges(); }, "edges of the query buckets, tokens")
      .field("heads", &model_report::heads)
      .field("moment_tokens", &model_report::moment_tokens)
      .field("rope_stage", &model_report::rope_stage)
      .field("notes", &model_report::notes)
      .kept(&model_report::buckets, &model_report::weighting)
      .def("__len__", [](const model_report& r) { return r.heads.size(); })
      .def(
          "__getitem__",
          [](const model_report& r, index_t i) -> const head_report& {
            const auto n = static_cast<index_t>(r.heads.size());
            if (i < -n || i >= n) throw nb::index_error("the report has no such head");
            return r.heads[i < 0 ? i + n : i];
          },
          nb::rv_policy::reference_internal, nb::arg("index"))
      .def(
          "__getitem__", [](nb::handle self, const nb::slice& part) -> nb::object { return self.attr("heads")[part]; },
          nb::sig("def __getitem__(self, index: slice) -> list[HeadReport]"), nb::arg("index"))
      .def(
          "__iter__", [](nb::handle self) { return nb::iter(self.attr("heads")); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[HeadReport]"))
      .def(
          "head",
          [](const model_report& r, index_t layer, index_t head) -> const head_report& {
            for (const auto& h : r.heads)
              if (h.layer == layer && h.q_head == head) return h;
            throw nb::key_error(
                ("layer " + std::to_string(layer) + " head " + std::to_string(head) + " is not in this report")
                    .c_str());
          },
          nb::rv_policy::reference_internal, nb::arg("layer"), nb::arg("head"),
          "The report of a query head by its numbers in the model.")
      .def(
          "table",
          [](const model_report& r, const std::string& name) {
            constexpr std::pair<std::string_view, qkgeom::table (*)(const model_report&)> tables[] = {
                {"heads", heads_table},     {"qk", qk_table},           {"rotated", rotated_table},
                {"profile", profile_table}, {"heatmap", heatmap_table}, {"bins", bins_table}};
            for (const auto& [known, make] : tables)
              if (name == known) return table(make(r));
            fail("name must be heads, qk, rotated, profile, heatmap or bins, not ", name);
          },
          nb::arg("name"), "The rows of NAME.csv: heads, qk, rotated, profile, heatmap or bins (docs/columns.md).")
      .def(
          "write",
          [](const model_report& r, const std::string& folder) {
            const nb::gil_scoped_release released;
            const std::filesystem::path to(folder);
            std::filesystem::create_directories(to);
            write_head_tables(to, r, true);
          },
          nb::arg("folder"), "Writes the tables as `qkgeom heads` does.");
}

/// The cells of a column; None for null.
nb::list values_of(const table::column& c) {
  nb::list values;
  for (const auto& cell : c.cells) {
    const auto* whole = std::get_if<std::int64_t>(&cell);
    values.append(whole && c.kind == 3 ? nb::cast(static_cast<double>(*whole)) : nb::cast(cell));  // one type a column
  }
  return values;
}

/// A pandas.DataFrame, with columns of the table's types.
nb::object pandas_of(const table& t) {
  const auto pandas = nb::module_::import_("pandas");
  const auto name_of_type = [](const table::column& c) {
    constexpr const char* always[] = {"", "bool", "int64", "float64", "str"};
    constexpr const char* optional[] = {"", "boolean", "Int64", "float64", "str"};
    return (c.may_be_missing ? optional : always)[c.kind];
  };
  nb::dict all;
  for (const auto& c : t.columns())
    all[c.name.c_str()] = pandas.attr("Series")(values_of(c), nb::arg("dtype") = name_of_type(c));
  return pandas.attr("DataFrame")(all);
}

void bind_table(nb::module_& m) {
  pickled_members<table> = {[](pickle& p, table& t) { exchange(p, t.columns()); }};
  pickled_members<table::column> = {[](pickle& p, table::column& c) {
    exchange(p, c.name);
    exchange(p, c.kind);
    exchange(p, c.may_be_missing);
    exchange(p, c.cells);
  }};
  nb::class_<table> bound(
      m, "Table", "A table: pandas, polars, pyarrow and duckdb read it through __arrow_c_stream__; NaN is null.");
  bind_pickle(bound);
  bound
      .def_prop_ro("columns",
                   [](const table& t) {
                     std::vector<std::string> names;
                     for (const auto& c : t.columns()) names.push_back(c.name);
                     return names;
                   })
      .def("__len__", &table::rows)
      .def(
          "__getitem__",
          [](const table& t, const std::string& name) {
            for (const auto& c : t.columns())
              if (c.name == name) return values_of(c);
            throw nb::key_error(name.c_str());
          },
          nb::sig("def __getitem__(self, column: str) -> list[typing.Any]"), "The values of a column; None is null.")
      .def(
          "to_dict",
          [](const table& t) {
            nb::dict all;
            for (const auto& c : t.columns()) all[c.name.c_str()] = values_of(c);
            return all;
          },
          nb::sig("def to_dict(self) -> dict[str, list[typing.Any]]"))
      .def("to_pandas", &pandas_of, nb::sig("def to_pandas(self) -> typing.Any"),
           "A pandas.DataFrame; pandas is imported here alone.")
      .def("__repr__",
           [](const table& t) {
             return "Table(" + std::to_string(t.rows()) + " rows x " + std::to_string(t.columns().size()) + " columns)";
           })
      .def(
          "__arrow_c_stream__", [](const table& t, nb::object) { return arrow_stream(t); },
          nb::arg("requested_schema") = nb::none(),
          nb::sig("def __arrow_c_stream__(self, requested_schema: object | None = None) -> object"),
          "Capsule of an ArrowArrayStream of one batch.");
}

}  // namespace

void bind_results(nb::module_& m) {
  bind_table(m);
  bind_profiles(m);
  bind_geometry(m);
  bind_reports(m);
}

}  // namespace qkgeom::python
