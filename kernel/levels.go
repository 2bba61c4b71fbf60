package kernel

import (
	_ "weft/kernel/native"
	_ "weft/kernel/native/portable"
	_ "weft/kernel/native/portablebf16"
)
