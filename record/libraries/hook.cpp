// What the Python hook asks of the null device.

#include "abi/calls.hpp"
#include "device/journal.hpp"
#include "device/memory.hpp"
#include "device/running.hpp"
#include "device/work.hpp"

using namespace memest::record;

MEMEST_CALL void memest_record_listen_to_reads(ReadListener listener) { listen_to_reads(listener); }
MEMEST_CALL std::size_t memest_record_device_peak(int device) { return memory().peak(device); }
MEMEST_CALL std::size_t memest_record_failed_allocations() { return memory().failures(); }
MEMEST_CALL void memest_record_watch_work(int on) { work().watch(on != 0); }
MEMEST_CALL void memest_record_leave_work_to_parent() { work().leave_to_parent(); }
MEMEST_CALL void memest_record_mark_work(const char* name) { work().mark(name); }
MEMEST_CALL int memest_record_write_work(const char* path) { return work().write(path) ? 1 : 0; }
MEMEST_CALL void memest_record_listen_to_full_work(FullListener listener) {
  work().listen_to_full(listener);
}
MEMEST_CALL void memest_record_enter_module(std::uint32_t module) { enter_module(module); }
MEMEST_CALL void memest_record_leave_module() { leave_module(); }
MEMEST_CALL std::uint64_t memest_record_entered_ranges() { return entered_ranges(); }
