#include "cli/version/version.hpp"

#include "cli/version/revision.hpp"

namespace memest {

BuildFacts build_facts() {
  return {.version = MEMEST_VERSION,
          .revision = revision(),
          .compiler = MEMEST_COMPILER,
          .build_type = MEMEST_BUILD_TYPE,
          .has_gpu_module = MEMEST_GPU_MODULE != 0};
}

}  // namespace memest
