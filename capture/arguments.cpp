// SPDX-License-Identifier: MIT
#include "capture/arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>

#include "capture/job/study.hpp"
#include "capture/model/head_list.hpp"

namespace qkgeom {
namespace {

const std::map<std::string, sampler_kind> samplers(std::begin(sampler_names), std::end(sampler_names));

/// Options that are checked and interpreted after parsing. An option that is not given keeps the study's setting.
struct raw_options {
  std::string study{}, heads{}, layers = "all", sampler = "uniform", compute = "f32";
  index_t documents = 0, short_length = 0;
  std::string device = "cpu", resident = "auto", part{};
  bool pre_rope = false, prepend_bos = false, no_bos = false;
};

void declare_inputs(CLI::App& app, capture_options& options, raw_options& raw) {
  app.add_option("--study", raw.study,
                 "settings and heads of a study: a built-in name, or a file like those of capture/job/studies");
  app.add_option("--model", options.model,
                 "folder with config.json, safetensors and tokenizer.json; or a GGUF file, or ollama:MODEL:TAG");
  app.add_option(
      "--untrained", options.untrained,
      "capture the model as it was before any training: weights are drawn with this seed as config.json says "
      "(initializer_range), and none are read");
  app.add_option("--name", options.name,
                 "what the model is called in the manifest, tables and figures [its name on the hub, else its folder]");
  auto* const jsonl = app.add_option("--jsonl", options.documents.jsonl, "documents, one JSON object a line");
  app.add_option("--text-field", options.documents.text_field, "field of the text")
      ->capture_default_str()
      ->needs(jsonl);
  app.add_option("--id-field", options.documents.id_field, "field of the document's name")
      ->capture_default_str()
      ->needs(jsonl);
  app.add_option("--label-fields", options.documents.label_fields,
                 "fields kept as the document's labels, beside an object 'labels'")
      ->delimiter(',')
      ->needs(jsonl);
  app.add_option("--text", options.documents.text, "text files, one document each")->excludes(jsonl);
  app.add_option("--tokenizer", options.tokenizer,
                 "tokenizer.json or the folder of one [the model's folder, else the one above]");
  auto* const prepend = app.add_flag("--prepend-bos", raw.prepend_bos, "every document begins with the BOS token");
  app.add_flag("--no-bos", raw.no_bos, "no token is put before a document, whatever the tokenizer does")
      ->excludes(prepend);
  app.add_option("--out", options.out, "folder for the capture");
  app.add_option("--max-length", options.plan.max_length, "tokens to which a document is cut [the model's context]")
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_option("--short", raw.short_length,
                 "cut documents at so many tokens instead of the study's length, and keep what what_if needs to carry "
                 "the analysis to that length: rows from before the rotary embedding, and --moments")
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_option("--examples", raw.documents, "at most that many documents")
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_option("--skip-examples", options.documents.skip,
                 "documents to leave out at the beginning; those that follow are captured as one capture of all does, "
                 "so that parts equal the whole")
      ->check(CLI::Range(index_t{0}, most_tokens))
      ->capture_default_str();
}

void declare_rows(CLI::App& app, capture_options& options, raw_options& raw) {
  app.add_option("--sampler", raw.sampler, "tokens that are kept: uniform or log2 buckets, or all")
      ->check(CLI::IsMember(samplers))
      ->capture_default_str();
  app.add_option("--bucket-size", options.plan.sampler.bucket_size,
                 "tokens of a bucket (log2: of the smallest) [a sixteenth of the context]")
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_option("--rate", options.plan.sampler.rate, "expected tokens kept in a bucket")->capture_default_str();
  app.add_option("--skip-first", options.plan.sampler.skip_first, "leading tokens of a document that are never kept")
      ->check(CLI::Range(index_t{0}, most_tokens))
      ->capture_default_str();
  app.add_flag("--same-positions", options.plan.same_positions, "keys at the positions of the queries");
  app.add_option("--heads", raw.heads,
                 "query heads: a number of them, drawn over all captured layers; all; LAYER.HEAD words such as "
                 "3.12,4.0; or a file of such words or {\"LAYER\": [HEAD, ...]} [the study's, else all]");
  app.add_option("--layers", raw.layers, "layers such as 0,3,5-7, or all")->capture_default_str();
  app.add_flag("--include-windowed", options.plan.include_windowed, "capture layers with a sliding window too");
  app.add_option("--seed", options.plan.seed, "seed of all draws")->capture_default_str();
}

void declare_arithmetic(CLI::App& app, capture_options& options, raw_options& raw) {
  app.add_option("--rope-scaling", options.rope_scaling,
                 "rotary scaling instead of config.json's: none, linear:FACTOR, dynamic:FACTOR, yarn:FACTOR:CONTEXT or "
                 "llama3:FACTOR:LOW:HIGH:CONTEXT; the base frequency stays");
  app.add_option("--rope-theta", options.rope_theta, "base of the rotary frequencies instead of config.json's");
  app.add_option("--threads", options.threads, "threads; 0: one for each core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option(
         "--batch-tokens", options.batch_tokens,
         "documents of a shard with that many tokens together run as a batch, which shares each read of the weights "
         "and takes the memory of one such document; the output does not depend on it")
      ->check(CLI::Range(index_t{1}, most_tokens))
      ->capture_default_str();
  app.add_option("--dtype", raw.compute, "arithmetic and element type: f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
}

void declare_model(CLI::App& app, capture_options& options, raw_options& raw) {
  app.add_flag("--moments", options.moments, "moments of every token of the captured heads, beside the sampled rows");
  app.add_flag("--softmax", options.softmax,
               "attention mass on the first tokens and by distance, and entropy, of the captured heads");
  app.add_flag("--loss", options.loss, "the loss of every token by position; runs all layers");
  app.add_option(
         "--statistics-bucket-size", options.statistics_bucket_size,
         "tokens of a bucket of --moments, --softmax and --loss [--bucket-size of uniform buckets, else a sixteenth "
         "of the context]")
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_flag("--pre-rope", raw.pre_rope, "queries and keys before rotary embedding");
  app.add_option("--family", options.family, "label of the model's family, kept in the manifest");
  app.add_option("--revision", options.revision, "label of the checkpoint, kept in the manifest");
  app.add_flag("--resume", options.resume, "continue an interrupted capture");
}

void declare_device(CLI::App& app, raw_options& raw) {
  app.add_option("--device", raw.device, "where the forward pass runs: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option(
         "--resident", raw.resident,
         "weights that stay on a GPU between batches of documents: auto (as many layers as there is room for), all "
         "or stream (none; the card holds two layers at a time)")
      ->check(CLI::IsMember({"auto", "all", "stream"}))
      ->capture_default_str();
}

/// A part such as "3/8".
capture_part parse_part(const std::string& text) {
  capture_part part{};
  const char *const end = text.data() + text.size(), *p = text.data();
  const auto number = [&](index_t& n) {
    const auto [next, code] = std::from_chars(p, end, n);
    p = next;
    return code == std::errc();
  };
  const bool read = number(part.number) && p != end && *p++ == '/' && number(part.of) && p == end;
  require(read && part.number >= 1 && part.number <= part.of && part.of <= most_parts,
          "--part must be a number and of how many, such as 3/8, not '", text, "'");
  return part;
}

/// Settings of the study that the command line names. They are read first, so that the other options override them.
capture_options settings_of_study(int argc, const char* const* argv) {
  constexpr std::string_view option = "--study";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == option && i + 1 < argc) return find_study(argv[i + 1]);
    if (word.substr(0, option.size() + 1) == "--study=") return find_study(argv[i] + option.size() + 1);
  }
  return {};
}

void choose_heads(const std::string& text, plan_options& plan) {
  if (text.empty()) return;
  plan.heads.reset();
  plan.head_list.clear();
  if (text == "all") return;
  index_t heads = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), heads);
  const bool is_number = code == std::errc() && end == text.data() + text.size();
  const bool is_file = !is_number && std::filesystem::exists(text);
  const bool is_list = text.find('.') != text.npos && text.find_first_not_of("0123456789., ") == text.npos;
  require(is_number ? heads > 0 : is_file || is_list,
          "--heads must be a number of at least 1, all, a list such as 3.12,4.0, or a file, not '", text, "'");
  if (is_number)
    plan.heads = heads;
  else
    plan.head_list = is_file ? read_head_list(text) : parse_head_words(text, "--heads");
}

void require_model(const capture_options& options) {
  require(!options.model.empty(), "--model must name the folder of the model (see --help)");
}

/// Interprets the options that captures and evaluations share.
void interpret_common(const raw_options& raw, capture_options& options) {
  require(!options.rope_theta || (*options.rope_theta > 0 && std::isfinite(*options.rope_theta)),
          "--rope-theta must be positive, not ", options.rope_theta.value_or(0));
  options.plan.compute = raw.compute == "bf16" ? compute_type::bf16 : compute_type::f32;
  if (raw.prepend_bos) options.bos = bos_rule::prepend;
  if (raw.no_bos) options.bos = bos_rule::none;
  if (raw.documents > 0) options.documents.count = raw.documents;
}

void interpret_device(const raw_options& raw, device_choice& device) {
  device.cuda = raw.device == "cuda";
  require(device.cuda || raw.resident == "auto", "--resident needs --device cuda");
  if (raw.resident != "auto") device.resident = raw.resident == "all" ? resident_layers::all : resident_layers::stream;
}

void interpret(const raw_options& raw, capture_arguments& arguments) {
  capture_options& options = arguments.options;
  require_model(options);
  const bool writes = !arguments.plan && arguments.check.empty();
  require(arguments.check.empty() || !options.untrained, "--check compares weights that are read, not --untrained");
  require(!writes || options.documents.named(), "--jsonl or --text must say where the documents are");
  require(!writes || !options.out.empty(), "--out must name the capture's folder");
  choose_heads(raw.heads, options.plan);
  const double rate = options.plan.sampler.rate;
  require(rate > 0 && std::isfinite(rate), "--rate must be positive, not ", rate);
  options.plan.layers = parse_layers(raw.layers);
  options.plan.sampler.kind = samplers.at(raw.sampler);
  if (raw.pre_rope) options.plan.stage = rope_stage::pre;
  if (!raw.part.empty()) options.part = parse_part(raw.part);
  interpret_device(raw, arguments.device);
  interpret_common(raw, options);
  if (raw.short_length == 0) return;
  if (arguments.plan) arguments.whole = options;
  shorten(options, raw.short_length);
}

/// Parses; returns false after --help and --version, which are printed.
bool parsed(CLI::App& app, int argc, const char* const* argv) {
  app.set_version_flag("--version", app.get_name() + " " + QKGEOM_VERSION, "print the version and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {
      app.exit(e);
      return false;
    }
    fail(e.what(), " (see --help)");
  }
  return true;
}

}  // namespace

std::optional<capture_arguments> parse_arguments(int argc, const char* const* argv) {
  CLI::App app("Captures queries and keys of attention heads from text and a checkpoint.", "qkgeom-capture");
  capture_arguments arguments;
  arguments.options = settings_of_study(argc, argv);
  raw_options raw;
  raw.sampler = name_of(arguments.options.plan.sampler.kind);
  raw.compute = name_of(arguments.options.plan.compute);
  declare_inputs(app, arguments.options, raw);
  declare_rows(app, arguments.options, raw);
  declare_model(app, arguments.options, raw);
  declare_arithmetic(app, arguments.options, raw);
  declare_device(app, raw);
  auto* const part = app.add_option("--part", raw.part,
                                    "K/N: capture part K of N alone, for N jobs that know nothing of one another; "
                                    "qkgeom-merge makes one capture of the N folders [the whole]");
  auto* const plan = app.add_flag(
      "--plan", arguments.plan,
      "print layers, heads, rows, bytes, peak memory and work of this capture and stop; needs config.json but "
      "no weights");
  auto* const check = app.add_option(
      "--check", arguments.check,
      "compare the model's queries and keys with those that transformers gave (docs/capture.md) and stop: the "
      "worst difference of each layer, the first that disagrees, and the likely cause");
  part->excludes(plan)->excludes(check);
  app.add_option("--verify", arguments.verify,
                 "read all of this capture, say what holds, and stop: SHA-256 of its files, numbers, order and "
                 "positions of rows, finite values, counts of moments");
  if (!parsed(app, argc, argv)) return std::nullopt;
  if (arguments.verify.empty()) interpret(raw, arguments);
  return arguments;
}

std::optional<evaluation_arguments> parse_evaluation(int argc, const char* const* argv) {
  CLI::App app(
      "Evaluates a model with and without changes to some heads: loss by position, and recall of earlier tokens.",
      "qkgeom-evaluate");
  evaluation_arguments arguments;
  evaluation_options& options = arguments.options;
  options.capture = settings_of_study(argc, argv);
  // No rows are kept: heads, layers and windows are those of the whole model.
  options.capture.plan.heads.reset();
  options.capture.plan.head_list.clear();
  options.capture.plan.layers.clear();
  options.capture.plan.include_windowed = true;
  raw_options raw;
  raw.compute = name_of(options.capture.plan.compute);
  declare_inputs(app, options.capture, raw);
  app.add_option("--conditions", options.conditions, "heads to change: JSON, as choose_heads writes it [none]");
  app.add_option("--distances", options.distances,
                 "tokens between what a probe shows and asks for, e.g. 512,2048 [no probes]")
      ->delimiter(',')
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_option("--records", options.records,
                 "words of lookup probes: JSON with before, between, after, names, things");
  app.add_option("--trials", options.trials, "probes per kind and distance")
      ->check(CLI::Range(index_t{1}, most_tokens))
      ->capture_default_str();
  app.add_option("--loss-bucket-size", options.bucket_size,
                 "tokens per row of condition_loss.csv [a sixteenth of the context]")
      ->check(CLI::Range(index_t{1}, most_tokens));
  app.add_option("--seed", options.seed, "seed of the probes")->capture_default_str();
  declare_arithmetic(app, options.capture, raw);
  declare_device(app, raw);
  app.add_flag("--plan", arguments.plan, "print conditions, tokens, peak memory and time of this evaluation and stop");
  if (!parsed(app, argc, argv)) return std::nullopt;
  require_model(options.capture);
  require(arguments.plan || !options.capture.out.empty(),
          "--out must name the folder for condition_loss.csv and condition_probes.csv");
  require(options.records.empty() || (!options.distances.empty() && options.capture.documents.named()),
          "--records needs --distances, and documents to put between the records");
  interpret_device(raw, arguments.device);
  interpret_common(raw, options.capture);
  return arguments;
}

}  // namespace qkgeom
