// Faults of a scalar, held against one of the shapes that its key allows.
#pragma once

#include <optional>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// `name` is how the sentence calls the value: "'seq_len'".
std::optional<Diagnostic> find_scalar_fault(const Value& value, const KeyShape& shape,
                                            const std::string& name);

/// Noun of a value of this shape, as the end of "'key' is ..."; empty for Form::none.
std::string noun_of(const KeyShape& shape);

}  // namespace memest
