memest replay tests/record/family.memrec --at batch=40 --at seq=4096
