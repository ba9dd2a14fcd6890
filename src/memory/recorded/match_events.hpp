// The events of recordings, side by side.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "memest/memory/recorded/fit_family.hpp"

namespace memest {

/// Indices of the events that a program decides: no segments, which follow from the requests, and
/// no owners. Frees with nothing between them come by their numbers: the order in which a program
/// drops what it holds may follow addresses, which differ from run to run (autocast's casts), and
/// the allocator is the same behind all of them.
std::vector<std::size_t> program_events(const AllocatorTrace& trace);

/// An event by its index, with its name; none where there is no index.
EventAt event_at(const RecordedAt& recorded, std::optional<std::size_t> index);

/// The phase of a recording's event.
std::string phase_at(const RecordedAt& recorded, std::optional<std::size_t> index);

/// The first event at which the other recording parts from the first one, or a request fails.
std::optional<FamilyRefusal> first_difference(const RecordedAt& first, const RecordedAt& other);

}  // namespace memest
