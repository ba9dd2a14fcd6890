#include "memory/allocator/block.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "plan/layouts/space.hpp"
