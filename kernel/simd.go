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
	chosen := forced("WEFT_SIMD", levels, func(l int) bool { return l <= best }, best)
	C.weft_set_level(C.int(chosen))
	return chosen
}()

// forced returns the number of the name that an environment variable holds, or best if it is not set. It ends
// the program if the name is unknown, or not possible on this machine.
func forced(variable string, names []string, possible func(int) bool, best int) int {
	want := os.Getenv(variable)
	if want == "" {
		return best
	}
	var here []string
	for i, name := range names {
		switch {
		case !possible(i):
		case name == want:
			return i
		default:
			here = append(here, name)
		}
	}
	fmt.Fprintf(os.Stderr, "weft: %s=%s: it is one of %s here; unset it to take the best\n",
		variable, want, strings.Join(here, ", "))
	os.Exit(2)
	return best
}

// SIMD returns the instruction set that the kernels use: avx512, avx2 or portable. It is the best that this
// CPU has, or the one that the environment variable WEFT_SIMD names.
func SIMD() string { return levels[level] }

var allProducts = []string{
	C.WEFT_OF_FLOATS: "f32", C.WEFT_OF_PAIRS: "avx512_bf16", C.WEFT_OF_TILES: "amx",
}

// multiplyBy says how products of BFloat16 matrices are made. oneDNN is told the choice of WEFT_BF16 before
// its first product.
var multiplyBy = func() int {
	if os.Getenv("WEFT_BF16") == allProducts[C.WEFT_OF_PAIRS] {
		C.weft_onednn_without_tiles()
	}
	can := func(by int) bool { return C.weft_can_multiply(C.int(level), uint32(by)) != 0 }
	return forced("WEFT_BF16", allProducts, can, int(C.weft_best_products(C.int(level))))
}()

// BFloat16Products returns how products of BFloat16 matrices are made: amx, in AMX's tiles; avx512_bf16, by
// AVX512-BF16's dot products; f32, of numbers that are converted to Float32. It depends on the kind of
// processor: avx512_bf16 is only for AMD's, because on Intel's these instructions have half the rate of those
// for Float32. WEFT_SIMD and ONEDNN_MAX_CPU_ISA may rule some out, and the environment variable WEFT_BF16
// chooses one.
func BFloat16Products() string { return allProducts[multiplyBy] }

// MultipliesBFloat16 reports whether products of BFloat16 matrices multiply such numbers: BFloat16Products is
// not f32.
func MultipliesBFloat16() bool { return multiplyBy != C.WEFT_OF_FLOATS }

// OneDNN returns the version of the library that makes the dense products.
func OneDNN() string {
	var v [3]C.int
	C.weft_onednn_version(&v[0])
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}
