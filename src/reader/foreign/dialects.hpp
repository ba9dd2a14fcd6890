// The programs whose files become specs: the table of dialects, and which one a file is of.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reader/foreign/dialect.hpp"
#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {

// Each in the folder of its name.
const Dialect& accelerate_dialect();
const Dialect& axolotl_dialect();
const Dialect& deepspeed_dialect();
const Dialect& hugging_face_config();
const Dialect& litgpt_dialect();
const Dialect& torchtune_dialect();
const Dialect& llama_factory_dialect();
const Dialect& megatron_bridge_dialect();
const Dialect& megatron_dialect();
const Dialect& nanogpt_dialect();
const Dialect& peft_dialect();
const Dialect& torchtitan_dialect();
const Dialect& transformers_dialect();
const Dialect& trl_preferences_dialect();
const Dialect& trl_sft_dialect();

std::span<const Dialect* const> dialects();

/// The form that the name of a file tells.
Syntax syntax_of(std::string_view name);

/// The tree of a file in the form that its name tells.
Checked<Value> parse_foreign(const SourcePointer& source);

/// The dialect of a tree; null where it is of none, as a spec is.
const Dialect* find_dialect(Syntax syntax, const Value& root);

}  // namespace memest
