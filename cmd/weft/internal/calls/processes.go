package calls

import (
	"unsafe"

	"weft/comm/launch"
	"weft/internal/refusal"
)

// mostColumns bounds the columns of rows that processes exchange.
const mostColumns = 1 << 24

// collective answers requests, other than passes, that all processes of a launcher make at once.
func (s *server) collective(m *model, r *request) error {
	do, err := s.asked(m, r)
	if err != nil {
		return m.Refuse(err)
	}
	return do()
}

// asked reads such a request.
func (s *server) asked(m *model, r *request) (do func() error, err error) {
	if r.Ask == "edges" {
		return s.edgesInto(m, r)
	}
	if r.Type < 0 || r.Type >= len(m.Types) || r.Columns < 0 || r.Columns > mostColumns || r.Listed < 0 {
		return nil, refusal.Errorf("there are no %d columns of %d vertices of type %d", r.Columns, r.Listed, r.Type)
	}
	own := m.Types[r.Type].Vertices
	switch r.Ask {
	case "vertices":
		to, err := s.integers(r.Vertices, own)
		return func() error {
			for row := range to {
				to[row] = int32(row)
			}
			copy(to, m.Vertices(r.Type))
			return nil
		}, err
	case "sum":
		numbers, err := s.numbers(r.Values, 2*r.Listed)
		doubles := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)/2)
		return func() error { return m.Sum(r.call(), r.OfGroup, doubles) }, err
	case "first":
		numbers, err := s.numbers(r.Values, r.Listed)
		return func() error { return m.FromFirst(numbers) }, err
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
	owned, err := s.numbers(r.Values, own*r.Columns)
	if err != nil {
		return nil, err
	}
	listed, err := s.numbers(r.Output, r.Listed*r.Columns)
	return func() error {
		if r.Ask == "fetch" {
			return m.FetchRows(r.Type, r.Columns, vertices, owned, listed)
		}
		return m.ReturnRows(r.Type, r.Columns, vertices, listed, owned)
	}, err
}

// call is a call of which the process says more than its request does.
func (r *request) call() launch.Call {
	return launch.Call{
		Says: r.Call, Alike: r.Alike,
		Unlike: "has other values than rank 0: these parameters are the same on all processes: give all " +
			"those of one",
	}
}

// edgesInto tells the edges of a relation whose values this process gives and gets.
func (s *server) edgesInto(m *model, r *request) (do func() error, err error) {
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
