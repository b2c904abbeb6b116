#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A context that lacks a primitive gives one error, which names the concept that it does not meet and the primitive.
set -euo pipefail
# call WITHOUT STATEMENT: compiles STATEMENT over a context that has every primitive but those of WITHOUT.
call() {
  {
    cat <<'TEXT'
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/rotation.hpp"
#include "qkgeom/plasticity/profile.hpp"
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
    printf '%s\n(void)head; (void)m; (void)model;\n}\n' "$2"
  } >unit.cpp
  "${CXX:-c++}" -std=c++20 -fsyntax-only -DQKGEOM_PRECOMPILED "-DWITHOUT_$1" "-I$QKGEOM_SOURCE/include" unit.cpp 2>errors.txt
}
# refused PRIMITIVE CONCEPT STATEMENT
refused() {
  if call "$1" "$3"; then echo "compiled without $1: $3"; exit 1; fi
  local errors
  errors=$(grep -c 'error:' errors.txt || true)
  ((errors == 1)) || { echo "$errors errors, not one, without $1: $3"; cat errors.txt; exit 1; }
  for word in "ctx\.$1" "$2"; do
    grep -q "$word" errors.txt || { echo "the error does not name $word: $3"; cat errors.txt; exit 1; }
  done
}
for statement in 'accumulate(ctx, head, uniform_buckets{8});' 'pca(ctx, m);' 'planar_rotation(ctx, m);' \
  'fit_queries(ctx, m);' 'plasticity_profile(ctx, model, head);'; do
  call nothing "$statement" || { cat errors.txt; exit 1; }
  refused symmetric_eigen solves_symmetric "$statement"
done
refused moments sums_moments 'accumulate(ctx, head, uniform_buckets{8});'
refused gaussian_pairs sums_pairs 'plasticity_profile(ctx, model, head);'
echo "7 calls over a context without a primitive refused, each by one error"
