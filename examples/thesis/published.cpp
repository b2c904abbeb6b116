// SPDX-License-Identifier: MIT
#include "examples/thesis/published.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>

#include "examples/common/table.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {
namespace {

std::string without_star(std::string name) {
  while (!name.empty() && name.back() == '*') name.pop_back();
  return name;
}

/// How tables spell the same model alike: "Llama-3.1-8B" is "llama3.1-8b".
std::string key_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.rfind("llama-", 0) == 0) name.erase(5, 1);
  return name;
}

/// A CSV file whose rows have their names in the first column, or in `Phase` and `Checkpoint`.
class named_file {
 public:
  named_file(const std::filesystem::path& folder, std::string file)
      : file_(std::move(file)), csv_(read_csv(folder / file_)) {
    const bool stages = csv_.has("Phase") && csv_.has("Checkpoint");
    names = csv_.column(stages ? "Phase" : csv_.columns().front());
    for (auto& name : names) name = without_star(name);
    keys_ = names;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (stages) {  // the profiles' tables say "lc 4K→32K 20K" for phase "LC 4K→32K", checkpoint "step 20K"
        const auto& checkpoint = csv_.column("Checkpoint")[i];
        keys_[i] = names[i].rfind("LC", 0) == 0
                       ? names[i] + checkpoint.substr(std::min(checkpoint.find(' '), checkpoint.size()))
                       : checkpoint;
        names[i] += ' ' + checkpoint;
      }
      keys_[i] = key_of(keys_[i]);
    }
  }

  /// The fields of one column, or of all from "FIRST to LAST", of the row with a key; empty if there is none.
  std::vector<std::string> cells(const std::string& key, const std::vector<std::string>& headers) const {
    const std::size_t row = std::find(keys_.begin(), keys_.end(), key) - keys_.begin();
    std::vector<std::string> fields;
    for (const auto& header : headers)
      if (row < keys_.size()) fields.push_back(csv_.column(header)[row]);
    return fields;
  }
  std::vector<std::string> headers(const std::string& text) const {
    const auto to = text.find(" to ");
    if (to == std::string::npos) return {text};
    const auto& all = csv_.columns();
    const auto first = std::find(all.begin(), all.end(), text.substr(0, to));
    const auto last = std::find(first, all.end(), text.substr(to + 4));
    require(last != all.end(), file_, ": there are no columns ", text);
    return {first, last + 1};
  }
  const csv_table& csv() const { return csv_; }
  const std::vector<std::string>& keys() const { return keys_; }
  double number(std::size_t row, const char* column) const { return printed_number(csv_.column(column)[row], file_); }

  std::vector<std::string> names;

 private:
  std::string file_;
  csv_table csv_;
  std::vector<std::string> keys_;
};

/// A row for each length of each model's scores, with changes from the shortest in percent and the decile there.
named_table table_of(const std::string& name, const std::vector<length_scores>& scores, const published& p) {
  named_table t{.name = name, .rows = {}};
  auto &benchmark = t.columns["benchmark"], &model = t.columns["model"];
  benchmark.is_text = model.is_text = true;
  for (const auto& s : scores) {
    const auto deciles = p.numbers("models[" + s.model + "].deciles");
    const double captured = p.number("models[" + s.model + "].captured");
    for (std::size_t i = 0; i < s.length.size(); ++i) {
      t.rows.push_back(length_words(s.length[i]));
      benchmark.printed.push_back({s.benchmark});
      model.printed.push_back({s.model});
      t.columns["length"].numbers.push_back(s.length[i]);
      t.columns["score"].numbers.push_back(s.score[i]);
      t.columns["plasticity"].numbers.push_back(s.plasticity[i]);
      t.columns["score_change"].numbers.push_back(100 * (s.score[i] / s.score[0] - 1));
      t.columns["plasticity_change"].numbers.push_back(100 * (s.plasticity[i] / s.plasticity[0] - 1));
      t.columns["decile"].numbers.push_back(decile_ending(deciles, captured, s.length[i]));
    }
  }
  return t;
}

}  // namespace

published::published(const std::filesystem::path& folder) {
  const auto defined = read_csv(folder / "definitions.csv");
  for (std::size_t i = 0; i < defined.rows(); ++i)
    require(definitions_.emplace(defined.column("name")[i], defined.column("means")[i]).second,
            "definitions.csv: the name ", defined.column("name")[i], " is there twice");
  read_columns(folder);
  read_scores(folder);
}

void published::read_columns(const std::filesystem::path& folder) {
  const auto list = read_csv(folder / "columns.csv");
  std::map<std::string, named_file> files;
  std::map<std::string, std::vector<std::string>> keys;  // of each table's rows, which its first file names
  for (std::size_t i = 0; i < list.rows(); ++i) {
    const auto &name = list.column("table")[i], &kind = list.column("kind")[i], &path = list.column("file")[i];
    const auto& file = files.try_emplace(path, folder, path).first->second;
    auto& table = tables_.try_emplace(name, named_table{.name = name, .rows = file.names}).first->second;
    const auto& rows = keys.try_emplace(name, file.keys()).first->second;
    auto& column = table.columns[list.column("column")[i]];
    const auto headers = file.headers(list.column("header")[i]);
    column.file = path;
    column.is_text = kind == "text";
    if (kind == "profile") column.entries = headers;
    column.printed.resize(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (auto cells = file.cells(rows[r], headers); !cells.empty()) column.printed[r] = std::move(cells);
  }
  for (std::size_t i = 0; i < list.rows(); ++i) {
    const auto &name = list.column("table")[i], &rows = list.column("rows")[i], &path = list.column("file")[i];
    if (rows == "some") continue;
    const auto& table = tables_.at(name);
    const auto there = files.at(path).names.size();
    require(!rows.empty() || there == table.rows.size(), path, ": there are ", there, " rows, not ", table.rows.size());
    const auto needed = rows.empty() ? table.rows : texts(name + '[' + rows + "].name");
    for (const auto& row : needed) {
      const std::size_t at = std::find(table.rows.begin(), table.rows.end(), row) - table.rows.begin();
      require(!table.columns.at(list.column("column")[i]).printed[at].empty(), path, ": there is no row ", row);
    }
  }
}

void published::read_scores(const std::filesystem::path& folder) {
  const named_file ministral(folder, "table3_ministral3_14b_lbp_by_length.csv"), ruler(folder, "table8_ruler.csv"),
      others(folder, "lbp_reference_models_by_length.csv");
  const auto model = [&](const std::string& name) { return texts("models[" + name + "].name").front(); };
  const auto add = [&](const std::string& benchmark, const std::string& name, double length, double score,
                       double plasticity) {
    auto& s = measured.back();
    if (s.model.empty()) s.benchmark = benchmark, s.model = model(name);
    s.length.push_back(length);
    s.score.push_back(score);
    s.plasticity.push_back(plasticity);
  };
  measured.emplace_back();
  for (std::size_t i = 0; i < ministral.names.size(); ++i)
    add("LongBench-Pro", "ministral3-14b", token_count(ministral.names[i]), ministral.number(i, "LBP Score"),
        ministral.number(i, "Plasticity (matched bin)"));
  for (std::size_t i = 0; i < ruler.names.size(); i += 2) {
    const auto& metric = ruler.csv().column("Metric");
    require(i + 1 < metric.size() && metric[i] == "RULER" && metric[i + 1] == "Plasticity",
            "table8_ruler.csv: a row RULER and a row Plasticity must follow one another, for ", ruler.names[i]);
    measured.emplace_back();
    for (const auto& header : ruler.headers("4K to 128K"))
      add("RULER", ruler.keys()[i], token_count(header), ruler.number(i, header.c_str()),
          ruler.number(i + 1, header.c_str()));
  }
  require(!measured.front().length.empty(), "table3_ministral3_14b_lbp_by_length.csv has no rows");
  tables_.emplace("lengths", table_of("lengths", measured, *this));
  if (std::filesystem::exists(folder / "scores_by_length.csv")) {  // ascending within a model
    const named_file more(folder, "scores_by_length.csv");
    for (std::size_t i = 0; i < more.names.size(); ++i) {
      const auto& benchmark = more.csv().column("benchmark")[i];
      if (i == 0 || more.names[i] != more.names[i - 1] || benchmark != more.csv().column("benchmark")[i - 1])
        measured.emplace_back();
      add(benchmark, more.names[i], token_count(more.csv().column("length")[i]), more.number(i, "score"), unknown);
    }
  }
  tables_.emplace("all_lengths", table_of("all_lengths", measured, *this));
  for (std::size_t i = 0; i < others.names.size(); ++i) {
    references.push_back({"LongBench-Pro", others.names[i], {}, {}, {}});
    for (const auto& header : others.headers("8K to 256K")) {
      references.back().length.push_back(token_count(header));
      references.back().score.push_back(others.number(i, header.c_str()));
      references.back().plasticity.push_back(unknown);
    }
  }
}

published published::with(named_table table) const {
  published both;
  both.tables_ = tables_;
  both.definitions_ = definitions_;
  both.tables_.insert_or_assign(table.name, std::move(table));
  return both;
}

const named_table* published::table(std::string_view name) const {
  const auto found = tables_.find(name);
  return found == tables_.end() ? nullptr : &found->second;
}

const std::string* published::definition(std::string_view name) const {
  const auto found = definitions_.find(name);
  return found == definitions_.end() ? nullptr : &found->second;
}

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

decile_recovery recovery_of(const std::vector<double>& d) {
  require(d.size() == 10, "a recovery is of ten deciles, not ", d.size());
  decile_recovery r;
  r.peak = std::max_element(d.begin() + 5, d.begin() + 9) - d.begin();
  const auto peak = d.begin() + static_cast<std::ptrdiff_t>(r.peak);
  r.dip = std::min_element(d.begin() + 3, peak) - d.begin();
  r.rise = d[r.peak] - d[r.dip];
  r.fall = d[r.peak] - *std::min_element(peak + 1, d.end());
  return r;
}

double decile_mean(const std::vector<double>& deciles, double length, double from, double to) {
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < deciles.size(); ++i) {
    const double low = length * static_cast<double>(i) / 10, high = length * static_cast<double>(i + 1) / 10;
    const double overlap = std::max(0.0, std::min(high, to) - std::max(low, from));
    sum += overlap * deciles[i];
    weight += overlap;
  }
  return weight > 0 ? sum / weight : unknown;
}

double decile_ending(const std::vector<double>& deciles, double length, double end) {
  if (end > length || deciles.empty()) return unknown;
  const auto i = static_cast<std::size_t>(std::ceil(10 * end / length - 1e-9)) - 1;
  return deciles[std::min<std::size_t>(i, 9)];
}

double printed_number(std::string_view text, std::string_view where) {
  const auto whole = text;
  while (!text.empty() && (text.front() == '~' || text.front() == '+')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == '*' || text.back() == '%' || text.back() == 'x')) text.remove_suffix(1);
  if (text.empty()) return unknown;
  double value = 0;
  const auto* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  require(result.ec == std::errc() && result.ptr == end, where, ": expected a number, not \"", whole, '"');
  return value;
}

double token_count(std::string_view text) {
  const bool thousands = !text.empty() && text.back() == 'K';
  const double value = printed_number(text.substr(0, text.size() - thousands), "a length in tokens");
  require(!std::isnan(value), "a length in tokens: expected a number or one with K, not \"", text, '"');
  return thousands ? 1024 * value : value;
}

std::string length_words(double tokens) {
  if (tokens < 1024) return fixed(tokens, 0);
  const auto text = fixed(tokens / 1024, 1);
  return (text.size() > 2 && text.substr(text.size() - 2) == ".0" ? text.substr(0, text.size() - 2) : text) + 'K';
}

std::string trimmed(double value, int digits) {
  auto text = significant(value, digits);
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string listed(const std::vector<double>& values) {
  if (values.size() > 6) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return trimmed(*low) + " to " + trimmed(*high) + " (" + std::to_string(values.size()) + ")";
  }
  std::string text;
  for (const double v : values) text += (text.empty() ? "" : ", ") + trimmed(v);
  return text;
}

}  // namespace qkgeom::examples::thesis
