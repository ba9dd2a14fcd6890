// The timeline as PyTorch's memory snapshot (torch/csrc/cuda/Module.cpp, torch_cuda_memorySnapshot,
// of PyTorch 2.11).
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/memory/storage_maker.hpp"
#include "memest/report/timeline_files.hpp"
#include "report/timeline/pickle.hpp"

namespace memest {
namespace {

/// Entries of a list that are handed over at once, as CPython's pickler does (Lib/pickle.py,
/// _BATCHSIZE).
constexpr std::size_t kPart = 1000;

std::string_view action_of(SegmentChangeKind kind) {
  switch (kind) {
    case SegmentChangeKind::obtained:
      return "segment_alloc";
    case SegmentChangeKind::returned:
      return "segment_free";
    case SegmentChangeKind::mapped:
      return "segment_map";
    case SegmentChangeKind::unmapped:
      return "segment_unmap";
  }
  unreachable("every change of a segment has an action");
}

std::string_view state_of(BlockState state) {
  switch (state) {
    case BlockState::allocated:
      return "active_allocated";
    case BlockState::awaiting:
      return "active_pending_free";
    case BlockState::free:
      return "inactive";
  }
  unreachable("every block has a state");
}

/// An entry of the trace but for its frames.
struct TraceEntry {
  std::string_view action;
  std::string_view place = "addr";  ///< the key of `address`
  std::int64_t address = 0;
  Bytes size;
  int stream = 0;
  std::uint32_t event = 0;
};

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const TimelineRun& run)
      : run_(run), timeline_(run.memory.timeline), frames_(timeline_.storages.size(), kNoFrames) {}

  std::string write() {
    pickle_.begin_dict();
    pickle_.text("segments");
    write_segments();
    pickle_.text("device_traces");
    pickle_.begin_list();
    write_trace();
    pickle_.end_list();
    pickle_.text("allocator_settings");
    write_settings();
    pickle_.text("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
    return pickle_.finish();
  }

 private:
  static constexpr std::uint32_t kNoFrames = 0xFFFF'FFFF;

  void put(std::string_view key, std::int64_t value) {
    pickle_.text(key);
    pickle_.integer(value);
  }
  void put(std::string_view key, std::string_view value) {
    pickle_.text(key);
    pickle_.text(value);
  }
  void put_flag(std::string_view key, bool value) {
    pickle_.text(key);
    pickle_.boolean(value);
  }

  void write_frame(std::string_view name, std::string_view filename) {
    pickle_.begin_dict();
    put("name", name);
    put("filename", filename);
    put("line", std::int64_t{0});
    pickle_.end_dict();
  }

  /// The innermost first, as in a snapshot: tensor, block, phase.
  void write_frames(StorageId storage) {
    pickle_.text("frames");
    if (frames_[storage] != kNoFrames) {
      pickle_.recall(frames_[storage]);
      return;
    }
    const Label& label = timeline_.storages[storage].label;
    const StorageMaker maker = maker_of(timeline_, run_.memory.graph, storage);
    const std::string_view holding = name_of(label.holding);
    pickle_.begin_list();
    write_frame(maker.tensor, maker.op.empty() ? holding : maker.op);
    if (!maker.block.empty()) write_frame(holding, maker.block);
    write_frame(name_of(label.phase), "step " + std::to_string(label.step));
    pickle_.end_list();
    frames_[storage] = pickle_.remember();
  }

  void write_no_frames() {
    pickle_.text("frames");
    pickle_.begin_list();
    pickle_.end_list();
  }

  void write_entry(const TraceEntry& entry, StorageId storage) {
    if (entries_++ % kPart == kPart - 1) pickle_.next_part();
    pickle_.begin_dict();
    put("action", entry.action);
    put(entry.place, entry.address);
    put("size", entry.size.value());
    put("stream", std::int64_t{entry.stream});
    put("time_us", std::int64_t{entry.event});
    put("compile_context", "N/A");
    put("user_metadata", "");
    write_frames(storage);
    pickle_.end_dict();
  }

  void write_changes(std::uint32_t event, StorageId storage) {
    const std::vector<SegmentChange>& changes = run_.course.segments;
    for (; change_ < changes.size() && changes[change_].event == event; ++change_) {
      const auto& [kind, at, range] = changes[change_];
      write_entry({action_of(kind), "addr", range.address, range.size, range.stream, at}, storage);
    }
  }

  void write_trace() {
    pickle_.begin_list();
    for (std::uint32_t i = 0; i < run_.course.points.size(); ++i) {
      const auto [kind, storage] = timeline_.events[i];
      const Address address = run_.course.points[i].address;
      // Entries have the size that was asked for (free_block: requested_size), blocks of a segment
      // both.
      const Bytes size(timeline_.storages[storage].bytes);
      const int stream = timeline_.storages[storage].stream.number();
      // A segment comes before the block that it is for: alloc_block notes it, then
      // alloc_found_block the block.
      write_changes(i, storage);
      if (kind == EventKind::allocate) {
        write_entry({"alloc", "addr", address, size, stream, i}, storage);
      } else {
        // free() notes the request, free_block that it is done; memory_viz takes the bytes off at
        // the second.
        write_entry({"free_requested", "addr", address, size, stream, i}, storage);
        write_entry({"free_completed", "addr", address, size, stream, i}, storage);
      }
    }
    if (const auto& out = run_.memory.replay.out_of_memory) {
      const StorageId storage = timeline_.events[out->event].storage;
      const Bytes left = replay_device_of(run_.job).available - out->reserved;
      write_changes(out->event, storage);
      const int stream = timeline_.storages[storage].stream.number();
      // An out-of-memory entry has what the device had free in the place of an address.
      write_entry({"oom", "device_free", left.value(), out->requested, stream, out->event},
                  storage);
    }
    pickle_.end_list();
  }

  /// The storages that are alive after the last event, by address.
  [[nodiscard]] std::map<Address, StorageId> alive() const {
    std::map<Address, StorageId> result;
    for (std::size_t i = 0; i < run_.course.points.size(); ++i) {
      const auto [kind, storage] = timeline_.events[i];
      const Address address = run_.course.points[i].address;
      if (kind == EventKind::allocate) {
        result[address] = storage;
      } else {
        result.erase(address);
      }
    }
    return result;
  }

  void write_block(const BlockView& block, const std::map<Address, StorageId>& alive) {
    pickle_.begin_dict();
    put("address", block.address);
    put("size", block.size.value());
    put("requested_size", block.requested.value());
    put("state", state_of(block.state));
    const auto storage = alive.find(block.address);
    if (storage == alive.end()) {
      write_no_frames();
    } else {
      write_frames(storage->second);
    }
    pickle_.end_dict();
  }

  void write_segment(const SegmentView& segment, const std::map<Address, StorageId>& alive) {
    Bytes allocated;
    Bytes requested;
    for (const BlockView& block : segment.blocks) {
      if (block.state == BlockState::free) continue;
      allocated += block.size;
      requested += block.requested;
    }
    pickle_.begin_dict();
    put("device", std::int64_t{0});
    put("address", segment.range.address);
    put("total_size", segment.range.size.value());
    put("allocated_size", allocated.value());
    put("active_size", allocated.value());
    put("requested_size", requested.value());
    put("stream", std::int64_t{segment.range.stream});
    put("segment_type", segment.pool == PoolKind::small ? "small" : "large");
    // MempoolId_t (0, 0): the pool of all that is outside a CUDA graph and a MemPool.
    pickle_.text("segment_pool_id");
    pickle_.integer(0);
    pickle_.integer(0);
    pickle_.pair();
    put_flag("is_expandable", segment.expandable);
    write_no_frames();
    pickle_.text("blocks");
    pickle_.begin_list();
    for (const BlockView& block : segment.blocks) write_block(block, alive);
    pickle_.end_list();
    pickle_.end_dict();
  }

  void write_segments() {
    const std::map<Address, StorageId> storages = alive();
    pickle_.begin_list();
    std::size_t written = 0;
    for (const SegmentView& segment : run_.course.end) {
      if (written++ % kPart == kPart - 1) pickle_.next_part();
      write_segment(segment, storages);
    }
    pickle_.end_list();
  }

  void write_settings() {
    const AllocatorSettings& settings = run_.job.allocator;
    pickle_.begin_dict();
    put("PYTORCH_CUDA_ALLOC_CONF", "");
    // No limit is the largest size_t, which Module.cpp casts to int64_t: -1.
    put("max_split_size", settings.max_split_size ? settings.max_split_size->value() : -1);
    pickle_.text("garbage_collection_threshold");
    pickle_.real(settings.garbage_collection_threshold.value_or(0));
    put_flag("expandable_segments", settings.expandable_segments);
    put("pinned_num_register_threads", std::int64_t{1});
    put_flag("release_lock_on_cudamalloc", false);
    put_flag("pinned_use_cuda_host_register", false);
    put_flag("graph_capture_record_stream_reuse", false);
    pickle_.text("roundup_power2_divisions");
    pickle_.begin_dict();
    for (std::size_t i = 0; i < kRoundingClasses; ++i) {
      // Keys are MiB from 1 to 32,768, as Module.cpp counts them up: "4" is for 4 to 8 MiB.
      put(std::to_string(std::int64_t{1} << i), settings.roundup_power2_divisions[i]);
    }
    pickle_.end_dict();
    pickle_.end_dict();
  }

  const TimelineRun& run_;
  const Timeline& timeline_;
  std::vector<std::uint32_t> frames_;  // by storage: the number to recall its frames by
  std::size_t change_ = 0;
  std::size_t entries_ = 0;
  PickleWriter pickle_;
};

}  // namespace

std::string memory_snapshot(const TimelineRun& run) { return SnapshotWriter(run).write(); }

}  // namespace memest
