#include "kernels/host/machine.hpp"

#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <fstream>
#include <string>

namespace memest::kernels {
namespace {

/// The kernel's word for the processor, from the first line "model name : ..."; some processors
/// have none.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unnamed processor";
}

/// 0 where the system does not say.
Bytes pages(int name) {
  return Bytes(std::max(sysconf(name), 0L)) * std::max(sysconf(_SC_PAGESIZE), 1L);
}

/// The second level, which is a core's own. Caches shared by cores are neither counted nor flushed.
Bytes cache() { return Bytes(std::max(sysconf(_SC_LEVEL2_CACHE_SIZE), 0L)); }

std::string eigen_version() {
  return "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
         std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION);
}

}  // namespace

DeviceFacts host_facts() {
  return {.name = processor_name(),
          .compute_capability = std::nullopt,
          .multiprocessors = 1,
          .memory = pages(_SC_PHYS_PAGES),
          .l2_cache = cache(),
          .driver = "",
          .libraries = {eigen_version()},
          .free_memory = host_free_memory()};
}

Bytes host_free_memory() { return pages(_SC_AVPHYS_PAGES); }

}  // namespace memest::kernels
