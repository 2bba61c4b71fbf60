package calls

import (
	"unsafe"

	"weft/internal/refusal"
)

// together does what the processes of a launcher ask for together, beside passes.
func (s *server) together(m *model, r *request) error {
	if r.Type < 0 || r.Type >= len(m.Types) || r.Columns < 0 || r.Listed < 0 {
		return refusal.Errorf("there are no %d columns of %d vertices of type %d", r.Columns, r.Listed, r.Type)
	}
	own := m.Types[r.Type].Vertices
	switch r.Ask {
	case "vertices":
		to, err := s.integers(r.Vertices, own)
		if err == nil {
			for row := range to {
				to[row] = int32(row)
			}
			copy(to, m.Vertices(r.Type))
		}
		return err
	case "sum":
		numbers, err := s.numbers(r.Values, 2*r.Listed)
		if err != nil {
			return err
		}
		return m.Sum(unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(numbers))), r.Listed))
	case "first":
		numbers, err := s.numbers(r.Values, r.Listed)
		if err != nil {
			return err
		}
		return m.FromFirst(numbers)
	}
	vertices, err := s.integers(r.Vertices, r.Listed)
	if err != nil {
		return err
	}
	for k, v := range vertices {
		if v < 0 || int(v) >= m.all[r.Type] {
			return refusal.Errorf("rows: entry %d is %d, of %d vertices", k, v, m.all[r.Type])
		}
	}
	mine, err := s.numbers(r.Values, own*r.Columns)
	if err != nil {
		return err
	}
	fetched, err := s.numbers(r.Output, r.Listed*r.Columns)
	if err != nil {
		return err
	}
	if r.Ask == "fetch" {
		return m.FetchRows(r.Type, r.Columns, vertices, mine, fetched)
	}
	return m.ReturnRows(r.Type, r.Columns, vertices, fetched, mine)
}

// integers are the first count of a memory of whole numbers.
func (s *server) integers(memory, count int) ([]int32, error) {
	numbers, err := s.numbers(memory, count)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(numbers))), count), nil
}
