memest replay tests/record/trained.memrec.gz tests/record/ran_out.memrec.gz --memory 1400MiB --conf expandable_segments:True
