// SPDX-License-Identifier: MIT
#include "examples/common/cli.hpp"

#include <unistd.h>

#include <optional>
#include <string>

#include "examples/common/cuda.hpp"
#include "examples/common/processes.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom::examples {

void add_arguments(CLI::App& app, arguments& a) {
  app.add_option("CAPTURE", a.captures,
                 "Capture: a folder with manifest.json, or one .safetensors file; several of one model, over different "
                 "documents, are analysed as one")
      ->required();
  app.add_option("--out", a.out, "Folder for tables and figures; made if it is not there")
      ->required()
      ->type_name("DIR");
  app.add_flag("--rows-only", a.rows_only,
               "Moments of the captured rows, even where the captures hold those of every token");
  app.add_option("--threads", a.threads, "Threads; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

void add_device_argument(CLI::App& app, arguments& a) {
  app.add_option("--device", a.device, "Where moments, eigenproblems and pair sums are computed: cpu, or cuda (a GPU)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
}

void add_head_arguments(CLI::App& app, arguments& a) {
  app.add_option("--layers", a.layers, "Only these layers, e.g. 0,5; softmax and loss stay those of all")
      ->delimiter(',');
  app.add_option("--heads", a.heads, "Only these heads, LAYER.HEAD, e.g. 3.2,5.0, and those of --layers")
      ->delimiter(',');
  app.add_option("--head-part", a.head_part,
                 "Only these coordinates of each head: of latent attention nope or rope; moments are of the rows then");
}

namespace {

void add_bucket_arguments(CLI::App& app, arguments& a) {
  auto* size = app.add_option("--bucket-size", a.bucket_size, "Width of the query buckets in tokens; 0: as captured");
  size->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option(
         "--bucket-edges", a.bucket_edges,
         "Ascending edges of the query buckets in tokens, e.g. 0,1024,2048,4096; what lies beyond the context is "
         "cut off")
      ->delimiter(',')
      ->excludes(size);
}

void add_pair_arguments(CLI::App& app, arguments& a) {
  app.add_option("--query-position", a.query_position, "Position of the query in its bucket: middle or mean")
      ->check(CLI::IsMember({"middle", "mean"}))
      ->capture_default_str();
  app.add_option("--precision", a.precision, "Pair arithmetic: auto (f64 for f64 captures, else f32), f32 or f64")
      ->check(CLI::IsMember({"auto", "f32", "f64"}))
      ->capture_default_str();
}

}  // namespace

void add_plasticity_arguments(CLI::App& app, arguments& a) {
  add_bucket_arguments(app, a);
  app.add_option("--covariance", a.covariance,
                 "Query models, in order of preference; the first is behind the columns ap_*, the rest stand beside it")
      ->delimiter(',')
      ->check(CLI::IsMember({"diagonal", "full", "joint", "linear_drift", "empirical"}))
      ->capture_default_str();
  app.add_option(
         "--pairs", a.pairs,
         "all; per_document: all, every document counting once; prefix_uniform: weighted as Definition 4.3 draws "
         "them (both without the observed queries, which know all pairs alone); sampled:N: N pairs drawn in each "
         "query bucket of each shard, sampling_error in profile.csv")
      ->capture_default_str();
  add_pair_arguments(app, a);
  add_seed_argument(app, a);
}

void add_query_model_arguments(CLI::App& app, arguments& a) {
  add_bucket_arguments(app, a);
  app.add_option("--covariance", a.covariance, "Query model")
      ->expected(1)
      ->check(CLI::IsMember({"diagonal", "full", "joint", "linear_drift"}))
      ->capture_default_str();
  add_pair_arguments(app, a);
}

void add_seed_argument(CLI::App& app, arguments& a) {
  app.add_option("--seed", a.seed, "Seed of every draw")->capture_default_str();
}

void add_threshold_arguments(CLI::App& app, class_thresholds& thresholds) {
  app.add_option("--low", thresholds.low, "|r| below this does not follow position")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--high", thresholds.high, "|r| above this follows position")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

void add_blocks_argument(CLI::App& app, index_t& blocks) {
  app.add_option("--blocks", blocks,
                 "Blocks of documents that the errors of the geometry leave out in turn; as many documents as blocks: "
                 "each document")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
}

int run_main(int argc, char** argv, CLI::App& app, arguments& a, const std::function<void()>& body) {
  app.name(std::filesystem::path(argv[0]).filename().string());  // an installed program is called qkgeom-heads
  return run_program(app.get_name(), [&] {
    app.set_version_flag("--version", app.get_name() + " of qkgeom " + QKGEOM_VERSION, "Print the version and exit");
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() != 0) fail(e.what(), " (see --help)");
      app.exit(e);  // --help, --version
      return;
    }
    if (a.device == "cuda") start_cuda(argv);
    run_in_processes(app.get_name(), [&](process_group& all) {
      a.processes = &all;
      std::optional<made_folder> out;
      all.begin([&] {
        if (a.out.empty() || !a.writes()) return;
        out.emplace(a.out);
        // Fails before the analysis if nothing can be written there; the file vanishes at once.
        const atomic_file trial(a.out / (".qkgeom-" + std::to_string(::getpid())));
      });
      body();
    });
  });
}

}  // namespace qkgeom::examples
