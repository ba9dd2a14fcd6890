// The command line of a training program within a shell script, as a tree.
#pragma once

#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// A mapping of the flags that the script's training program is called with, `--num-layers: 24`: a
/// flag without a value is true, one with several a sequence, and the last of a name stands. Beside
/// them `script`, the program, `launcher` (flags before it), `sbatch` (of `#SBATCH` lines) and
/// `env` (what is exported). Which command it is: that with the most flags behind a `.py`.
/// Variables that nobody sets stay as they are written.
Checked<Value> parse_shell(const SourcePointer& source);

}  // namespace memest
