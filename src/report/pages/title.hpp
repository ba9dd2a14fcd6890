// The lines that say what an answer is about.
#pragma once

#include <string>

#include "memest/memory/ledger.hpp"
#include "memest/report/page.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// "llama-3-8b · 8.03 B parameters · mixed · adamw · 8192 tokens × 512 sequences · transformers".
std::string title_of(const Job& job, std::int64_t parameters);

/// "8 × h100-sxm-80gb · ZeRO 2 · micro-batch 1 × 64 accumulation steps · recompute selective".
std::string setting_of(const Job& job);

/// "0" to "3".
std::string_view digit_of(ZeroStage stage);

/// "closed form, -1.2 % / +4.0 %": how far a real run may be from the estimate.
std::string margin_text(const MemoryEstimate& estimate);

/// The first line of an answer that is none: "Not known: ...".
Paragraph not_known(const Unavailable& reason);

/// Where rates and capacity come from, and a GPU that nobody chose.
std::string provenance_text(const Job& job);

}  // namespace memest
