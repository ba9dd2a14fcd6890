// What a rank's step sends over PCIe where something lies on the host. The step itself has no time:
// how fast a host steps an optimizer is known of no host that a spec names.
#pragma once

#include "memest/graph/graph.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// At the least, in bytes of one step of one rank.
struct HostTransfers {
  double to_host = 0;
  double to_device = 0;
};
HostTransfers host_transfers_of(const Job& job);

/// Why a job that offloads has no step time, with the least that its transfers take.
Unavailable no_time_of_offload(const Job& job);

}  // namespace memest
