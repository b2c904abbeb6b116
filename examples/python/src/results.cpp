// SPDX-License-Identifier: MIT
// The result classes: small, with the fields of the C++ structures.
#include <nanobind/stl/variant.h>

#include <cmath>

#include "python.hpp"
#include "qkgeom/report/head_tables.hpp"
#include "qkgeom/report/model_summary.hpp"
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

/// Reads a member of the buckets of a profile as an array (buckets).
template <class T>
auto of_buckets(T profile_bucket::*member) {
  return [member](const plasticity_profile_result& p) {
    std::vector<T> values;
    for (const auto& b : p.buckets) values.push_back(b.*member);
    return array_of(std::move(values), {p.buckets.size()});
  };
}

/// Reads a member of the buckets of a profile as an array (buckets, documents).
auto of_documents(std::vector<double> profile_bucket::*member) {
  return [member](const plasticity_profile_result& p) {
    std::vector<double> values;
    for (const auto& b : p.buckets) values.insert(values.end(), (b.*member).begin(), (b.*member).end());
    const auto documents = p.buckets.empty() ? 0 : values.size() / p.buckets.size();
    return array_of(std::move(values), {p.buckets.size(), documents});
  };
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
  pickled_members<profile_bucket> = {[](pickle& p, profile_bucket& x) {
    const auto all = [&](auto&... members) { (exchange(p, members), ...); };
    all(x.start, x.end, x.queries, x.queries_used, x.pairs, x.plasticity, x.standard_error, x.document_sum,
        x.document_weight, x.drawn, x.sampling_error);
  }};
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
      .field("start", of_buckets(&profile_bucket::start), "(buckets) first token")
      .field("end", of_buckets(&profile_bucket::end), "(buckets) tokens, excluded")
      .field("queries", of_buckets(&profile_bucket::queries), "(buckets)")
      .field("pairs", of_buckets(&profile_bucket::pairs), "(buckets)")
      .field("plasticity", of_buckets(&profile_bucket::plasticity),
             "(buckets) mean of PP = 4 Phi(z) Phi(-z) (4.7, 4.8); NaN without pairs")
      .field("standard_error", of_buckets(&profile_bucket::standard_error),
             "(buckets) jackknife over documents, given the query model")
      .field("sampling_error", of_buckets(&profile_bucket::sampling_error),
             "(buckets) what drawing pairs adds to the error; 0: all pairs")
      .field("document_sum", of_documents(&profile_bucket::document_sum), "(buckets, documents) sums of PP")
      .field("document_weight", of_documents(&profile_bucket::document_weight), "(buckets, documents) pairs")
      .field("heatmap", &plasticity_profile_result::heatmap)
      .field("model", &plasticity_profile_result::model, "fingerprint of the query model")
      .kept(&plasticity_profile_result::documents_weigh_same, &plasticity_profile_result::buckets)
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

nb::dict profile_dict(nb::handle head) {
  nb::dict all;
  for (const nb::handle p : head.attr("_profiles")) all[p.attr("covariance")] = p;
  if (const nb::object p = head.attr("_empirical"); !p.is_none()) all["empirical"] = p;
  return all;
}

nb::dict summary_dict(nb::handle head) {
  nb::dict all;
  const auto summaries = head.attr("_summaries");
  std::size_t i = 0;
  for (const nb::handle p : head.attr("_profiles")) all[p.attr("covariance")] = summaries[i++];
  for (const char* name : {"empirical_summary", "empirical_unbiased"})
    if (const nb::object s = head.attr((std::string("_") + name).c_str()); !s.is_none())
      all[s.is(head.attr("_empirical_summary")) ? "empirical" : name] = s;
  return all;
}

/// Means over the heads of a report by query model.
nb::dict mean_summaries(const model_report& r) {
  nb::dict all;
  if (r.heads.empty()) return all;
  std::vector<const plasticity_profile_result*> profiles(r.heads.size());
  const auto add = [&](const std::string& name, const auto& profile_of) {
    for (std::size_t h = 0; h < profiles.size(); ++h) profiles[h] = &profile_of(r.heads[h]);
    all[name.c_str()] = mean_over_heads(profiles, r.context_length);
  };
  for (std::size_t i = 0; i < r.heads[0].profiles.size(); ++i)
    add(
        text(r.heads[0].profiles[i].covariance), [i](const head_report& h) -> auto& { return h.profiles[i]; });
  if (!r.heads[0].empirical) return all;
  add(
      "empirical", [](const head_report& h) -> auto& { return *h.empirical; });
  std::vector<plasticity_profile_result> corrected;
  for (const auto& h : r.heads) corrected.push_back(unbiased(*h.empirical));
  add(
      "empirical_unbiased", [&](const head_report& h) -> auto& { return corrected[&h - r.heads.data()]; });
  return all;
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
      .field("profile", profile_dict, nb::sig("def profile(self, /) -> dict[str, Profile]"),
             "by query model, the first being the headline, and 'empirical' (plug-in form) where it was asked for")
      .field("summary", summary_dict, nb::sig("def summary(self, /) -> dict[str, ProfileSummary]"),
             "as `profile`, and 'empirical_unbiased', n/(n-1) times the plug-in form")
      .kept(&head_report::profiles, &head_report::summaries, &head_report::empirical, &head_report::empirical_summary,
            &head_report::empirical_unbiased)
      .def_ro("_profiles", &head_report::profiles)
      .def_ro("_summaries", &head_report::summaries)
      .def_ro("_empirical", &head_report::empirical)
      .def_ro("_empirical_summary", &head_report::empirical_summary)
      .def_ro("_empirical_unbiased", &head_report::empirical_unbiased);
  record<model_report>(m, "Report", "All heads that were analysed, by layer, then query head.")
      .field("model", &model_report::model)
      .field("context_length", &model_report::context_length, "tokens")
      .field(
          "buckets", [](const model_report& r) { return r.buckets.edges(); }, "edges of the query buckets, tokens")
      .field("heads", &model_report::heads)
      .field("summary", mean_summaries, nb::sig("def summary(self, /) -> dict[str, ProfileSummary]"),
             "means over the heads, by query model as `HeadReport.summary`; errors leave a document out of all heads")
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
          nb::rv_policy::reference_internal, nb::arg("layer"), nb::arg("q_head"),
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
          nb::arg("name"),
          nb::sig("def table(self, name: typing.Literal['heads', 'qk', 'rotated', 'profile', 'heatmap', 'bins']) -> "
                  "Table"),
          "The rows of NAME.csv: heads, qk, rotated, profile, heatmap or bins (docs/columns.md).")
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

/// The cells of a column as an array: text, or numbers in which NaN stands for null.
nb::object column_array(const table::column& c) {
  const auto numbers = [&]<class T>(T null) {
    std::vector<T> values;
    for (const auto& cell : c.cells)
      values.push_back(std::visit(
          [&](const auto& x) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(x)>>) return static_cast<T>(x);
            return null;
          },
          cell));
    const auto n = values.size();
    return nb::cast(array_of(std::move(values), {n}));
  };
  if (c.kind == 4) {
    nb::list words;
    for (const auto& cell : c.cells) words.append(cell.index() == 4 ? std::get<std::string>(cell) : std::string());
    return nb::module_::import_("numpy").attr("array")(words, nb::arg("dtype") = "str");
  }
  if (c.kind == 1 && !c.may_be_missing) return numbers(std::uint8_t{}).attr("astype")("bool");
  return c.kind == 2 && !c.may_be_missing ? numbers(std::int64_t{}) : numbers(std::nan(""));
}

std::vector<std::string> names_of(const table& t) {
  std::vector<std::string> names;
  for (const auto& c : t.columns()) names.push_back(c.name);
  return names;
}

/// The column of that name, or null. Warns of `head`, which q_head was called in some tables.
const table::column* find_column(const table& t, const std::string& name) {
  for (const auto& c : t.columns())
    if (c.name == name) return &c;
  const auto* renamed = name == "head" ? find_column(t, "q_head") : nullptr;
  if (renamed && PyErr_WarnEx(PyExc_DeprecationWarning, "the column head is called q_head now", 2) != 0)
    throw nb::python_error();
  return renamed;
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
      m, "Table",
      "A table, whose columns are arrays: table[\"ap_overall\"]. pandas, polars, pyarrow and duckdb read it through "
      "__arrow_c_stream__, where NaN is null.");
  bind_pickle(bound);
  bound.def_prop_ro("columns", names_of)
      .def("_ipython_key_completions_", names_of)
      .def("__len__", &table::rows)
      .def(
          "__iter__", [](const table& t) { return nb::iter(nb::cast(names_of(t))); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"), "The names of the columns.")
      .def("__contains__", [](const table& t, const std::string& name) { return find_column(t, name) != nullptr; })
      .def(
          "__getitem__",
          [](const table& t, const std::string& name) {
            if (const auto* c = find_column(t, name)) return column_array(*c);
            throw nb::key_error((name + " is no column of this table").c_str());
          },
          nb::sig("def __getitem__(self, column: str) -> numpy.typing.NDArray[typing.Any]"),
          "The values of a column (rows): text, or numbers in which NaN stands for null.")
      .def(
          "to_dict",
          [](const table& t) {
            nb::dict all;
            for (const auto& c : t.columns()) all[c.name.c_str()] = values_of(c);
            return all;
          },
          nb::sig("def to_dict(self) -> dict[str, list[typing.Any]]"), "Lists of Python's values; None is null.")
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
