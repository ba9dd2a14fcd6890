// One step of AdamW, Loshchilov and Hutter (2019), over n parameters in one pass:
// m = β₁·m + (1 - β₁)·g, v = β₂·v + (1 - β₂)·g²,
// p = p·(1 - lr·λ) - lr·(m/(1 - β₁ᵗ))/(√(v/(1 - β₂ᵗ)) + ε).
// In fp32 of p, g, m, v; in bf16 of p and g in bf16 with a master of p, m and v in fp32.
//
//   fp32   28·n bytes (4 read, 3 written)    15·n FLOPs
//   bf16   28·n bytes (14 read, 14 written)  15·n FLOPs
#pragma once

#include "kernels/call.hpp"

namespace memest::kernels {

/// The step that is timed. Its values change no time; corrections are those of an early step, where
/// they are not 1.
struct AdamwStep {
  float rate = 1e-3F;
  float decay = 0.1F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float correction1 = 0.271F;     ///< 1 - β₁³
  float correction2 = 0.142625F;  ///< 1 - β₂³
};

void launch_adamw(const Call& call);

}  // namespace memest::kernels
