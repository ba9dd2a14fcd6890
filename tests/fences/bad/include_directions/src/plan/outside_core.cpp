#include "memest/graph/graph.hpp"
#include "memest/reader/read_model.hpp"
#include "memest/plan/plan.hpp"
