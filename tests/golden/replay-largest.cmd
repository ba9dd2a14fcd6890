memest replay tests/record/family.memrec --largest batch --at seq=1000 --memory 24GiB
