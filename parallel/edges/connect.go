package edges

import (
	"fmt"

	"weft/comm"
	"weft/internal/refusal"
	"weft/tensor"
)

// connect tells the other workers which of their rows this one needs, and learns which of its own they do.
// needed lists the rows that are needed of each partition.
func (e *Edges) connect(s *Source, needed [][]int32) error {
	k, me, n := len(s.Holders), s.Me, e.comm.Size()
	halo := make([][]int32, n) // by rank
	// By rank: own rows that it needs, and the vertices of its rows that are needed here
	lists, theirs := make([][]int32, n), make([][]int32, n)
	for q, rank := range s.Holders {
		if q != me {
			halo[rank] = needed[q]
			lists[rank] = make([]int32, s.HaloRows[q][me])
			theirs[rank] = make([]int32, s.HaloRows[me][q])
			if !e.team.Planning() && len(halo[rank]) != len(theirs[rank]) {
				return refusal.Graph.Errorf("partition %d needs %d rows of partition %d, where the stored partition says %d; partition the graph again",
					me, len(halo[rank]), q, len(theirs[rank]))
			}
		}
	}
	if !e.team.Planning() {
		if err := e.comm.AllToAll(comm.Setup, bytesOf(halo), bytesOf(lists)); err != nil {
			return err
		}
		vertices := make([][]int32, n)
		for rank, list := range lists {
			for _, row := range list {
				if int(row) >= e.Sources || row < 0 {
					return fmt.Errorf("worker %d asks worker %d for row %d of %d", rank, e.comm.Rank(), row, e.Sources)
				}
				vertices[rank] = append(vertices[rank], e.SourceIDs.Int32s()[row])
			}
		}
		if err := e.comm.AllToAll(comm.Setup, bytesOf(vertices), bytesOf(theirs)); err != nil {
			return err
		}
		at := make([]int, n)
		for _, b := range e.Remote() {
			at[b.Peer] += copy(b.IDs.Int32s(), theirs[b.Peer][at[b.Peer]:])
		}
	}
	for round := 1; round < k; round++ {
		rank := s.Holders[(me+round)%k]
		pieces(len(lists[rank]), e.Sources, func(lo, hi int) {
			p := &Piece{rank, e.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, hi-lo)}
			if !e.team.Planning() {
				copy(p.Rows.Int32s(), lists[rank][lo:hi])
			}
			e.Needed = append(e.Needed, p)
		})
	}
	return nil
}

// workers are Others that hold the rows of other partitions.
type workers struct{}

// Columns implements Others: the workers tell each other.
func (workers) Columns(e *Edges, column func(*Edges) *tensor.Matrix) ([]*tensor.Matrix, error) {
	own, columns := column(e), make([]*tensor.Matrix, len(e.Remote()))
	for i, b := range e.Remote() {
		columns[i] = e.team.Memory.New(tensor.Graph, b.In.Cols, 1)
	}
	if e.Alone() || e.team.Planning() {
		return columns, nil
	}
	n := e.comm.Size()
	send, receive := make([][]float32, n), make([][]float32, n)
	for _, p := range e.Needed {
		for _, row := range p.Rows.Int32s() {
			send[p.Peer] = append(send[p.Peer], own.Floats()[row])
		}
	}
	for _, b := range e.Remote() {
		receive[b.Peer] = append(receive[b.Peer], make([]float32, b.In.Cols)...)
	}
	if err := e.comm.AllToAll(comm.Setup, bytesOf(send), bytesOf(receive)); err != nil {
		return nil, err
	}
	at := make([]int, n)
	for i, b := range e.Remote() {
		at[b.Peer] += copy(columns[i].Floats(), receive[b.Peer][at[b.Peer]:])
	}
	return columns, nil
}

func bytesOf[T int32 | float32](lists [][]T) [][]byte {
	b := make([][]byte, len(lists))
	for i, l := range lists {
		b[i] = comm.Bytes(l)
	}
	return b
}
