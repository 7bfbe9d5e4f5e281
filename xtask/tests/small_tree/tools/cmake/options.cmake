# The option macros, with the meaning that ExecuTorch's have.

# A value that the directory has already set goes into the cache; one of the cache stays.
macro(define_overridable_option _name _description _type _default)
  set(_initial "${_default}")
  if(DEFINED ${_name} AND NOT DEFINED CACHE{${_name}})
    set(_initial "${${_name}}")
  endif()
  set(${_name} "${_initial}" CACHE ${_type} "${_description}")
endmacro()

function(check_required_options_on)
  cmake_parse_arguments(PARSE_ARGV 0 _check "" "IF_ON" "REQUIRES")
  foreach(_required IN LISTS _check_REQUIRES)
    if(${_check_IF_ON} AND NOT ${_required})
      message(FATAL_ERROR "${_check_IF_ON} needs ${_required}")
    endif()
  endforeach()
endfunction()
