// What the Python hook asks of the null device.

#include "abi/calls.hpp"
#include "device/journal.hpp"
#include "device/memory.hpp"

using namespace memest::record;

MEMEST_CALL void memest_record_listen_to_reads(ReadListener listener) { listen_to_reads(listener); }
MEMEST_CALL std::size_t memest_record_device_peak(int device) { return memory().peak(device); }
MEMEST_CALL std::size_t memest_record_failed_allocations() { return memory().failures(); }
