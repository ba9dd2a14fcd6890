bool keeps(const Job& job) {
  return job.framework == Framework::torchtitan || job.loop == LoopKind::trainer;
}
