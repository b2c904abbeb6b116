// SPDX-License-Identifier: MIT
#include "capture/gguf/gguf_model.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/text/tokenizer.hpp"
#include "tests/fuzz/input.hpp"

void qkgeom::fuzz::read(const input& in) {
  const gguf_model model(in.path());
  const checkpoint weights(in.path());
  for (const auto& t : model.tensors()) {
    if (t.tensor.shape.size() > 2) continue;
    const index_t width = t.tensor.shape.size() > 1 ? t.tensor.shape[1] : 1;
    std::vector<float> row(static_cast<std::size_t>(width));
    weights.read(t.name, t.tensor.shape, t.tensor.shape[0] - 1, 1, false, row.data());
  }
  tokenizer(model.tokenizer(), nlohmann::json()).encode("some text 12", 20);
}
