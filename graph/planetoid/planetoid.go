// Package planetoid reads the citation graphs (Cora, Citeseer, Pubmed) in the files that came with Planetoid
// (Yang, Cohen and Salakhutdinov, "Revisiting Semi-Supervised Learning with Graph Embeddings", ICML 2016),
// and puts them together as Kipf's GCN code and PyTorch Geometric do, so that the "public split" is the
// published one. The command import planetoid reads by it.
package planetoid

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// validation is how many vertices, behind the training ones, validate by convention.
const validation = 500

// Files are the eight files of a prefix, which looks like DIR/ind.cora.
func Files(prefix string) (files []string) {
	for _, part := range []string{"x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"} {
		files = append(files, prefix+"."+part)
	}
	return files
}

// Prefix is the prefix of files of which a path is one, or the path if that is the prefix; "": it is neither.
func Prefix(path string) string {
	missing := func(file string) bool {
		info, err := os.Stat(file)
		return err != nil || info.IsDir()
	}
	for _, end := range append([]string{""}, Files("")...) {
		prefix, ends := strings.CutSuffix(path, end)
		if ends && !slices.ContainsFunc(Files(prefix), missing) {
			return prefix
		}
	}
	return ""
}

// Read reads the Files of a prefix.
//
// The training vertices (the rows of x) come first, then the other vertices of allx. The vertices of
// test.index follow; row i of tx and ty belongs to the i-th of them. The training vertices train, the next
// 500 validate, and the vertices of test.index test. A vertex behind allx that test.index leaves out has no
// row anywhere (15 in Citeseer): its features are zero, and it is unlabelled and in no part of the split, but
// it keeps its edges.
//
// Edges lead both ways, each once. The files list some twice, and 124 self loops in Citeseer: as in PyTorch
// Geometric duplicates and self loops are left out, which leaves Cora 5,278 and Citeseer 4,552 undirected
// edges. Features are sparse and not normalised. Every complaint about the files is a refusal that names the
// file.
func Read(prefix string) (*graph.Graph, error) {
	f, err := open(prefix)
	if err != nil {
		return nil, err
	}
	neighbours, err := f.adjacency()
	if err != nil {
		return nil, err
	}
	vertices := len(neighbours.Items)
	edges, err := f.edges(neighbours)
	if err != nil {
		return nil, err
	}
	var train, known, tested rows
	for _, part := range []struct {
		to               *rows
		features, labels string
	}{{&train, "x", "y"}, {&known, "allx", "ally"}, {&tested, "tx", "ty"}} {
		if *part.to, err = f.rows(part.features, part.labels); err != nil {
			return nil, err
		}
	}
	if train.x.Columns != known.x.Columns || known.x.Columns != tested.x.Columns ||
		train.classes != known.classes || known.classes != tested.classes {
		return nil, refusal.Errorf("%s: x, allx and tx, or y, ally and ty, differ in their columns: take "+
			"files of one data set", prefix)
	}
	if train.x.Rows == 0 || train.x.Columns == 0 {
		return nil, refusal.Errorf("%s: has no training vertex, or no feature", f.name("x"))
	}
	if train.x.Rows > known.x.Rows || known.x.Rows > vertices {
		return nil, refusal.Errorf("%s: x, allx and graph have %d, %d and %d vertices: each must contain "+
			"the one before it", prefix, train.x.Rows, known.x.Rows, vertices)
	}
	order, err := f.testIndex(known.x.Rows, vertices, tested.x.Rows)
	if err != nil {
		return nil, err
	}

	g, err := undirected(vertices, edges)
	if err != nil {
		return nil, refusal.In(f.name("graph"), err)
	}
	g.Provenance = "planetoid " + prefix
	if bare := vertices - known.x.Rows - len(order); bare > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("%d vertices have neither features nor a label, as no file "+
			"has a row for them", bare))
	}
	if g.Types[0].Features, g.Types[0].Labels, err = assemble(known, tested, order, vertices); err != nil {
		return nil, fmt.Errorf("%s: %w", prefix, err)
	}
	g.Types[0].Splits = []graph.Split{{
		Train: ascending(0, train.x.Rows),
		Val:   ascending(train.x.Rows, min(train.x.Rows+validation, known.x.Rows)),
		Test:  slices.Sorted(slices.Values(order)),
	}}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", prefix, err)
	}
	return g, nil
}

// undirected makes edges lead both ways, each once, and leaves self loops out.
func undirected(vertices int, e graph.Edges) (*graph.Graph, error) {
	relation, err := graph.NewRelation(vertices, e)
	if err != nil {
		return nil, err
	}
	both, err := graph.Of(relation).Symmetrize()
	if err != nil {
		return nil, err
	}
	return both.RemoveSelfLoops()
}

// ascending lists first…end−1.
func ascending(first, end int) []int64 {
	ids := make([]int64, 0, end-first)
	for v := first; v < end; v++ {
		ids = append(ids, int64(v))
	}
	return ids
}

// assemble puts the rows of tx and ty at the vertices of order, behind those of allx and ally.
func assemble(known, tested rows, order []int64, vertices int) (f graph.Features, l graph.Labels, err error) {
	const bound, class, place = 8, 8, 8
	stored := len(known.x.Indices) + len(tested.x.Indices)
	if err := memory.Need(known.x.RowBytes() + tested.x.RowBytes() +
		(bound+class+place)*int64(vertices+1)); err != nil {
		return f, l, err
	}
	row := make([]int, vertices)
	for v := range row {
		row[v] = -1
	}
	for i, v := range order {
		row[v] = i
	}
	f = graph.Features{
		Columns: known.x.Columns, Indptr: make([]int64, 1, vertices+1),
		Indices: make([]int32, 0, stored), Data: make([]float32, 0, stored),
	}
	l = graph.Labels{Classes: known.classes, Class: make([]int64, vertices)}
	for v := range vertices {
		switch {
		case v < known.x.Rows:
			known.x.AppendRow(&f, v)
			l.Class[v] = known.class[v]
		case row[v] >= 0:
			tested.x.AppendRow(&f, row[v])
			l.Class[v] = tested.class[row[v]]
		default:
			f.Indptr = append(f.Indptr, int64(len(f.Indices)))
			l.Class[v] = -1
		}
	}
	return f, l, nil
}

// suffixes are the files of a data set.
var suffixes = []string{"x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"}

// files are the contents of a data set's files, by suffix.
type files struct {
	prefix  string
	content map[string][]byte
}

func open(prefix string) (*files, error) {
	f := &files{prefix: prefix, content: map[string][]byte{}}
	for _, suffix := range suffixes {
		content, err := regular.ReadFile(f.name(suffix))
		if err != nil {
			return nil, refusal.Errorf("%w; planetoid reads PREFIX.x .tx .allx .y .ty .ally .graph "+
				".test.index, with PREFIX like %s", err, filepath.Join("DIR", "ind.cora"))
		}
		f.content[suffix] = content
	}
	return f, nil
}

func (f *files) name(suffix string) string { return f.prefix + "." + suffix }

// unpickle reads the file of that suffix, which must hold a T.
func unpickle[T any](f *files, suffix, wanted string) (T, error) {
	value, err := pickle.Decode(f.content[suffix])
	if err != nil {
		return *new(T), refusal.Errorf("%s: %w; take the files as they were published, "+
			"github.com/kimiyoung/planetoid", f.name(suffix), err)
	}
	v, ok := value.(T)
	if !ok {
		return v, refusal.Errorf("%s: holds something else than %s", f.name(suffix), wanted)
	}
	return v, nil
}

// adjacency reads the dict from each vertex to the list of its neighbours. Its keys are the vertices 0…V−1.
func (f *files) adjacency() (*pickle.Dict, error) {
	d, err := unpickle[*pickle.Dict](f, "graph", "a dict of neighbours")
	if err != nil {
		return nil, err
	}
	if len(d.Items) == 0 || len(d.Items) > math.MaxInt32 {
		return nil, refusal.Errorf("%s: has %d vertices", f.name("graph"), len(d.Items))
	}
	seen := make([]bool, len(d.Items))
	for _, item := range d.Items {
		v, ok := item.Key.(int64)
		if !ok || v < 0 || v >= int64(len(seen)) || seen[v] {
			return nil, refusal.Errorf("%s: its %d keys must be the vertices 0…%d, each once",
				f.name("graph"), len(seen), len(seen)-1)
		}
		seen[v] = true
	}
	return d, nil
}

// edges lists the neighbours' edges as the file has them.
func (f *files) edges(neighbours *pickle.Dict) (graph.Edges, error) {
	var e graph.Edges
	edges := 0
	for _, item := range neighbours.Items {
		list, ok := item.Value.(*pickle.List)
		if !ok {
			return e, refusal.Errorf("%s: the neighbours of vertex %v are not a list", f.name("graph"),
				item.Key)
		}
		// A pickle can name one long list for every vertex; an edge that is written takes two bytes at least.
		edges += len(list.Items)
		if edges > len(f.content["graph"])/2 {
			return e, refusal.Errorf("%s: lists more edges than a file of its size can hold", f.name("graph"))
		}
	}
	if err := memory.Need(2 * 4 * int64(edges)); err != nil {
		return e, fmt.Errorf("%s: %w", f.name("graph"), err)
	}
	e.Source, e.Target = make([]int32, 0, edges), make([]int32, 0, edges)
	for _, item := range neighbours.Items {
		v := item.Key.(int64) // checked by adjacency
		for _, neighbour := range item.Value.(*pickle.List).Items {
			u, ok := neighbour.(int64)
			if !ok || u < 0 || u >= int64(len(neighbours.Items)) {
				return e, refusal.Errorf("%s: vertex %d has a neighbour that is none of the %d vertices",
					f.name("graph"), v, len(neighbours.Items))
			}
			e.Source = append(e.Source, int32(v))
			e.Target = append(e.Target, int32(u))
		}
	}
	return e, nil
}

// rows are features with the classes of the same vertices.
type rows struct {
	x       *arrays.CSR
	class   []int64 // −1 where the row of labels is zero
	classes int
}

// rows reads a feature file and the label file that belongs to it.
func (f *files) rows(features, labels string) (rows, error) {
	m, err := unpickle[*pickle.CSR](f, features, "a csr_matrix")
	if err != nil {
		return rows{}, err
	}
	x, err := csr(m)
	if err != nil {
		return rows{}, refusal.In(f.name(features), err)
	}
	a, err := unpickle[*pickle.Array](f, labels, "an array")
	if err != nil {
		return rows{}, err
	}
	class, classes, err := oneHot(a)
	if err != nil {
		return rows{}, refusal.In(f.name(labels), err)
	}
	if len(class) != x.Rows {
		return rows{}, refusal.Errorf("%s: %d rows of labels for the %d rows of %s", f.name(labels),
			len(class), x.Rows, f.name(features))
	}
	return rows{x, class, classes}, nil
}

func csr(m *pickle.CSR) (*arrays.CSR, error) {
	if m.Indptr == nil {
		return nil, refusal.Errorf("a csr_matrix without content")
	}
	var parts [3]*npy.Array
	for i, a := range []*pickle.Array{m.Indptr, m.Indices, m.Data} {
		var err error
		if parts[i], err = a.Numbers(); err != nil {
			return nil, err
		}
	}
	return arrays.NewCSR(int64(m.Rows), int64(m.Columns), parts[0], parts[1], parts[2])
}

// oneHot reads a matrix with a one at each row's class.
func oneHot(a *pickle.Array) (class []int64, classes int, err error) {
	numbers, err := a.Numbers()
	if err != nil {
		return nil, 0, err
	}
	if len(a.Shape) != 2 || a.Shape[1] == 0 {
		return nil, 0, refusal.Errorf("labels of shape %v: a one-hot matrix is read", a.Shape)
	}
	values, err := numbers.Float32s()
	if err != nil {
		return nil, 0, err
	}
	if err := memory.Need(8 * int64(a.Shape[0])); err != nil {
		return nil, 0, err
	}
	class = make([]int64, a.Shape[0])
	classes = a.Shape[1]
	for i := range class {
		class[i] = -1
		for c, x := range values[i*classes : (i+1)*classes] {
			if x == 0 {
				continue
			}
			if x != 1 || class[i] >= 0 {
				return nil, 0, refusal.Errorf("row %d of the labels is not one-hot", i)
			}
			class[i] = int64(c)
		}
	}
	return class, classes, nil
}

// testIndex reads the ids of tx's rows, one on a line: vertices behind the known ones, each once.
func (f *files) testIndex(known, vertices, want int) ([]int64, error) {
	name := f.name("test.index")
	const mark, place = 1, 8
	if err := memory.Need(mark*int64(vertices) + place*int64(want)); err != nil {
		return nil, refusal.In(name, err)
	}
	seen := make([]bool, vertices)
	ids := make([]int64, 0, want)
	number := 0
	for line := range bytes.Lines(f.content["test.index"]) {
		number++
		text := bytes.TrimSpace(line)
		if len(text) == 0 {
			continue
		}
		v, err := strconv.Atoi(string(text))
		if err != nil || v < known || v >= vertices || seen[v] {
			return nil, refusal.Errorf("%s:%d: %.40q: each line is one vertex of %d…%d, each once", name,
				number, text, known, vertices-1)
		}
		if len(ids) == want {
			return nil, refusal.Errorf("%s:%d: more vertices than the %d rows of %s", name, number, want,
				f.name("tx"))
		}
		seen[v] = true
		ids = append(ids, int64(v))
	}
	if len(ids) != want {
		return nil, refusal.Errorf("%s: %d vertices for the %d rows of %s", name, len(ids), want,
			f.name("tx"))
	}
	return ids, nil
}
