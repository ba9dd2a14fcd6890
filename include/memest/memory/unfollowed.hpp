// Memory that what a program reads from the device decides, or a library without a GPU would tell:
// an answer takes none of it, and its interval goes up to the most.
#pragma once

#include "memest/spec/job.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

/// LLM.int8()'s outliers: the columns of each input that are kept and multiplied in its own type,
/// and the weight's that they meet. The most is where every column of every input is one. Throws
/// OverflowError.
Bytes most_outlier_bytes(const Job& job);

/// Each CUDA graph of a layer has its input, its output and the gradients of both, of all
/// micro-steps in flight, as static tensors where Megatron does not use its buffers again. Throws
/// OverflowError.
Bytes most_graph_bytes(const Job& job);

/// Keys and values that the text model of a multimodal one keeps in the Trainer, whose
/// `model.config.use_cache = False` does not reach `text_config` (transformers 5.17): none where
/// that says so, or in checkpoints. 2·b·s·k·d elements a layer. Throws OverflowError.
Bytes most_text_cache_bytes(const Job& job);

/// The most that the allocator may hand out beside what is followed: those, and workspaces of
/// cuDNN's convolutions. Throws OverflowError.
Bytes most_unfollowed_bytes(const Job& job);

}  // namespace memest
