// A formula is evaluated once a term and plan, thousands of times in a search; it is printed once.
#include <benchmark/benchmark.h>

#include "memest/symbolic/expr.hpp"

namespace memest {
namespace {

// Korthikanti et al. 2022, eq. 2: activations of one layer, b·s·h·(34 + 5·a·s/h).
Expr layer_activations() {
  const Expr b(Symbol::micro_batch);
  const Expr s(Symbol::seq_len);
  const Expr h(Symbol::hidden_size);
  const Expr a(Symbol::heads);
  return b * s * h * (Expr(34) + Expr(5) * a * s / h);
}

Bindings gpt3_layer() {
  return Bindings()
      .set(Symbol::micro_batch, 1)
      .set(Symbol::seq_len, 2048)
      .set(Symbol::hidden_size, 12288)
      .set(Symbol::heads, 96);
}

void build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(layer_activations());
}
BENCHMARK(build);

void evaluate(benchmark::State& state) {
  const Expr formula = layer_activations();
  const Bindings bindings = gpt3_layer();
  for (auto _ : state) benchmark::DoNotOptimize(formula.evaluate(bindings));
}
BENCHMARK(evaluate);

void print(benchmark::State& state) {
  const Expr formula = layer_activations();
  for (auto _ : state) benchmark::DoNotOptimize(formula.text());
}
BENCHMARK(print);

}  // namespace
}  // namespace memest
