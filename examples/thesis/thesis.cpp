// SPDX-License-Identifier: MIT
// Recomputes the thesis from its published tables: every claim that they decide, H1 to H8, tables and figure 6.7.
#include "examples/thesis/thesis.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::filesystem::path tables;
  thesis::effective_options effective;
  command_line app{
      "The thesis' claims beside what its published tables give: claims.csv, hypotheses.csv, tables, figures"};
  app.add_option("TABLES", tables, "Folder of the published tables: examples/thesis/data").required();
  app.add_option("--out", a.out, "Folder for tables and figures; made if it is not there").required().type_name("DIR");
  app.add_option("--seed", a.seed, "Seed of resamples and of drawn permutations").shows_default();
  app.add_option("--ruler-threshold", effective.ruler, "RULER score down to which a length is effective")
      .shows_default();
  app.add_option("--longbench-threshold", effective.longbench,
                 "LongBench-Pro score down to which a length is effective")
      .shows_default();
  app.add_option("--plasticity-threshold", effective.plasticity, "Plasticity down to which a length is effective")
      .shows_default();
  std::vector<std::string> captures;
  app.add_option(
      "--captures", captures,
      "Captures of the thesis' models, for claims that no table decides: folders that qkgeom capture --protocol "
      "NAME made, or MODEL=CAPTURE");
  app.add_option("--threads", a.threads, "Threads for these; 0: one for each core that this process may use")
      .shows_default();
  add_figures_argument(app, a);
  return run_main(argc, argv, app, a, [&] {
    thesis::published published(tables);
    const auto captured = thesis::read_captures(captures, a, published);
    published.captures = &captured;
    const auto claims = thesis::judge_claims(tables, published);
    const auto hypotheses = thesis::test_hypotheses(published, a.seed);
    const auto correspondences = thesis::correspondences(published);
    const auto lengths = thesis::effective_lengths(published, effective);
    output_folder folder(a.out, a.figures);
    printer out;
    folder.write("claims.csv", thesis::claims_table(claims));
    folder.write("hypotheses.csv", thesis::hypotheses_table(hypotheses));
    folder.write("correspondence.csv", thesis::correspondence_table(correspondences));
    folder.write("effective_length.csv", thesis::effective_table(lengths));
    thesis::write_tables(folder, out, published, tables);
    thesis::write_associations(folder, out, published, a.seed);
    thesis::print_correspondences(out, published, correspondences);
    thesis::print_effective_lengths(out, lengths);
    thesis::print_hypotheses(out, hypotheses);
    thesis::print_claims(out, claims);
    thesis::write_figures(folder, published);
    folder.print(out);
  });
}
