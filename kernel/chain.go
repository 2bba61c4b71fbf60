package kernel

// #include "native/weft.h"
import "C"

import "unsafe"

// link is a kernel of a chain, which runs over the rows of a tile, or over the tile where it reduces tiles.
type link struct {
	routine
	args unsafe.Pointer
	tile bool
}

// chain runs kernels over n rows of about cost elements each. On each tile of the rows all of them run, one
// after the other, before any runs on the next: what one reads or writes there, the next finds in the caches.
// The results have the bits of one kernel after the other. A chain's Bytes are those of its first kernel.
func (t *Team) chain(n, cost int, links ...link) {
	name := names[links[0].name]
	for _, l := range links[1:] {
		name += "+" + names[l.name]
	}
	whole := tiles(n)
	parts := 1
	if t.threads > 1 {
		parts = max(1, min(t.threads*chunks, whole, n*max(1, cost)/grain))
	}
	t.make(Call{Kernel: name, Shape: Shape{n, cost}, Bytes: links[0].bytes}, parts, func(k int) {
		for tile := whole * k / parts; tile < whole*(k+1)/parts; tile++ {
			for _, l := range links {
				if l.tile {
					l.run(l.args, tile, tile+1)
				} else {
					l.run(l.args, tile*C.WEFT_TILE, min((tile+1)*C.WEFT_TILE, n))
				}
			}
		}
	})
}
