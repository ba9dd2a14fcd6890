constexpr FrameworkRow kMegatron = {.own = {Framework::megatron}};
