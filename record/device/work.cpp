#include "device/work.hpp"

#include <cstdio>
#include <utility>

#include "device/running.hpp"

namespace memest::record {
namespace {

using Lock = std::lock_guard<std::mutex>;

/// Threads by the order in which they ask for work: autograd's comes behind the program's own.
unsigned thread_number() {
  static std::atomic<unsigned> next{0};
  thread_local const unsigned number = next++;
  return number;
}

template <class Key>
unsigned numbered(std::unordered_map<Key, unsigned>& numbers, Key key) {
  return numbers.try_emplace(key, static_cast<unsigned>(numbers.size())).first->second;
}

unsigned long long text_of(std::uint64_t value) { return value; }
long long text_of(std::int64_t value) { return value; }

}  // namespace

void WorkLog::watch(bool on) {
  const Lock lock(mutex_);
  text_.clear();
  size_ = 0;
  names_.clear();
  modules_.clear();
  forget_nodes();
  watches_.store(on, std::memory_order_relaxed);
}

template <class... Values>
void WorkLog::line(const char* format, Values... values) {
  constexpr std::size_t kLongest = 256;
  char buffer[kLongest];
  const int size = std::snprintf(buffer, sizeof buffer, format, values...);
  text_.append(buffer, static_cast<std::size_t>(size));
  size_.store(text_.size(), std::memory_order_relaxed);
}

/// The legacy default stream and the handles that name it or a thread's are one.
unsigned WorkLog::stream_number(Handle stream) {
  constexpr std::uintptr_t kPerThread = 2;  // cudaStreamPerThread
  const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= kPerThread;
  if (streams_.empty()) streams_[nullptr] = 0;
  return numbered(streams_, is_default ? nullptr : stream);
}

unsigned WorkLog::event_number(Handle event) { return numbered(events_, event); }

void WorkLog::tell_module() {
  const std::uint32_t module = current_module();
  std::uint32_t& told = modules_[thread_number()];
  if (told == module) return;
  told = module;
  line("w > %u %u\n", thread_number(), module);
}

void WorkLog::stop_if_full() {
  constexpr std::size_t kFull = std::size_t{16} << 20U;  // 300,000 launches
  if (size_.load(std::memory_order_relaxed) < kFull || !watches_.exchange(false)) return;
  if (const FullListener listener = full_listener_; listener != nullptr) listener();
}

void WorkLog::kernel(const char* name, Dim3 grid, Dim3 block, Handle stream) {
  stop_if_full();
  if (!watches()) return;
  const Lock lock(mutex_);
  const auto [found, is_new] = names_.try_emplace(name, static_cast<unsigned>(names_.size()));
  if (is_new) text_ += "w n " + std::to_string(found->second) + ' ' + name + '\n';
  tell_module();
  line("w k %u %u %llu %u %u %u %u %u\n", thread_number(), stream_number(stream),
       text_of(current_operator()), found->second, grid.x, grid.y, grid.z,
       block.x * block.y * block.z);
}

void WorkLog::library(const char* function, Handle stream) {
  kernel(function, {0, 0, 0}, {0, 0, 0}, stream);
}

void WorkLog::product(const Product& product, Handle stream) {
  const Lock lock(mutex_);
  tell_module();
  line("w g %u %u %llu %d %d %c%c%s%s %lld %lld %lld %lld\n", thread_number(),
       stream_number(stream), text_of(current_operator()), product.operand, product.result,
       product.transposes_a ? 't' : 'n', product.transposes_b ? 't' : 'n',
       product.accumulates ? "+" : "", product.tensor_float ? "~" : "", text_of(product.m),
       text_of(product.n), text_of(product.k), text_of(product.batch));
}

void WorkLog::message(const char* operation, std::size_t bytes, int ranks, Handle stream) {
  const Lock lock(mutex_);
  tell_module();
  line("w c %u %u %llu %s %zu %d\n", thread_number(), stream_number(stream),
       text_of(current_operator()), operation, bytes, ranks);
}

void WorkLog::copy(const char* path, std::size_t bytes, Handle stream) {
  const Lock lock(mutex_);
  tell_module();
  line("w m %u %u %llu %s %zu\n", thread_number(), stream_number(stream),
       text_of(current_operator()), path, bytes);
}

void WorkLog::event(Handle event, Handle stream) {
  const Lock lock(mutex_);
  line("w e %u %u\n", event_number(event), stream_number(stream));
}

void WorkLog::wait(Handle event, Handle stream) {
  const Lock lock(mutex_);
  line("w t %u %u\n", event_number(event), stream_number(stream));
}

void WorkLog::host_waits_for_stream(Handle stream) {
  const Lock lock(mutex_);
  line("w h stream %u\n", stream_number(stream));
}

void WorkLog::host_waits_for_event(Handle event) {
  const Lock lock(mutex_);
  line("w h event %u\n", event_number(event));
}

void WorkLog::host_waits() {
  const Lock lock(mutex_);
  line("w h all\n");
}

void WorkLog::mark(const char* name) {
  if (!watches()) return;
  const Lock lock(mutex_);
  text_ += std::string("w = ") + name + '\n';
}

bool WorkLog::write(const char* path) {
  const Lock lock(mutex_);
  // A reader may have what was written before and what will be: each begins with no module.
  for (auto& [thread, module] : modules_) {
    if (std::exchange(module, 0) != 0) line("w > %u 0\n", thread);
  }
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return false;
  const std::size_t written = std::fwrite(text_.data(), 1, text_.size(), file);
  return (std::fclose(file) == 0) && written == text_.size();
}

WorkLog& work() {
  static auto* const log = new WorkLog;
  return *log;
}

}  // namespace memest::record
