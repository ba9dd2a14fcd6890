// The closed form of inference.
#pragma once

#include "memest/memory/ledger.hpp"

namespace memest {

/// `job.inference` is present.
Ledger write_inference_ledger(const Graph& graph, const Job& job);

}  // namespace memest
