// SPDX-License-Identifier: MIT
#include "capture/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "capture/job/option_list.hpp"
#include "capture/job/plan.hpp"
#include "capture/job/protocol.hpp"
#include "capture/model/head_changes.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/whole_number.hpp"

namespace qkgeom {
namespace {

/// Holds the options that are interpreted after parsing.
struct raw_options {
  std::string protocol{}, device = "cpu", resident = "auto";
  index_t short_length = 0;
};

/// Parses a part such as "3/8".
capture_part parse_part(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto number = whole_number<index_t>(text.substr(0, slash));
  const auto of = whole_number<index_t>(text.substr(std::min(slash + 1, text.size())));
  require(number && of && *number >= 1 && *number <= *of && *of <= most_parts,
          "--part must be a number and of how many, such as 3/8, not '", text, "'");
  return {*number, *of};
}

/// Reads the protocol that the command line names, before the other options, which override its settings.
capture_options settings_of_protocol(int argc, const char* const* argv) {
  for (const std::string_view option : {"--protocol", "--study"})
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == option && i + 1 < argc) return find_protocol(argv[i + 1]);
      if (word.starts_with(option) && word.substr(option.size()).starts_with('='))
        return find_protocol(argv[i] + option.size() + 1);
    }
  return {};
}

void choose_heads(const std::string& text, head_choice& choice) {
  choice.count.reset();
  choice.list.clear();
  if (text == "all") return;
  const auto heads = whole_number<index_t>(text);
  const bool is_file = !heads && std::filesystem::exists(text);
  const bool is_list = text.find('.') != text.npos && text.find_first_not_of("0123456789., ") == text.npos;
  require(heads ? *heads > 0 : is_file || is_list,
          "--heads must be a number of at least 1, all, a list such as 3.12,4.0, or a file, not '", text, "'");
  if (heads)
    choice.count = heads;
  else
    choice.list = is_file ? read_head_list(text) : parse_head_words(text, "--heads");
}

/// Declares each option as --NAME; for qkgeom evaluate only the options that an evaluation takes.
struct declaration {
  CLI::App& app;
  bool evaluation;

  template <class T>
  void operator()(const char* name, T&& value, const char* help, unsigned where = here, index_t least = 0) {
    if (!evaluation || (where & evaluated)) declare("--" + std::string(name), value, help, least);
  }

  template <class T>
  void declare(const std::string& name, T& value, const std::string& help, index_t least) {
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<T, bool>) {
      app.add_flag(name, value, help);
      return;
    } else if constexpr (std::is_enum_v<T>) {
      std::vector<std::string> names;
      std::string usual;
      for (const auto& [word, meaning] : names_of(T{})) {
        names.emplace_back(word);
        if (meaning == value) usual = word;
      }
      option = app.add_option_function<std::string>(
          name,
          [&value](const std::string& text) {
            for (const auto& [word, meaning] : names_of(T{}))
              if (word == text) value = meaning;
          },
          help);
      option->check(CLI::IsMember(names))->default_str(usual);
      return;
    } else {
      option = app.add_option(name, value, help);
    }
    if constexpr (std::is_same_v<T, index_t>) option->check(CLI::Range(least, most_tokens));
    if constexpr (std::is_same_v<T, int>) option->check(CLI::Range(0, 4096));
    if constexpr (std::is_same_v<T, std::vector<std::string>>) option->delimiter(',');
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
      if (!help.ends_with(']')) option->capture_default_str();
  }
  void declare(const std::string&, bos_rule& rule, const std::string&, index_t) {
    auto* const prepend = app.add_flag_callback(
        "--prepend-bos", [&rule] { rule = bos_rule::prepend; }, "every document begins with the BOS token");
    app.add_flag_callback(
           "--no-bos", [&rule] { rule = bos_rule::none; },
           "no token is put before a document, whatever the tokenizer does")
        ->excludes(prepend);
  }
  void declare(const std::string& name, std::vector<index_t>& layers, const std::string& help, index_t) {
    app.add_option_function<std::string>(
        name, [&layers](const std::string& text) { layers = parse_layers(text); }, help);
  }
  void declare(const std::string& name, capture_part& part, const std::string& help, index_t) {
    app.add_option_function<std::string>(
        name, [&part](const std::string& text) { part = parse_part(text); }, help);
  }
  void declare(const std::string& name, head_choice& choice, const std::string& help, index_t) {
    app.add_option_function<std::string>(
        name, [choice](const std::string& text) mutable { choose_heads(text, choice); }, help);
  }
};

/// Declares the options of a capture or, with `evaluation`, those that an evaluation takes.
void declare_common(CLI::App& app, capture_options& options, raw_options& raw, bool evaluation) {
  app.add_option("--protocol,--study", raw.protocol,
                 "settings and heads of a protocol: a built-in name, or a file like those of capture/job/protocols");
  declaration declare{app, evaluation};
  each_option(options, declare);
  auto* const jsonl = app.get_option("--jsonl");
  for (const char* field : {"--text-field", "--id-field", "--label-fields"}) app.get_option(field)->needs(jsonl);
  app.get_option("--text")->excludes(jsonl);
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

/// Checks the options that both programs take and returns where the forward pass runs.
device_choice interpret_common(const raw_options& raw, const capture_options& options) {
  require(!options.model.path.empty(), "--model must name the folder of the model (see --help)");
  const auto require_positive = [](const char* name, double value) {
    require(value > 0 && std::isfinite(value), name, " must be positive, not ", value);
  };
  require_positive("--rate", options.selection.sampler.rate);
  if (options.model.rope_theta) require_positive("--rope-theta", *options.model.rope_theta);
  device_choice device{.cuda = raw.device == "cuda"};
  require(device.cuda || raw.resident == "auto", "--resident needs --device cuda");
  if (raw.resident != "auto") device.resident = raw.resident == "all" ? resident_layers::all : resident_layers::stream;
  return device;
}

/// Parses the command line; prints --help and --version and returns false after them.
bool parsed(CLI::App& app, int argc, const char* const* argv) {
  require_whole_numbers(app);
  app.set_version_flag("--version", app.get_name() + " " + QKGEOM_VERSION + ", kernels for " + cpu_context::kernels(),
                       "print the version and exit");
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
  CLI::App app("Captures queries and keys of attention heads from text and a checkpoint.", "qkgeom capture");
  capture_arguments arguments;
  capture_options& options = arguments.options = settings_of_protocol(argc, argv);
  raw_options raw;
  declare_common(app, options, raw, false);
  app.add_option(
         "--short", raw.short_length,
         "cut documents at so many tokens instead of the protocol's length, and keep what qkgeom what-if needs to "
         "carry the analysis to that length: rows from before the rotary embedding, and --moments")
      ->check(CLI::Range(index_t{1}, most_tokens));
  auto* const plan = app.add_flag(
      "--plan", arguments.plan,
      "print layers, heads, rows, bytes, peak memory and work of this capture and stop; needs config.json but "
      "no weights");
  auto* const check = app.add_option(
      "--check", arguments.check,
      "compare the model's queries and keys with those that transformers gave (docs/capture.md) and stop: the "
      "worst difference of each layer, the first that disagrees, and the likely cause");
  app.get_option("--part")->excludes(plan)->excludes(check);
  app.add_option("--verify", arguments.verify,
                 "read all of this capture, say what holds, and stop: SHA-256 of its files, numbers, order and "
                 "positions of rows, finite values, counts of moments");
  if (!parsed(app, argc, argv)) return std::nullopt;
  if (!arguments.verify.empty()) return arguments;
  arguments.device = interpret_common(raw, options);
  const bool writes = !arguments.plan && arguments.check.empty();
  require(arguments.check.empty() || !options.model.untrained,
          "--check compares weights that are read, not --untrained");
  require(!writes || options.inputs.named(), "--jsonl or --text must say where the documents are");
  require(!writes || !options.run.out.empty(), "--out must name the capture's folder");
  if (raw.short_length == 0) return arguments;
  if (arguments.plan) arguments.whole = options;
  shorten(options.selection, options.statistics, raw.short_length);
  return arguments;
}

std::optional<evaluation_arguments> parse_evaluation(int argc, const char* const* argv) {
  CLI::App app(
      "Evaluates a model with and without changes to some heads: loss by position, and recall of earlier tokens.",
      "qkgeom evaluate");
  evaluation_arguments arguments;
  evaluation_options& options = arguments.options;
  options.capture = settings_of_protocol(argc, argv);
  // An evaluation keeps no rows: heads, layers and windows are those of the whole model.
  options.capture.selection = {.max_length = options.capture.selection.max_length,
                               .sampler = options.capture.selection.sampler,
                               .include_windowed = true};
  raw_options raw;
  declare_common(app, options.capture, raw, true);
  app.add_option("--conditions", options.conditions,
                 "heads to change: JSON, as qkgeom choose-heads writes it; for qkgeom interventions their names are "
                 "RANKING/chosen/CHANGE and RANKING/random-N/CHANGE [none]");
  app.add_option("--restore-from", options.restore_from,
                 "model of the same shape whose weights conditions restore: the folder of a checkpoint [none]");
  auto* const write =
      app.add_option("--write", arguments.write,
                     "write the model with the heads of the only condition restored into this folder, for "
                     "transformers, and stop");
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
  app.add_flag("--plan", arguments.plan, "print conditions, tokens, peak memory and time of this evaluation and stop")
      ->excludes(write);
  if (!parsed(app, argc, argv)) return std::nullopt;
  arguments.device = interpret_common(raw, options.capture);
  require(arguments.write.empty() || (!options.restore_from.empty() && !options.conditions.empty()),
          "--write needs --conditions and --restore-from");
  require(arguments.plan || !arguments.write.empty() || !options.capture.run.out.empty(),
          "--out must name the folder for condition_loss.csv and condition_probes.csv");
  require(options.records.empty() || (!options.distances.empty() && options.capture.inputs.named()),
          "--records needs --distances, and documents to put between the records");
  return arguments;
}

}  // namespace qkgeom
