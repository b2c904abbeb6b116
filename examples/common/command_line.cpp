// SPDX-License-Identifier: MIT
#include "examples/common/command_line.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/whole_number.hpp"

namespace qkgeom::examples {
namespace {

/// Checks a number in one sentence; CLI11 prints the largest double.
CLI::Validator from_zero(const char* name, const char* wanted, bool (*holds)(double)) {
  return {[=](const std::string& text) {
            double x = 0;
            const bool right = CLI::detail::lexical_cast(text, x) && std::isfinite(x) && holds(x);
            return right ? std::string() : std::string("must be ").append(wanted) + ", not " + text;
          },
          name};
}

}  // namespace

option option::required() { return option_->required(); }
option option::shows_default() { return option_->capture_default_str(); }
option option::list() { return option_->delimiter(','); }
option option::expected(int values) { return option_->expected(values); }
option option::needs(option other) { return option_->needs(other.option_); }
option option::excludes(option other) { return option_->excludes(other.option_); }
option option::type_name(const std::string& name) { return option_->type_name(name); }
option option::description(const std::string& text) { return option_->description(text); }

option option::one_of(const std::vector<std::string>& values) { return option_->check(CLI::IsMember(values)); }
option option::one_of(std::initializer_list<int> values) { return option_->check(CLI::IsMember(values)); }
option option::in_range(int lowest, int highest) { return option_->check(CLI::Range(lowest, highest)); }
option option::in_range(double lowest, double highest) { return option_->check(CLI::Range(lowest, highest)); }
option option::positive() {
  return option_->check(from_zero("POSITIVE", "above 0", [](double x) { return x > 0; }));
}
option option::not_negative() {
  return option_->check(from_zero("NONNEGATIVE", "at least 0", [](double x) { return x >= 0; }));
}
option option::clears(bool& flag) {
  return option_->each([&flag](const std::string&) { flag = false; });
}
option option::folder() { return option_->check(CLI::ExistingDirectory); }

command_line::command_line(const std::string& description) : app_(std::make_unique<CLI::App>(description)) {}
command_line::~command_line() = default;

template <class T>
option command_line::add_option(const std::string& names, T& value, const std::string& text) {
  return app_->add_option(names, value, text);
}

void command_line::add_flag(const std::string& names, bool& value, const std::string& text) {
  app_->add_flag(names, value, text);
}

option command_line::get_option(const std::string& name) { return app_->get_option(name); }

bool command_line::parse(const std::string& name, int argc, char** argv) {
  app_->name(name);
  require_whole_numbers(*app_);
  app_->set_version_flag("--version", name + " of qkgeom " + QKGEOM_VERSION + ", kernels for " + cpu_context::kernels(),
                         "Print the version and exit");
  try {
    app_->parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) fail(e.what(), " (see --help)");
    app_->exit(e);
    return false;
  }
}

using help_text = const std::string&;
template option command_line::add_option(help_text, int&, help_text);
template option command_line::add_option(help_text, index_t&, help_text);
template option command_line::add_option(help_text, std::uint64_t&, help_text);
template option command_line::add_option(help_text, double&, help_text);
template option command_line::add_option(help_text, std::optional<double>&, help_text);
template option command_line::add_option(help_text, std::string&, help_text);
template option command_line::add_option(help_text, std::filesystem::path&, help_text);
template option command_line::add_option(help_text, std::vector<index_t>&, help_text);
template option command_line::add_option(help_text, std::vector<double>&, help_text);
template option command_line::add_option(help_text, std::vector<std::string>&, help_text);
template option command_line::add_option(help_text, std::vector<std::filesystem::path>&, help_text);

}  // namespace qkgeom::examples
