// SPDX-License-Identifier: MIT
// Chapters 6.3 and 7.1: SmolLM3's checkpoints, per token and per context.
#include <algorithm>

#include "examples/common/table.hpp"
#include "examples/thesis/claims.hpp"
#include "examples/thesis/profiles.hpp"

namespace qkgeom::examples::thesis {
namespace {

const std::string split_command =
    "training_dynamics over captures of the ten checkpoints (qkgeom-capture --protocol smollm3-...) writes bias_split.csv";

/// The checkpoints of chapter 6.3.
struct stages {
  const checkpoint &first, &annealed, &long_onset, &long_32k, &last;
};
stages stages_of(const published& p) {
  return {p.find_checkpoint("Pre-train", "stage1 40K"), p.find_checkpoint("Anneal", "stage3 4.72M"),
          p.find_checkpoint("LC 4K→32K", "step 4K"), p.find_checkpoint("LC 4K→32K", "step 20K"),
          p.find_checkpoint("LC 32K→64K", "step 20K")};
}

std::vector<checkpoint> extended(const published& p, bool yes = true) {
  std::vector<checkpoint> list;
  for (const auto& c : p.checkpoints)
    if (c.extension() == yes) list.push_back(c);
  return list;
}

/// Percent by which `after` differs from `before`.
double change(double before, double after) { return 100 * (after / before - 1); }

double at_positions(const checkpoint& c, double from, double to) {
  for (const auto& bin : c.profile)
    if (bin.from == from && bin.to == to) return bin.plasticity;
  return unknown;
}

finding drops(const published& p) {
  condition_list which;
  for (const auto& c : p.checkpoints)
    which.emplace_back(c.phase + ' ' + c.name, std::abs(c.first - c.last - c.drop) <= printed_step + 1e-9);
  return conditions(std::move(which));
}

finding bias_doubles(const published& p) {
  const auto s = stages_of(p);
  return numbers({s.annealed.bias / s.first.bias},
                 significant(s.first.bias, 2) + " to " + significant(s.annealed.bias, 3) + " per token");
}

finding growth_driven_by_slope(const published& p) {
  const auto s = stages_of(p);
  const double bias = std::log(s.annealed.bias / s.first.bias), slope = std::log(s.annealed.alpha_k / s.first.alpha_k);
  return conditions({{"alpha_K makes half of the growth or more", slope / bias >= 0.5}},
                    "alpha_K grows x " + significant(std::exp(slope), 3) + ", " + percent(slope / bias) +
                        " of the log change; x " + significant(std::exp(bias - slope), 3) +
                        " is mu_Q^a and the covariance over heads; " + split_command);
}

finding collapse_driven_by_slope(const published& p) {
  const auto s = stages_of(p);
  const double bias = std::log(s.last.bias / s.annealed.bias), slope = std::log(s.last.alpha_k / s.annealed.alpha_k);
  const double context = std::log(s.last.alpha_context() / s.annealed.alpha_context());
  return conditions({{"alpha_K per token falls by more than bias does", slope <= bias}},
                    "log changes per token: bias " + signed_fixed(bias) + ", alpha_K " + signed_fixed(slope) +
                        "; per context: bias " + signed_fixed(bias + std::log(s.last.context / s.annealed.context)) +
                        ", alpha_K " + signed_fixed(context) + "; the rest is mu_Q^a and the covariance over heads");
}

finding mean_query_grows(const published& p) {
  const auto s = stages_of(p);
  return conditions({{"bias / alpha_K grows", s.last.bias / s.last.alpha_k > s.annealed.bias / s.annealed.alpha_k}},
                    significant(s.annealed.bias / s.annealed.alpha_k, 3) + " to " +
                        significant(s.last.bias / s.last.alpha_k, 3) + ", which holds the covariance over heads too; " +
                        split_command);
}

finding slope_drop(const published& p) {
  const auto s = stages_of(p);
  const double longer = s.last.context / s.annealed.context;
  return numbers({-change(s.annealed.alpha_k, s.last.alpha_k)}, "a token; the context grows " + significant(longer, 2) +
                                                                    " times, which alone is " +
                                                                    fixed(100 * (1 - 1 / longer)) + " %");
}

finding slope_drop_context(const published& p) {
  const auto s = stages_of(p);
  return numbers({-change(s.annealed.alpha_context(), s.last.alpha_context())},
                 "alpha_K times the context: " + fixed(s.annealed.alpha_context(), 1) + ", " +
                     fixed(s.long_32k.alpha_context(), 1) + " (32K), " + fixed(s.last.alpha_context(), 1) + " (64K)");
}

finding bias_reduction_context(const published& p) {
  const auto s = stages_of(p);
  return numbers({s.annealed.bias_context() / s.last.bias_context()},
                 "bias times the context: " + fixed(s.annealed.bias_context(), 1) + ", " +
                     fixed(s.long_32k.bias_context(), 1) + " (32K), " + fixed(s.last.bias_context(), 1) + " (64K)");
}

finding family_bias_context(const published& p, const char* family, bool predecessors) {
  std::vector<double> values;
  for (const auto& m : p.family(family, predecessors))
    if (m.captured > 32768) values.push_back(m.bias_context());
  std::sort(values.begin(), values.end());
  return numbers(values);
}

finding correlation_kept(const published& p) {
  condition_list which;
  for (const auto& c : extended(p)) which.emplace_back(c.phase + ' ' + c.name, c.r_k > 0.90);
  return conditions(std::move(which), listed(column(extended(p), &checkpoint::r_k), 3));
}

finding back_to_early_levels(const published& p) {
  double low = 1, high = 0;
  for (const auto& c : p.checkpoints)
    if (c.name.rfind("stage1", 0) == 0) low = std::min(low, c.first), high = std::max(high, c.first);
  const double last = stages_of(p).last.first;
  return conditions({{"within stage 1", last >= low && last <= high}},
                    fixed(last, 3) + " against " + fixed(low, 3) + " to " + fixed(high, 3));
}

finding far_plasticity_before(const published& p) {
  const auto s = stages_of(p);
  return numbers({at_positions(s.first, 3584, 4096)},
                 "stage1 40K at 3.5K-4K; its AP_last20 is " + fixed(s.first.last, 3) +
                     "; the other pre-training rows have AP_last20 " +
                     listed(column(std::vector<checkpoint>(p.checkpoints.begin() + 1, p.checkpoints.begin() + 6),
                                   &checkpoint::last),
                            3));
}

/// "Comparable": within a factor of 1.5.
bool comparable(double a, double b) { return a / b < 1.5 && b / a < 1.5; }

finding comparable_bias(const published& p) {
  const auto s = stages_of(p);
  return conditions({{"per token", comparable(s.first.bias, s.last.bias)},
                     {"per context", comparable(s.first.bias_context(), s.last.bias_context())}},
                    "stage1 40K has " + significant(s.first.bias / s.last.bias, 2) + " times the bias per token and " +
                        significant(s.first.bias_context() / s.last.bias_context(), 2) + " times that per context");
}

finding steady_near(const published& p) {
  const auto s = stages_of(p);
  condition_list which;
  std::string text;
  for (const auto& bin : s.long_32k.profile) {
    const double later = at_positions(s.last, bin.from, bin.to);
    if (std::isnan(later)) continue;
    const auto words = length_words(bin.from) + "-" + length_words(bin.to);
    which.emplace_back(words, later < bin.plasticity);
    text += (text.empty() ? "" : ", ") + words + ' ' + signed_fixed(later - bin.plasticity, 3);
  }
  return conditions(std::move(which), "from the 32K to the 64K checkpoint the same positions change by " + text);
}

finding overall_falls(const published& p) {
  condition_list which;
  for (std::size_t i = 1; i < 6; ++i)
    which.emplace_back(p.checkpoints[i].name, p.checkpoints[i].overall <= p.checkpoints[i - 1].overall);
  return conditions(std::move(which), listed(column(extended(p, false), &checkpoint::overall), 3));
}

finding matches_qwen(const published& p) {
  const double drop = stages_of(p).last.drop;
  std::vector<double> qwen = column(p.family("Qwen"), &model::drop);
  const auto [low, high] = std::minmax_element(qwen.begin(), qwen.end());
  return conditions({{"within Qwen's", drop >= *low - printed_step && drop <= *high + printed_step}},
                    fixed(drop, 3) + " against " + fixed(*low, 3) + " to " + fixed(*high, 3));
}

finding ministral_comparable_bias(const published& p) {
  const auto& smol = stages_of(p).last;
  const auto& own = p.find("ministral3-3b");
  return conditions({{"per token", comparable(own.bias, smol.bias)},
                     {"per context", comparable(own.bias_context(), smol.bias_context())}},
                    "SmolLM3 has " + significant(smol.bias / own.bias, 2) + " times Ministral's per token, " +
                        significant(smol.bias_context() / own.bias_context(), 2) + " times per context");
}

}  // namespace

claim_functions training_claims() {
  const auto value = [](double checkpoint::*member, auto which) {
    return [=](const published& p) { return numbers({which(stages_of(p)).*member}); };
  };
  const auto annealed = [](const stages& s) -> const checkpoint& { return s.annealed; };
  const auto last = [](const stages& s) -> const checkpoint& { return s.last; };
  const auto onset = [](const stages& s) -> const checkpoint& { return s.long_onset; };
  const auto ratio = [](double checkpoint::*member, auto before, auto after) {
    return [=](const published& p) {
      const auto s = stages_of(p);
      return numbers({before(s).*member / after(s).*member});
    };
  };
  const auto grows = [](double checkpoint::*member, auto after) {
    return [=](const published& p) {
      const auto s = stages_of(p);
      return numbers({change(s.annealed.*member, after(s).*member)});
    };
  };
  return {
      {"checkpoint_drops", drops},
      {"bias_doubles", bias_doubles},
      {"growth_by_slope", growth_driven_by_slope},
      {"bias_onset_ratio", ratio(&checkpoint::bias, annealed, onset)},
      {"bias_second_ratio", ratio(&checkpoint::bias, onset, last)},
      {"bias_collapse", ratio(&checkpoint::bias, annealed, last)},
      {"bias_collapse_context", bias_reduction_context},
      {"alpha_drop", slope_drop},
      {"alpha_drop_context", slope_drop_context},
      {"alpha_onset_ratio", ratio(&checkpoint::alpha_k, annealed, onset)},
      {"collapse_by_slope", collapse_driven_by_slope},
      {"mean_query_grows", mean_query_grows},
      {"bias_context_ministral", [](const published& p) { return family_bias_context(p, "Mistral", false); }},
      {"bias_context_llama", [](const published& p) { return family_bias_context(p, "Llama", true); }},
      {"bias_context_qwen", [](const published& p) { return family_bias_context(p, "Qwen", false); }},
      {"correlation_kept", correlation_kept},
      {"separation_growth", grows(&checkpoint::separation, last)},
      {"separation_onset", grows(&checkpoint::separation, onset)},
      {"plane_onset", grows(&checkpoint::plane, onset)},
      {"near_before", value(&checkpoint::first, annealed)},
      {"near_after", value(&checkpoint::first, last)},
      {"near_back_to_early", back_to_early_levels},
      {"far_after", value(&checkpoint::last, last)},
      {"far_after_onset", value(&checkpoint::last, onset)},
      {"far_48k", [](const published& p) { return numbers({at_positions(stages_of(p).last, 49152, 65536)}); }},
      {"far_before", far_plasticity_before},
      {"far_comparable_bias", comparable_bias},
      {"drop_triples",
       [](const published& p) { return numbers({stages_of(p).last.drop / stages_of(p).annealed.drop}); }},
      {"drop_excess",
       [](const published& p) { return numbers({stages_of(p).last.drop - stages_of(p).annealed.drop}); }},
      {"drop_mild", [](const published& p) { return numbers(column(extended(p, false), &checkpoint::drop)); }},
      {"far_lower_as_window_grows", steady_near},
      {"overall_falls", overall_falls},
      {"smollm_matches_qwen", matches_qwen},
      {"ministral_comparable_bias", ministral_comparable_bias},
      {"ministral_longer",
       [](const published& p) {
         const auto& m = p.find("ministral3-3b");
         const double smol = stages_of(p).last.context;
         return numbers({m.captured / smol}, "of what was captured; the contexts claimed are " +
                                                 significant(m.claimed / smol, 2) + " apart");
       }},
      {"ministral_flatter",
       [](const published& p) {
         return numbers(each(p.family("Mistral"), [&](const model& m) { return stages_of(p).last.drop / m.drop; }));
       }},
      {"ministral_target",
       [](const published& p) {
         condition_list which;
         std::string others;
         for (const auto& m : p.models) {
           if (m.family == "Mistral" && m.primary)
             which.emplace_back(m.name, m.drop < 0.10);
           else if (m.drop < 0.10)
             others += (others.empty() ? "" : ", ") + m.name + " over " + length_words(m.captured);
         }
         return conditions(std::move(which), "of the other models: " + (others.empty() ? "none" : others));
       }},
  };
}

}  // namespace qkgeom::examples::thesis
