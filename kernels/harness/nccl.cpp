#include "kernels/harness/nccl.hpp"

#include <string>

#include "memest/diag/environment.hpp"

namespace memest::kernels {

void Nccl::check(Answer answer) const {
  if (answer == 0) return;  // ncclSuccess
  auto* words = library.function<const char*(Answer)>("ncclGetErrorString");
  throw EnvironmentError("NCCL: " + (words == nullptr ? "answer " + std::to_string(answer)
                                                      : std::string(words(answer))));
}

}  // namespace memest::kernels
