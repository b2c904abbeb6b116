// SPDX-License-Identifier: MIT
// Kernels of PTX, as nvcc writes them, decoded into the steps that interpreter.hpp runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkgeom::ptx {

constexpr int warp_lanes = 32;
using lanes = std::uint32_t;  // a bit for each lane of a warp
constexpr lanes all_lanes = 0xffffffffu;

class warp;
struct instruction;
using step = void (*)(warp&, const instruction&, lanes);

enum class memory { generic, global, shared, local, parameters };

/// One instruction. Its operands are rows: a row holds a value of up to 64 bits for each lane. Registers, special
/// registers and numbers are rows.
struct instruction {
  /// `together`: all lanes of the warp do it at once.
  enum class kind { each_lane, together, branch, barrier, end } is = kind::each_lane;
  step run = nullptr;
  std::array<int, 4> to{};
  std::array<int, 10> from{};
  int guard = -1;  // the row of a predicate, or none
  bool guard_is_not = false;
  int target = -1;                 // of a branch
  memory where = memory::generic;  // of an access to `count` values of `bytes` each, at from[0] + offset
  int bytes = 0, count = 1;
  std::int64_t offset = 0;
  int line = 0;
  std::string text;
};

struct kernel {
  std::string name;  // as C++ names it
  std::size_t parameter_bytes = 0, static_shared_bytes = 0, local_bytes = 0;
  int most_threads = 0;  // of a block; 0: not said
  int rows = 0;
  int granule = 8;                                     // bytes: no value of any memory is smaller
  std::vector<std::pair<int, std::uint64_t>> numbers;  // row, value
  std::vector<std::pair<int, std::string>> specials;   // row, name
  std::vector<instruction> code;
};

/// A kernel's text within its module.
struct kernel_text {
  std::string name;  // as C++ names it
  std::string_view text;
  int line = 0;                     // of the module, where the text begins
  std::string_view dynamic_shared;  // the module's name of a block's dynamic shared memory
};

/// The kernels of a module of PTX; they view its text.
std::vector<kernel_text> find_kernels(std::string_view module);

/// Decodes a kernel. Throws `error` at an instruction or name that is not known here.
kernel read_kernel(const kernel_text& of);

/// Finds operands by their names.
class operands {
 public:
  virtual ~operands() = default;
  /// The row of a register, a number, a special register or the address of a variable.
  virtual int row(std::string_view name) = 0;
  /// The rows of `{a, b}`, or of the one operand.
  virtual std::vector<int> rows(std::string_view names) = 0;
  /// Reads `[a+8]`: sets offset and from[0], and `where` if a is a variable.
  virtual void address(instruction& i, std::string_view text) = 0;
};

/// The C++ name of a mangled one.
std::string readable(std::string_view mangled);

/// Sets the step of an instruction. `words` are the parts of its name between dots, `given` its operands.
void decode(instruction& i, const std::vector<std::string_view>& words, const std::vector<std::string_view>& given,
            operands& by_name);

}  // namespace qkgeom::ptx
