# CMake includes this file behind project(llama.cpp). What its programs share, and nothing here calls, is left out.
set(LLAMA_BUILD_COMMON OFF)
# Attention goes over the cells of the cache up to a multiple of 256, the last of them empty. A processor computes what is
# empty too, so 128 is enough for it: more than its dot products take at a time, so that the sums keep their order.
if(NOT GGML_CUDA)
    set(cache "${CMAKE_CURRENT_SOURCE_DIR}/src/llama-kv-cache.cpp")
    file(READ "${cache}" text)
    string(REPLACE "std::max(n_pad, 256u)" "std::max(n_pad, 128u)" text "${text}")
    string(FIND "${text}" "std::max(n_pad, 128u)" found)
    if(found EQUAL -1)
        message(FATAL_ERROR "${cache} does not hold: std::max(n_pad, 256u)")
    endif()
    file(WRITE "${cache}" "${text}")
endif()
