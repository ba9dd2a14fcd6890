memest record --gpu a100-sxm-80gb -- sh -c 'gzip -dc tests/record/trained.memrec.gz > $MEMEST_RECORD_FOLDER/1.trace'
