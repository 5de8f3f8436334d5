# CMake includes this file behind project(llama.cpp): what its programs share, and nothing here calls, is left out.
set(LLAMA_BUILD_COMMON OFF)
