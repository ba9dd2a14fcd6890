#include "memest/spec/implementation_choice.hpp"

namespace memest {

std::string name_of(const ImplementationChoice& choice) {
  const std::string framework(name_of(choice.framework));
  switch (choice.compile) {
    case CompileScope::off:
      break;
    case CompileScope::blocks:
      return framework + ", compiled blocks";
    case CompileScope::whole:
      return framework + ", compiled as a whole";
  }
  return framework;
}

}  // namespace memest
