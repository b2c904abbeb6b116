// SPDX-License-Identifier: MIT
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

// command_line.cpp alone includes CLI11, which takes seconds to compile.
namespace qkgeom::examples {

/// An option or a positional argument of a command line; copies change the same one.
class option {
 public:
  option(CLI::Option* in_cli11) : option_(in_cli11) {}

  option required();
  option shows_default();         ///< --help prints the value that its variable has now
  option list();                  ///< commas separate its values
  option expected(int values);    ///< this many; -n: n or more
  option needs(option other);     ///< without `other` it is refused
  option excludes(option other);  ///< with `other` it is refused
  option clears(bool& flag);      ///< given, it sets `flag` to false
  option type_name(const std::string& name);
  option description(const std::string& text);

  // Conditions on each value.
  option one_of(const std::vector<std::string>& values);
  option one_of(std::initializer_list<int> values);
  option in_range(int lowest, int highest);
  option in_range(double lowest, double highest);
  option positive();
  option not_negative();
  option folder();  ///< one that exists

 private:
  CLI::Option* option_;
};

/// A program's command line. `names` are those of an option, "--name", or of a positional argument, "NAME".
class command_line {
 public:
  explicit command_line(const std::string& description);
  ~command_line();

  /// `T` is one of the types at the end of command_line.cpp. `parse` writes to `value`.
  template <class T>
  option add_option(const std::string& names, T& value, const std::string& text);
  void add_flag(const std::string& names, bool& value, const std::string& text);
  option get_option(const std::string& name);

  /// Reads argv of the program `name`; throws `error` if it is wrong. Prints for --help and --version, then false.
  bool parse(const std::string& name, int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace qkgeom::examples
