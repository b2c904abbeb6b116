// SPDX-License-Identifier: MIT
// qkgeom merge: joins the parts of a capture, which qkgeom capture --part made, to one capture.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_merge.hpp"
#include "qkgeom/io/program.hpp"

namespace {

using namespace qkgeom;

void merge(int argc, char** argv) {
  CLI::App app("Makes one capture of its parts, the same bytes as qkgeom capture without --part.", "qkgeom merge");
  std::vector<std::filesystem::path> parts;
  std::filesystem::path out;
  app.add_option("PART", parts, "folders of all parts of one capture, in any order")->required();
  app.add_option("--out", out, "folder for the capture; its files are hard links where they can be")->required();
  app.set_version_flag("--version", app.get_name() + " " + QKGEOM_VERSION, "print the version and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) fail(e.what(), " (see --help)");
    app.exit(e);
    return;
  }
  require_no_other_process();
  const merged_capture made = merge_parts(parts, out);
  fmt::print("{}: {} documents, {} rows in {} shards, of {} parts; {} files linked, {} copied\n", out.string(),
             made.documents, made.rows, made.shards, made.parts, made.linked, made.copied);
}

}  // namespace

int main(int argc, char** argv) {
  return qkgeom::run_program("qkgeom merge", [&] { merge(argc, argv); });
}
