# Writes the completions of shells and the manual pages by the program that is installed, MEMEST, into FOLDER, and installs them. Runs
# within `cmake --install`.
function(memest_write file)
  execute_process(COMMAND ${MEMEST} ${ARGN} OUTPUT_FILE ${FOLDER}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/man1)

memest_write(memest completions bash)
memest_write(_memest completions zsh)
memest_write(memest.fish completions fish)
memest_write(man1/memest.1 man)
execute_process(COMMAND ${MEMEST} --help --format json OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(JSON count LENGTH "${help}" commands)
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${help}" commands ${i} name)
  memest_write(man1/memest-${name}.1 man ${name})
endforeach()

set(data ${CMAKE_INSTALL_PREFIX}/${DATADIR})
file(INSTALL DESTINATION ${data}/bash-completion/completions TYPE FILE FILES ${FOLDER}/memest)
file(INSTALL DESTINATION ${data}/zsh/site-functions TYPE FILE FILES ${FOLDER}/_memest)
file(INSTALL DESTINATION ${data}/fish/vendor_completions.d TYPE FILE FILES ${FOLDER}/memest.fish)
file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${MANDIR} TYPE DIRECTORY FILES ${FOLDER}/man1)
