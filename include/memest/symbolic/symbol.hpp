// The letters of the formulas, and what they stand for. One letter has one meaning in every formula
// of memest; the enumerators carry the letters, meaning() the legend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "memest/units/int128.hpp"

namespace memest {

/// One letter of a formula.
enum class Symbol : std::uint8_t {
  micro_batch,      // b
  seq_len,          // s
  hidden_size,      // h
  heads,            // a
  kv_heads,         // k
  head_dim,         // d
  ffn_size,         // f
  vocab_size,       // v
  layers,           // L
  experts,          // E
  top_k,            // K
  expert_ffn_size,  // g
  rotary_dim,       // r
  max_positions,    // P
  seq_len_8,        // s8: s rounded up to 8 (columns of an attention mask)
  seq_len_32,     // s32: s rounded up to 32 (rows of the memory-efficient attention's log-sum-exp)
  seq_len_64,     // s64: s rounded up to 64 (tiles of the memory-efficient attention's backward)
  seq_len_128,    // s128: s rounded up to 128 (rows of flash attention's backward sums)
  micro_batches,  // m
  data,           // D
  tensor,         // t
  pipeline,       // p
  in_flight,      // w
  context,        // c
  expert,         // x
  parameters,     // Φ
  trainable,      // Φt: trainable parameters
  expert_parameters,  // Φx: parameters of experts that other ranks have others of
  matmul_parameters,  // Φw: weights that autocast copies to the compute type
  embedding,          // Φe: parameters of the input embedding
  largest_unit,       // Φu: parameters of the largest FSDP unit
  largest_parameter,  // Φ1: elements of the largest parameter tensor
  tensors,            // n: number of parameter tensors
  bucket,             // B: elements of a communication bucket
  cached_keys,        // S: tokens whose keys and values a decoding pass reads
  count_              // number of symbols; not a symbol
};

inline constexpr std::size_t kSymbolCount = static_cast<std::size_t>(Symbol::count_);

/// The letter as printed in formulas (UTF-8), for example "b", "s", "Φ".
std::string_view letter(Symbol symbol);

/// The letter's meaning, for the legend: "micro-batch (sequences a GPU and micro-step)".
std::string_view meaning(Symbol symbol);

/// A value for every symbol that a formula uses. Unset symbols are an InternalError when evaluated.
class Bindings {
 public:
  Bindings& set(Symbol symbol, std::int64_t value) {
    values_[static_cast<std::size_t>(symbol)] = value;
    set_ |= bit(symbol);
    return *this;
  }
  [[nodiscard]] bool has(Symbol symbol) const { return (set_ & bit(symbol)) != 0; }
  /// The value; `has(symbol)` holds.
  [[nodiscard]] std::int64_t at(Symbol symbol) const {
    return values_[static_cast<std::size_t>(symbol)];
  }

 private:
  static constexpr std::uint64_t bit(Symbol symbol) {
    return std::uint64_t{1} << static_cast<unsigned>(symbol);
  }
  std::array<std::int64_t, kSymbolCount> values_{};
  std::uint64_t set_ = 0;
};
static_assert(kSymbolCount <= 64, "Bindings keeps one bit a symbol");

}  // namespace memest
