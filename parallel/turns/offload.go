package turns

import (
	"weft/comm"
	"weft/tensor"
)

// Offload makes the matrices of a worker rest on disk when its memory would exceed the limit, in bytes. A
// part of the limit is reserved for messages between workers. In a plan the disks are nil.
func (s *Spool) Offload(w *comm.SharedWorker, matrices, messages tensor.Disk, limit int64) {
	s.Memory.Offload(matrices, limit)
	s.turns(w, messages)
}

// OffloadToHost is Offload for matrices on a device, which rest in the host's memory. bytes is how many may
// rest there.
func (s *Spool) OffloadToHost(w *comm.SharedWorker, bytes, limit int64) error {
	err := s.Memory.OffloadToHost(bytes, limit)
	if err == nil {
		s.turns(w, nil)
	}
	return err
}

// turns lets a shared worker tell the memory when turns begin and end.
func (s *Spool) turns(w *comm.SharedWorker, messages tensor.Disk) {
	if !s.Reserve.Rests {
		messages = nil
	}
	s.Messages = s.Memory.Split(messages, s.Reserve.Bytes)
	first := w.Transports()[0].Rank()
	w.OnTurn = func(rank int, begins bool) {
		if begins {
			s.Memory.BeginTurn(rank == first)
		} else {
			s.Memory.EndTurn()
		}
	}
}
