// SPDX-License-Identifier: MIT
#include "qkgeom/io/rope_config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

namespace {

constexpr const char* original_field = "original_max_position_embeddings";

std::string rope_type_of(const json_value& dictionary) {
  return dictionary.string("rope_type").value_or(dictionary.string("type").value_or("default"));
}

/// Reads the numbers of a scaling from its dictionary.
struct scaling_fields {
  const json_value& config;
  const json_value& dictionary;
  index_t context;

  double required_positive(const char* name) const { return dictionary[name].positive(); }
  double original_context() const {
    return original_context_holder(config, dictionary).positive(original_field).value_or(static_cast<double>(context));
  }
  /// Returns a number of the dictionary; 0 counts as absent.
  double or_default(const char* name, double otherwise) const {
    const double x = dictionary.number(name).value_or(0);
    return x == 0 ? otherwise : x;
  }
};

/// Returns a context times the factor of a scaling, bounded to fit an index.
index_t stretched(double context, double factor) { return static_cast<index_t>(std::min(context * factor, 9e15)); }

void read_llama3(const scaling_fields& from, rope_description& rope) {
  const llama3_scaling scaling{from.required_positive("factor"), from.required_positive("low_freq_factor"),
                               from.required_positive("high_freq_factor"), from.original_context()};
  require(scaling.high_freq_factor >= scaling.low_freq_factor, from.dictionary.where(),
          ": high_freq_factor must not be less than low_freq_factor");
  rope.inv_freq = llama3_frequencies(std::move(rope.inv_freq), scaling);
  rope.scaled_context = stretched(scaling.original_context, scaling.factor);
}

void read_yarn(const scaling_fields& from, rope_description& rope) {
  // null is false in Python; only an absent field has the default.
  const bool silent = !from.dictionary.raw().contains("truncate");
  yarn_scaling scaling{1, from.original_context(), from.or_default("beta_fast", 32), from.or_default("beta_slow", 1),
                       from.dictionary.boolean("truncate").value_or(silent)};
  scaling.factor =
      from.dictionary.positive("factor").value_or(static_cast<double>(from.context) / scaling.original_context);
  rope.inv_freq = yarn_frequencies(rope.theta, rope.rotary_dim, scaling);
  rope.scaled_context = stretched(scaling.original_context, scaling.factor);
  const auto growth = [&](double share) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * share * std::log(scaling.factor) + 1.0;
  };
  const double all = from.or_default("mscale_all_dim", 0), some = from.or_default("mscale", 0);
  const double usual = all != 0 && some != 0 ? growth(some) / growth(all) : growth(1);
  rope.attention_factor = from.dictionary.number("attention_factor").value_or(usual);
}

/// Reads "longrope": every frequency has two divisors, one for documents up to the original context and one for longer
/// ones.
void read_longrope(const scaling_fields& from, rope_description& rope) {
  const double original = from.original_context();
  const auto divided = [&](const char* name) {
    const json_value divisors = from.dictionary[name];
    const auto list = divisors.entries();
    require(list.size() == rope.inv_freq.size(), divisors.where(), " must list ", rope.inv_freq.size(), " numbers");
    std::vector<float> f;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.rotary_dim);
      const auto period = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
      f.push_back(1.0f / (static_cast<float>(list[i].positive()) * period));
    }
    return f;
  };
  rope.longrope = long_scaling{divided("long_factor"), stretched(original, 1)};
  rope.inv_freq = divided("short_factor");
  const double factor = from.dictionary.positive("factor").value_or(static_cast<double>(from.context) / original);
  const double usual = factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1;
  rope.attention_factor = from.dictionary.positive("attention_factor").value_or(usual);
  rope.scaled_context = stretched(original, factor);
}

/// Reads a "proportional" embedding: a head's first pairs rotate as in a fully rotated head, the others stay.
void read_proportional(const scaling_fields& from, double share, rope_description& rope) {
  const auto rotating = static_cast<std::ptrdiff_t>(std::floor(static_cast<double>(rope.rotary_dim) * share / 2));
  std::fill(rope.inv_freq.begin() + rotating, rope.inv_freq.end(), 0.0f);
  const double factor = from.dictionary.positive("factor").value_or(1);
  for (float& f : rope.inv_freq) f /= static_cast<float>(factor);
  if (factor != 1) rope.scaled_context = stretched(static_cast<double>(from.context), factor);
}

std::vector<double> numbers_after_colons(const std::string& text, std::size_t count) {
  std::vector<double> numbers;
  for (std::size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    const char* const begin = text.c_str() + colon + 1;
    char* end = nullptr;
    const double x = std::strtod(begin, &end);
    require(end > begin && x > 0 && std::isfinite(x) && (*end == '\0' || *end == ':'), "rope scaling '", text,
            "': each number must be positive");
    numbers.push_back(x);
  }
  require(numbers.size() == count, "rope scaling '", text, "' must have ", count, " numbers, not ", numbers.size());
  return numbers;
}

/// The longrope of a config.json, or of a file that holds its dictionary alone, as the fields of one dictionary.
json longrope_fields(const std::string& path) {
  const json file = read_json(path);
  const json_value config(file, path);
  const json_value dictionary = rope_dictionary(config).value_or(config);
  json patch{{"rope_type", "longrope"}};
  for (const char* field : {"short_factor", "long_factor", "factor", "attention_factor"})
    if (const auto* given = dictionary.find(field)) patch[field] = *given;
  const auto original = config.positive(original_field), inside = dictionary.positive(original_field);
  require(patch.contains("short_factor") && patch.contains("long_factor") && (original || inside), path,
          " has no short_factor, long_factor or ", original_field, ", which longrope needs");
  patch[original_field] = static_cast<index_t>(original.value_or(inside.value_or(0)));
  if (const auto context = config.positive("max_position_embeddings"); context && !patch.contains("factor"))
    patch["factor"] = *context / patch[original_field].get<double>();
  return patch;
}

}  // namespace

std::optional<json_value> rope_dictionary(const json_value& config) {
  const auto scaling = config.object("rope_scaling");
  return scaling && !scaling->raw().empty() ? scaling : config.object("rope_parameters");
}

const json_value& original_context_holder(const json_value& config, const json_value& dictionary) {
  const std::string type = rope_type_of(dictionary);
  return (type == "yarn" || type == "llama3" || type == "longrope") && config.find(original_field) ? config
                                                                                                   : dictionary;
}

rope_description read_rope(const json_value& config, index_t head_dim, index_t context, const rope_defaults& defaults) {
  // The dictionary's theta takes precedence over the top-level one.
  const auto dictionary = rope_dictionary(config);
  rope_defaults top = defaults;
  top.theta = config.positive("rope_theta").value_or(defaults.theta);
  top.partial = config.positive("partial_rotary_factor").value_or(defaults.partial);
  return read_rope_dictionary(config, dictionary, head_dim, context, top);
}

rope_description read_rope_dictionary(const json_value& config, const std::optional<json_value>& dictionary,
                                      index_t head_dim, index_t context, const rope_defaults& defaults) {
  rope_description rope;
  rope.theta = defaults.theta;
  double partial = defaults.partial;
  if (dictionary) {
    for (const char* type : {"full_attention", "sliding_attention"})
      require(!dictionary->find(type), dictionary->where(),
              " for each type of layer are not supported for this family");
    rope.theta = dictionary->positive("rope_theta").value_or(defaults.theta);
    rope.type = rope_type_of(*dictionary);
    partial = dictionary->positive("partial_rotary_factor").value_or(partial);
  }
  require(partial == 1 || (defaults.may_be_partial && partial < 1), config.where(), ": a partial_rotary_factor of ",
          partial, " is not supported for this family");
  const bool whole = rope.type == "proportional";
  rope.rotary_dim = whole ? head_dim : static_cast<index_t>(static_cast<double>(head_dim) * partial);
  require(rope.rotary_dim % 2 == 0 && rope.rotary_dim > 0, config.where(), ": ", rope.rotary_dim,
          " rotated channels of a head of ", head_dim, " are no pairs, which rotary embedding needs");
  rope.inv_freq = default_frequencies(rope.theta, rope.rotary_dim);
  if (rope.type == "default") return rope;
  const scaling_fields fields{config, *dictionary, context};
  if (rope.type == "llama3") {
    read_llama3(fields, rope);
  } else if (rope.type == "yarn") {
    read_yarn(fields, rope);
  } else if (rope.type == "divisors") {
    const auto* divisors = dictionary->find("divisors");
    require(divisors && divisors->is_array() && divisors->size() == rope.inv_freq.size(), dictionary->where(),
            ": divisors must be a list of ", rope.inv_freq.size(), " numbers");
    for (std::size_t i = 0; i < divisors->size(); ++i)
      rope.inv_freq[i] /= static_cast<float>(json_value((*divisors)[i], dictionary->where(), "divisors").positive());
    rope.scaled_context = context;
  } else if (rope.type == "linear") {
    const auto factor = static_cast<float>(fields.required_positive("factor"));
    for (float& f : rope.inv_freq) f /= factor;
    rope.scaled_context = stretched(static_cast<double>(context), static_cast<double>(factor));
  } else if (rope.type == "dynamic") {
    require(rope.rotary_dim > 2, config.where(), ": dynamic scaling needs more than one rotated pair");
    rope.dynamic = dynamic_scaling{fields.required_positive("factor"), context};
    rope.scaled_context = stretched(static_cast<double>(context), rope.dynamic->factor);
  } else if (rope.type == "longrope") {
    read_longrope(fields, rope);
  } else if (rope.type == "proportional") {
    read_proportional(fields, partial, rope);
  } else {
    fail(config.where(), ": rope type '", printable(rope.type),
         "' is not supported; supported: default, linear, dynamic, llama3, yarn, longrope, proportional");
  }
  return rope;
}

json rope_scaling_fields(const std::string& text) {
  const std::string type = text.substr(0, text.find(':'));
  if (type == "longrope" && text.size() > type.size()) return longrope_fields(text.substr(type.size() + 1));
  json patch{{"rope_type", type == "none" ? "default" : type}};
  const auto set = [&](std::initializer_list<const char*> names) {
    const auto numbers = numbers_after_colons(text, names.size());
    std::size_t i = 0;
    for (const char* name : names) {
      const double x = numbers[i++];
      patch[name] = x;
      if (x == std::floor(x) && x < 1e9) patch[name] = static_cast<index_t>(x);  // tokens are integers
    }
  };
  if (type == "none")
    set({});
  else if (type == "linear" || type == "dynamic")
    set({"factor"});
  else if (type == "yarn")
    set({"factor", "original_max_position_embeddings"});
  else if (type == "llama3")
    set({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  else
    fail("rope scaling '", text, "' is not known; known: none, linear:FACTOR, dynamic:FACTOR, ",
         "yarn:FACTOR:CONTEXT, llama3:FACTOR:LOW:HIGH:CONTEXT, longrope:FILE");
  return patch;
}

rope_description other_rope(const rope_description& was, double theta, const std::string& scaling, index_t context) {
  const json config{{"rope_theta", theta}, {"rope_scaling", rope_scaling_fields(scaling.empty() ? "none" : scaling)}};
  auto rope = read_rope(json_value(config, "rope scaling"), was.rotary_dim, context, {});
  rope.first = was.first;
  rope.interleaved = was.interleaved;
  return rope;
}

}  // namespace qkgeom
