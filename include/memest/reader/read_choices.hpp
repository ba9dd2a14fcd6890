// One spec under several implementations: those that it leaves open, or that the command names.
#pragma once

#include <string>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/spec/implementation_choice.hpp"

namespace memest {

/// The spec's own implementation where it writes one; else those of `names`, or where none is named
/// transformers, torchtitan and Megatron-core, each with and without compiled blocks where it
/// compiles. A precision that an implementation calls otherwise is taken by that name. A key that a
/// spec writes against an implementation refuses that choice alone; a mistake in the spec refuses
/// the request. Models and passes that only one implementation knows are one choice.
Checked<std::vector<ImplementationChoice>> read_choices(const ReadRequest& request,
                                                        const std::vector<std::string>& names);

}  // namespace memest
