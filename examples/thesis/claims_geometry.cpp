// SPDX-License-Identifier: MIT
// Chapter 6.1: position bias geometry.
#include <algorithm>
#include <numeric>

#include "examples/thesis/claims.hpp"
#include "examples/thesis/profiles.hpp"

namespace qkgeom::examples::thesis {
namespace {

const std::string heads_command = "captures of the 11 models (qkgeom-capture --protocol NAME) decide it";

finding family_bias(const published& p, const char* family) {
  return numbers(column(p.family(family), &model::bias), "table of all models, by size");
}

finding families_apart(const published& p) {
  const auto range = [&](const char* family) {
    const auto bias = column(p.family(family), &model::bias);
    return std::pair(*std::min_element(bias.begin(), bias.end()), *std::max_element(bias.begin(), bias.end()));
  };
  const auto m = range("Mistral"), q = range("Qwen"), l = range("Llama");
  return conditions({{"Ministral below Llama", m.second < l.first}, {"Llama below Qwen", l.second < q.first}},
                    "ranges per token " + listed({m.first, m.second}) + "; " + listed({l.first, l.second}) + "; " +
                        listed({q.first, q.second}));
}

finding keys_follow_more(const published& p) {
  condition_list which;
  for (const auto& m : p.models)
    if (!std::isnan(m.r_k)) which.emplace_back(m.name, m.r_k > m.r_q);
  return conditions(std::move(which), "r_k > r_q on axis a, among the 9 models that tables 1 and 9 print");
}

finding heads_with_rows(const published& p) {
  double rows = 0, drawn = 0;
  for (const auto& s : p.studies)
    if (p.find(s.model).primary) rows += s.heads_with_rows, drawn += s.heads_drawn;
  return numbers({rows}, significant(drawn) + " were drawn; of Llama 3.2 11B's 300, " + significant(drawn - rows) +
                             " stand in cross-attention layers, which hold no data");
}

finding positive_share(const published& p) {
  return numbers({100 * (1 - p.primacy_heads / p.heads_analysed)}, "of the two counts printed; " + heads_command);
}

finding class_sum(const published& p) {
  return numbers({std::accumulate(p.class_shares.begin(), p.class_shares.end(), 0.0)},
                 "so K-positional heads are counted as mixed");
}

finding base_weights(const published& p) {
  condition_list which;
  for (const auto& s : p.studies) which.emplace_back(s.checkpoint, s.base_weights);
  return conditions(std::move(which), "by the repositories that the protocol names; Qwen3's base weights are -Base");
}

finding sliding_window(const published& p) {
  for (const auto& s : p.studies)
    if (s.model == "mistral-v0.2-7b")
      return conditions({{"a sliding window", s.sliding_window}, {"base weights", s.base_weights}},
                        s.checkpoint + ": config.json sets no window; 32K is the limit of its context");
  return undecided("studies.csv has no row mistral-v0.2-7b");
}

}  // namespace

claim_functions geometry_claims() {
  claim_functions list;
  list.push_back({"plane_share", [](const published& p) {
                    return numbers(column(p.scored(), &model::plane), "7 of the 11 models are published");
                  }});
  list.push_back({"class_sum", class_sum});
  list.push_back({"keys_follow_more", keys_follow_more});
  list.push_back({"heads_analysed", heads_with_rows});
  list.push_back({"positive_share", positive_share});
  list.push_back({"bias_ministral", [](const published& p) { return family_bias(p, "Mistral"); }});
  list.push_back({"bias_qwen", [](const published& p) { return family_bias(p, "Qwen"); }});
  list.push_back({"bias_llama", [](const published& p) { return family_bias(p, "Llama"); }});
  list.push_back({"bias_families_apart", families_apart});
  list.push_back({"base_weights", base_weights});
  list.push_back({"mistral_window", sliding_window});
  return list;
}

}  // namespace qkgeom::examples::thesis
