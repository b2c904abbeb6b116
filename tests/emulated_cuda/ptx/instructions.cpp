// SPDX-License-Identifier: MIT
// What each instruction of PTX does. Results have the largest error that the ISA allows: special functions their stated
// error, tensor cores truncated sums.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "qkgeom/core/scalar.hpp"
#include "tests/emulated_cuda/ptx/warp.hpp"

namespace qkgeom::ptx {
namespace {

using words = std::vector<std::string_view>;

/// A step that sets f(values) in each lane; f is a lambda without captures.
template <class... From, class F>
step lanewise(F) {
  return [](warp& w, const instruction& i, lanes doing) {
    [&]<std::size_t... n>(std::index_sequence<n...>) {
      std::uint64_t* const to = w.row(i.to[0]);
      const std::array<const std::uint64_t*, sizeof...(From)> from{w.row(i.from[n])...};
      for_each_lane(doing, [&](int l) { to[l] = to_bits(F{}(from_bits<From>(from[n][l])...)); });
    }
    (std::index_sequence_for<From...>{});
  };
}

/// make(T{}) for the type that a word names; null if it names none of the family.
constexpr auto integers = [](std::string_view type, const auto& make) -> step {
  if (type == "s16") return make(std::int16_t{});
  if (type == "s32") return make(std::int32_t{});
  if (type == "s64") return make(std::int64_t{});
  if (type == "u16" || type == "b16") return make(std::uint16_t{});
  if (type == "u32" || type == "b32") return make(std::uint32_t{});
  if (type == "u64" || type == "b64") return make(std::uint64_t{});
  return nullptr;
};
constexpr auto floats = [](std::string_view type, const auto& make) -> step {
  if (type == "f32") return make(float{});
  if (type == "f64") return make(double{});
  return nullptr;
};
constexpr auto numbers = [](std::string_view type, const auto& make) -> step {
  const step found = integers(type, make);
  return found ? found : floats(type, make);
};
constexpr auto predicates_and_integers = [](std::string_view type, const auto& make) -> step {
  return type == "pred" ? make(bool{}) : integers(type, make);
};

template <class T, int>
using repeated = T;

/// The step of f, whose arguments and result have one type of a family.
template <int N, class Family, class F>
step same_type(const Family& family, std::string_view type, F) {
  return family(type, [](auto t) {
    using T = decltype(t);
    return []<int... n>(std::integer_sequence<int, n...>) {
      return lanewise<repeated<T, n>...>([](repeated<T, n>... x) { return static_cast<T>(F{}(x...)); });
    }
    (std::make_integer_sequence<int, N>());
  });
}

template <class T>
using unsigned_of = std::make_unsigned_t<T>;

/// Integers wrap around: f takes them as unsigned 64-bit numbers.
template <class F>
constexpr auto wrapping(F) {
  return [](auto... x) {
    if constexpr ((std::is_floating_point_v<decltype(x)> && ...))
      return F{}(x...);
    else
      return F{}(static_cast<std::uint64_t>(x)...);
  };
}

/// The type of twice the bits.
template <class T>
using wide = std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                                std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>;

/// A result moved up or down by some units in its last place, or not at all; its bits choose.
float moved(float exact, int units) {
  if (!std::isfinite(exact) || exact == 0) return exact;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(exact), by = bits * 0x9e3779b9u >> 30;
  for (int n = 0; n < units && by < 2; ++n)
    exact = std::nextafterf(exact, by == 0 ? 0.0f : std::copysign(std::numeric_limits<float>::infinity(), exact));
  return exact;
}
float without_subnormals(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

/// The ISA says that 2^0 is exact.
float power_of_two(float x) { return x == 0 ? 1.0f : moved(std::exp2(x), 2); }

/// fma with sums rounded down.
float fma_down(float a, float b, float c) {
  const int before = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  volatile float x = a, y = b, z = c;
  volatile float sum = __builtin_fmaf(x, y, z);
  std::fesetround(before);
  return sum;
}

bool says(const words& word, std::string_view what) { return std::find(word.begin(), word.end(), what) != word.end(); }

/// The nearest value of To; integers saturate, and NaN becomes 0.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using limits = std::numeric_limits<To>;
    if (std::isnan(x)) return 0;
    if (x >= std::ldexp(From{1}, limits::digits)) return limits::max();
    if (x < static_cast<From>(limits::min())) return limits::min();
  }
  return static_cast<To>(x);
}

/// A float rounded as the word says.
template <class To, class From>
step conversion(const words& word) {
  if (says(word, "sat"))
    return lanewise<From>(
        [](From x) { return std::isnan(x) ? To{0} : converted<To>(std::clamp(x, From{0}, From{1})); });
  if (says(word, "rzi")) return lanewise<From>([](From x) { return converted<To>(std::trunc(x)); });
  if (says(word, "rni")) return lanewise<From>([](From x) { return converted<To>(std::nearbyint(x)); });
  if (says(word, "rmi")) return lanewise<From>([](From x) { return converted<To>(std::floor(x)); });
  if (says(word, "rpi")) return lanewise<From>([](From x) { return converted<To>(std::ceil(x)); });
  return lanewise<From>([](From x) { return converted<To>(x); });
}

step conversion_of(const words& word) {
  if (word[word.size() - 2] == "bf16" && word.back() == "f32")
    return lanewise<float>([](float x) { return std::isnan(x) ? std::uint16_t{0x7fff} : bf16::round(x).bits; });
  return numbers(word[word.size() - 2], [&](auto t) -> step {
    using To = decltype(t);
    if (word.back() == "s8") return lanewise<std::int8_t>([](std::int8_t x) { return converted<To>(x); });
    if (word.back() == "u8") return lanewise<std::uint8_t>([](std::uint8_t x) { return converted<To>(x); });
    return numbers(word.back(), [&](auto f) -> step {
      using From = decltype(f);
      if constexpr (std::is_floating_point_v<From>)
        return conversion<To, From>(word);
      else
        return lanewise<From>([](From x) { return converted<To>(x); });
    });
  });
}

template <class T>
step comparison(std::string_view how) {
  if (how == "eq") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a == b}; });
  if (how == "ne") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a < b || a > b}; });
  if (how == "lt" || how == "lo") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a < b}; });
  if (how == "le" || how == "ls") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a <= b}; });
  if (how == "gt" || how == "hi") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a > b}; });
  if (how == "ge" || how == "hs") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a >= b}; });
  // Comparisons that are true for NaN.
  if (how == "equ") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a < b || a > b)}; });
  if (how == "neu") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a == b)}; });
  if (how == "ltu") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a >= b)}; });
  if (how == "leu") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a > b)}; });
  if (how == "gtu") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a <= b)}; });
  if (how == "geu") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a < b)}; });
  if (how == "num") return lanewise<T, T>([](T a, T b) { return std::uint64_t{a == a && b == b}; });
  if (how == "nan") return lanewise<T, T>([](T a, T b) { return std::uint64_t{!(a == a && b == b)}; });
  return nullptr;
}

template <class T>
wide<T> product(T a, T b) {
  return static_cast<wide<T>>(static_cast<wide<T>>(a) * static_cast<wide<T>>(b));
}

/// Products of integers of at most 32 bits: the upper half (hi), or the whole (wide), plus a third number or not.
step wide_product(const words& word) {
  return integers(word.back(), [&](auto t) -> step {
    using T = decltype(t);
    using W = wide<T>;
    if constexpr (sizeof(T) < 8) {
      if (word[0] == "mul" && says(word, "hi"))
        return lanewise<T, T>([](T a, T b) { return static_cast<T>(product<T>(a, b) >> 8 * sizeof(T)); });
      if (word[0] == "mul") return lanewise<T, T>([](T a, T b) { return product<T>(a, b); });
      if (says(word, "wide"))
        return lanewise<T, T, W>([](T a, T b, W c) { return static_cast<W>(product<T>(a, b) + c); });
    }
    return nullptr;
  });
}

/// Arithmetic, by the first word of the name.
step arithmetic(const words& word) {
  const auto name = word[0], type = word.back();
  const auto says = [&](std::string_view what) { return qkgeom::ptx::says(word, what); };
  if (says("approx")) {  // the special function unit
    if (name == "ex2" && type == "f32")
      return says("ftz")
                 ? lanewise<float>([](float x) { return without_subnormals(power_of_two(without_subnormals(x))); })
                 : lanewise<float>([](float x) { return power_of_two(x); });
    if (name == "rcp" && type == "f32" && says("ftz"))
      return lanewise<float>([](float x) { return without_subnormals(moved(1 / without_subnormals(x), 1)); });
    if (name == "rcp" && type == "f64")  // its upper half alone
      return lanewise<double>([](double x) { return from_bits<double>(to_bits(1 / x) >> 32 << 32); });
    return nullptr;
  }
  if (name == "add") return same_type<2>(numbers, type, wrapping([](auto a, auto b) { return a + b; }));
  if (name == "sub") return same_type<2>(numbers, type, wrapping([](auto a, auto b) { return a - b; }));
  if (name == "mul" && !says("wide") && !says("hi"))
    return same_type<2>(numbers, type, wrapping([](auto a, auto b) { return a * b; }));
  if (name == "mad" && says("lo"))
    return same_type<3>(integers, type, wrapping([](auto a, auto b, auto c) { return a * b + c; }));
  if (name == "mul" || name == "mad") return wide_product(word);
  if (name == "fma" && says("rn"))
    return same_type<3>(floats, type, [](auto a, auto b, auto c) { return std::fma(a, b, c); });
  if (name == "fma" && says("rm") && type == "f32")
    return lanewise<float, float, float>([](float a, float b, float c) { return fma_down(a, b, c); });
  if (name == "div")
    return same_type<2>(numbers, type, [](auto a, auto b) {
      if constexpr (std::is_integral_v<decltype(a)>)
        return b == 0 ? decltype(a)(-1) : a / b;
      else
        return a / b;
    });
  if (name == "rem") return same_type<2>(integers, type, [](auto a, auto b) { return b == 0 ? a : a % b; });
  if (name == "rcp") return same_type<1>(floats, type, [](auto a) { return 1 / a; });
  if (name == "sqrt") return same_type<1>(floats, type, [](auto a) { return std::sqrt(a); });
  // Of a number and NaN, the number.
  if (name == "min") return same_type<2>(numbers, type, [](auto a, auto b) { return a < b || b != b ? a : b; });
  if (name == "max") return same_type<2>(numbers, type, [](auto a, auto b) { return a > b || b != b ? a : b; });
  if (name == "abs")
    return same_type<1>(numbers, type, [](auto a) {
      if constexpr (std::is_floating_point_v<decltype(a)>)
        return std::fabs(a);
      else
        return a < 0 ? 0 - static_cast<std::uint64_t>(a) : static_cast<std::uint64_t>(a);
    });
  if (name == "neg") return same_type<1>(numbers, type, wrapping([](auto a) { return -a; }));
  if (name == "copysign")
    return same_type<2>(floats, type, [](auto sign, auto size) { return std::copysign(size, sign); });
  return nullptr;
}

/// Each nibble of `how` takes one of the eight bytes a:b, or its sign.
std::uint32_t permuted(std::uint32_t a, std::uint32_t b, std::uint32_t how) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  std::uint32_t x = 0;
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t from = how >> 4 * n & 0xf, byte = static_cast<std::uint32_t>(both >> 8 * (from & 7)) & 0xff;
    x |= (from < 8 ? byte : byte >= 0x80 ? 0xffu : 0u) << 8 * n;
  }
  return x;
}

template <class T>
T shifted_left(T x, std::uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<unsigned_of<T>>(x) << by);
}
template <class T>
T inserted(T what, T into, std::uint32_t at, std::uint32_t n) {
  const T mask = shifted_left(static_cast<T>(n >= 8 * sizeof(T) ? ~T{0} : shifted_left(T{1}, n) - 1), at);
  return static_cast<T>((shifted_left(what, at) & mask) | (into & ~mask));
}

step logic(const words& word) {
  const auto name = word[0], type = word.back();
  if (name == "and") return same_type<2>(predicates_and_integers, type, [](auto a, auto b) { return a & b; });
  if (name == "or") return same_type<2>(predicates_and_integers, type, [](auto a, auto b) { return a | b; });
  if (name == "xor") return same_type<2>(predicates_and_integers, type, [](auto a, auto b) { return a ^ b; });
  if (name == "not")
    return same_type<1>(predicates_and_integers, type, [](auto a) {
      if constexpr (std::is_same_v<decltype(a), bool>)
        return !a;
      else
        return ~a;
    });
  if (name == "shl")
    return integers(type, [](auto t) {
      using T = decltype(t);
      return lanewise<T, std::uint32_t>([](T a, std::uint32_t by) { return shifted_left(a, by); });
    });
  if (name == "shr")
    return integers(type, [](auto t) {
      using T = decltype(t);
      return lanewise<T, std::uint32_t>([](T a, std::uint32_t by) {
        return static_cast<T>(by < 8 * sizeof(T) ? a >> by : a < 0 ? T(-1) : T(0));
      });
    });
  if (name == "bfi" && type == "b32")
    return lanewise<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
        [](auto a, auto b, auto at, auto n) { return inserted(a, b, at, n); });
  if (name == "bfi" && type == "b64")
    return lanewise<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>(
        [](auto a, auto b, auto at, auto n) { return inserted(a, b, at, n); });
  if (name == "prmt")
    return lanewise<std::uint32_t, std::uint32_t, std::uint32_t>(
        [](auto a, auto b, auto how) { return permuted(a, b, how); });
  if (name == "clz")
    return integers(type, [](auto t) {
      using T = unsigned_of<decltype(t)>;
      return lanewise<T>([](T a) { return static_cast<std::uint32_t>(std::countl_zero(a)); });
    });
  if (name == "popc")
    return integers(type, [](auto t) {
      using T = unsigned_of<decltype(t)>;
      return lanewise<T>([](T a) { return static_cast<std::uint32_t>(std::popcount(a)); });
    });
  if (name == "selp")
    return [](warp& w, const instruction& i, lanes doing) {
      const auto *a = w.row(i.from[0]), *b = w.row(i.from[1]), *which = w.row(i.from[2]);
      for_each_lane(doing, [&](int l) { w.row(i.to[0])[l] = which[l] != 0 ? a[l] : b[l]; });
    };
  return nullptr;
}

void copy(warp& w, const instruction& i, lanes doing) {
  for_each_lane(doing, [&](int l) { w.row(i.to[0])[l] = w.row(i.from[0])[l]; });
}
/// A value of `offset` bits from `count` parts, the first one lowest.
void pack(warp& w, const instruction& i, lanes doing) {
  const auto bits = i.offset / i.count;
  for_each_lane(doing, [&](int l) {
    std::uint64_t x = 0;
    for (int n = 0; n < i.count; ++n) x |= (w.row(i.from[n])[l] & ((std::uint64_t{1} << bits) - 1)) << bits * n;
    w.row(i.to[0])[l] = x;
  });
}
void unpack(warp& w, const instruction& i, lanes doing) {
  const auto bits = i.offset / i.count;
  for_each_lane(doing, [&](int l) {
    const std::uint64_t x = w.row(i.from[0])[l];
    for (int n = 0; n < i.count; ++n) w.row(i.to[n])[l] = x >> bits * n & ((std::uint64_t{1} << bits) - 1);
  });
}

void load_lane(warp& w, const instruction& i, int l) {
  std::array<unsigned char, 16> got;
  w.read(i, l, i.where, w.row(i.from[0])[l] + static_cast<std::uint64_t>(i.offset), got.data(), i.bytes * i.count);
  for (int n = 0; n < i.count; ++n) {
    std::uint64_t x = 0;
    std::memcpy(&x, got.data() + n * i.bytes, static_cast<std::size_t>(i.bytes));
    w.row(i.to[n])[l] = x;
  }
}
void load(warp& w, const instruction& i, lanes doing) {
  for_each_lane(doing, [&](int l) { load_lane(w, i, l); });
}
/// The same for all lanes.
void load_parameters(warp& w, const instruction& i, lanes doing) {
  const int first = std::countr_zero(doing);
  load_lane(w, i, first);
  for (int n = 0; n < i.count; ++n) {
    std::uint64_t* const to = w.row(i.to[n]);
    for_each_lane(doing, [&](int l) { to[l] = to[first]; });
  }
}
/// Extends the sign of a signed value that is smaller than its register.
template <class T>
void load_signed(warp& w, const instruction& i, lanes doing) {
  load(w, i, doing);
  for (int n = 0; n < i.count; ++n)
    for_each_lane(doing, [&](int l) {
      auto& x = w.row(i.to[n])[l];
      x = to_bits(static_cast<std::int64_t>(from_bits<T>(x)));
    });
}
void store(warp& w, const instruction& i, lanes doing) {
  for_each_lane(doing, [&](int l) {
    std::array<unsigned char, 16> given;
    for (int n = 0; n < i.count; ++n)
      std::memcpy(given.data() + n * i.bytes, &w.row(i.from[1 + n])[l], static_cast<std::size_t>(i.bytes));
    w.write(i, l, i.where, w.row(i.from[0])[l] + static_cast<std::uint64_t>(i.offset), given.data(), i.bytes * i.count);
  });
}

template <class T, class F>
step atomic(F) {
  return [](warp& w, const instruction& i, lanes doing) {
    for_each_lane(doing, [&](int l) {
      const T by = from_bits<T>(w.row(i.from[1])[l]);
      w.atomically(i, l, i.where, w.row(i.from[0])[l] + static_cast<std::uint64_t>(i.offset), i.bytes, [&](char* p) {
        T before, after;
        std::memcpy(&before, p, sizeof before);
        after = F{}(before, by);
        std::memcpy(p, &after, sizeof after);
        w.row(i.to[0])[l] = to_bits(before);
      });
    });
  };
}

memory memory_of(const words& word) {
  for (const auto w : word) {
    if (w == "global") return memory::global;
    if (w == "shared") return memory::shared;
    if (w == "local") return memory::local;
    if (w == "param") return memory::parameters;
  }
  return memory::generic;
}

int bytes_of(std::string_view type) {
  const auto digits = type.substr(1);
  return digits == "8" ? 1 : digits == "16" ? 2 : digits == "32" ? 4 : digits == "64" ? 8 : 0;
}

void decode_access(instruction& i, const words& word, const std::vector<std::string_view>& given, operands& by_name) {
  const bool loads = word[0] == "ld", stores = word[0] == "st";
  i.bytes = bytes_of(word.back());
  require(i.bytes > 0, "PTX: ", i.text, " is not known here");
  i.where = memory_of(word);
  const auto values = stores ? by_name.rows(given.at(1)) : by_name.rows(given.at(0));
  by_name.address(i, given.at(stores ? 0 : 1));
  i.count = static_cast<int>(values.size());
  if (loads) {
    std::copy(values.begin(), values.end(), i.to.begin());
    const auto type = word.back();
    i.run = type == "s8"                    ? load_signed<std::int8_t>
            : type == "s16"                 ? load_signed<std::int16_t>
            : type == "s32"                 ? load_signed<std::int32_t>
            : i.where == memory::parameters ? load_parameters
                                            : load;
  } else if (stores) {
    std::copy(values.begin(), values.end(), i.from.begin() + 1);
    i.run = store;
  } else {
    i.to[0] = values.at(0);
    i.from[1] = by_name.row(given.at(2));
    const auto what = word[word.size() - 2];
    i.run = integers(word.back(), [&](auto t) -> step {
      using T = decltype(t);
      if (what == "add")
        return atomic<T>([](T a, T b) { return static_cast<T>(wrapping([](auto x, auto y) { return x + y; })(a, b)); });
      if (what == "min") return atomic<T>([](T a, T b) { return std::min(a, b); });
      if (what == "max") return atomic<T>([](T a, T b) { return std::max(a, b); });
      return nullptr;
    });
  }
}

void expect_all(warp& w, const instruction& i, lanes doing, int row_of_members) {
  const std::uint64_t* const members = w.row(row_of_members);
  for_each_lane(doing, [&](int l) {
    if (from_bits<lanes>(members[l]) != doing) w.refuse(i, l, "other lanes take part than it says");
  });
}

/// The value of lane ^ b, or of lane b, within runs of lanes that c gives.
template <bool By>
void shuffle(warp& w, const instruction& i, lanes doing) {
  const auto *x = w.row(i.from[0]), *b = w.row(i.from[1]), *c = w.row(i.from[2]);
  expect_all(w, i, doing, i.from[3]);
  std::array<std::uint64_t, warp_lanes> got{};
  for_each_lane(doing, [&](int l) {
    const auto own = static_cast<std::uint32_t>(l), given = static_cast<std::uint32_t>(b[l]) & 0x1f,
               limit = static_cast<std::uint32_t>(c[l]) & 0x1f, segment = static_cast<std::uint32_t>(c[l]) >> 8 & 0x1f,
               last = (own & segment) | (limit & ~segment),
               from = By ? own ^ given : (own & segment) | (given & ~segment);
    got[l] = x[from <= last ? from : own];
  });
  for_each_lane(doing, [&](int l) { w.row(i.to[0])[l] = got[l]; });
}

/// The lanes in which a predicate holds.
void ballot(warp& w, const instruction& i, lanes doing) {
  expect_all(w, i, doing, i.from[1]);
  const std::uint64_t* const holds = w.row(i.from[0]);
  lanes in{};
  for_each_lane(doing, [&](int l) { in |= holds[l] != 0 ? lanes{1} << l : lanes{}; });
  for_each_lane(doing, [&](int l) { w.row(i.to[0])[l] = in; });
}

/// Whether a predicate holds in all lanes.
void vote_all(warp& w, const instruction& i, lanes doing) {
  ballot(w, i, doing);
  for_each_lane(doing, [&](int l) { w.row(i.to[0])[l] = w.row(i.to[0])[l] == doing; });
}

/// Lane l passes row l % 8 of matrix l / 8, and gets columns l % 4 * 2 and the next of row l / 4 of each matrix.
void load_matrices(warp& w, const instruction& i, lanes doing) {
  if (doing != all_lanes) w.refuse(i, 0, "lanes of the warp have ended");
  std::array<std::array<std::uint32_t, 4>, warp_lanes> rows;
  for (int l = 0; l < warp_lanes; ++l)
    w.read(i, l, memory::shared, w.row(i.from[0])[l] + static_cast<std::uint64_t>(i.offset), &rows[l], 16);
  for (int l = 0; l < warp_lanes; ++l)
    for (int m = 0; m < 4; ++m) w.row(i.to[m])[l] = rows[8 * m + l / 4][l % 4];
}

/// A sum as tensor cores add: terms and sum are truncated 24 bits below the leading bit of the largest term.
float cut_off_sum(const std::array<double, 17>& terms) {
  constexpr int bias = 1023, mantissa = 52;
  std::uint64_t largest = 0;  // exponent
  for (const double t : terms) largest = std::max(largest, to_bits(t) << 1 >> (mantissa + 1));
  if (largest == 2 * bias + 1 || largest < 100) {  // not finite, or nothing but zeros
    double sum = 0;
    for (const double t : terms) sum += t;
    return static_cast<float>(sum);
  }
  const auto power = [](std::uint64_t exponent) { return from_bits<double>(exponent << mantissa); };
  const double scale = power(2 * bias + 24 - largest), unit = power(largest - 24);
  std::int64_t units = 0;
  for (const double t : terms) units += static_cast<std::int64_t>(t * scale);
  const double sum = static_cast<double>(units) * unit;
  const float rounded = static_cast<float>(sum);
  return std::fabs(static_cast<double>(rounded)) > std::fabs(sum) ? std::nextafterf(rounded, 0.0f) : rounded;
}

/// D (16, 8) = A (16, 16) B (16, 8) + C. Lane l has rows l / 4 and 8 more, columns l % 4 * 2 and the next and, of A and
/// B, 8 more.
void multiply(warp& w, const instruction& i, lanes doing) {
  if (doing != all_lanes) w.refuse(i, 0, "lanes of the warp have ended");
  const auto value = [&](int row, int lane, int half) {
    return static_cast<double>(static_cast<float>(bf16{static_cast<std::uint16_t>(w.row(row)[lane] >> 16 * half)}));
  };
  double a[16][16], b[8][16];
  float d[warp_lanes][4];
  for (int l = 0; l < warp_lanes; ++l)
    for (int half = 0; half < 2; ++half) {
      const int row = l / 4, column = l % 4 * 2 + half;
      for (int n = 0; n < 4; ++n) a[row + n % 2 * 8][column + n / 2 * 8] = value(i.from[n], l, half);
      for (int n = 0; n < 2; ++n) b[row][column + n * 8] = value(i.from[4 + n], l, half);
    }
  for (int l = 0; l < warp_lanes; ++l)
    for (int n = 0; n < 4; ++n) {
      const int row = l / 4 + n / 2 * 8, column = l % 4 * 2 + n % 2;
      std::array<double, 17> terms;
      for (int k = 0; k < 16; ++k) terms[k] = a[row][k] * b[column][k];
      terms[16] = static_cast<double>(from_bits<float>(w.row(i.from[6 + n])[l]));
      d[l][n] = cut_off_sum(terms);
    }
  for (int l = 0; l < warp_lanes; ++l)
    for (int n = 0; n < 4; ++n) w.row(i.to[n])[l] = to_bits(d[l][n]);
}

/// Copies `given` bytes; the rest are zeros.
void copy_asynchronously(warp& w, const instruction& i, lanes doing) {
  for_each_lane(doing, [&](int l) {
    const int given = from_bits<std::int32_t>(w.row(i.from[2])[l]);
    if (given < 0 || given > i.bytes) w.refuse(i, l, "it copies ", given, " bytes");
    w.copy_later(i, l, w.row(i.from[0])[l] + static_cast<std::uint64_t>(i.offset), w.row(i.from[1])[l], i.bytes, given);
  });
}

}  // namespace

void decode(instruction& i, const words& word, const words& given, operands& by_name) {
  const auto name = word.at(0);
  const auto holds = [&](std::string_view what) { return i.text.find(what) != std::string::npos; };
  if (name == "ret" || name == "exit") {
    i.is = instruction::kind::end;
    return;
  }
  if (name == "bar" || name == "barrier") {
    i.is = instruction::kind::barrier;
    require(given.size() == 1 && given[0] == "0", "PTX: ", i.text, " is not known here");
    return;
  }
  if (holds("cp.async.commit_group")) {
    i.run = [](warp& w, const instruction&, lanes doing) { for_each_lane(doing, [&](int l) { w.end_group(l); }); };
    return;
  }
  if (holds("cp.async.wait_group")) {
    i.from[0] = by_name.row(given.at(0));
    i.run = [](warp& w, const instruction& of, lanes doing) {
      for_each_lane(doing, [&](int l) { w.wait_for_groups(of, l, from_bits<std::int32_t>(w.row(of.from[0])[l])); });
    };
    return;
  }
  if (holds("cp.async.")) {
    by_name.address(i, given.at(0));
    instruction source;
    by_name.address(source, given.at(1));
    require(source.offset == 0 && given.size() == 4, "PTX: ", i.text, " is not known here");
    i.from[1] = source.from[0];
    i.bytes = static_cast<int>(*given[2].data() - '0') == 4 ? 4 : 16;
    i.from[2] = by_name.row(given[3]);
    i.run = copy_asynchronously;
    return;
  }
  if (name == "ld" || name == "st" || name == "atom") {
    decode_access(i, word, given, by_name);
    require(i.run != nullptr, "PTX: ", i.text, " is not known here");
    return;
  }
  if (holds("ldmatrix.sync.aligned.m8n8.x4.shared.b16")) {
    i.is = instruction::kind::together;
    by_name.address(i, given.at(1));
    const auto to = by_name.rows(given.at(0));
    std::copy(to.begin(), to.end(), i.to.begin());
    i.run = load_matrices;
    return;
  }
  if (holds("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")) {
    i.is = instruction::kind::together;
    const auto to = by_name.rows(given.at(0));
    std::copy(to.begin(), to.end(), i.to.begin());
    auto next = i.from.begin();
    for (int n = 1; n < 4; ++n)
      for (const int r : by_name.rows(given.at(static_cast<std::size_t>(n)))) *next++ = r;
    i.run = multiply;
    return;
  }
  if (name == "mov") {
    const auto to = by_name.rows(given.at(0)), from = by_name.rows(given.at(1));
    std::copy(to.begin(), to.end(), i.to.begin());
    std::copy(from.begin(), from.end(), i.from.begin());
    i.offset = 8 * bytes_of(word.back() == "pred" ? "b8" : word.back());
    i.count = static_cast<int>(std::max(to.size(), from.size()));
    i.run = i.count == 1 ? copy : to.size() == 1 ? pack : unpack;
    return;
  }
  // The rest have one result.
  for (std::size_t n = 1; n < given.size(); ++n) i.from.at(n - 1) = by_name.row(given[n]);
  i.to[0] = by_name.row(given.at(0).substr(0, given[0].find('|')));  // a second result is never used
  if (holds("shfl.sync.bfly.b32") || holds("shfl.sync.idx.b32")) {
    i.is = instruction::kind::together;
    i.run = holds("bfly") ? shuffle<true> : shuffle<false>;
  } else if (holds("vote.sync.all.pred")) {
    i.is = instruction::kind::together;
    i.run = vote_all;
  } else if (holds("vote.sync.ballot.b32")) {
    i.is = instruction::kind::together;
    i.run = ballot;
  } else if (name == "setp") {
    i.run = numbers(word.back(), [&](auto t) { return comparison<decltype(t)>(word.at(1)); });
  } else if (name == "cvt") {
    i.run = conversion_of(word);
  } else if (name == "cvta") {
    const bool to_generic = word.at(1) != "to";
    const auto where = memory_of(word);
    i.offset = where == memory::shared  ? static_cast<std::int64_t>(shared_window)
               : where == memory::local ? static_cast<std::int64_t>(local_window)
                                        : 0;
    if (!to_generic) i.offset = -i.offset;
    i.run = [](warp& w, const instruction& of, lanes doing) {
      for_each_lane(doing,
                    [&](int l) { w.row(of.to[0])[l] = w.row(of.from[0])[l] + static_cast<std::uint64_t>(of.offset); });
    };
  } else {
    i.run = arithmetic(word);
    if (i.run == nullptr) i.run = logic(word);
  }
  require(i.run != nullptr, "PTX: ", i.text, " is not known here");
}

}  // namespace qkgeom::ptx
