// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <future>
#include <map>
#include <utility>
#include <vector>

#include "capture/forward/layer_weights.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// A visit of a layer: its number, whether it computes queries and keys alone, whether it has experts, and whether it
/// has a feed-forward that all rows take.
struct layer_visit {
  index_t layer;
  bool only_qk, experts, dense;
};

/// A layer's weights where a device computes: matrices of T, row-major (out, in); the rest in f32.
template <class Device, class T>
class device_layer {
  Device* device_;

 public:
  template <class U>
  struct values : buffer<U, typename Device::memory_type> {
    values(Device& m) : buffer<U, typename Device::memory_type>(m.weight_memory(), 0) {}
  };
  template <class U>
  struct weights_and_biases {
    weights_and_biases(Device& m) : w(m), b(m) {}
    values<U> w;
    values<float> b;
  };
  using linear_map = weights_and_biases<T>;
  using norm = weights_and_biases<float>;
  struct feed_forward_maps {
    linear_map up, down;
  };
  struct latent_maps {
    linear_map down, queries, keys;
    values<float> query_norm, key_norm;
  };
  struct indexer_maps {
    linear_map queries, key, weights;
    norm key_norm;
  };
  struct delta_vectors {
    values<float> convolution, bias, keep_bias, keep_log, skip, norm;
  };

  explicit device_layer(Device& m) : device_(&m) {}

  /// Copies the weights of a visit, on the stream of copies. `from` must not change until the copies are done.
  void copy(const layer_weights& from, const layer_visit& visit) {
    put(from.attention_norm, attention_norm);
    put(from.qkv, qkv);
    put(from.latent, latent);
    put(from.indexer.queries, indexer.queries);
    put(from.indexer.key, indexer.key);
    put(from.indexer.key_norm, indexer.key_norm);
    put(from.delta.convolution, delta.convolution);
    put(from.delta.bias, delta.bias);
    put(from.delta.keep_bias, delta.keep_bias);
    put(from.delta.skip, delta.skip);
    put(from.delta.keep_log, delta.keep_log);
    put(from.delta.norm, delta.norm);
    put(from.q_norm, q_norm);
    put(from.k_norm, k_norm);
    if (visit.only_qk) return;
    put(from.attention_out_norm, attention_out_norm);
    put(from.feed_forward_norm, feed_forward_norm);
    put(from.feed_forward_out_norm, feed_forward_out_norm);
    put(from.v_norm, v_norm);
    put(from.sinks, sinks);
    put(from.factor, factor);
    put(from.output, output);
    put(from.indexer.weights, indexer.weights);
    if (visit.dense) put(from.feed_forward, feed_forward);
    if (!visit.experts) return;
    put(from.router, router);
    put(from.shared_gate, shared_gate);
    while (experts.size() < from.experts.size()) experts.push_back({*device_, *device_});
    for (std::size_t i = 0; i < from.experts.size(); ++i) put(from.experts[i], experts[i]);
  }

  norm attention_norm{*device_}, attention_out_norm{*device_}, feed_forward_norm{*device_},
      feed_forward_out_norm{*device_};
  linear_map qkv{*device_}, output{*device_}, router{*device_}, shared_gate{*device_};
  latent_maps latent{*device_, *device_, *device_, *device_, *device_};
  indexer_maps indexer{*device_, *device_, *device_, *device_};
  delta_vectors delta{*device_, *device_, *device_, *device_, *device_, *device_};
  values<float> q_norm{*device_}, k_norm{*device_}, v_norm{*device_}, sinks{*device_}, factor{*device_};
  feed_forward_maps feed_forward{*device_, *device_};
  std::vector<feed_forward_maps> experts;

 private:
  template <class U>
  void put(const void* from, index_t n, values<U>& to) {
    if (n == 0) return;
    to.reserve(n);
    device_->copy_weights(to.data(), from, static_cast<std::size_t>(n) * sizeof(U));
  }
  void put(const std::vector<float>& from, values<float>& to) {
    put(from.data(), static_cast<index_t>(from.size()), to);
  }
  void put(const norm_weights& from, norm& to) {
    put(from.w, to.w);
    put(from.b, to.b);
  }
  void put(const linear_weights& from, linear_map& to) {
    put(from.w.data(), from.w.size(), to.w);
    put(from.b, to.b);
  }
  void put(const latent_weights& from, latent_maps& to) {
    put(from.down, to.down);
    put(from.queries, to.queries);
    put(from.keys, to.keys);
    put(from.query_norm, to.query_norm);
    put(from.key_norm, to.key_norm);
  }
  void put(const feed_forward_weights& from, feed_forward_maps& to) {
    put(from.up, to.up);
    put(from.down, to.down);
  }
};

/// Brings layer after layer to a device: while one is used, a thread reads the next from the checkpoint and copies it
/// on a stream of its own. Layers stay on the device up to `resident` bytes; the others share two places.
template <class Device, class T>
class weight_feed {
 public:
  using layer_type = device_layer<Device, T>;
  using reader = std::function<void(const layer_visit&, layer_weights& to)>;
  using sizes = std::function<index_t(const layer_visit&)>;  // bytes

  weight_feed(Device& m, reader read, sizes size, index_t resident)
      : device_(&m),
        read_(std::move(read)),
        size_(std::move(size)),
        resident_(resident),
        shared_{place(m), place(m)},
        staged_{staging{{}, m.make_event()}, staging{{}, m.make_event()}} {}
  weight_feed(const weight_feed&) = delete;
  ~weight_feed() {
    forget();
    try {
      for (const staging& s : staged_) device_->host_waits(s.copied);  // nothing is copied from it any more
    } catch (const error&) {
    }
  }

  /// Sets the visits whose layers `take` returns in order.
  void begin(std::vector<layer_visit> visits) {
    forget();
    visits_ = std::move(visits);
    next_ = 0;
    if (!visits_.empty()) start(0);
  }

  /// Returns the next layer's weights for device work until `done`.
  const layer_type& take() {
    if (coming_.valid()) coming_.get();
    current_ = place_of(next_);
    if (next_ + 1 < visits_.size()) start(next_ + 1);
    device_->work_waits(current_->copied);
    return current_->layer;
  }
  void done() {
    device_->record_work(current_->used);
    ++next_;
  }

 private:
  struct place {
    explicit place(Device& m) : layer(m), copied(m.make_event()), used(m.make_event()) {}
    layer_type layer;
    typename Device::event copied, used;
    bool whole = false;
  };
  /// Memory of the host from which a layer is copied.
  struct staging {
    layer_weights weights;
    typename Device::event copied;
  };

  void forget() {
    if (coming_.valid()) coming_.wait();
    coming_ = {};
  }
  place* place_of(std::size_t i) {
    const auto kept = kept_.find(visits_[i].layer);
    return kept != kept_.end() ? &kept->second : &shared_[i % 2];
  }

  /// Reads and copies the layer of visit `i` in the background, unless the device has it. One copy runs at a time.
  void start(std::size_t i) {
    const layer_visit& visit = visits_[i];
    const auto kept = kept_.find(visit.layer);
    if (kept != kept_.end() && (kept->second.whole || visit.only_qk)) return;
    if (kept == kept_.end() && kept_bytes_ + size_(visit) <= resident_) {
      kept_bytes_ += size_(visit);
      kept_.try_emplace(visit.layer, *device_);
    }
    coming_ = std::async(std::launch::async, [this, visit, to = place_of(i), from = &staged_[i % 2]] {
      device_->enter();
      device_->host_waits(from->copied);
      read_(visit, from->weights);
      device_->copies_wait(to->used);
      to->layer.copy(from->weights, visit);
      to->whole = !visit.only_qk;
      device_->record_copies(to->copied);
      device_->record_copies(from->copied);
    });
  }

  Device* device_;
  reader read_;
  sizes size_;
  index_t resident_, kept_bytes_ = 0;
  place shared_[2];
  staging staged_[2];
  std::map<index_t, place> kept_;
  place* current_ = nullptr;
  std::vector<layer_visit> visits_;
  std::size_t next_ = 0;
  std::future<void> coming_;
};

}  // namespace qkgeom
