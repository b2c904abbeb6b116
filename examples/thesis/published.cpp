// SPDX-License-Identifier: MIT
#include "examples/thesis/published.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "examples/common/table.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {
namespace {

/// Parses a printed number; drops the footnote star and "~", "+", "%", "x". Empty is NaN.
double printed_number(std::string text, const std::string& where) {
  while (!text.empty() && (text.front() == '~' || text.front() == '+')) text.erase(0, 1);
  while (!text.empty() && (text.back() == '*' || text.back() == '%' || text.back() == 'x')) text.pop_back();
  if (text.empty()) return unknown;
  double value = 0;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  require(result.ec == std::errc() && result.ptr == end, where, ": expected a number, not \"", text, '"');
  return value;
}

template <class Condition>
std::vector<model> where(const std::vector<model>& models, const Condition& condition) {
  std::vector<model> found;
  std::copy_if(models.begin(), models.end(), std::back_inserter(found), condition);
  return found;
}

/// A table whose rows have their names in the first column.
class named_table {
 public:
  named_table(const std::filesystem::path& folder, const char* file) : where_(file), table_(read_csv(folder / file)) {
    names_ = table_.column(table_.columns().front());
    for (auto& name : names_)
      while (!name.empty() && name.back() == '*') name.pop_back();
  }
  std::size_t rows() const { return table_.rows(); }
  const std::string& name(std::size_t row) const { return names_[row]; }
  const std::string& text(std::size_t row, std::string_view column) const { return table_.column(column)[row]; }
  double number(std::size_t row, std::string_view column) const { return printed_number(text(row, column), where_); }
  std::optional<std::size_t> row_of(std::string_view name) const {
    const std::size_t i = std::find(names_.begin(), names_.end(), name) - names_.begin();
    return i == names_.size() ? std::nullopt : std::optional(i);
  }
  std::size_t row(std::string_view name) const {
    const auto found = row_of(name);
    require(found.has_value(), where_, ": there is no row ", name);
    return *found;
  }
  /// Columns after the first whose header starts with a digit: positions "0-8K", shares "0-10%" or lengths "8K".
  std::vector<std::string> ranges() const {
    std::vector<std::string> headers;
    for (const auto& header : table_.columns())
      if (!header.empty() && header.front() >= '0' && header.front() <= '9') headers.push_back(header);
    return headers;
  }
  std::vector<double> numbers(std::size_t row) const {
    std::vector<double> values;
    for (const auto& header : ranges()) values.push_back(number(row, header));
    return values;
  }
  /// The row over headers like "16K-32K"; cells that are empty are left out.
  std::vector<position_bin> bins(std::size_t row) const {
    std::vector<position_bin> result;
    for (const auto& header : ranges()) {
      const auto dash = header.find('-');
      require(dash != std::string::npos, where_, ": column ", header, " is no range of positions");
      const position_bin bin{token_count(header.substr(0, dash)), token_count(header.substr(dash + 1)),
                             number(row, header)};
      if (!std::isnan(bin.plasticity)) result.push_back(bin);
    }
    return result;
  }
  length_scores scores(std::size_t row, const char* benchmark) const {
    length_scores s{benchmark, name(row), {}, numbers(row), {}};
    for (const auto& header : ranges()) s.length.push_back(token_count(header));
    s.plasticity.assign(s.length.size(), unknown);
    return s;
  }

 private:
  std::string where_;
  csv_table table_;
  std::vector<std::string> names_;
};

std::vector<model> read_models(const std::filesystem::path& folder) {
  const named_table configs(folder, "table5_1_models.csv"), studies(folder, "studies.csv"),
      all(folder, "all_models_mechanistic.csv"), scored(folder, "table1_lbp_and_mechanistic.csv"),
      rotation(folder, "table9_ruler_rotation.csv"), deciles(folder, "table4_deciles.csv"),
      quintiles(folder, "table6_1_quintiles.csv"), bins(folder, "table2_length_bins.csv");
  // Table 9 writes the predecessors' names with capitals.
  const std::map<std::string, std::string> capitals{{"llama3.1-8b", "Llama-3.1-8B"},
                                                    {"mistral-v0.2-7b", "Mistral-v0.2-7B"}};
  std::vector<model> models;
  for (std::size_t i = 0; i < configs.rows(); ++i) {
    model m;
    m.name = configs.name(i);
    m.family = configs.text(i, "family");
    m.primary = configs.text(i, "primary") == "1";
    m.parameters = configs.number(i, "parameters_b");
    m.layers = configs.number(i, "layers");
    m.claimed = configs.number(i, "claimed_context");
    m.captured = studies.number(studies.row(m.name), "captured_context");
    const auto a = all.row(m.name);
    m.lbp = all.number(a, "LBP Overall");
    m.ruler_128k = all.number(a, "RULER 128K");
    m.overall = all.number(a, "plasticity");
    m.first = all.number(a, "ap_first_20%");
    m.last = all.number(a, "ap_last_20%");
    m.drop = all.number(a, "ap_drop");
    m.bias = all.number(a, "bias_strength");
    m.deciles = deciles.numbers(deciles.row(m.name));
    if (const auto s = scored.row_of(m.name)) {
      m.r_k = scored.number(*s, "abs_r_k_a");
      m.r_q = scored.number(*s, "abs_r_q_a");
      m.plane = scored.number(*s, "plane var");
    }
    if (const auto name = capitals.find(m.name); name != capitals.end()) {
      const auto r = rotation.row(name->second);
      m.alpha_k = rotation.number(r, "abs_alpha_k");
      m.r_k = rotation.number(r, "abs_r_k_a");
      m.r_q = rotation.number(r, "abs_r_q_a");
      m.separation = rotation.number(r, "sep_str");
      m.plane = rotation.number(r, "plane_var");
    }
    if (const auto q = quintiles.row_of(m.name)) {
      m.quintiles = quintiles.numbers(*q);
      m.quintile_drop = quintiles.number(*q, "ap_drop");
    }
    if (const auto b = bins.row_of(m.name)) {
      m.bins = bins.bins(*b);
      m.bins_drop = bins.number(*b, "total drop");
    }
    models.push_back(std::move(m));
  }
  return models;
}

std::vector<checkpoint> read_checkpoints(const std::filesystem::path& folder) {
  const named_table trajectory(folder, "table5_smollm3_trajectory.csv"), contexts(folder, "table5_2_checkpoints.csv"),
      pretraining(folder, "table6_smollm3_pretraining_positions.csv"),
      extension(folder, "table7_smollm3_extension_positions.csv");
  require(contexts.rows() == trajectory.rows(), "table5_2_checkpoints.csv: expected ", trajectory.rows(), " rows, not ",
          contexts.rows());
  std::vector<checkpoint> checkpoints;
  for (std::size_t i = 0; i < trajectory.rows(); ++i) {
    checkpoint c;
    c.phase = trajectory.name(i);
    c.name = trajectory.text(i, "Checkpoint");
    require(contexts.name(i) == c.phase && contexts.text(i, "Checkpoint") == c.name, "table5_2_checkpoints.csv: row ",
            i + 1, " must be ", c.phase, ' ', c.name);
    c.context = contexts.number(i, "context");
    c.bias = trajectory.number(i, "bias_str");
    c.alpha_k = trajectory.number(i, "abs_alpha_k");
    c.r_k = trajectory.number(i, "abs_r_k_a");
    c.separation = trajectory.number(i, "sep_str");
    c.plane = trajectory.number(i, "plane_var");
    c.overall = trajectory.number(i, "ap_overall");
    c.first = trajectory.number(i, "ap_first_20%");
    c.last = trajectory.number(i, "ap_last_20%");
    c.drop = trajectory.number(i, "ap_drop");
    // The profiles' tables say "lc 4K→32K 20K" for phase "LC 4K→32K", checkpoint "step 20K".
    const bool extended = c.extension();
    const auto& table = extended ? extension : pretraining;
    const auto name = extended ? "lc" + c.phase.substr(2) + c.name.substr(c.name.find(' ')) : c.name;
    if (const auto row = table.row_of(name)) c.profile = table.bins(*row);
    checkpoints.push_back(std::move(c));
  }
  return checkpoints;
}

/// Scores that the thesis lacks, a row per length, ascending within a model.
void read_more_scores(const std::filesystem::path& folder, published& p) {
  const named_table more(folder, "scores_by_length.csv");
  for (std::size_t i = 0; i < more.rows(); ++i) {
    const auto& benchmark = more.text(i, "benchmark");
    if (i == 0 || more.name(i) != p.measured.back().model || benchmark != p.measured.back().benchmark)
      p.measured.push_back({benchmark, p.find(more.name(i)).name, {}, {}, {}});
    auto& s = p.measured.back();
    s.length.push_back(token_count(more.text(i, "length")));
    s.score.push_back(more.number(i, "score"));
    s.plasticity.push_back(unknown);
  }
}

void read_scores(const std::filesystem::path& folder, published& p) {
  const named_table ministral(folder, "table3_ministral3_14b_lbp_by_length.csv"), ruler(folder, "table8_ruler.csv"),
      references(folder, "lbp_reference_models_by_length.csv");
  length_scores own{
      .benchmark = "LongBench-Pro", .model = "ministral3-14b", .length = {}, .score = {}, .plasticity = {}};
  for (std::size_t i = 0; i < ministral.rows(); ++i) {
    own.length.push_back(token_count(ministral.name(i)));
    own.score.push_back(ministral.number(i, "LBP Score"));
    own.plasticity.push_back(ministral.number(i, "Plasticity (matched bin)"));
  }
  p.measured.push_back(std::move(own));
  for (std::size_t i = 0; i + 1 < ruler.rows(); i += 2) {  // a row of scores, one of plasticities
    auto s = ruler.scores(i, "RULER");
    std::transform(s.model.begin(), s.model.end(), s.model.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (s.model == "llama-3.1-8b") s.model = "llama3.1-8b";
    s.plasticity = ruler.numbers(i + 1);
    p.measured.push_back(std::move(s));
  }
  if (std::filesystem::exists(folder / "scores_by_length.csv")) read_more_scores(folder, p);
  for (std::size_t i = 0; i < references.rows(); ++i) p.references.push_back(references.scores(i, "LongBench-Pro"));
}

void read_statements(const std::filesystem::path& folder, published& p) {
  const named_table studies(folder, "studies.csv"), scored(folder, "table6_3_lbp.csv"),
      changes(folder, "ruler_changes_llama3.1-8b.csv"), cross(folder, "smollm3_cross_model.csv"),
      overlap(folder, "model_overlap.csv"), headline(folder, "headline_claims.csv");
  for (std::size_t i = 0; i < studies.rows(); ++i)
    p.studies.push_back({studies.name(i), studies.text(i, "checkpoint"), studies.number(i, "heads_drawn"),
                         studies.number(i, "heads_with_rows"), studies.text(i, "base_weights") == "1",
                         !studies.text(i, "sliding_window").empty()});
  for (std::size_t i = 0; i < scored.rows(); ++i)
    p.table_6_3.push_back({scored.name(i), scored.number(i, "LBP"), scored.number(i, "ap_overall"),
                           scored.number(i, "ap_first_20%"), scored.number(i, "ap_last_20%"),
                           scored.number(i, "ap_drop")});
  for (std::size_t i = 0; i < changes.rows(); ++i)
    p.ruler_changes.push_back(
        {token_count(changes.name(i)), changes.number(i, "RULER change %"), changes.number(i, "Plasticity change %")});
  for (std::size_t i = 0; i < cross.rows(); ++i)
    p.cross_model.push_back({cross.name(i), cross.number(i, "ap_drop"), cross.number(i, "bias_strength"),
                             token_count(cross.text(i, "Context trained"))});
  for (std::size_t i = 0; i < overlap.rows(); ++i) p.models_in_benchmark += overlap.text(i, "Match") == "exact" ? 1 : 0;
  for (const char* name : {"position-dominated heads", "Q-positional heads", "content-focused heads", "mixed heads"})
    p.class_shares.push_back(headline.number(headline.row(name), "value"));
  p.heads_analysed = headline.number(headline.row("heads analysed"), "value");
  p.primacy_heads = headline.number(headline.row("heads with primacy bias"), "value");
}

}  // namespace

double token_count(const std::string& text) {
  const bool thousands = !text.empty() && text.back() == 'K';
  const double value = printed_number(thousands ? text.substr(0, text.size() - 1) : text, "a length in tokens");
  require(!std::isnan(value), "a length in tokens: expected a number or one with K, not \"", text, '"');
  return thousands ? 1024 * value : value;
}

std::string length_words(double tokens) {
  if (tokens < 1024) return fixed(tokens, 0);
  const auto text = fixed(tokens / 1024, 1);
  return (text.size() > 2 && text.substr(text.size() - 2) == ".0" ? text.substr(0, text.size() - 2) : text) + 'K';
}

const model& published::find(std::string_view name) const {
  for (const auto& m : models)
    if (m.name == name) return m;
  fail("the published tables hold no model ", name);
}

const checkpoint& published::find_checkpoint(std::string_view phase, std::string_view name) const {
  for (const auto& c : checkpoints)
    if (c.phase == phase && c.name == name) return c;
  fail("the published tables hold no checkpoint ", phase, ' ', name);
}

std::vector<model> published::family(std::string_view name, bool predecessors) const {
  return where(models, [&](const model& m) { return m.family == name && (m.primary || predecessors); });
}

std::vector<model> published::primary() const {
  return where(models, [](const model& m) { return m.primary; });
}

std::vector<model> published::scored() const {
  return where(models, [](const model& m) { return !std::isnan(m.lbp); });
}

published read_published(const std::filesystem::path& folder) {
  published p;
  p.models = read_models(folder);
  p.checkpoints = read_checkpoints(folder);
  read_scores(folder, p);
  read_statements(folder, p);
  return p;
}

}  // namespace qkgeom::examples::thesis
