// Neither job.parallelism.zero in a comment nor "parallelism.fsdp" in a text is asked for.
bool gathers(const Job& job) {
  return job.parallelism.fsdp || job.recipe.gathered_units || terms.zero().exist();
}
