// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "capture/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

/// The steps of a forward pass between its products, a row each: one source for GPU and host. A row's work is shared by
/// a team: rank() of size() threads, sync(), sum and max over all of them, and groups() of lanes() threads each, a
/// warp. On the host a team is one thread. T is the type of activations, float or bf16; In that of a product's result,
/// float where something is added before it is rounded. What is rounded to bf16, and where, is what `row_ops.hpp` does.
namespace qkgeom::device_kernels {

/// The team of the host.
struct one_thread {
  int rank() const { return 0; }
  int size() const { return 1; }
  void sync() const {}
  float sum(float x) const { return x; }
  float max(float x) const { return x; }
  int group() const { return 0; }
  int groups() const { return 1; }
  one_thread lanes() const { return {}; }
};

/// The team of a device: the threads of a block, in warps of 32. `Threads` is one of them and says how it meets the
/// others: number() of `count`, wait() for all, and across(x, step), the x of the lane of its warp whose number differs
/// in that bit.
template <class Threads>
class block_team {
 public:
  static constexpr int threads = Threads::count, warp = 32;

  /// One warp of it.
  class warp_team {
   public:
    QKGEOM_HD explicit warp_team(const Threads& mine) : mine_(mine) {}
    QKGEOM_HD int rank() const { return mine_.number() % warp; }
    QKGEOM_HD int size() const { return warp; }
    QKGEOM_HD float sum(float x) const {
      for (int step = warp / 2; step > 0; step /= 2) x += mine_.across(x, step);
      return x;
    }

   private:
    Threads mine_;
  };

  /// `partial` holds a float a warp, in memory that the block shares.
  QKGEOM_HD block_team(const Threads& mine, float* partial) : mine_(mine), partial_(partial) {}
  QKGEOM_HD int rank() const { return mine_.number(); }
  QKGEOM_HD int size() const { return threads; }
  QKGEOM_HD void sync() const { mine_.wait(); }
  QKGEOM_HD float sum(float x) const {
    return reduce(x, [](float a, float b) { return a + b; });
  }
  QKGEOM_HD float max(float x) const {
    return reduce(x, [](float a, float b) { return a > b ? a : b; });
  }
  QKGEOM_HD int group() const { return mine_.number() / warp; }
  QKGEOM_HD int groups() const { return threads / warp; }
  QKGEOM_HD warp_team lanes() const { return warp_team(mine_); }

 private:
  /// The same bits in every thread: lanes by halves, then the warps in their order.
  template <class F>
  QKGEOM_HD float reduce(float x, const F& f) const {
    for (int step = warp / 2; step > 0; step /= 2) x = f(x, mine_.across(x, step));
    mine_.wait();  // what was reduced before has been read
    if (mine_.number() % warp == 0) partial_[mine_.number() / warp] = x;
    mine_.wait();
    x = partial_[0];
    for (int w = 1; w < threads / warp; ++w) x = f(x, partial_[w]);
    return x;
  }

  Threads mine_;
  float* partial_;
};

template <class T>
QKGEOM_HD T to_element(float x) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16::round(x);
  else
    return x;
}
template <class T>
QKGEOM_HD float rounded(float x) {
  return static_cast<float>(to_element<T>(x));
}

/// use(c, load(c)) for c < n. A thread loads some of its columns before it uses the first: it waits for memory once,
/// not for each column, since what it stores might be what it loads next.
template <class Team, class Load, class Use>
QKGEOM_HD void each_column(const Team& team, index_t n, const Load& load, const Use& use) {
  constexpr int some = 4;
  for (index_t first = team.rank(); first < n; first += some * team.size()) {
    decltype(load(first)) loaded[some];
    QKGEOM_UNROLL
    for (int i = 0; i < some; ++i) loaded[i] = load(first + i * team.size() < n ? first + i * team.size() : first);
    QKGEOM_UNROLL
    for (int i = 0; i < some; ++i)
      if (const index_t c = first + i * team.size(); c < n) use(c, loaded[i]);
  }
}

/// A norm; without weights there is none.
struct norm_parameters {
  const float *w = nullptr, *b = nullptr;
  norm_kind kind = norm_kind::llama;
  float eps = 0;
};

/// put(c, y) for c < n, y the norm of x(0) .. x(n - 1), not yet rounded. A thread reads what it puts before it does.
template <class T, class Team, class X, class Put>
QKGEOM_HD void normalise(const Team& team, const norm_parameters& p, index_t n, const X& x, const Put& put) {
  const auto size = static_cast<float>(n);
  float center = 0;
  if (p.kind == norm_kind::layer) {
    float sum = 0;
    for (index_t c = team.rank(); c < n; c += team.size()) sum += x(c);
    center = team.sum(sum) / size;
  }
  float squares = 0;
  for (index_t c = team.rank(); c < n; c += team.size()) squares += (x(c) - center) * (x(c) - center);
  const float scale = 1.0f / std::sqrt(team.sum(squares) / size + p.eps);
  struct column {
    float x, w;
  };
  each_column(
      team, n,
      [&](index_t c) {
        return column{x(c), p.w[c]};
      },
      [&](index_t c, const column& at) {
        float y = (at.x - center) * scale;
        if (p.kind == norm_kind::llama) y = rounded<T>(y);
        y *= at.w + (p.kind == norm_kind::gemma ? 1.0f : 0.0f);
        if (p.kind == norm_kind::layer) y += p.b[c];
        put(c, y);
      });
}

/// to (rows, width) = the norm of from.
template <class T>
struct norm_rows {
  const T* from;
  T* to;
  index_t width;
  norm_parameters norm;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const T* const x = from + row * width;
    T* const y = to + row * width;
    normalise<T>(
        team, norm, width, [=](index_t c) { return static_cast<float>(x[c]); },
        [=](index_t c, float v) { y[c] = to_element<T>(v); });
  }
};

/// Where the queries of a chunk of a document lie, (rows, query heads, dim), and the keys of all of it, (key heads,
/// capacity, dim).
template <class T>
struct chunk_places {
  T *q, *k;
  index_t first;  ///< position of the chunk's first row
  index_t query_heads, key_heads, dim, capacity;

  QKGEOM_HD T* query(index_t row, index_t head) const { return q + (row * query_heads + head) * dim; }
  QKGEOM_HD T* key(index_t row, index_t head) const { return k + (head * capacity + first + row) * dim; }
  /// Query heads, then key heads.
  QKGEOM_HD T* vector(index_t row, index_t i) const {
    return i < query_heads ? query(row, i) : key(row, i - query_heads);
  }
  QKGEOM_HD index_t vectors() const { return query_heads + key_heads; }
};

/// Rotary embedding of a chunk's queries and keys, and the growth of its queries.
template <class T>
struct rotate_rows {
  chunk_places<T> at;
  const float *cos = nullptr, *sin = nullptr;  ///< (positions, half); none: no rotation
  index_t half = 0;
  bool interleaved = false, exact = false;
  float growth = 0;  ///< 0: none
  index_t growth_context = 1;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const index_t t = at.first + row;
    if (cos) {
      const auto lanes = team.lanes();
      for (index_t i = team.group(); i < at.vectors(); i += team.groups()) {
        T* const x = at.vector(row, i);
        each_column(
            lanes, half,
            [&](index_t j) {
              return angle_pair{x[place(j)], x[place(j, true)], cos[t * half + j], sin[t * half + j]};
            },
            [&](index_t j, const angle_pair& p) { turn(x, j, p); });
      }
    }
    if (growth == 0) return;
    team.sync();
    const auto times = static_cast<float>(t / growth_context);
    const float factor = rounded<T>(1.0f + growth * std::log(1.0f + times));
    T* const q = at.query(row, 0);
    for (index_t c = team.rank(); c < at.query_heads * at.dim; c += team.size())
      q[c] = to_element<T>(static_cast<float>(q[c]) * factor);
  }

 private:
  /// Two coordinates and the angle by which they turn.
  struct angle_pair {
    T first, second;
    float cos, sin;
  };
  QKGEOM_HD index_t place(index_t j, bool second = false) const {
    return interleaved ? 2 * j + second : j + (second ? half : 0);
  }
  QKGEOM_HD void turn(T* x, index_t j, const angle_pair& p) const {
    const float a = p.first, b = p.second;
    const bool rounds = !exact;
    const auto product = [rounds](float u, float v) { return rounds ? rounded<T>(u * v) : u * v; };
    const float y = product(a, p.cos) - product(b, p.sin), z = product(b, p.cos) + product(a, p.sin);
    x[place(j)] = to_element<T>(y);
    x[place(j, true)] = to_element<T>(z);
  }
};

/// What a product of hidden states with the weights of q, k and v gives becomes queries, keys and values: bias, norms
/// of queries and keys, and, if `rotates`, what `rotate_rows` does.
template <class In, class T>
struct finish_projection {
  const In* wide;  ///< (rows, width): all heads of q, of k, of v
  index_t width;
  const float* bias;  ///< or none
  T* values;          ///< as keys; none: wide has no values
  qk_norm normed;
  norm_parameters q_norm, k_norm;
  bool rotates;
  rotate_rows<T> turn;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const chunk_places<T>& at = turn.at;
    const auto lanes = team.lanes();
    for (index_t i = team.group(); i * at.dim < width; i += team.groups()) {
      const In* const x = wide + row * width + i * at.dim;
      const float* const b = bias ? bias + i * at.dim : nullptr;
      T* const to =
          i < at.vectors() ? at.vector(row, i) : values + ((i - at.vectors()) * at.capacity + at.first + row) * at.dim;
      each_column(
          lanes, at.dim, [=](index_t c) { return x[c]; },
          [=](index_t c, In v) { to[c] = to_element<T>(static_cast<float>(v) + (b ? b[c] : 0.0f)); });
    }
    if (normed != qk_norm::none) norm_vectors(team, row);
    if (rotates) {
      team.sync();
      turn(team, row);
    }
  }

 private:
  template <class Team>
  QKGEOM_HD void norm_vectors(const Team& team, index_t row) const {
    const chunk_places<T>& at = turn.at;
    const auto in_place = [&](const auto& threads, const norm_parameters& p, index_t n, const auto& place) {
      normalise<T>(
          threads, p, n, [&](index_t c) { return static_cast<float>(*place(c)); },
          [&](index_t c, float y) { *place(c) = to_element<T>(y); });
    };
    if (normed == qk_norm::each_head) {  // a thread reads what it has put there itself
      for (index_t i = team.group(); i < at.vectors(); i += team.groups()) {
        T* const x = at.vector(row, i);
        in_place(team.lanes(), i < at.query_heads ? q_norm : k_norm, at.dim, [=](index_t c) { return x + c; });
      }
      return;
    }
    team.sync();
    in_place(team, q_norm, at.query_heads * at.dim, [&](index_t c) { return at.query(row, 0) + c; });
    in_place(team, k_norm, at.key_heads * at.dim, [&](index_t c) { return at.key(row, c / at.dim) + c % at.dim; });
  }
};

/// What the output matrix of attention or feed-forward gives: bias, norm, what `other` holds added, then added to the
/// hidden states or stored; and the norm of the result, if it is asked for.
template <class In, class T>
struct finish_block {
  const In* wide;
  index_t width;
  const float* bias;     ///< or none
  norm_parameters norm;  ///< without weights: none
  const T* other;        ///< or none
  bool adds;
  T* to;
  norm_parameters next;  ///< of `to`, into `normed`; without weights: none
  T* normed;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const In* const x = wide + row * width;
    T* const y = to + row * width;
    const T* const more = other ? other + row * width : y;
    const auto value = [=, b = bias](In v, index_t c) { return rounded<T>(static_cast<float>(v) + (b ? b[c] : 0.0f)); };
    const auto put = [=, adds = adds, has_more = other != nullptr](index_t c, float v, T also, T before) {
      v = rounded<T>(v);
      if (has_more) v = rounded<T>(v + static_cast<float>(also));
      y[c] = to_element<T>(adds ? static_cast<float>(before) + v : v);
    };
    struct column {
      In x;
      T more, before;
    };
    if (norm.w)
      normalise<T>(
          team, norm, width, [=](index_t c) { return value(x[c], c); },
          [=](index_t c, float v) { put(c, v, more[c], y[c]); });
    else
      each_column(
          team, width,
          [=](index_t c) {
            return column{x[c], more[c], y[c]};
          },
          [=](index_t c, const column& at) { put(c, value(at.x, c), at.more, at.before); });
    if (!next.w) return;
    T* const z = normed + row * width;
    normalise<T>(
        team, next, width, [=](index_t c) { return static_cast<float>(y[c]); },
        [=](index_t c, float v) { z[c] = to_element<T>(v); });
  }
};

QKGEOM_HD inline float activated(activation act, float x) {
  switch (act) {
    case activation::silu:
      return x / (1.0f + std::exp(-x));
    case activation::gelu_tanh: {  // (1 + tanh u) / 2 is the sigmoid of 2 u
      const float u = 1.5957691216057308f * x * (1.0f + 0.044715f * x * x);
      return x / (1.0f + std::exp(-u));
    }
    default:
      return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f));
  }
}

/// to (rows, width) = act(gate) up of wide (rows, 2 width), or act(up) of wide (rows, width).
template <class In, class T>
struct activate_rows {
  const In* wide;
  index_t width;
  const float* bias;  ///< or none
  activation act;
  bool gated;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const In* const gate = wide + row * (gated ? 2 : 1) * width;
    const In* const up = gated ? gate + width : gate;
    T* const y = to + row * width;
    const auto value = [=, b = bias](In x, index_t c) { return rounded<T>(static_cast<float>(x) + (b ? b[c] : 0.0f)); };
    struct column {
      In gate, up;
    };
    each_column(
        team, width,
        [=](index_t c) {
          return column{gate[c], up[c]};
        },
        [&](index_t c, const column& at) {
          float v = rounded<T>(activated(act, value(at.gate, c)));
          if (gated) v *= value(at.up, width + c);
          y[c] = to_element<T>(v);
        });
  }
};

/// The experts that take a row, by the largest logits, the first of equal ones, and their shares of it. Logits that are
/// not numbers come last.
template <class T>
struct choose_experts {
  const float* logits;  ///< (rows, experts)
  index_t experts, chosen;
  bool normalised;       ///< shares add up to 1
  std::int32_t* expert;  ///< (rows, chosen)
  float* share;          ///< the same

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const float* const x = logits + row * experts;
    const auto logit = [=](index_t i) {
      const float v = rounded<T>(x[i]);
      return v == v ? v : -HUGE_VALF;
    };
    float top = -HUGE_VALF;
    for (index_t i = team.rank(); i < experts; i += team.size()) top = std::fmax(top, logit(i));
    top = team.max(top);
    const auto place = [=, n = experts](index_t i) {
      const float mine = logit(i);
      index_t before = 0;
      for (index_t j = 0; j < n; ++j) before += logit(j) > mine || (logit(j) == mine && j < i);
      return before;
    };
    float sum = 0;
    for (index_t i = team.rank(); i < experts; i += team.size())
      if (!normalised || place(i) < chosen) sum += std::exp(logit(i) - top);
    sum = team.sum(sum);
    for (index_t i = team.rank(); i < experts; i += team.size()) {
      const index_t at = place(i);
      if (at >= chosen) continue;
      expert[row * chosen + at] = static_cast<std::int32_t>(i);
      share[row * chosen + at] = rounded<T>(std::exp(logit(i) - top) / sum);
    }
  }
};

/// Rows for the experts, to (rows chosen, width): row i is that of choice number `choice[i]`.
template <class T>
struct take_rows {
  const T* from;               ///< (rows, width)
  const std::int32_t* choice;  ///< (rows chosen), of (rows, chosen)
  index_t chosen, width;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t i) const {
    const T* const x = from + choice[i] / chosen * width;
    T* const y = to + i * width;
    each_column(
        team, width, [=](index_t c) { return x[c]; }, [=](index_t c, T v) { y[c] = v; });
  }
};

/// to (rows, width) = what a row's experts give times their shares, added up expert after expert.
template <class T>
struct add_expert_rows {
  const T* from;                       ///< (rows chosen, width)
  const std::int32_t *place, *choice;  ///< (rows, chosen) rows of `from`, by their experts; as above
  const float* share;                  ///< (rows, chosen), by choice
  index_t chosen, width;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    for (index_t c = team.rank(); c < width; c += team.size()) {
      float y = 0;
      for (index_t k = row * chosen; k < (row + 1) * chosen; ++k) {
        const float v = rounded<T>(static_cast<float>(from[place[k] * width + c]) * share[choice[place[k]]]);
        y = rounded<T>(y + v);
      }
      to[row * width + c] = to_element<T>(y);
    }
  }
};

/// One block of keys of the attention, a query of a head each: scores become weights relative to the largest score so
/// far, and what the blocks before gave is brought to it (Milakov and Gimelshein 2018). Of heads (query heads, rows).
template <class T>
struct weigh_scores {
  const float* scores;  ///< (heads, rows, keys)
  T* weights;           ///< the same
  float *top, *sum;     ///< (heads, rows)
  float* out;           ///< (rows, heads, dim)
  index_t heads, rows, keys, dim;
  index_t first, first_key;  ///< positions of the first row and key
  index_t window;            ///< tokens a query sees, itself included
  float scale;               ///< log2(e) times that of the scores
  bool begins;               ///< no block was before

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const index_t h = item / rows, r = item % rows, t = first + r - first_key;
    const index_t low = t - window + 1 > 0 ? t - window + 1 : 0, high = t + 1 < keys ? t + 1 : keys;
    const float* const s = scores + item * keys;
    T* const p = weights + item * keys;
    const float before = begins ? -HUGE_VALF : top[item];
    float largest = -HUGE_VALF;
    for (index_t j = low + team.rank(); j < high; j += team.size()) largest = std::fmax(largest, s[j] * scale);
    largest = std::fmax(before, team.max(largest));
    float added = 0;
    for (index_t j = team.rank(); j < keys; j += team.size()) {
      const float w = j >= low && j < high ? std::exp2(s[j] * scale - largest) : 0.0f;
      added += w;
      p[j] = to_element<T>(w);
    }
    added = team.sum(added);
    const float factor = begins || before == -HUGE_VALF ? 0.0f : std::exp2(before - largest);
    if (!begins && factor != 1.0f) {
      float* const y = out + (r * heads + h) * dim;
      for (index_t c = team.rank(); c < dim; c += team.size()) y[c] *= factor;
    }
    if (team.rank() > 0) return;  // all have read `top` before they added up
    top[item] = largest;
    sum[item] = (begins ? 0.0f : sum[item] * factor) + added;
  }
};

/// to (rows, heads, dim) = out divided by the sums of the weights; (rows heads) of them.
template <class T>
struct finish_attention {
  const float *out, *sum;
  T* to;
  index_t heads, rows, dim;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const index_t h = item % heads, r = item / heads;
    const float inverse = 1.0f / sum[h * rows + r];
    for (index_t c = team.rank(); c < dim; c += team.size())
      to[item * dim + c] = to_element<T>(out[item * dim + c] * inverse);
  }
};

/// Some rows of some heads: to (rows, heads, dim) = from at those positions and heads.
template <class T>
struct gather_rows {
  const T* from;
  index_t row_stride, head_stride, dim;
  const std::int32_t *row, *head;
  index_t heads;
  T* to;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t item) const {
    const T* const x = from + row[item / heads] * row_stride + head[item % heads] * head_stride;
    for (index_t c = team.rank(); c < dim; c += team.size()) to[item * dim + c] = x[c];
  }
};

/// The logits of a token met so far: the largest, sum of exp(logit - top), and the logit of the token that follows.
struct logit_state {
  float top = -HUGE_VALF, next = 0;
  double sum = 0;
};

/// Adds a piece of the vocabulary to the states of some tokens.
template <class T>
struct add_logits {
  const T* logits;  ///< (rows, words)
  index_t words, first_word;
  const std::int32_t* following;  ///< (rows) ids
  logit_state* state;

  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t row) const {
    const T* const x = logits + row * words;
    logit_state s = state[row];
    float largest = s.top;
    for (index_t j = team.rank(); j < words; j += team.size()) largest = std::fmax(largest, static_cast<float>(x[j]));
    largest = team.max(largest);
    float sum = 0;
    for (index_t j = team.rank(); j < words; j += team.size()) sum += std::exp(static_cast<float>(x[j]) - largest);
    sum = team.sum(sum);
    if (team.rank() > 0) return;  // all have read `state` before they added up
    if (s.sum > 0) s.sum *= std::exp(static_cast<double>(s.top) - static_cast<double>(largest));
    s.sum += static_cast<double>(sum);
    s.top = largest;
    const index_t target = following[row] - first_word;
    if (target >= 0 && target < words) s.next = static_cast<float>(x[target]);
    state[row] = s;
  }
};

}  // namespace qkgeom::device_kernels
