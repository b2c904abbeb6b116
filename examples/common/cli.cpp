// SPDX-License-Identifier: MIT
#include "examples/common/cli.hpp"

#include <unistd.h>

#include <iostream>
#include <optional>

#include "examples/common/cuda.hpp"
#include "examples/common/figures/gnuplot.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/io/what_if.hpp"

namespace qkgeom::examples {

void add_arguments(command_line& app, arguments& a) {
  app.add_option("CAPTURE", a.captures,
                 "Capture: a folder with manifest.json, or one .safetensors file; several of one model, over different "
                 "documents, are analysed as one")
      .required();
  app.add_option("--out", a.out, "Folder for tables and figures; made if it is not there").required().type_name("DIR");
  app.add_flag("--rows-only", a.rows_only,
               "Moments of the captured rows, even where the captures hold those of every token");
  app.add_option("--threads", a.threads, "Threads; 0: one for each core that this process may use")
      .in_range(0, 4096)
      .shows_default();
}

void add_figures_argument(command_line& app, arguments& a) {
  a.figures = true;
  app.add_flag("!--no-figures", a.figures, "Tables alone; needs no gnuplot");
}

void add_device_argument(command_line& app, arguments& a) {
  app.add_option("--device", a.device, "Where moments, eigenproblems and pair sums are computed: cpu, or cuda (a GPU)")
      .one_of({"cpu", "cuda"})
      .shows_default();
}

void add_head_arguments(command_line& app, arguments& a) {
  app.add_option("--layers", a.layers, "Only these layers, e.g. 0,5; softmax and loss stay those of all").list();
  app.add_option("--heads", a.heads, "Only these heads, LAYER.HEAD, e.g. 3.2,5.0, and those of --layers").list();
  app.add_option("--head-part", a.head_part,
                 "Only these coordinates of each head: of latent attention nope or rope; moments are of the rows then");
}

namespace {

void add_bucket_arguments(command_line& app, arguments& a) {
  auto size = app.add_option("--bucket-size", a.bucket_size, "Width of the query buckets in tokens; 0: as captured");
  size.not_negative().shows_default();
  app.add_option(
         "--bucket-edges", a.bucket_edges,
         "Ascending edges of the query buckets in tokens, e.g. 0,1024,2048,4096; what lies beyond the context is "
         "cut off")
      .list()
      .excludes(size);
}

void add_pair_arguments(command_line& app, arguments& a) {
  app.add_option("--query-position", a.query_position, "Position of the query in its bucket: middle or mean")
      .one_of({"middle", "mean"})
      .shows_default();
  app.add_option("--precision", a.precision,
                 "Pair arithmetic: auto (f64 for f64 captures and where f32 loses digits, else f32), f32 or f64")
      .one_of({"auto", "f32", "f64"})
      .shows_default();
}

}  // namespace

void add_plasticity_arguments(command_line& app, arguments& a) {
  add_bucket_arguments(app, a);
  app.add_option("--covariance", a.covariance,
                 "Query models, in order of preference; the first is behind the columns ap_*, the rest stand beside it")
      .list()
      .one_of({"diagonal", "full", "joint", "linear_drift", "empirical"})
      .shows_default();
  app.add_option(
         "--pairs", a.pairs,
         "all; per_document: all, every document counting once; prefix_uniform: weighted as Definition 4.3 draws "
         "them (both without the observed queries, which know all pairs alone); sampled:N: N pairs drawn in each "
         "query bucket of each shard, sampling_error in profile.csv")
      .shows_default();
  add_pair_arguments(app, a);
  add_seed_argument(app, a);
}

void add_query_model_arguments(command_line& app, arguments& a) {
  add_bucket_arguments(app, a);
  app.add_option("--covariance", a.covariance, "Query model")
      .expected(1)
      .one_of({"diagonal", "full", "joint", "linear_drift"})
      .shows_default();
  add_pair_arguments(app, a);
}

void add_embedding_arguments(command_line& app, wanted_embedding& wanted) {
  app.add_option("--rope-theta", wanted.theta, "Base of the rotary frequencies instead of the captured model's");
  app.add_option("--rope-scaling", wanted.scaling,
                 "Rotary scaling instead of the captured model's: none, linear:FACTOR, dynamic:FACTOR, "
                 "yarn:FACTOR:CONTEXT, llama3:FACTOR:LOW:HIGH:CONTEXT, or longrope:FILE, a config.json that has it");
}

void add_seed_argument(command_line& app, arguments& a) {
  app.add_option("--seed", a.seed, "Seed of every draw").shows_default();
}

void add_threshold_arguments(command_line& app, class_thresholds& thresholds) {
  app.add_option("--low", thresholds.low, "|r| below this does not follow position").in_range(0.0, 1.0).shows_default();
  app.add_option("--high", thresholds.high, "|r| above this follows position").in_range(0.0, 1.0).shows_default();
}

void add_blocks_argument(command_line& app, index_t& blocks) {
  app.add_option("--blocks", blocks,
                 "Blocks of documents that the errors of the geometry leave out in turn; as many documents as blocks: "
                 "each document")
      .in_range(2, 1000)
      .shows_default();
}

int run_main(int argc, char** argv, command_line& app, arguments& a, const std::function<void()>& body) {
  std::string name = std::filesystem::path(argv[0]).filename().string();
  if (name.starts_with("qkgeom-")) name[std::string_view("qkgeom").size()] = ' ';
  if (name.ends_with("-cuda")) name.resize(name.size() - std::string_view("-cuda").size());
  return run_program(name, [&] {
    if (!app.parse(name, argc, argv)) return;
    if (a.device == "cuda") start_cuda(argv);
    require_no_other_process();
    std::optional<made_folder> out;
    if (!a.out.empty()) {
      if (a.figures && !has_gnuplot()) {
        a.figures = false;
        std::cerr << name
                  << ": gnuplot is not installed, so the figures are left out (Debian: apt install gnuplot-nox; "
                  << "the Python package draws those of a report with matplotlib)\n";
      }
      out.emplace(a.out);
      // Fails before the analysis if nothing can be written there; the file vanishes at once.
      const atomic_file trial(a.out / (".qkgeom-" + std::to_string(::getpid())));
    }
    body();
  });
}

}  // namespace qkgeom::examples
