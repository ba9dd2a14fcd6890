// A formula with every symbol bound but the micro-batch and the sequence length: a few integer
// monomials, evaluated in nanoseconds. A search asks for nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "memest/symbolic/expr.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// b, s, and the roundings of s that kernels use.
inline constexpr std::array<Symbol, 6> kSizeSymbols{Symbol::micro_batch, Symbol::seq_len,
                                                    Symbol::seq_len_8,   Symbol::seq_len_32,
                                                    Symbol::seq_len_64,  Symbol::seq_len_128};

/// Values of kSizeSymbols.
using Sizes = std::array<std::int64_t, kSizeSymbols.size()>;

class SizePolynomial {
 public:
  SizePolynomial() = default;
  /// Binds everything but kSizeSymbols. InternalError for an unset symbol or a size in a
  /// denominator; OverflowError where a coefficient leaves 64 bits.
  SizePolynomial(const Expr& formula, const Bindings& bindings);

  /// Rounded up to whole bytes. Throws OverflowError.
  [[nodiscard]] std::int64_t evaluate(const Sizes& sizes) const;
  /// No coefficient is smaller than that of `other`: never less at any sizes.
  [[nodiscard]] bool dominates(const SizePolynomial& other) const;
  [[nodiscard]] bool is_constant() const;

 private:
  struct Monomial {
    std::int64_t coefficient = 0;  // over denominator_
    std::array<std::uint8_t, kSizeSymbols.size()> exponents{};
  };
  std::vector<Monomial> monomials_;
  std::int64_t denominator_ = 1;
};

}  // namespace memest
