#include "memest/spec/implementation_choice.hpp"

namespace memest {

std::string name_of(const ImplementationChoice& choice) {
  const std::string framework(name_of(choice.framework));
  return choice.compile == CompileScope::blocks ? framework + ", compiled blocks" : framework;
}

}  // namespace memest
