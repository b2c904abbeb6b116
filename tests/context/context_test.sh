#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A context that lacks a primitive gives one error, which names the concept that it does not meet and the primitive.
set -euo pipefail
# call WITHOUT STATEMENTS...: compiles them over a context that has every primitive but WITHOUT.
call() {
  {
    cat <<'TEXT'
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/rotary/grip.hpp"
using namespace qkgeom;
struct mine {
  static constexpr memory_space space = memory_space::host;
  cpu_context cpu;
  template <class F>
  void for_each(index_t n, F&& f) { cpu.for_each(n, f); }
  template <class T>
  auto host_copy(const vector_view<T>& x) { return cpu.host_copy(x); }
#if !defined(WITHOUT_moments)
  template <class... A>
  auto moments(const A&... a) { return cpu.moments(a...); }
#endif
#if !defined(WITHOUT_symmetric_eigen)
  auto symmetric_eigen(const std::vector<const std::vector<double>*>& m, index_t d) { return cpu.symmetric_eigen(m, d); }
#endif
  auto cholesky(const std::vector<const std::vector<double>*>& m, index_t d) { return cpu.cholesky(m, d); }
#if !defined(WITHOUT_gaussian_pairs)
  template <class T, class... A>
  auto gaussian_pairs(const tensor_view<const T>& k, const A&... a) { return cpu.gaussian_pairs(k, a...); }
#endif
  template <class T, class... A>
  auto empirical_pairs(const tensor_view<const T>& q, const A&... a) { return cpu.empirical_pairs(q, a...); }
};
[[maybe_unused]] void use(mine& ctx, const head_view<float>& head, const head_moments& m, const query_model& model) {
TEXT
    printf '%s\n' "${@:2}" '(void)head; (void)m; (void)model;' '}'
  } >unit.cpp
  "${CXX:-c++}" -std=c++20 -fsyntax-only -DQKGEOM_PRECOMPILED "-DWITHOUT_$1" "-I$QKGEOM_SOURCE/include" unit.cpp 2>errors.txt
}
# refused PRIMITIVE CONCEPT STATEMENTS...: each must be one error that names both.
refused() {
  if call "$1" "${@:3}"; then echo "compiled without $1: ${*:3}"; exit 1; fi
  awk -v primitive="ctx\\.$1" -v concept="$2" -v statements=$(($# - 2)) '
    function close_error() { if (errors > 0 && !(names_it && names_concept)) exit wrong = 1 }
    / error: / { close_error(); ++errors; names_it = names_concept = 0 }
    $0 ~ primitive { names_it = 1 }
    $0 ~ concept { names_concept = 1 }
    END { if (!wrong) close_error(); exit wrong || errors != statements }' errors.txt && return
  echo "not one error for each of these that names $1 and $2: ${*:3}"
  cat errors.txt
  exit 1
}
statements=('accumulate(ctx, head, uniform_buckets{8});' 'pca(ctx, m);' 'planar_rotation(ctx, m);' 'fit_queries(ctx, m);'
  'plasticity_profile(ctx, model, head);')
call nothing "${statements[@]}" || { cat errors.txt; exit 1; }
refused symmetric_eigen solves_symmetric "${statements[@]}"
refused moments sums_moments "${statements[0]}"
refused gaussian_pairs sums_pairs "${statements[4]}"
refused score_needles scores_needles 'grip(ctx, as_layer(head), {}, {}, {});'   # which is never there
echo "8 calls over a context without a primitive refused, each by one error"
