void read(Job& job) { job.parallelism.distributed_optimizer = true; }
