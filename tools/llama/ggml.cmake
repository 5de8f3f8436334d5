# CMake includes this file behind project(ggml): products of q8_0, q4_K and q6_K go to q8_0.h and k_quants.h, where the
# compiler has what they want.
# AMX is left out: many compilers make it end the process (GCC's bug 114098), and llama.cpp would copy all weights for it.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mno-amx-int8 leaves_amx_out)
if(leaves_amx_out)
    add_compile_options(-mno-amx-int8)
endif()
set(sgemm "${CMAKE_CURRENT_SOURCE_DIR}/src/ggml-cpu/llamafile/sgemm.cpp")
file(READ "${sgemm}" text)
string(FIND "${text}" "hearsay::" already)
if(already EQUAL -1)
    foreach(place "#include <type_traits>" "    // only enable sgemm for prompt processing")
        string(FIND "${text}" "${place}" found)
        if(found EQUAL -1)
            message(FATAL_ERROR "${sgemm} does not hold: ${place}")
        endif()
    endforeach()
    set(header "${CMAKE_CURRENT_LIST_DIR}/k_quants.h")
    string(REPLACE "#include <type_traits>" "#include <type_traits>\n#include \"${header}\"" text "${text}")
    string(REPLACE "    // only enable sgemm for prompt processing" "#ifdef HEARSAY_Q8_0
#define HEARSAY_PRODUCTS(A_TYPE, B_TYPE, function, a_block, b_block) \\
    if (Atype == A_TYPE && Btype == B_TYPE && Ctype == GGML_TYPE_F32 && \\
        hearsay::function(m, n, k, (const a_block *) A, lda, (const b_block *) B, ldb, (float *) C, ldc, params->ith, \\
                          params->nth)) \\
        return true;
    HEARSAY_PRODUCTS(GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, q8_0, block_q8_0, block_q8_0)
    HEARSAY_PRODUCTS(GGML_TYPE_Q4_K, GGML_TYPE_Q8_K, k_quants, block_q4_K, block_q8_K)
    HEARSAY_PRODUCTS(GGML_TYPE_Q6_K, GGML_TYPE_Q8_K, k_quants, block_q6_K, block_q8_K)
#endif
    // only enable sgemm for prompt processing" text "${text}")
    file(WRITE "${sgemm}" "${text}")
endif()
