# CMake includes this file behind project(ggml): products of q8_0 go to q8_0.h, where the compiler has what that wants.
# AMX is left out: many compilers make it end the process (GCC's bug 114098), and llama.cpp would copy all weights for it.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mno-amx-int8 leaves_amx_out)
if(leaves_amx_out)
    add_compile_options(-mno-amx-int8)
endif()
set(sgemm "${CMAKE_CURRENT_SOURCE_DIR}/src/ggml-cpu/llamafile/sgemm.cpp")
file(READ "${sgemm}" text)
string(FIND "${text}" "hearsay::q8_0" already)
if(already EQUAL -1)
    foreach(place "#include <type_traits>" "    // only enable sgemm for prompt processing")
        string(FIND "${text}" "${place}" found)
        if(found EQUAL -1)
            message(FATAL_ERROR "${sgemm} does not hold: ${place}")
        endif()
    endforeach()
    set(header "${CMAKE_CURRENT_LIST_DIR}/q8_0.h")
    string(REPLACE "#include <type_traits>" "#include <type_traits>\n#include \"${header}\"" text "${text}")
    string(REPLACE "    // only enable sgemm for prompt processing" "#ifdef HEARSAY_Q8_0
    if (Atype == GGML_TYPE_Q8_0 && Btype == GGML_TYPE_Q8_0 && Ctype == GGML_TYPE_F32 &&
        hearsay::q8_0(m, n, k, (const block_q8_0 *) A, lda, (const block_q8_0 *) B, ldb, (float *) C, ldc, params->ith,
                      params->nth))
        return true;
#endif
    // only enable sgemm for prompt processing" text "${text}")
    file(WRITE "${sgemm}" "${text}")
endif()
