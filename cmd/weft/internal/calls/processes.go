package calls

import (
	"unsafe"

	"weft/comm/launch"
	"weft/internal/refusal"
)

// mostColumns bounds the columns of rows that processes exchange.
const mostColumns = 1 << 24

// collective handles requests, other than passes, that all processes of a launcher make at once. asked reads
// one.
func collective[R any](asked func(*server, *model, *R) (do func() error, err error)) handler {
	return ofModel(func(s *server, m *model, r *R) (a answer, err error) {
		do, err := asked(s, m, r)
		if err != nil {
			return a, m.Refuse(err)
		}
		return a, do()
	})
}

// checkRows refuses rows that are none.
func (m *model) checkRows(kind, columns, listed int) error {
	if kind < 0 || kind >= len(m.Types) || columns < 0 || columns > mostColumns || listed < 0 {
		return refusal.Errorf("there are no %d columns of %d vertices of type %d", columns, listed, kind)
	}
	return nil
}

// vertices tells the vertices of this process.
func (s *server) vertices(m *model, r *numbersRequest) (do func() error, err error) {
	if err := m.checkRows(r.Type, 0, 0); err != nil {
		return nil, err
	}
	to, err := s.integers(r.Vertices, m.Types[r.Type].Vertices)
	return func() error {
		for row := range to {
			to[row] = int32(row)
		}
		copy(to, m.Vertices(r.Type))
		return nil
	}, err
}

// sum adds up numbers of the processes.
func (s *server) sum(m *model, r *sumRequest) (do func() error, err error) {
	if err := m.checkRows(0, 0, r.Listed); err != nil {
		return nil, err
	}
	numbers, err := s.numbers(r.Values, 2*r.Listed)
	doubles := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)/2)
	call := launch.Call{
		Says: r.Call, Alike: r.Alike,
		Unlike: "has other values than rank 0: these parameters are the same on all processes: give all " +
			"those of one",
	}
	return func() error { return m.Sum(call, r.OfGroup, doubles) }, err
}

// first gives numbers of the first process to all.
func (s *server) first(m *model, r *firstRequest) (do func() error, err error) {
	if err := m.checkRows(0, 0, r.Listed); err != nil {
		return nil, err
	}
	numbers, err := s.numbers(r.Values, r.Listed)
	return func() error { return m.FromFirst(numbers) }, err
}

// exchange moves rows between this process's and those of listed vertices.
func exchange(
	move func(m *model, kind, columns int, vertices []int32, owned, listed []float32) error,
) handler {
	return collective(func(s *server, m *model, r *exchangeRequest) (do func() error, err error) {
		if err := m.checkRows(r.Type, r.Columns, r.Listed); err != nil {
			return nil, err
		}
		vertices, err := s.integers(r.Vertices, r.Listed)
		if err != nil {
			return nil, err
		}
		for k, v := range vertices {
			if v < 0 || int(v) >= m.all[r.Type] {
				return nil, refusal.Errorf("rows: entry %d is %d, of %d vertices", k, v, m.all[r.Type])
			}
		}
		owned, err := s.numbers(r.Values, m.Types[r.Type].Vertices*r.Columns)
		if err != nil {
			return nil, err
		}
		listed, err := s.numbers(r.Output, r.Listed*r.Columns)
		return func() error { return move(m, r.Type, r.Columns, vertices, owned, listed) }, err
	})
}

// edgesInto tells the edges of a relation whose values this process gives and gets.
func (s *server) edgesInto(m *model, r *numbersRequest) (do func() error, err error) {
	g, err := m.opened.Graph()
	if err != nil {
		return nil, err
	}
	if r.Type < 0 || r.Type >= len(m.EdgeCounts) {
		return nil, refusal.Errorf("there is no relation %d of which the process has some edges", r.Type)
	}
	numbers, err := s.numbers(r.Vertices, 2*m.EdgeCounts[r.Type])
	return func() error {
		to := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)/2)
		copy(to, m.EdgesInto(r.Type, &g.Relations[r.Type]))
		return nil
	}, err
}

// integers are the first count numbers of a memory of whole numbers.
func (s *server) integers(memory, count int) ([]int32, error) {
	numbers, err := s.numbers(memory, count)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(numbers))), count), nil
}
