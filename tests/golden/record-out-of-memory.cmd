memest record --memory 1.5GiB -- sh -c 'gzip -dc tests/record/ran_out.memrec.gz > $MEMEST_RECORD_FOLDER/1.trace; exit 1'
