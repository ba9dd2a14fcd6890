#include "memest/time/step_time.hpp"
#include "memest/common/misc.hpp"
