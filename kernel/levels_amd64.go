package kernel

import (
	_ "weft/kernel/native/avx2"
	_ "weft/kernel/native/avx2bf16"
	_ "weft/kernel/native/avx512"
	_ "weft/kernel/native/avx512bf16"
	_ "weft/kernel/native/narrow"
)
