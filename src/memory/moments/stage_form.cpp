#include "memest/memory/stage_form.hpp"

#include <algorithm>
#include <numeric>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"
#include "memory/moments/term_values.hpp"
#include "memory/states/overheads.hpp"

namespace memest {
namespace {

/// The letters that stay, in the order of Monomial::exponents.
constexpr std::array kLayoutSymbols{Symbol::micro_batch,       Symbol::layers,
                                    Symbol::in_flight,         Symbol::parameters,
                                    Symbol::expert_parameters, Symbol::micro_batches};

bool stays(std::size_t symbol) {
  return std::find(kLayoutSymbols.begin(), kLayoutSymbols.end(), static_cast<Symbol>(symbol)) !=
         kLayoutSymbols.end();
}

/// The coefficient of `monomial` with every letter bound that a layout does not vary.
Rational coefficient_of_group(const memest::Monomial& monomial, const Bindings& bindings) {
  Rational result = monomial.coefficient;
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const int exponent = monomial.exponents[i];
    if (exponent == 0 || stays(i) || static_cast<Symbol>(i) == Symbol::data) continue;
    expect(bindings.has(static_cast<Symbol>(i)), "every symbol of a ledger has a value");
    const Rational value(bindings.at(static_cast<Symbol>(i)));
    for (int power = 0; power < exponent; ++power) result = result * value;
    for (int power = 0; power > exponent; --power) result = result / value;
  }
  return result;
}

std::int64_t rounded_up_quotient(Int128 value, Int128 divisor) {
  const Int128 quotient = value / divisor;
  return narrow_to_int64(quotient + (value % divisor > 0 ? 1 : 0));
}

}  // namespace

OutsideBytes outside_bytes(const Job& job) {
  const OutsideTerms outside = outside_terms(job);
  OutsideBytes bytes{.expected = {}, .low = outside.low, .high = outside.high};
  for (const LedgerTerm& term : outside.terms) bytes.expected += term.formula.bytes(Bindings());
  return bytes;
}

StageForm::BoundTerm StageForm::bound(const Expr& formula, const Bindings& bindings) {
  BoundTerm term;
  std::vector<Rational> coefficients;
  for (const memest::Monomial& monomial : formula.monomials()) {
    Monomial kept;
    for (std::size_t i = 0; i < kLetters; ++i) {
      const int exponent = monomial.exponents[static_cast<std::size_t>(kLayoutSymbols[i])];
      expect(exponent >= 0, "a ledger's formula never divides by a size");
      for (int power = 0; power < exponent; ++power) {
        expect(kept.degree < kMostFactors, "a ledger's formula has at most kMostFactors factors");
        kept.factors[kept.degree++] = static_cast<std::uint8_t>(i);
      }
    }
    const int data = monomial.exponents[static_cast<std::size_t>(Symbol::data)];
    expect(data == 0 || data == -1, "a rank's share is a whole over the data-parallel ranks");
    kept.over_data = data != 0;
    const Rational coefficient = coefficient_of_group(monomial, bindings);
    const auto same =
        std::find_if(term.monomials.begin(), term.monomials.end(), [&](const Monomial& other) {
          return other.degree == kept.degree && other.factors == kept.factors &&
                 other.over_data == kept.over_data;
        });
    if (same == term.monomials.end()) {
      term.monomials.push_back(kept);
      coefficients.push_back(coefficient);
    } else {
      Rational& sum = coefficients[static_cast<std::size_t>(same - term.monomials.begin())];
      sum = sum + coefficient;
    }
  }
  for (const Rational& coefficient : coefficients) {
    term.denominator = std::lcm(term.denominator, coefficient.denominator());
  }
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    term.monomials[i].coefficient = checked_multiply(
        coefficients[i].numerator(), term.denominator / coefficients[i].denominator());
  }
  return term;
}

std::int64_t StageForm::BoundTerm::evaluate(const StageSizes& sizes) const {
  const std::array<std::int64_t, kLetters> values{sizes.micro_batch, sizes.layers,
                                                  sizes.in_flight,   sizes.parameters,
                                                  sizes.experts,     sizes.micro_steps};
  Int128 whole = 0;
  Int128 shared = 0;
  for (const Monomial& monomial : monomials) {
    Int128 value = monomial.coefficient;
    for (std::uint8_t i = 0; i < monomial.degree; ++i) value *= values[monomial.factors[i]];
    (monomial.over_data ? shared : whole) += value;
  }
  if (shared == 0) {
    return denominator == 1 ? narrow_to_int64(whole) : rounded_up_quotient(whole, denominator);
  }
  // (whole + shared / D) / denominator over one divisor: rounded up once.
  const Int128 divisor = static_cast<Int128>(denominator) * sizes.data;
  return rounded_up_quotient(whole * sizes.data + shared, divisor);
}

StageForm::StageForm(const Ledger& ledger) : margin_(ledger.margin) {
  for (const LedgerTerm& term : ledger.terms) {
    terms_.push_back(bound(term.formula, ledger.bindings));
  }
  for (const Instant& instant : ledger.instants) instants_.push_back(instant.terms);
  const auto value = [&](Symbol symbol) {
    return ledger.bindings.has(symbol) ? ledger.bindings.at(symbol) : 1;
  };
  keep_possible_peaks({.micro_batch = value(Symbol::micro_batch),
                       .layers = value(Symbol::layers),
                       .in_flight = value(Symbol::in_flight),
                       .parameters = value(Symbol::parameters),
                       .experts = value(Symbol::expert_parameters),
                       .data = value(Symbol::data),
                       .micro_steps = value(Symbol::micro_batches)},
                      ledger.bindings.has(Symbol::in_flight));
}

/// Models of equal layers that grow take the form of the one they began with: in one of 6 layers
/// the optimizer's step may be no peak, in one of 17 it is.
constexpr std::int64_t kGrowth = 8;

/// The instants that are the largest of all somewhere among layouts like `own`; terms that only
/// others have are dropped with them.
void StageForm::keep_possible_peaks(const StageSizes& own, bool in_pipeline) {
  // A sample of layouts stands for all: an instant that is the largest in none of them is left out.
  // Powers from 1 on reach both ends, where states bind and where activations do.
  constexpr std::array<std::int64_t, 4> kMicroBatches{1, 2, 8, 64};
  std::vector<bool> kept(instants_.size(), false);
  std::vector<std::int64_t> values(terms_.size());
  const auto consider = [&](const StageSizes& sizes) {
    for (std::size_t i = 0; i < terms_.size(); ++i) values[i] = terms_[i].evaluate(sizes);
    std::int64_t most = -1;
    std::size_t largest = 0;
    for (std::size_t i = 0; i < instants_.size(); ++i) {
      std::int64_t total = 0;
      for (const std::uint16_t term : instants_[i]) total = checked_add(total, values[term]);
      if (total > most) largest = i;
      most = std::max(most, total);
    }
    kept[largest] = true;
  };
  for (const std::int64_t micro_batch : kMicroBatches) {
    for (const std::int64_t data : {own.data, 64 * own.data}) {
      consider({micro_batch, own.layers, own.in_flight, own.parameters, own.experts, data,
                own.micro_steps});
      if (!in_pipeline) {
        consider({micro_batch, kGrowth * own.layers, own.in_flight, kGrowth * own.parameters,
                  kGrowth * own.experts, data, own.micro_steps});
        continue;
      }
      for (std::int64_t layers = 1; layers <= own.layers; layers *= 3) {
        for (const std::int64_t in_flight : {std::int64_t{1}, own.layers}) {
          for (const std::int64_t parts : {std::int64_t{1}, own.layers / layers}) {
            consider({micro_batch, layers, in_flight, own.parameters / parts, own.experts / parts,
                      data, own.micro_steps});
          }
        }
      }
    }
  }
  std::vector<std::vector<std::uint16_t>> instants;
  std::vector<std::uint16_t> moved(terms_.size(), 0);
  std::vector<BoundTerm> terms;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) instants.push_back(std::move(instants_[i]));
  }
  std::vector<bool> used(terms_.size(), false);
  for (const auto& instant : instants) {
    for (const std::uint16_t term : instant) used[term] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    moved[i] = static_cast<std::uint16_t>(terms.size());
    terms.push_back(std::move(terms_[i]));
  }
  for (auto& instant : instants) {
    for (std::uint16_t& term : instant) term = moved[term];
  }
  terms_ = std::move(terms);
  instants_ = std::move(instants);
}

Bytes StageForm::peak(const StageSizes& sizes) const {
  TermValues values(terms_.size());
  for (std::size_t i = 0; i < terms_.size(); ++i) values[i] = terms_[i].evaluate(sizes);
  std::int64_t peak = 0;
  for (const auto& instant : instants_) {
    std::int64_t total = 0;
    for (const std::uint16_t term : instant) total = checked_add(total, values[term]);
    peak = std::max(peak, total);
  }
  return Bytes(peak);
}

MemoryEstimate StageForm::estimate(Bytes peak, const OutsideBytes& outside) const {
  MemoryEstimate estimate;
  estimate.instants = {{.index = 0, .total = peak}};
  estimate.margin = margin_;
  estimate.outside = outside.expected;
  estimate.outside_low = outside.low;
  estimate.outside_high = outside.high;
  return estimate;
}

}  // namespace memest
