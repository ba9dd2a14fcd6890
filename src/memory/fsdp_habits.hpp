// What a program around FSDP does of its own accord: how its shares are made, and when gradients
// are reduced.
#pragma once

#include "memest/spec/job.hpp"

namespace memest {

/// Whether FSDP2 finds the weights on the host: a unit at a time goes to the GPU, to be cut there.
/// Else they are made as shares.
bool cuts_shares(const Job& job);

/// Whether the model answers in the type in which its units are gathered, the loss too.
bool casts_loss(const Job& job);

/// Whether gradients stay whole until a step's last micro-step reduces them.
bool reduces_last(const Job& job);

}  // namespace memest
