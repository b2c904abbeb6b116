// SPDX-License-Identifier: MIT
// The benchmark note: length bins, RULER, comparisons of generations.
#include <algorithm>

#include "examples/common/table.hpp"
#include "examples/thesis/claims.hpp"
#include "examples/thesis/correspondence.hpp"
#include "examples/thesis/profiles.hpp"

namespace qkgeom::examples::thesis {
namespace {

const length_scores& ruler_of(const published& p, const char* model) {
  return *std::find_if(p.measured.begin(), p.measured.end(),
                       [&](const length_scores& s) { return s.benchmark == "RULER" && s.model == model; });
}

finding bin_drops(const published& p) {
  condition_list which;
  for (const auto& m : p.models)
    if (!m.bins.empty())
      which.emplace_back(
          m.name, std::abs(m.bins.back().plasticity - m.bins.front().plasticity - m.bins_drop) <= printed_step + 1e-9);
  return conditions(std::move(which));
}

finding family_bin_drops(const published& p, bool ministral) {
  std::vector<double> values;
  for (const auto& m : p.models)
    if (!m.bins.empty() && (m.family == "Mistral") == ministral)
      values.push_back(m.bins.back().plasticity - m.bins.front().plasticity);
  return numbers(values);
}

finding qwen_bins_alike(const published& p) {
  condition_list which;
  for (std::size_t i = 0; i < p.find("qwen3-4b").bins.size(); ++i) {
    double low = 1, high = 0, to = 0;
    for (const auto& m : p.family("Qwen"))
      if (!m.bins.empty()) {
        low = std::min(low, m.bins[i].plasticity);
        high = std::max(high, m.bins[i].plasticity);
        to = m.bins[i].to;
      }
    which.emplace_back("up to " + length_words(to) + " (" + fixed(high - low, 4) + ")", high - low < 0.02);
  }
  return conditions(std::move(which));
}

finding ruler_changes(const published& p) {
  const auto& s = ruler_of(p, "llama3.1-8b");
  condition_list which;
  const auto change = [](const std::vector<double>& v, std::size_t i) { return 100 * (v[i] / v[0] - 1); };
  for (const auto& stated : p.ruler_changes)
    for (std::size_t i = 1; i < s.length.size(); ++i)
      if (s.length[i] == stated.length) {
        const auto words = length_words(stated.length);
        which.emplace_back("score " + words, std::abs(change(s.score, i) - stated.score) <= 0.05 + 1e-9);
        which.emplace_back("plasticity " + words, std::abs(change(s.plasticity, i) - stated.plasticity) <= 0.05 + 1e-9);
      }
  return conditions(std::move(which));
}

finding plasticity_falls_faster(const published& p) {
  const auto& s = ruler_of(p, "llama3.1-8b");
  condition_list which;
  for (std::size_t i = 1; i < s.length.size(); ++i)
    which.emplace_back(length_words(s.length[i]), s.plasticity[i] / s.plasticity[0] < s.score[i] / s.score[0]);
  return conditions(std::move(which), "relative changes of a percentage and of a plasticity have no common unit");
}

finding ruler_monotone(const published& p) {
  const auto& s = ruler_of(p, "llama3.1-8b");
  return conditions({{"score", largest_rise(s.score) <= 0}, {"plasticity", largest_rise(s.plasticity) <= 0}});
}

/// Which positions table 8 means: the mean of the deciles over [l/2, l), or the decile that ends at l.
finding ruler_positions(const published& p) {
  const auto& s = ruler_of(p, "llama3.1-8b");
  const auto& m = p.find("llama3.1-8b");
  condition_list which;
  std::string words;
  for (std::size_t i = 0; i < s.length.size(); ++i) {
    if (s.length[i] < 65536) continue;  // deciles are 13107 tokens wide
    const double half = decile_mean(m.deciles, m.captured, s.length[i] / 2, s.length[i]);
    const double end = decile_ending(m.deciles, m.captured, s.length[i]);
    const auto length = length_words(s.length[i]);
    which.emplace_back(length, std::abs(s.plasticity[i] - half) < std::abs(s.plasticity[i] - end));
    words += (words.empty() ? "" : "; ") + length + ": printed " + fixed(s.plasticity[i], 3) + ", [l/2, l) " +
             fixed(half, 3) + ", the decile at l " + fixed(end, 3);
  }
  return conditions(std::move(which), words);
}

finding predecessor_bias(const published& p, bool context) {
  const auto& old = p.find("mistral-v0.2-7b");
  return numbers(
      each(p.family("Mistral"),
           [&](const model& m) { return context ? old.bias_context() / m.bias_context() : old.bias / m.bias; }),
      context ? "bias over the captured context: " + fixed(old.bias_context(), 1) + " against " +
                    fixed(p.find("ministral3-3b").bias_context(), 1)
              : "");
}

finding generations(const published& p) {
  const auto &a = p.find("llama3.1-8b"), &b = p.find("llama3.2-3b");
  return conditions({{"lower AP_drop", a.drop < b.drop}, {"higher AP_last20", a.last > b.last}},
                    "3.1 8B " + fixed(a.drop, 3) + " and " + fixed(a.last, 3) + ", 3.2 3B " + fixed(b.drop, 3) +
                        " and " + fixed(b.last, 3) + "; the two differ in size as well");
}

finding cross_model_table(const published& p) {
  condition_list which;
  for (const auto& row : p.cross_model) {
    auto name = row.model;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.rfind("llama-", 0) == 0) name.erase(5, 1);
    double drop = p.checkpoints.back().drop, bias = p.checkpoints.back().bias;
    if (name.rfind("smollm3", 0) != 0) {
      drop = p.find(name).drop;
      bias = p.find(name).bias;
    }
    which.emplace_back(row.model,
                       std::abs(row.drop - drop) <= printed_step + 1e-9 && std::abs(row.bias / bias - 1) < 0.01);
  }
  return conditions(std::move(which));
}

}  // namespace

claim_functions note_claims() {
  return {
      {"bin_drops", bin_drops},
      {"bin_drops_ministral", [](const published& p) { return family_bin_drops(p, true); }},
      {"bin_drops_others", [](const published& p) { return family_bin_drops(p, false); }},
      {"qwen_bins_alike", qwen_bins_alike},
      {"ruler_changes", ruler_changes},
      {"ruler_effective",
       [](const published& p) {
         const auto& s = ruler_of(p, "llama3.1-8b");
         const effective_options options;
         return numbers({effective(s.length, s.score, options.ruler) / 1024},
                        "scores at or above " + trimmed(options.ruler));
       }},
      {"ruler_faster", plasticity_falls_faster},
      {"ruler_monotone", ruler_monotone},
      {"ruler_positions", ruler_positions},
      {"predecessor_bias", [](const published& p) { return predecessor_bias(p, false); }},
      {"predecessor_bias_context", [](const published& p) { return predecessor_bias(p, true); }},
      {"predecessor_plane",
       [](const published& p) { return numbers({mean(column(p.family("Mistral"), &model::plane))}); }},
      {"generations", generations},
      {"cross_model_table", cross_model_table},
      {"flatter_than_smallest",
       [](const published& p) {
         const auto &large = p.find("qwen3-14b"), &small = p.find("qwen3-0.6b");
         return conditions({{"14B below 0.6B", large.drop < small.drop}},
                           fixed(large.drop, 3) + " against " + fixed(small.drop, 3));
       }},
  };
}

}  // namespace qkgeom::examples::thesis
