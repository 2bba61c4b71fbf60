package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"os"
	"strings"
)

var levels = []string{C.WEFT_PORTABLE: "portable", C.WEFT_AVX2: "avx2", C.WEFT_AVX512: "avx512"}

var level = func() int {
	best := int(C.weft_best_level())
	chosen := best
	if want := os.Getenv("WEFT_SIMD"); want != "" {
		chosen = -1
		for l, name := range levels {
			if name == want {
				chosen = l
			}
		}
		if chosen < 0 || chosen > best {
			fmt.Fprintf(os.Stderr, "weft: WEFT_SIMD=%s: it is one of %s here; unset it to take the best\n",
				want, strings.Join(levels[:best+1], ", "))
			os.Exit(2)
		}
	}
	C.weft_set_level(C.int(chosen))
	return chosen
}()

// SIMD returns the instruction set that the kernels use: avx512, avx2 or portable. It is the best this CPU
// has, or what the environment variable WEFT_SIMD asks for.
func SIMD() string { return levels[level] }

var multipliesBFloat16 = C.weft_multiplies_bfloat16(C.int(level)) != 0

// MultipliesBFloat16 says whether products of BFloat16 matrices are made by the processor's instructions for
// them (AVX512-BF16), which multiply twice as fast as those for Float32. WEFT_SIMD and ONEDNN_MAX_CPU_ISA may
// take them away.
func MultipliesBFloat16() bool { return multipliesBFloat16 }

// OneDNN returns the version of the library that makes the dense products.
func OneDNN() string {
	var v [3]C.int
	C.weft_onednn_version(&v[0])
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}
