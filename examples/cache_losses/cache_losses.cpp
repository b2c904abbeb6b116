// SPDX-License-Identifier: MIT
// Compares the costs of rounded keys: losses of tables of bits per key head against uniform types and shuffled tables,
// from what qkgeom evaluate wrote under the conditions of qkgeom quantised-keys.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "examples/common/cli.hpp"
#include "examples/common/figures/figure.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/core/cache_types.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/notes.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

struct cache_condition {
  std::string name, kind;                ///< kind: none, uniform, table or shuffled
  double bits = 0;                       ///< mean per key value; of `none` those of f32
  std::map<std::string, double> loss{};  ///< by document, nats per token
};

/// One condition against another, paired by document.
struct comparison_of_losses {
  const cache_condition *condition, *against;
  estimate difference;
};

/// A condition of conditions.json by its name; kind "" for others.
cache_condition named(const std::string& name) {
  if (name == "none") return {name, name, bits_of(cache_type::f32)};
  const auto dash = name.find('-');
  if (dash == std::string::npos) return {name, ""};
  const std::string kind = name.substr(0, dash), rest = name.substr(dash + 1);
  if (kind == "uniform") return {name, kind, bits_of(parse_cache_type(rest))};
  if (kind != "table" && kind != "shuffled") return {name, ""};
  char* end = nullptr;
  const double bits = std::strtod(rest.c_str(), &end);
  require(end != rest.c_str() && *end == 0, "condition ", printable(name), " names no number of bits");
  return {name, kind, bits};
}

/// The conditions in the order of the file, the model as it is first.
std::vector<cache_condition> read_losses(const std::filesystem::path& folder) {
  const auto csv = read_csv(folder / "condition_loss.csv");
  const auto tokens = csv.numbers("tokens"), loss = csv.numbers("loss");
  std::vector<cache_condition> found;
  std::map<std::string, std::map<std::string, double>> count;
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    const auto& name = csv.column("condition")[i];
    if (!count.count(name)) found.push_back(named(name));
    auto& c = *std::find_if(found.begin(), found.end(), [&](const auto& x) { return x.name == name; });
    c.loss[csv.column("document")[i]] += loss[i] * tokens[i];
    count[name][csv.column("document")[i]] += tokens[i];
  }
  for (auto& c : found)
    for (auto& [document, sum] : c.loss) sum /= count[c.name][document];
  std::erase_if(found, [](const auto& c) { return c.kind.empty(); });
  require(!found.empty() && found[0].kind == "none", folder.string(), ": there is no condition none");
  require(found.size() > 1, folder.string(),
          ": there is no condition uniform-TYPE, table-BITS or shuffled-BITS, as qkgeom quantised-keys names them");
  for (const auto& c : found)
    require(c.loss.size() == found[0].loss.size(), folder.string(), ": condition ", c.name, " lacks documents");
  return found;
}

estimate difference_of(const cache_condition& x, const cache_condition& y) {
  std::vector<double> difference;
  for (const auto& [document, loss] : x.loss) difference.push_back(loss - y.loss.at(document));
  return ratio_of_sums(difference, std::vector<double>(difference.size(), 1));
}

/// Every condition against the model as it is; every table against the uniform types and the shuffled table of its
/// budget.
std::vector<comparison_of_losses> compare(const std::vector<cache_condition>& conditions) {
  std::vector<comparison_of_losses> found;
  for (const auto& c : conditions) {
    if (c.kind == "none") continue;
    found.push_back({&c, &conditions[0], difference_of(c, conditions[0])});
    if (c.kind != "table") continue;
    for (const auto& o : conditions)
      if ((o.kind == "uniform" || o.kind == "shuffled") && o.bits == c.bits)
        found.push_back({&c, &o, difference_of(c, o)});
  }
  return found;
}

double mean_loss(const cache_condition& c) {
  double sum = 0;
  for (const auto& [document, loss] : c.loss) sum += loss / static_cast<double>(c.loss.size());
  return sum;
}

void write_losses(output_folder& out, const std::vector<comparison_of_losses>& compared) {
  using row = comparison_of_losses;
  table_columns<row> c;
  c.of(&row::condition)
      .add("condition", "name of the condition", &cache_condition::name)
      .add("bits", "mean bits per key value; of a table its budget", &cache_condition::bits);
  c.of(&row::against)
      .add("against", "condition that it is held against; `none`: the model as it is", &cache_condition::name)
      .add("documents", "number of documents", [](auto& a) { return a.loss.size(); });
  c.add("loss", "mean loss over documents, nats per token", [](auto& r) { return mean_loss(*r.condition); });
  c.add("difference", "loss less that of `against`, paired by document, nats per token", &row::difference);
  c.add("low", "lower end of the 95 % interval of difference",
        [](auto& r) { return r.difference.value - half_width(r.difference); });
  c.add("high", "upper end of the 95 % interval of difference",
        [](auto& r) { return r.difference.value + half_width(r.difference); });
  out.write("cache_losses.csv", std::move(c).with_rows(compared));
}

step_figure figure_of(const std::vector<comparison_of_losses>& compared) {
  step_figure f;
  f.joined = false;
  f.text = {
      "What rounded keys cost",
      "loss less that of the model as it is, 95 % intervals over documents; uniform: the better type of as many bits",
      "mean bits per key value", "change of the loss (nats per token)"};
  std::vector<double> bits;
  for (const auto& c : compared) bits.push_back(c.condition->bits);
  std::sort(bits.begin(), bits.end());
  bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
  for (const double b : bits) f.steps.push_back(qkgeom::number_text(b));
  constexpr std::pair<const char*, colour> kinds[] = {
      {"uniform", palette::black}, {"table", palette::blue}, {"shuffled", palette::orange}};
  for (const auto& [kind, shade] : kinds) {
    step_figure::series s{kind, shade, std::vector<double>(bits.size(), NAN), std::vector<double>(bits.size(), NAN)};
    for (const auto& c : compared) {
      if (c.condition->kind != kind || c.against->kind != "none") continue;
      const auto at = static_cast<std::size_t>(std::find(bits.begin(), bits.end(), c.condition->bits) - bits.begin());
      if (s.y[at] <= c.difference.value) continue;  // of several uniform types of as many bits the best
      s.y[at] = c.difference.value;
      s.error[at] = half_width(c.difference);
    }
    f.lines.push_back(std::move(s));
  }
  return f;
}

void print_losses(printer& out, const std::vector<cache_condition>& conditions,
                  const std::vector<comparison_of_losses>& compared) {
  if (const auto note = note_on_documents(static_cast<index_t>(conditions[0].loss.size()))) print_notes(out, {*note});
  out.heading("Loss with rounded keys: " + fixed(mean_loss(conditions[0]), 4) +
              " nats per token in the model as it is; differences paired by " +
              std::to_string(conditions[0].loss.size()) + " documents, 95 % intervals");
  table t({"condition", "against"}, {"bits", "difference", "error", "low", "high"});
  for (const auto& c : compared) {
    const double half = half_width(c.difference);
    t.row({c.condition->name, c.against->name, fixed(c.condition->bits, 2), signed_fixed(c.difference.value, 5),
           fixed(c.difference.error, 5), signed_fixed(c.difference.value - half, 5),
           signed_fixed(c.difference.value + half, 5)});
  }
  out.print(t);
  for (const auto& c : compared) {
    if (c.against->kind == "none") continue;
    const double half = half_width(c.difference);
    const char* const verdict = c.difference.value + half < 0   ? "costs less than "
                                : c.difference.value - half > 0 ? "costs more than "
                                                                : "cannot be told from ";
    out.line("  " + c.condition->name + " " + verdict + c.against->name);
  }
}

}  // namespace
}  // namespace qkgeom::examples

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::filesystem::path evaluation;
  command_line app{"What rounded keys do to the loss: cache_losses.csv and its figure"};
  app.add_option("EVALUATION", evaluation,
                 "Folder that qkgeom evaluate wrote with the conditions of qkgeom quantised-keys")
      .required()
      .folder();
  app.add_option("--out", a.out, "Folder for table and figure; made if it is not there").required().type_name("DIR");
  add_figures_argument(app, a);
  return run_main(argc, argv, app, a, [&] {
    const auto conditions = read_losses(evaluation);
    const auto compared = compare(conditions);
    output_folder folder(a.out, a.figures);
    write_losses(folder, compared);
    draw(figure_of(compared), folder.figure("cache_losses"));
    printer out;
    print_losses(out, conditions, compared);
    folder.print(out);
  });
}
