package turns

import (
	"weft/comm"
	"weft/tensor"
)

// Offload makes the matrices of a worker rest on disk where its memory would exceed the limit, in bytes. In a
// plan d is nil.
func Offload(memory *tensor.Meter, h *comm.Host, d tensor.Disk, limit int64) {
	memory.Offload(d, limit)
	first := h.Transports()[0].Rank()
	h.OnTurn = func(rank int, begins bool) {
		if begins {
			memory.BeginTurn(rank == first)
		} else {
			memory.EndTurn()
		}
	}
}
