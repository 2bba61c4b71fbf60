package edges

import (
	"fmt"

	"weft/comm"
	"weft/internal/refusal"
	"weft/tensor"
)

// connect tells the other workers which of their rows this one, me, needs, and learns which of its own they
// do.
func (e *Edges) connect(me int, halo [][]int32, haloRows [][]int) error {
	k := len(halo)
	// Own rows that others need, and the vertices of the rows needed here
	lists, theirs := make([][]int32, k), make([][]int32, k)
	for q := range k {
		if q != me {
			lists[q] = make([]int32, haloRows[q][me])
			theirs[q] = make([]int32, haloRows[me][q])
			if !e.team.Planning() && len(halo[q]) != len(theirs[q]) {
				return refusal.Graph.Errorf("partition %d needs %d rows of partition %d, where the stored partition says %d; partition the graph again",
					me, len(halo[q]), q, len(theirs[q]))
			}
		}
	}
	if !e.team.Planning() {
		if err := e.comm.AllToAll(comm.Setup, bytesOf(halo), bytesOf(lists)); err != nil {
			return err
		}
		vertices := make([][]int32, k)
		for q, list := range lists {
			for _, row := range list {
				if int(row) >= e.Rows || row < 0 {
					return fmt.Errorf("worker %d asks worker %d for row %d of %d", q, me, row, e.Rows)
				}
				vertices[q] = append(vertices[q], e.IDs.Int32s()[row])
			}
		}
		if err := e.comm.AllToAll(comm.Setup, bytesOf(vertices), bytesOf(theirs)); err != nil {
			return err
		}
		at := make([]int, k)
		for _, b := range e.Remote() {
			at[b.Peer] += copy(b.IDs.Int32s(), theirs[b.Peer][at[b.Peer]:])
		}
	}
	for round := 1; round < k; round++ {
		q := (me + round) % k
		pieces(len(lists[q]), e.Rows, func(lo, hi int) {
			p := &Piece{q, e.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, hi-lo)}
			if !e.team.Planning() {
				copy(p.Rows.Int32s(), lists[q][lo:hi])
			}
			e.Needed = append(e.Needed, p)
		})
	}
	return nil
}

// columnOfSources is, for each remote block, the values that its sources have in a column over the owners'
// rows.
func (e *Edges) columnOfSources(own *tensor.Matrix) ([]*tensor.Matrix, error) {
	columns := make([]*tensor.Matrix, len(e.Remote()))
	for i, b := range e.Remote() {
		columns[i] = e.team.Memory.New(tensor.Graph, b.In.Cols, 1)
	}
	if e.Alone() || e.team.Planning() {
		return columns, nil
	}
	k := e.comm.Size()
	send, receive := make([][]float32, k), make([][]float32, k)
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
	at := make([]int, k)
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
