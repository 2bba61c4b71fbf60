package partition

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/internal/regular"
)

const (
	formatVersion = 1
	// partition.json is read up to this many bytes. It holds three matrices of MaxPartitions² numbers and,
	// for several relations, 2·maxPairs numbers.
	maxDescription = 64 << 20
	maxPairs       = 1 << 20 // relations × K²
)

// Description describes stored partitions. It is read without the shares.
type Description struct {
	Name string `json:"name"` // the directory's name: method and number of partitions
	Statistics
	Balance string    `json:"balance"`
	Seed    uint64    `json:"seed"`
	Split   int       `json:"split"`
	Written time.Time `json:"written"`
	// ID is a hash of the store's files and of the assignment. Workers with equal ids have shares of the same
	// partitions.
	ID    string `json:"id"`
	Whole Whole  `json:"-"`

	order *order
	files []graph.FileRecord // the store's files when it was partitioned
	file  os.FileInfo        // partition.json when it was read
}

// record is partition.json.
type record struct {
	Format int `json:"format"`
	Record
	Store []graph.FileRecord `json:"store"`
}

// Record is a description as JSON: the first vertex type is apart.
type Record struct {
	Description
	Graph wholeRecord `json:"whole"`
}

type wholeRecord struct {
	Vertices       int          `json:"vertices"`
	Edges          int64        `json:"edges"`
	Type           string       `json:"type,omitempty"`
	Others         []WholeType  `json:"others,omitempty"`
	Graphs         int          `json:"graphs,omitempty"`
	FeatureColumns int          `json:"features"`
	FeatureValues  int64        `json:"feature_values,omitempty"`
	Columns        columns.List `json:"columns,omitempty"`
	Whole
}

// Record is the description as JSON.
func (d Description) Record() Record {
	w, t := d.Whole, d.Whole.Types[0]
	d.Types = d.Types[1:]
	if t.Type == graph.VertexName {
		t.Type = ""
	}
	return Record{d, wholeRecord{
		w.Vertices, w.Edges, t.Type, w.Types[1:], w.Graphs, t.FeatureColumns, t.FeatureValues, t.Columns, w,
	}}
}

// describe fills what a record has apart: the first vertex type is what the others leave.
func (r *Record) describe() {
	w, own, counts := &r.Graph, r.Graph.Vertices, slices.Clone(r.Vertices)
	for _, t := range w.Others {
		own -= t.Vertices
	}
	for _, other := range r.Types {
		for p, n := range other[:min(len(other), len(counts))] {
			counts[p] -= n
		}
	}
	first := WholeType{cmp.Or(w.Type, graph.VertexName), own, w.FeatureColumns, w.FeatureValues, w.Columns}
	r.Types, r.Whole = slices.Insert(r.Types, 0, counts), w.Whole
	r.Whole.Vertices, r.Whole.Edges, r.Whole.Graphs = w.Vertices, w.Edges, w.Graphs
	r.Whole.Types, r.Whole.Statistics = slices.Insert(w.Others, 0, first), r.Statistics
}

// readRecord reads partition.json in dir, and checks everything that needs no other file.
func readRecord(dir string) (*record, error) {
	path := filepath.Join(dir, descriptionFile)
	file, _ := os.Stat(path) // before reading, to notice a later replacement; without a file Read fails
	text, err := document.Read(path, maxDescription)
	if err != nil {
		return nil, refusal.Advise(err, fmt.Sprintf("remove %s, or move it elsewhere, and %s",
			dir, partitionAgain))
	}
	r, err := parseRecord(text)
	if err == nil && r.Name != filepath.Base(dir) {
		err = fmt.Errorf("it describes %q", r.Name)
	}
	if err != nil {
		return nil, refusal.Errorf("%s: %w; remove %s and %s", path, err, dir, partitionAgain)
	}
	r.file = file
	return r, nil
}

// checkThere refuses a directory that no longer has the partitions that d describes. It reads partition.json,
// with its three numbers for each pair of partitions, only if the file has changed.
func (d *Description) checkThere(dir string) error {
	if d.unchanged(filepath.Join(dir, descriptionFile)) {
		return nil
	}
	r, err := readRecord(dir)
	if err == nil && r.ID != d.ID {
		err = refusal.Errorf("%s: replaced while it was being read; start again", dir)
	}
	return err
}

// unchanged reports whether partition.json is surely the file that d was read from. Another file may have its
// inode, size and coarse time, but not the id near its end.
func (d *Description) unchanged(path string) bool {
	file, err := os.Stat(path)
	if err != nil || !os.SameFile(file, d.file) || !file.ModTime().Equal(d.file.ModTime()) ||
		file.Size() != d.file.Size() {
		return false
	}
	end, err := tail(path, 64<<10)
	return err == nil && d.ID != "" && bytes.Contains(end, []byte(`"`+d.ID+`"`))
}

// tail reads the last n bytes of a file, or all of a shorter one.
func tail(path string, n int64) ([]byte, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, max(0, size-n), n))
}

func parseRecord(text []byte) (*record, error) {
	// A decoded text may take ten times its length: [0] is a list.
	const lists, numbers = 1 << 20, 3*MaxPartitions*MaxPartitions + 1<<19
	if n := bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{")); n > lists ||
		bytes.Count(text, []byte(",")) > numbers {
		return nil, refusal.Damaged("damaged: it has more than partitions of %d relations and pairs can need",
			maxPairs)
	}
	r := &record{}
	if err := document.StrictJSON(text, formatVersion, r); err != nil {
		return nil, err
	}
	r.describe()
	r.files, r.order = r.Store, new(order)
	return r, r.check()
}

// check checks that the counts are complete and consistent.
func (d *Description) check() error {
	s := &d.Statistics
	if s.K < 1 || s.K > MaxPartitions {
		return fmt.Errorf("%d partitions", s.K)
	}
	if len(s.Vertices) != s.K || len(s.Edges) != s.K || len(s.TrainVertices) != s.K ||
		!isSquare(s.HaloRows, s.K) || !isSquare(s.HaloRowsOut, s.K) || !isSquare(s.Cut, s.K) {
		return fmt.Errorf("its lists have not one entry for each of %d partitions", s.K)
	}
	vertices, edges := 0, int64(0)
	for p, n := range s.Vertices {
		if n < 0 || n > d.Whole.Vertices-vertices || s.Edges[p] < 0 || s.Edges[p] > d.Whole.Edges-edges {
			return fmt.Errorf("partition %d has %d vertices and %d edges, more than there are", p, n,
				s.Edges[p])
		}
		vertices, edges = vertices+n, edges+s.Edges[p]
	}
	if vertices != d.Whole.Vertices || edges != d.Whole.Edges {
		return fmt.Errorf("the partitions have %d vertices and %d edges, the graph %d and %d",
			vertices, edges, d.Whole.Vertices, d.Whole.Edges)
	}
	for _, t := range d.Whole.Types {
		if err := t.Columns.Check(t.FeatureColumns); t.Columns != nil && err != nil {
			return fmt.Errorf("type %q: %w", t.Type, err)
		}
	}
	if len(s.Types) != len(d.Whole.Types) {
		return fmt.Errorf("it has the vertices of %d types, and the graph has %d", len(s.Types),
			len(d.Whole.Types))
	}
	for i, counts := range s.Types {
		sum := 0
		for p, n := range counts {
			if n < 0 || n > s.Vertices[min(p, s.K-1)] {
				return fmt.Errorf("partition %d has %d vertices of type %q", p, n, d.Whole.Types[i].Type)
			}
			sum += n
		}
		if len(counts) != s.K || sum != d.Whole.Types[i].Vertices {
			return fmt.Errorf("the %d partitions have %d vertices of type %q, the graph %d", s.K, sum,
				d.Whole.Types[i].Type, d.Whole.Types[i].Vertices)
		}
	}
	for _, halo := range s.Relations {
		if !isSquare(halo.Rows, s.K) || !isSquare(halo.RowsOut, s.K) {
			return fmt.Errorf("a relation has not one entry for each pair of %d partitions", s.K)
		}
	}
	return s.checkPairs()
}

// checkPairs checks the matrices against the lists.
func (s *Statistics) checkPairs() error {
	cut := int64(0)
	for p := range s.K {
		edges := int64(0)
		for q, rows := range s.HaloRows[p] {
			in, out := 0, 0
			for _, halo := range s.Halos() {
				if least, most := min(halo.Rows[p][q], halo.RowsOut[p][q]), max(halo.Rows[p][q],
					halo.RowsOut[p][q]); least < 0 || most > s.Vertices[q] {
					return fmt.Errorf("partition %d needs %d to %d rows of the %d of partition %d", p, least,
						most, s.Vertices[q], q)
				}
				in, out = in+halo.Rows[p][q], out+halo.RowsOut[p][q]
			}
			if rows != in || s.HaloRowsOut[p][q] != out {
				return fmt.Errorf("partition %d needs %d and %d rows of partition %d, by relation %d and %d",
					p, rows, s.HaloRowsOut[p][q], q, in, out)
			}
			if s.Cut[p][q] < 0 || s.Cut[p][q] > s.Edges[p]-edges {
				return fmt.Errorf("%d of the %d edges into partition %d come from %d",
					s.Cut[p][q], s.Edges[p], p, q)
			}
			edges += s.Cut[p][q]
			if p != q {
				cut += s.Cut[p][q]
			}
		}
		if edges != s.Edges[p] || s.TrainVertices[p] < 0 || s.TrainVertices[p] > s.Vertices[p] {
			return fmt.Errorf(
				"partition %d has %d edges, %d by their sources, and %d training vertices of %d",
				p, s.Edges[p], edges, s.TrainVertices[p], s.Vertices[p])
		}
	}
	if cut != s.CutEdges {
		return fmt.Errorf("%d edges are cut, %d by their partitions", s.CutEdges, cut)
	}
	return nil
}

func isSquare[T any](rows [][]T, k int) bool {
	return len(rows) == k && !slices.ContainsFunc(rows, func(row []T) bool { return len(row) != k })
}

// CheckFresh refuses partitions of a store that has changed since, with an OutOfDate. It compares the sizes
// and times of the store's files. If only times differ, as after the store was copied, it compares SHA-256
// hashes of the contents.
func (d *Description) CheckFresh(store string) error {
	names, err := graph.Files(store)
	if err != nil {
		return err
	}
	outOfDate := func(file string) error {
		return refusal.Errorf("%w", &OutOfDate{
			Store: store, Changed: file, Name: d.Name,
			K: d.K, Method: d.Method,
		})
	}
	if len(names) != len(d.files) {
		return outOfDate(descriptionFile)
	}
	for k, name := range names {
		changed := d.files[k].Name != name
		if !changed {
			changed, err = d.files[k].Changed(store)
		}
		if err != nil {
			return err
		}
		if changed {
			return outOfDate(name)
		}
	}
	return nil
}

// OutOfDate is the error of partitions whose store has changed since.
type OutOfDate struct {
	Store, Changed string // the store, and its file that has changed
	Name           string // of the K partitions, made by Method
	K              int
	Method         string
}

func (o *OutOfDate) Error() string {
	wayOut := "partition again"
	if o.Method == DGL {
		wayOut = "import the graph again"
	}
	return fmt.Sprintf("%s: out of date, as %s changed after it was cut; %s", Directory(o.Store, o.Name),
		filepath.Join(o.Store, o.Changed), wayOut)
}
