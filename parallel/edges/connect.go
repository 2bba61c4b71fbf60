package edges

import (
	"fmt"
	"slices"

	"weft/comm"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
)

// connect tells the other workers which of their rows this worker needs, and learns which of its own rows
// they need. needed[q] lists the rows of partition q that this worker needs. out[q] is what travels to
// partition q, if this worker knows it (s.Halo).
func (e *Edges) connect(s *Source, needed [][]int32, out []*sendList) error {
	k, me, n := len(s.Holders), s.Me, e.comm.Size()
	messages, err := e.messages(s, needed, out)
	if err != nil {
		return err
	}
	halo := make([][]int32, n) // by rank
	// By rank: local rows that the other worker needs, and the vertices of its rows that this worker needs.
	lists, theirs := make([][]int32, n), make([][]int32, n)
	for q, rank := range s.Holders {
		if q != me {
			halo[rank] = needed[q]
			lists[rank] = make([]int32, sum(messages(q, me)))
			if out != nil {
				copy(lists[rank], out[q].rows) // in a plan, where nothing comes, the expected rows
			}
			theirs[rank] = make([]int32, sum(messages(me, q)))
			if len(halo[rank]) != len(theirs[rank]) {
				return refusal.Graph.Errorf("partition %d needs %d rows of partition %d, where the stored "+
					"partition says %d; partition the graph again", me, len(halo[rank]), q, len(theirs[rank]))
			}
		}
	}
	if out == nil && s.Some == nil && e.team.Memory.PlansGathers() {
		if err := s.expected(lists); err != nil {
			return err
		}
	}
	if err := e.tell(s, halo, lists, theirs, out); err != nil {
		return err
	}
	for round := 1; round < k; round++ {
		q := (me + round) % k
		list := lists[s.Holders[q]]
		for i, rows := range messages(q, me) {
			m := &Message{Peer: s.Holders[q], Rows: kernel.List(e.team, tensor.Graph, list[:rows])}
			if e.comm.TakesTurns() {
				m.Rows.Known(list[:rows])
			}
			if out != nil && i < len(out[q].sums) {
				m.Sums = out[q].sums[i]
			}
			e.Needed = append(e.Needed, m)
			list = list[rows:]
		}
	}
	return nil
}

// expected sets, by rank, the local rows that each other worker needs to the rows with an edge to its rows. A
// plan, where nothing comes, uses it.
func (s *Source) expected(lists [][]int32) error {
	at := allRows(s.Back)
	for q, rank := range s.Holders {
		at.next(int32(s.BackStarts[q+1]))
		if q == s.Me {
			continue
		}
		if err := s.checkHalo(q, s.Me, len(at.rows)); err != nil {
			return err
		}
		copy(lists[rank], at.rows)
	}
	return nil
}

// tell tells each other worker which of its rows this worker needs (halo). It sets lists and theirs, which
// have room for what comes.
func (e *Edges) tell(s *Source, halo, lists, theirs [][]int32, out []*sendList) error {
	if err := comm.AllToAllOf(e.comm, comm.Setup, halo, lists); err != nil {
		return err
	}
	ids := e.SourceIDs.ReadInt32s()
	vertices := make([][]int32, len(lists))
	for rank, list := range lists {
		vertices[rank] = make([]int32, len(list))
		for i, number := range list {
			row, found := s.sourceRow(number)
			if !found {
				return fmt.Errorf("worker %d asks worker %d for row %d, which is not among its %d", rank,
					e.comm.Rank(), number, e.Sources)
			}
			list[i] = row
		}
		e.team.Serial(func() {
			for i, row := range list {
				vertices[rank][i] = ids[row]
			}
		})
	}
	for q, o := range out {
		if o != nil && !slices.Equal(lists[s.Holders[q]], o.rows) {
			return refusal.Graph.Errorf("partitions %d and %d store different edges from one to the other; "+
				"partition the graph again", s.Me, q)
		}
	}
	if err := comm.AllToAllOf(e.comm, comm.Setup, vertices, theirs); err != nil {
		return err
	}
	at := make([]int, len(theirs))
	for _, b := range e.Remote() {
		at[b.Peer] += copy(b.IDs.WriteInt32s(), theirs[b.Peer][at[b.Peer]:])
	}
	return nil
}

// messages returns a function counts: counts(p, q) is how many rows of vertices each message from partition q
// to partition p has. One of the two is this worker's. If rows were selected, the workers tell each other
// these sizes.
func (e *Edges) messages(s *Source, needed [][]int32, out []*sendList,
) (counts func(p, q int) []int, err error) {
	k := len(s.Holders)
	if out != nil {
		return func(p, q int) []int {
			if p == s.Me {
				return messages(len(needed[q]), s.Starts[q+1]-s.Starts[q])
			}
			sizes := messages(len(out[p].rows), s.sources())
			return append(sizes, make([]int, max(0, len(out[p].sums)-len(sizes)))...)
		}, nil
	}
	if s.Some == nil {
		return func(p, q int) []int { return messages(s.HaloRows[p][q], s.Starts[q+1]-s.Starts[q]) }, nil
	}
	own := make([]int32, k*MostMessages)
	next := make([]int, k)
	for _, b := range e.Remote() {
		own[b.Peer*MostMessages+next[b.Peer]] = int32(b.In.Cols)
		next[b.Peer]++
	}
	theirs, err := comm.Exchange(e.comm, comm.Setup, own...)
	return func(p, q int) []int {
		told := own[s.Holders[q]*MostMessages:]
		if p != s.Me {
			told = theirs[s.Holders[p]*MostMessages:]
		}
		// The sizes as for all rows: the number of messages is the same.
		sizes := messages(s.HaloRows[p][q], s.Starts[q+1]-s.Starts[q])
		for i := range sizes {
			sizes[i] = int(told[i])
		}
		return sizes
	}, err
}

func sum(sizes []int) (n int) {
	for _, size := range sizes {
		n += size
	}
	return n
}

// workers implements Others for rows that other workers hold.
type workers struct{}

// Columns implements Others. The workers send each other the values. A partial sum has the value 1, as its
// terms have their values already.
func (workers) Columns(e *Edges, column func(*Edges) *tensor.Matrix) ([]*tensor.Matrix, error) {
	own := column(e)
	columns := make([]*tensor.Matrix, len(e.Remote()))
	for i, b := range e.Remote() {
		columns[i] = e.team.Memory.New(tensor.Graph, b.In.Cols, 1)
	}
	if e.Alone() {
		return columns, nil
	}
	n := e.comm.Size()
	send, receive := make([][]float32, n), make([][]float32, n)
	for _, p := range e.Needed {
		values := own.ReadFloats()
		rows := p.Rows.ReadInt32s()
		sent := make([]float32, p.Rows.Cols)
		e.team.Serial(func() {
			for i, row := range rows {
				sent[i] = values[row]
			}
		})
		send[p.Peer] = append(send[p.Peer], sent...)
	}
	for _, b := range e.Remote() {
		receive[b.Peer] = append(receive[b.Peer], make([]float32, b.IDs.Cols)...)
	}
	if err := comm.AllToAllOf(e.comm, comm.Setup, send, receive); err != nil {
		return nil, err
	}
	for i, b := range e.Remote() {
		values := columns[i].WriteFloats()
		rows := b.IDs.Cols
		theirs := receive[b.Peer]
		copy(values, theirs[:rows])
		for sum := rows; sum < len(values); sum++ {
			values[sum] = 1
		}
		receive[b.Peer] = theirs[rows:]
	}
	return columns, nil
}
