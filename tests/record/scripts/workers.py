import multiprocessing
import sys

import torch


def work(n):
    model = torch.nn.Linear(1024, 1024 * n).cuda()
    model(torch.randn(8, 1024, device="cuda")).sum().backward()


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=work, args=(n,)) for n in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
