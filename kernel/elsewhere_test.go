package kernel

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// elsewhere is a backend whose kernels compute at other addresses, as on a device: they get copies of the
// memory that their arguments point to, and what they write is copied back.
type elsewhere struct {
	*cpu
	memory *tensor.Meter
}

// NewTeamElsewhere returns a team whose kernels never see the memory of its matrices.
func NewTeamElsewhere(threads int, memory *tensor.Meter) *Team {
	return newTeam(threads, memory, elsewhere{newCPU(threads), memory})
}

func (b elsewhere) run(l launch) {
	moved, back := b.moved(l.links...)
	defer back()
	l.links = moved
	b.cpu.run(l)
}

func (b elsewhere) weight(w *weight) {
	w.over = func(l link, lo, hi int) {
		moved, back := b.moved(l)
		defer back()
		moved[0].over(lo, hi)
	}
	(&cpu{threads: 1}).weight(w) // threads write to parts of the same memory
}

// moved returns kernels with copies of all that they point to, and what brings back what they wrote.
func (b elsewhere) moved(links ...link) (moved []link, back func()) {
	type copied struct {
		at      unsafe.Pointer
		to      []byte
		written bool
	}
	all := map[unsafe.Pointer]*copied{}
	there := tensor.NewMeter()
	for _, l := range links {
		pointers, size := l.pointers()
		args := make([]uint64, (size+7)/8)
		to := unsafe.Pointer(&args[0])
		copy(unsafe.Slice((*byte)(to), size), unsafe.Slice((*byte)(l.args), size))
		for _, f := range pointers {
			field := (*unsafe.Pointer)(unsafe.Add(to, f.offset))
			if *field == nil {
				continue
			}
			first, bytes := b.memory.Owner(*field)
			if first == nil {
				panic(fmt.Sprintf("kernel: %s of %s is the address of no matrix", f.name, names[l.name]))
			}
			c := all[first]
			if c == nil {
				c = &copied{at: first, to: there.NewElement(tensor.Buffers, tensor.Byte, 1, bytes).Bytes()}
				copy(c.to, unsafe.Slice((*byte)(first), bytes))
				all[first] = c
			}
			c.written = c.written || f.written
			*field = unsafe.Add(unsafe.Pointer(&c.to[0]), uintptr(*field)-uintptr(first))
		}
		l.args = to
		moved = append(moved, l)
	}
	return moved, func() {
		for _, c := range all {
			if c.written {
				copy(unsafe.Slice((*byte)(c.at), len(c.to)), c.to)
			}
		}
		there.Close()
	}
}
