// SPDX-License-Identifier: MIT
// What `qkgeom what-if`, `bands`, `grip` and `export` compute, from the sources of these programs.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>

#include "arguments.hpp"
#include "examples/bands/rotary_bands.hpp"
#include "examples/export/exports.hpp"
#include "examples/grip/grip_study.hpp"
#include "examples/what_if/predictions.hpp"
#include "python.hpp"
#include "qkgeom/io/program.hpp"
#include "table.hpp"
#include "watched_context.hpp"

namespace qkgeom::python {

namespace {

namespace programs = qkgeom::examples;

/// The arguments of a program on these captures; `pairs` is that of the command line.
programs::arguments arguments_of(const std::vector<std::string>& paths, const buckets_argument& buckets,
                                 const std::vector<std::string>& covariance, const std::string& pairs,
                                 std::uint64_t seed, const std::vector<std::pair<index_t, index_t>>& heads) {
  programs::arguments a;
  a.captures = {paths.begin(), paths.end()};
  a.threads = the_context().threads;
  a.watch = watch_signals();
  if (const auto* width = buckets ? std::get_if<index_t>(&*buckets) : nullptr) a.bucket_size = *width;
  if (const auto* edges = buckets ? std::get_if<std::vector<index_t>>(&*buckets) : nullptr) a.bucket_edges = *edges;
  a.covariance = covariance;
  a.pairs = pairs;
  a.seed = seed;
  for (const auto& [layer, head] : heads) a.heads.push_back(std::to_string(layer) + "." + std::to_string(head));
  return a;
}

/// Warns of each sentence where the caller of `Capture` stands.
void warn(const std::vector<std::string>& sentences) {
  for (const auto& text : sentences)
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 3) != 0) throw nb::python_error();
}

auto what_if_of(const std::vector<std::string>& paths, const buckets_argument& buckets,
                const std::vector<std::string>& covariance, const std::string& pairs, std::uint64_t seed,
                const std::vector<std::pair<index_t, index_t>>& heads, index_t context,
                std::optional<double> rope_theta, const std::string& rope_scaling, index_t keep_first) {
  const auto a = arguments_of(paths, buckets, covariance, pairs, seed, heads);
  const programs::what_if_arguments choice{context, {rope_theta, rope_scaling}, keep_first, {}};
  const auto p = run_alone([&] { return programs::predict(a, programs::with_arguments({}, a), choice); });
  warn(p.warnings);
  return std::tuple(table(programs::what_if_table(p)), table(programs::self_check_table(p)),
                    table(programs::stationarity_table(p)), p.captured.report, p.predicted.report);
}

auto bands_of(const std::vector<std::string>& paths, const buckets_argument& buckets,
              const std::vector<std::string>& covariance, std::uint64_t seed,
              const std::vector<std::pair<index_t, index_t>>& heads, index_t context, index_t keep_first) {
  const auto a = arguments_of(paths, buckets, {covariance.at(0)}, "all", seed, heads);
  const auto found = run_alone([&] { return programs::find_bands(a, {.context = context, .keep_first = keep_first}); });
  return std::tuple(table(programs::drops_table(found)), table(programs::planes_table(found)),
                    table(programs::scores_table(found)));
}

auto grip_of(const std::vector<std::string>& paths, std::uint64_t seed,
             const std::vector<std::pair<index_t, index_t>>& heads, index_t context, std::optional<double> rope_theta,
             const std::string& rope_scaling, index_t near, index_t queries, const std::vector<std::string>& actual) {
  const auto a = arguments_of(paths, {}, {"joint"}, "all", seed, heads);
  const programs::grip_arguments choice{.context = context,
                                        .near = near,
                                        .queries = queries,
                                        .embedding = {rope_theta, rope_scaling},
                                        .actual = {actual.begin(), actual.end()}};
  const auto found = run_alone([&] { return programs::find_grip(a, choice); });
  std::vector<std::string> notes;
  for (const auto& n : found.whole.report.notes) notes.push_back(n.text);
  warn(notes);
  return std::tuple(table(programs::grip_table(found)), table(programs::grip_heads_table(found)),
                    table(programs::reach_table(found)), table(programs::stability_table(found)),
                    table(programs::grip_check_table(found)));
}

void export_to(const std::vector<std::string>& paths, const std::string& format, const std::string& folder,
               const std::string& texts, index_t sink, index_t recent) {
  std::string names;
  for (const auto& f : programs::export_formats) names += std::string(names.empty() ? "" : ", ") + f.name;
  const auto* known = std::ranges::find(programs::export_formats, format, &programs::export_format::name);
  require(known != std::end(programs::export_formats), "format must be one of ", names, ", not ", format);
  require(recent > 0, "recent must be at least 1 token");
  const auto a = arguments_of(paths, {}, {"joint"}, "all", 0, {});
  std::vector<std::string> notes;
  const programs::export_arguments choice{
      .texts = texts, .sink_tokens = sink, .recent_tokens = recent, .note = [&](const std::string& text) {
        notes.push_back(text);
      }};
  run_alone([&] {
    const made_folder made(folder);
    programs::output_folder out(folder, false);
    known->write(out, a, choice);
  });
  warn(notes);
}

}  // namespace

void bind_programs(nb::module_& m) {
  m.def("what_if", &what_if_of, nb::arg("paths"), nb::arg("buckets").none(), nb::arg("covariance"), nb::arg("pairs"),
        nb::arg("seed"), nb::arg("heads"), nb::arg("context"), nb::arg("rope_theta").none(), nb::arg("rope_scaling"),
        nb::arg("keep_first"), "Tables of `qkgeom what-if`, and the report as captured and as predicted.");
  m.def("bands", &bands_of, nb::arg("paths"), nb::arg("buckets").none(), nb::arg("covariance"), nb::arg("seed"),
        nb::arg("heads"), nb::arg("context"), nb::arg("keep_first"), "Tables of `qkgeom bands`.");
  m.def("grip", &grip_of, nb::arg("paths"), nb::arg("seed"), nb::arg("heads"), nb::arg("context"),
        nb::arg("rope_theta").none(), nb::arg("rope_scaling"), nb::arg("near"), nb::arg("queries"), nb::arg("actual"),
        "Tables of `qkgeom grip`.");
  m.def("export_to", &export_to, nb::arg("paths"), nb::arg("format"), nb::arg("folder"), nb::arg("texts"),
        nb::arg("sink"), nb::arg("recent"), "Writes the files of `qkgeom export`.");
}

}  // namespace qkgeom::python
