// SPDX-License-Identifier: MIT
// qkgeom-capture: text and a checkpoint in, queries and keys of attention heads out.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>

#include "capture/blas.hpp"
#include "capture/job.hpp"

namespace {

using namespace qkgeom;

/// Options as text where their meaning is checked after parsing.
struct raw_options {
  std::string heads = "all", layers = "all", sampler = "uniform", compute = "f32";
  index_t examples = 0;
  bool pre_rope = false;
};

void declare(CLI::App& app, capture_options& o, raw_options& raw) {
  app.add_option("--model", o.model, "folder with config.json, safetensors and tokenizer.json")->required();
  auto* const jsonl = app.add_option("--jsonl", o.documents.jsonl, "documents, one JSON object a line");
  app.add_option("--text-field", o.documents.text_field, "field of the text")->capture_default_str()->needs(jsonl);
  app.add_option("--id-field", o.documents.id_field, "field of the document's name")
      ->capture_default_str()
      ->needs(jsonl);
  app.add_option("--text", o.documents.text, "text files, one document each")->excludes(jsonl);
  app.add_option("--tokenizer", o.tokenizer, "tokenizer.json [the model's folder, else the one above]");
  app.add_option("--out", o.out, "folder for the capture")->required();
  app.add_option("--max-length", o.plan.max_length, "tokens a document is cut to [the model's context]")
      ->check(CLI::Range(index_t{1}, index_t{0x7fffffff}));
  app.add_option("--examples", raw.examples, "at most that many documents")
      ->check(CLI::Range(index_t{1}, index_t{0x7fffffff}));
  app.add_option("--sampler", raw.sampler, "tokens that are kept: uniform or log2 buckets, or all")
      ->check(CLI::IsMember({"uniform", "log2", "all"}))
      ->capture_default_str();
  app.add_option("--bucket-size", o.plan.sampler.bucket_size, "tokens of a bucket (log2: of the smallest)")
      ->check(CLI::Range(index_t{1}, index_t{0x7fffffff}))
      ->capture_default_str();
  app.add_option("--rate", o.plan.sampler.rate, "expected tokens kept in a bucket")->capture_default_str();
  app.add_option("--heads", raw.heads, "query heads, drawn over all captured layers: a number, or all")
      ->capture_default_str();
  app.add_option("--layers", raw.layers, "layers such as 0,3,5-7, or all")->capture_default_str();
  app.add_flag("--include-windowed", o.plan.include_windowed, "capture layers with a sliding window too");
  app.add_option("--seed", o.plan.seed, "seed of all draws")->capture_default_str();
  app.add_option("--rope-scaling", o.rope_scaling,
                 "rotary scaling instead of config.json's: none, linear:FACTOR, dynamic:FACTOR, yarn:FACTOR:CONTEXT or "
                 "llama3:FACTOR:LOW:HIGH:CONTEXT; the base frequency stays");
  app.add_flag("--pre-rope", raw.pre_rope, "queries and keys before rotary embedding");
  app.add_option("--threads", o.threads, "threads [all cores]")->check(CLI::Range(1, 4096));
  app.add_option("--dtype", raw.compute, "arithmetic and element type: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  app.add_flag("--resume", o.resume, "continue an interrupted capture");
}

void interpret(const raw_options& raw, capture_options& o) {
  require(!o.documents.jsonl.empty() || !o.documents.text.empty(),
          "--jsonl or --text must say where the documents are");
  if (raw.heads != "all") {
    index_t heads = 0;
    const auto [end, code] = std::from_chars(raw.heads.data(), raw.heads.data() + raw.heads.size(), heads);
    require(code == std::errc() && end == raw.heads.data() + raw.heads.size() && heads > 0,
            "--heads must be a number of at least 1, or all, not '", raw.heads, "'");
    o.plan.heads = heads;
  }
  const double rate = o.plan.sampler.rate;
  require(rate > 0 && std::isfinite(rate), "--rate must be positive, not ", rate);
  o.plan.layers = parse_layers(raw.layers);
  const std::map<std::string, sampler_kind> kinds{
      {"uniform", sampler_kind::uniform}, {"log2", sampler_kind::log2}, {"all", sampler_kind::all}};
  o.plan.sampler.kind = kinds.at(raw.sampler);
  o.plan.compute = raw.compute == "bf16" ? compute_type::bf16 : compute_type::f32;
  o.plan.stage = raw.pre_rope ? rope_stage::pre : rope_stage::post;
  if (raw.examples > 0) o.documents.examples = raw.examples;
}

void print(const capture_summary& s, const std::string& out) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  if (s.was_complete) {
    fmt::print("{} is already complete: {} rows in {} shards, {:.1f} MB\n", out, s.rows, s.shards,
               static_cast<double>(s.bytes) / 1e6);
    return;
  }
  fmt::print(
      "{} documents, {} tokens in {:.2f} s: {:.0f} tokens/s; {} rows in {} shards, {:.1f} MB; peak memory {:.0f} MB\n",
      s.documents, s.tokens, s.seconds, static_cast<double>(s.tokens) / s.seconds, s.rows, s.shards,
      static_cast<double>(s.bytes) / 1e6, static_cast<double>(usage.ru_maxrss) * 1024 / 1e6);
}

int run(int argc, char** argv) {
  CLI::App app("Captures queries and keys of attention heads from text and a checkpoint.", "qkgeom-capture");
  capture_options options;
  raw_options raw;
  declare(app, options, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    fmt::print(stderr, "qkgeom-capture: {} (see --help)\n", e.what());
    return 2;
  }
  interpret(raw, options);
  print(run_capture(options, std::cerr), options.out.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  qkgeom::choose_blas_kernels(argv);
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "qkgeom-capture: {}\n", e.what());
    return 2;
  }
}
