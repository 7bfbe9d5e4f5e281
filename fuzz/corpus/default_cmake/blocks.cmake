#[[ comment ]] # more
foreach(x a b)
  function(f) set(_a 1) endfunction()
  macro(m) endmacro()
  while(EXECUTORCH_A) block() define_overridable_option(EXECUTORCH_Q "" PATH x) endblock() endwhile()
endforeach()
if((A OR B) AND NOT (C AND D) OR "${E}" STREQUAL [=[x]=]) set(_x 1 CACHE STRING "") endif()
