memest record --vary batch=2,3,5 --vary seq=512,640,896 -- sh tests/record/made.sh {batch} {seq} exact
