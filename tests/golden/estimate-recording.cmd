memest estimate tests/record/family.memrec --at batch=4 --at seq=640 --gpu l4
