// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>
#include <vector>

#include "capture/evaluate/evaluate.hpp"
#include "qkgeom/io/csv.hpp"
#include "tests/capture/capture_fixture.hpp"

namespace qkgeom::test {

/// Evaluates a checkpoint of the bundled model on two books.
class evaluated_model : public capture_test {
 protected:
  evaluated_model() {
    write_books(folder / "books.jsonl", 2);
    o.capture = options;
    o.capture.model.path = bundled / "stage2-step-1400";
    o.capture.inputs.jsonl = folder / "books.jsonl";
    std::filesystem::create_directories(o.capture.run.out);
  }
  /// Writes one condition.
  void condition(const std::string& name, const json& changes) {
    write_conditions({{{"name", name}, {"changes", changes}}});
  }
  void write_conditions(const json& all) { o.conditions = write("conditions.json", json{{"conditions", all}}.dump()); }
  /// Losses by condition.
  std::map<std::string, std::vector<double>> evaluated() {
    evaluate_model(o, notes);
    const auto table = read_csv(o.capture.run.out / "condition_loss.csv");
    const auto loss = table.numbers("loss");
    std::map<std::string, std::vector<double>> by_condition;
    for (std::size_t i = 0; i < loss.size(); ++i) by_condition[table.column("condition")[i]].push_back(loss[i]);
    return by_condition;
  }

  evaluation_options o;
};

}  // namespace qkgeom::test
