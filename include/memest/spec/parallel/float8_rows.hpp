// How FSDP2 cuts weights that it gathers in fp8.
#pragma once

#include <cstdint>
#include <optional>

#include "memest/spec/job.hpp"

namespace memest {

/// The rows of a weight that the job gathers in fp8 and that `ranks` ranks cannot share equally, or
/// nothing. Filters of modules by name are not read: a weight that they leave out counts too, but
/// for the output head's.
[[nodiscard]] std::optional<std::int64_t> uneven_float8_rows(const Job& job, std::int64_t ranks);

}  // namespace memest
