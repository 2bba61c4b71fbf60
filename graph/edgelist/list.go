package edgelist

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// list is what a file of edges says besides the edges.
type list struct {
	edges     int
	names     *names.Table // with Strings: the names by id; else nil
	smallest  int32        // vertex of an edge
	largest   int32        // −1 before the first edge
	largestAt table.Position
	unread    []string // columns

	columns int  // of each row; 0 before the first
	header  bool // the columns have names
	firstAt table.Position
	first   [2]int32 // the ends of the first edge
	again   bool     // one of them is an end of a later edge
	batch   graph.Edges
}

// each implements streamed.Edges.Each.
func (s *source) each(do func(graph.Edges) error) error {
	file, err := os.Open(s.Path)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return refusal.Errorf("%s: %w; give a list of edges", s.Path, err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return refusal.Errorf("%s: is a directory; give a list of edges", s.Path)
	}
	s.list = list{
		smallest: math.MaxInt32, largest: -1,
		batch: graph.Edges{FeatureColumns: len(s.EdgeFeatures)},
	}
	separators := ",;" // a tab is a space, but in names
	if s.Strings {
		s.names = names.NewTable()
		separators += "\t"
	}
	t := table.Table{Path: s.Path, Progress: s.Progress, Separators: separators, Line: "a list of edges"}
	err = t.Each(file, s.choose, func(r *table.Row) error {
		if err := s.add(r); err != nil {
			return err
		}
		const most = 1 << 13 // edges of a batch
		if s.batch.Len() < most {
			return nil
		}
		return s.flush(do)
	})
	switch {
	case err != nil:
		return err
	case s.edges == 0:
		return refusal.Errorf("%s: has no edge; give a list of edges, source and target", s.Path)
	case !s.header && s.Strings:
		if err := s.checkFirst(); err != nil {
			return err
		}
	}
	return s.flush(do)
}

// flush hands out the edges of the batch.
func (s *source) flush(do func(graph.Edges) error) error {
	b := &s.batch
	if b.Len() == 0 {
		return nil
	}
	s.graph.Relations[0].Weighted = len(b.Weights) > 0
	err := do(*b)
	b.Source, b.Target, b.Weights, b.Features = b.Source[:0], b.Target[:0], b.Weights[:0], b.Features[:0]
	return err
}

// add adds the edge of a row: source, target, its weight, if all have one, and features.
func (s *source) add(r *table.Row) error {
	n := r.Len()
	if s.columns == 0 {
		s.columns = n
	}
	most := roles + len(s.EdgeFeatures)
	switch {
	case n != s.columns && len(s.EdgeFeatures) > 0:
		return r.Errorf("%s: the header names %d", columns(n, most), s.columns)
	case n != s.columns || n < 2 || n > most:
		return r.Errorf("%s: each line has a source, a target and, all or none, a weight", columns(n, most))
	}
	var ends [2]int32
	for i := range ends {
		var err error
		if ends[i], err = s.end(r, i); err != nil {
			return err
		}
	}
	weights := n - 2 - len(s.EdgeFeatures)
	for column := 2; column < n; column++ {
		x, err := s.value(r, column, weights)
		if err != nil {
			return err
		}
		if column-2 < weights {
			s.batch.Weights = append(s.batch.Weights, x)
		} else {
			s.batch.Features = append(s.batch.Features, x)
		}
	}
	s.smallest = min(s.smallest, ends[0], ends[1])
	if top := max(ends[0], ends[1]); top > s.largest {
		if s.Vertices > 0 && int(top) >= s.Vertices {
			err := refusal.Errorf("vertex %d is out of the range of %s %d",
				int(top)+s.FirstID, refusal.Setting("vertices"), s.Vertices)
			if int(top) == s.Vertices {
				err = s.perhapsFrom1(err)
			}
			return r.Errorf("%w", err)
		}
		s.largest, s.largestAt = top, r.Position
	}
	if s.edges == 0 {
		s.first, s.firstAt = ends, r.Position
	} else {
		s.again = s.again || slices.Contains(s.first[:], ends[0]) || slices.Contains(s.first[:], ends[1])
	}
	s.batch.Source, s.batch.Target = append(s.batch.Source, ends[0]), append(s.batch.Target, ends[1])
	s.edges++
	return nil
}

// columns says how many columns a line has, where more than most are not counted.
func columns(n, most int) string {
	if n > most {
		return fmt.Sprintf("more than %d columns", most)
	}
	return arrays.Counted(n, "column")
}

// value is the weight, or a feature, in a column of an edge with so many weights.
func (s *source) value(r *table.Row, column, weights int) (float32, error) {
	if r.Missing(column) {
		return 0, r.ColumnErrorf(column, "a value is missing")
	}
	value, err := r.Number(column)
	if x := float32(value); err == nil && !math.IsNaN(value) && !math.IsInf(float64(x), 0) {
		return x, nil
	}
	what := "the weight"
	if k := column - 2 - weights; k >= 0 {
		what = fmt.Sprintf("the feature %.40q", s.EdgeFeatures[k])
	}
	if err != nil {
		return 0, r.Errorf("%s %.40q is not a number that fits 32 bits", what, r.Text(column))
	}
	return 0, r.Errorf("%s %v is not a finite number", what, value)
}

// end is the vertex in a column.
func (s *source) end(r *table.Row, column int) (int32, error) {
	if r.Missing(column) {
		return 0, r.ColumnErrorf(column, "a value is missing")
	}
	field := r.Text(column)
	if s.names != nil {
		v, err := s.named(field)
		if err != nil {
			err = r.Errorf("%w", err)
		}
		return v, err
	}
	if r.Kind(column) == table.Words {
		return 0, r.Errorf("%.40q is not a vertex id: give %s if ids are names",
			field, refusal.Setting("string-ids"))
	}
	id := int64(0)
	for _, c := range field {
		if c < '0' || c > '9' || id >= math.MaxInt32/10+1 {
			id = -1
			break
		}
		id = id*10 + int64(c-'0')
	}
	if len(field) == 0 || id < 0 || id >= math.MaxInt32 {
		return 0, r.Errorf("%.40q is not a vertex id below %d: give %s if ids are names",
			field, math.MaxInt32, refusal.Setting("string-ids"))
	}
	if id < int64(s.FirstID) {
		return 0, r.Errorf("%d is not a vertex id from %s %d on", id, refusal.Setting("first-id"), s.FirstID)
	}
	return int32(id) - int32(s.FirstID), nil
}

// perhapsFrom1 adds to an error about the vertices, whose ids count from 0, that they may count from 1, where
// no edge that was read has vertex 0.
func (s *source) perhapsFrom1(err error) error {
	if err == nil || !s.countsFrom1() {
		return err
	}
	return fmt.Errorf("%w; vertex 0 has no edge: where ids count from 1, give %s 1", err,
		refusal.Setting("first-id"))
}

// countsFrom1 reports whether ids are taken to count from 0, and the edges begin with vertex 1.
func (s *source) countsFrom1() bool { return s.FirstID == 0 && !s.Strings && s.smallest == 1 }

// named is the vertex of a name.
func (l *list) named(name []byte) (int32, error) {
	if v, appeared := l.names.Find(name); appeared {
		return v, nil
	}
	if len(name) == 0 {
		return 0, errors.New("an end of the edge is empty")
	}
	if !utf8.Valid(name) {
		return 0, fmt.Errorf("the name %.40q is not UTF-8: convert the file, as with iconv "+
			"-f LATIN1 -t UTF-8", name)
	}
	return l.names.Number(name)
}

// numbered reports whether all names are ids that would be read without Strings.
func (l *list) numbered() bool {
	most := arrays.MaxVertices(l.edges)
	return !slices.ContainsFunc(l.names.Names, func(name string) bool {
		id, err := strconv.ParseUint(name, 10, 31)
		return err != nil || int64(id) >= most
	})
}
