// SPDX-License-Identifier: MIT
// What a family does to its rows is undone and redone by its manifest alone: of each fixture, rows from before the
// rotary embedding become those from after it, and the reverse.
#include <Eigen/Core>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/report/analyse.hpp"
#include "qkgeom/rotary/planes.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

/// Documents of letters, on both sides of the lengths where the fixtures' scalings act.
constexpr index_t short_document = 40, long_document = 300;

struct row_steps_test : test::capture_test {
  row_steps_test() {
    std::string text;
    for (int i = 0; i < long_document; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
    options.inputs.tokenizer = write("tokenizer.json", test::letter_tokenizer().dump());
    options.inputs.bos = bos_rule::none;
    options.inputs.text = {write("long.txt", text), write("short.txt", text.substr(5, short_document)),
                           write("middle.txt", text.substr(9, 100))};
    options.selection.sampler = {.kind = sampler_kind::all};
    options.selection.include_windowed = true;
    options.selection.max_length = long_document;
  }

  /// Captures a family's fixture before and after the rotation.
  std::pair<capture_set, capture_set> captured(const std::string& family) {
    options.model.path = test::family_folder(family);
    std::vector<capture_set> sets;
    for (const bool pre : {true, false}) {
      options.run.out = folder / std::to_string(captures++);
      options.selection.pre_rope = pre;
      run();
      sets.push_back(capture_set::open({options.run.out}));
    }
    return {sets[0], sets[1]};
  }

  int captures = 0;
};

/// Largest difference of rows of two sets, over the size of the row.
double row_distance(const capture_set& a, const capture_set& b) {
  double worst = 0;
  for (const index_t l : a.layers()) {
    const auto x = a.read_layer(l), y = b.read_layer(l);
    const auto p = x.view<float>(), q = y.view<float>();
    for (const auto& [m, n] : {std::pair{p.q, q.q}, {p.k, q.k}}) {
      EXPECT_EQ(m.rows, n.rows);
      for (index_t h = 0; h < m.heads; ++h)
        for (index_t r = 0; r < m.rows; ++r) {
          const Eigen::Map<const Eigen::VectorXf> u(m.head(h).row(r), m.dim), v(n.head(h).row(r), n.dim);
          worst = std::max(worst, (u.cast<double>() - v.cast<double>()).norm() / v.cast<double>().norm());
        }
    }
  }
  return worst;
}

/// Largest difference of the heads' numbers, over their size.
double number_distance(const capture_set& a, const capture_set& b) {
  cpu_context cpu{{.threads = 2}};
  const analysis_options options{.plasticity = false};
  const auto x = analyse(cpu, a, options), y = analyse(cpu, b, options);
  EXPECT_EQ(x.heads.size(), y.heads.size());
  double worst = 0;
  for (std::size_t h = 0; h < y.heads.size(); ++h) {
    const auto &u = x.heads[h].rotation, &v = y.heads[h].rotation;
    const double scale = std::abs(v.q.mu) + std::abs(v.k.mu) + std::sqrt(v.score_sd);
    for (const auto& [of, is, size] : {std::tuple{u.q.r, v.q.r, 1.0},
                                       {u.k.r, v.k.r, 1.0},
                                       {u.q.mu, v.q.mu, scale},
                                       {u.k.mu, v.k.mu, scale},
                                       {u.score_sd, v.score_sd, v.score_sd},
                                       {u.q.alpha_context, v.q.alpha_context, scale},
                                       {u.bias.context, v.bias.context, scale * scale}})
      worst = std::max(worst, std::abs(of - is) / size);
  }
  return worst;
}

/// Mean scores of drawn pairs, by distance, as sums over planes of rows from before the rotation, less those of rows as
/// they enter q.k.
double score_distance(const capture_set& set) {
  cpu_context cpu;
  const auto before = before_rope(set);
  const auto tokens = set.tokens();
  const auto& m = set.manifest();
  double worst = 0;
  for (const auto& info : m.layers) {
    const auto steps = m.steps_of(info);
    if ((steps.norm && steps.norm->weighs()) || steps.growth.beta != 0) continue;
    plane_options options{.pairs = 256};
    const auto direct = planes_of(cpu, set.read_layer(info.layer).view<float>(), {}, m.context_length, options);
    if (steps.rope)
      options.frequencies = [&](std::int32_t e) { return steps.rope->at_length(tokens.at(e).rotated).inv_freq; };
    const auto by_plane =
        planes_of(cpu, before.read_layer(info.layer).view<float>(), steps.rope, m.context_length, options);
    for (std::size_t h = 0; h < direct.size(); ++h)
      for (std::size_t b = 0; b < direct[h].distances.size(); ++b) {
        const double is = direct[h].distances[b].observed.value, of = by_plane[h].distances[b].observed.value;
        worst = std::max(worst, std::abs(is - of) / (1 + std::abs(is)));
      }
  }
  return worst;
}

TEST_F(row_steps_test, rows_from_before_the_rotation_become_those_from_after_it) {
  std::vector<std::pair<std::string, std::function<void()>>> cases;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(QKGEOM_TEST_DATA) + "/families"))
    cases.emplace_back(entry.path().filename().string(), [] {});
  ASSERT_GE(cases.size(), 40u);
  // Layers with heads of another size, and those that attend within chunks.
  cases.emplace_back("gemma4-text", [&] { options.selection.layers = {0}; });
  cases.emplace_back("llama4-text", [&] { options.selection.max_length = 64; });
  for (const char* name : {"deepseek-v3.2", "glm-5"})
    cases.emplace_back(name, [&] { options.selection.heads_of = head_owner::indexer; });
  for (const auto& [family, choose] : cases) {
    const auto usual = options.selection;
    choose();
    const auto [pre, post] = captured(family);
    options.selection = usual;
    const rotary_change as_it_is, longer{.context_length = 3 * long_document};
    EXPECT_LT(row_distance(what_if(pre, as_it_is), post), 1e-5) << family;
    EXPECT_LT(row_distance(before_rope(post), before_rope(pre)), 1e-5) << family;
    EXPECT_LT(row_distance(what_if(pre, longer), what_if(post, longer)), 1e-5) << family;
    EXPECT_LT(row_distance(what_if(before_rope(post), longer), what_if(post, longer)), 1e-5) << family;
    EXPECT_LT(number_distance(what_if(pre, as_it_is), post), 1e-5) << family;
    EXPECT_LT(score_distance(post), 1e-5) << family;
  }
}

}  // namespace
}  // namespace qkgeom
