package generate

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/internal/counter"
	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/refusal"
	"weft/internal/require"
)

var examples = map[string]Options{
	"rmat":    {Kind: RMAT, Scale: 9, EdgeFactor: 16, Features: 5, Classes: 7, Seed: 1},
	"uniform": {Kind: Uniform, Vertices: 500, Degree: 7.3, Features: 5, Classes: 7, Seed: 1},
	"uniform directed": {
		Kind: Uniform, Vertices: 500, Degree: 7.3, Directed: true, Features: 5, Classes: 7, Seed: 1,
	},
	"sbm": {Kind: SBM, Vertices: 500, Degree: 20, Features: 5, Classes: 7, Seed: 1},
	"sbm directed": {
		Kind: SBM, Vertices: 500, Degree: 20, Directed: true, Features: 5,
		Classes: 7, Seed: 1,
	},
	"sbm pairs":           {Kind: SBM, Vertices: 14, Degree: 3, Features: 1, Classes: 7, Seed: 1},
	"sbm one class":       {Kind: SBM, Vertices: 30, Degree: 3, Features: 2, Classes: 1, Seed: 1},
	"rmat, two vertices":  {Kind: RMAT, Scale: 1, EdgeFactor: 3, Features: 1, Classes: 2, Seed: 1},
	"no edge, no feature": {Kind: Uniform, Vertices: 1, Classes: 1},
}

func forExamples(t *testing.T, test func(t *testing.T, o Options, g *graph.Graph)) {
	for name, o := range examples {
		t.Run(name, func(t *testing.T) { test(t, o, inMemory(t, o)) })
	}
}

func inMemory(t *testing.T, o Options) *graph.Graph {
	t.Helper()
	g, err := Graph(o)
	require.NoError(t, err)
	return g
}

func diff(a, b *graph.Graph) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(graph.Graph{}), cmpopts.EquateEmpty())
}

func TestShape(t *testing.T) {
	forExamples(t, func(t *testing.T, o Options, g *graph.Graph) {
		vertices, edges := o.size()
		if g.Vertices() != vertices || g.Edges() != edges || int64(len(g.Relations[0].Sources)) != edges {
			t.Errorf("%d vertices, %d edges, %d sources; want %d and %d", g.Vertices(), g.Edges(),
				len(g.Relations[0].Sources), vertices, edges)
		}
		if want := float64(vertices) * o.Degree; o.Kind != RMAT && math.Abs(float64(edges)-want) > 1 {
			t.Errorf("%d edges, want %g", edges, want)
		}
		e := g.Relations[0].Edges()
		for k := range e.Len() {
			if e.Source[k] == e.Target[k] {
				t.Fatalf("self loop at %d", e.Source[k])
			}
		}
		// NewRelation sorts rows and checks the range of ids.
		sorted, err := graph.NewRelation(vertices, e)
		require.NoError(t, err)
		assert.Equal(t, g.Relations[0].Sources, sorted.Sources)
		if o.Kind != RMAT && !o.Directed {
			reversed, err := graph.NewRelation(vertices, graph.Edges{Source: e.Target, Target: e.Source})
			require.NoError(t, err)
			assert.Equal(t, g.Relations[0].Sources, reversed.Sources)
		}
		size := make([]int, o.Classes)
		for _, class := range g.Types[0].Labels.Class {
			size[class]++
		}
		if slices.Max(size)-slices.Min(size) > 1 || len(g.Types[0].Labels.Class) != vertices {
			t.Errorf("classes of %v vertices", size)
		}
		s := g.Types[0].Splits[0]
		all := slices.Sorted(slices.Values(slices.Concat(s.Train, s.Val, s.Test)))
		for v, id := range all {
			require.Equal(t, id, int64(v), "the split is no partition of the vertices: %v", all)
		}
		if n := float64(vertices); len(s.Train) != int(math.Round(.6*n)) ||
			len(s.Train)+len(s.Val) != int(math.Round(.8*n)) {
			t.Errorf("split of %d, %d and %d", len(s.Train), len(s.Val), len(s.Test))
		}
		assert.Equal(t, o.Features, g.Types[0].Features.Columns)
		assert.Len(t, g.Types[0].Features.Dense, vertices*o.Features)
	})
}

func TestSeedDecidesAll(t *testing.T) {
	forExamples(t, func(t *testing.T, o Options, g *graph.Graph) {
		assert.Equal(t, "", diff(g, inMemory(t, o)), "the same seed gives another graph")
		if o.Vertices == 1 || o.Scale == 1 {
			return
		}
		o.Seed++
		other := inMemory(t, o)
		if slices.Equal(g.Relations[0].Sources, other.Relations[0].Sources) ||
			slices.Equal(g.Types[0].Features.Dense, other.Types[0].Features.Dense) ||
			slices.Equal(g.Types[0].Splits[0].Train, other.Types[0].Splits[0].Train) {
			t.Error("another seed gives the same edges, features or split")
		}
	})
}

// onDisk makes a graph in memory, with a disk for edges beyond the budget, and says whether some waited
// there.
func onDisk(t *testing.T, o *Options, budget int64) (g *graph.Graph, waited bool, err error) {
	dir := filepath.Join(t.TempDir(), "store")
	g, err = hold(o, budget, func() (*os.File, error) {
		waited = true
		return graph.Scratch(dir)
	})
	return g, waited, err
}

// The graph is the same for any memory budget (hence of passes) and any number of threads, with and without a
// disk for edges that wait.
func TestBudgetAndThreadsDoNotMatter(t *testing.T) {
	forExamples(t, func(t *testing.T, o Options, want *graph.Graph) {
		for _, threads := range []int{1, 3} {
			for _, budget := range []int64{300, 4000, edgeBudget()} {
				func() {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
					disk, _, failed := onDisk(t, &o, max(budget, 2000))
					memory, err := hold(&o, budget, nil)
					require.NoError(t, errors.Join(failed, err))
					assert.Equal(t, "", diff(want, memory)+diff(want, disk), "%d threads, %d bytes", threads,
						budget)
				}()
			}
		}
	})
}

func TestSBMIsHomophilous(t *testing.T) {
	for _, directed := range []bool{false, true} {
		g := inMemory(t, Options{
			Kind: SBM, Vertices: 5003, Degree: 20, Classes: 7, Seed: 4, Directed: directed,
		})
		e, own, class := g.Relations[0].Edges(), 0.0, make([]float64, 7)
		for k := range e.Len() {
			u, v := g.Types[0].Labels.Class[e.Source[k]], g.Types[0].Labels.Class[e.Target[k]]
			if u == v {
				own++
			} else {
				class[u]++
			}
		}
		n := float64(e.Len())
		assert.Near(t, Homophily, own/n, 0.01, "directed %t", directed)
		for c := range class {
			if want := n * (1 - Homophily) / 7; math.Abs(class[c]-want) > 0.05*want {
				t.Errorf("directed %t: class %d sends %g edges to others, want about %g",
					directed, c, class[c], want)
			}
		}
	}
}

// A classifier of the features alone is beaten clearly by one that sees averages over neighbours, which is
// not perfect either.
func TestSBMNeedsTheGraph(t *testing.T) {
	g := inMemory(t, Options{Kind: SBM, Vertices: 8000, Degree: 20, Features: 16, Classes: 16, Seed: 1})
	alone := nearestCentre(g, g.Types[0].Features.Dense)
	oneHop := average(g, g.Types[0].Features.Dense)
	one, two := nearestCentre(g, oneHop), nearestCentre(g, average(g, oneHop))
	t.Logf("nearest centre: features %.3f, one hop %.3f, two hops %.3f", alone, one, two)
	if alone < 0.4 || one < alone+0.15 || two < one || two > 0.97 {
		t.Errorf("nearest centre is right for %.3f, %.3f after one hop, %.3f after two", alone, one, two)
	}
}

// nearestCentre is the test accuracy of the nearest mean of the training vertices.
func nearestCentre(g *graph.Graph, x []float32) float64 {
	columns, classes := g.Types[0].Features.Columns, g.Types[0].Labels.Classes
	centre, size := make([]float64, classes*columns), make([]float64, classes)
	for _, v := range g.Types[0].Splits[0].Train {
		class := int(g.Types[0].Labels.Class[v])
		size[class]++
		for j := range columns {
			centre[class*columns+j] += float64(x[int(v)*columns+j])
		}
	}
	right := 0
	for _, v := range g.Types[0].Splits[0].Test {
		nearest, least := 0, math.Inf(1)
		for class := range classes {
			distance := 0.0
			for j := range columns {
				d := centre[class*columns+j]/size[class] - float64(x[int(v)*columns+j])
				distance += d * d
			}
			if distance < least {
				nearest, least = class, distance
			}
		}
		if int64(nearest) == g.Types[0].Labels.Class[v] {
			right++
		}
	}
	return float64(right) / float64(len(g.Types[0].Splits[0].Test))
}

// average is the mean over a vertex and its in-neighbours.
func average(g *graph.Graph, x []float32) []float32 {
	columns, r, mean := g.Types[0].Features.Columns, &g.Relations[0], slices.Clone(x)
	for v := range g.Vertices() {
		row := mean[v*columns : (v+1)*columns]
		for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
			for j := range row {
				row[j] += x[int(u)*columns+j]
			}
		}
		for j := range row {
			row[j] /= float32(r.Indptr[v+1]-r.Indptr[v]) + 1
		}
	}
	return mean
}

func TestRMATIsSkewed(t *testing.T) {
	const scale = 12
	g := inMemory(t, Options{Kind: RMAT, Scale: scale, EdgeFactor: 16, Classes: 4, Seed: 2})
	n := g.Vertices()
	degree, firstHalf := make([]int64, n), int64(0)
	for v := range n {
		degree[v] = g.Relations[0].Indptr[v+1] - g.Relations[0].Indptr[v]
	}
	for _, d := range degree[:n/2] {
		firstHalf += d
	}
	if share := float64(firstHalf) / float64(g.Edges()); share < 0.35 || share > 0.65 {
		t.Errorf("the lower half of the ids receives %.2f of the edges: ids carry degree", share)
	}
	slices.Sort(degree)
	// Unscrambled vertex 0 receives the fraction 0.76^scale of the edges; half of the vertices, those with
	// half of their bits or more set, receive few.
	if hub, want := float64(degree[n-1]), math.Pow(0.76, scale)*float64(g.Edges()); hub < 0.8*want ||
		hub > 1.3*want {
		t.Errorf("the largest in-degree is %g, want about %g", hub, want)
	}
	if median := degree[n/2]; median > 8 {
		t.Errorf("the median in-degree is %d, half of the mean or more", median)
	}
}

func TestRefusals(t *testing.T) {
	for flag, o := range map[string]Options{
		"torus":                 {Kind: "torus"},
		"scale 0":               {Kind: RMAT, EdgeFactor: 1, Classes: 1},
		"scale 31":              {Kind: RMAT, Scale: 31, EdgeFactor: 1, Classes: 1},
		"edge-factor -1":        {Kind: RMAT, Scale: 3, EdgeFactor: -1, Classes: 1},
		"edge-factor 1024":      {Kind: RMAT, Scale: 30, EdgeFactor: 1024, Classes: 1},
		"directed do not":       {Kind: RMAT, Scale: 3, EdgeFactor: 1, Classes: 1, Directed: true},
		"scale and":             {Kind: SBM, Vertices: 10, Scale: 3, Classes: 1},
		"vertices 0":            {Kind: SBM, Classes: 1},
		"vertices 1 ":           {Kind: Uniform, Vertices: 1, Degree: 2, Classes: 1},
		"vertices 2147483648":   {Kind: Uniform, Vertices: 1 << 31, Classes: 1},
		"degree NaN":            {Kind: Uniform, Vertices: 10, Degree: math.NaN(), Classes: 1},
		"degree -1":             {Kind: Uniform, Vertices: 10, Degree: -1, Classes: 1},
		"degree 1000":           {Kind: Uniform, Vertices: 1 << 30, Degree: 1000, Classes: 1},
		"features -1":           {Kind: Uniform, Vertices: 10, Features: -1, Classes: 1},
		"classes 0":             {Kind: Uniform, Vertices: 10},
		"classes 11":            {Kind: Uniform, Vertices: 10, Classes: 11},
		"classes 6: sbm needs":  {Kind: SBM, Vertices: 10, Degree: 2, Classes: 6},
		"at most 5 classes":     {Kind: SBM, Vertices: 10, Degree: 2, Classes: 6},
		"features 1048577: giv": {Kind: Uniform, Vertices: 10, Features: 1<<20 + 1, Classes: 1},
	} {
		err := o.Validate()
		if err == nil || !refusal.Is(err) || !containsOneLine(err.Error(), flag) {
			t.Errorf("%+v: %v, want a refusal with %q", o, err, flag)
		}
	}
	for _, kind := range []string{RMAT, SBM, Uniform} {
		o := Default(kind)
		assert.NoError(t, o.Validate(), "the defaults of %s are refused", kind)
	}
}

func TestWriteStoresTheGraph(t *testing.T) {
	forExamples(t, func(t *testing.T, o Options, want *graph.Graph) {
		dir := filepath.Join(t.TempDir(), "store")
		require.NoError(t, Write(dir, o))
		stored, err := graph.Open(dir)
		require.NoError(t, err)
		defer stored.Close()
		assert.Equal(t, "", diff(want, stored))
	})
}

func TestWriteRefusesBeforeItCreates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	assert.Refused(t, Write(dir, Options{Kind: "torus"}), "")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a refused graph left its folder: %v", err)
	}
}

// Edges that wait on disk are read as they are drawn, with keys of either width. They are drawn once: nothing
// is drawn when they are there.
func TestSpilled(t *testing.T) {
	for name, spill := range map[string]func(m *rowMaker, passes []pass,
		f *os.File) (func(int, visitor, func(int64)) error, error){
		"narrow": spillAs[uint32], "wide": spillAs[uint64],
	} {
		o := Options{Kind: RMAT, Scale: 9, EdgeFactor: 40, Classes: 3, Seed: 2}
		edges := newEdges(&o, newClasses(&o))
		m := rowMaker{edges: edges, draws: 1 << 14, both: true, vertices: 1 << 9, budget: 20_000}
		m.chooseBuckets()
		m.count()
		size := make([]int64, len(m.counts[0]))
		for _, counts := range m.counts {
			for b, n := range counts {
				size[b] += n
			}
		}
		passes, _ := m.passes(size)
		if len(passes) < 4 {
			t.Fatalf("%d passes", len(passes))
		}
		f, err := graph.Scratch(filepath.Join(t.TempDir(), "store"))
		require.NoError(t, err)
		defer f.Close()
		read, err := spill(&m, passes, f)
		require.NoError(t, err)
		type edge struct{ source, target uint32 }
		collect := func(into []map[edge]int) visitor {
			return func(worker int) func(source, target []uint32) {
				into[worker] = map[edge]int{}
				return func(source, target []uint32) {
					for k := range source {
						into[worker][edge{source[k], target[k]}]++
					}
				}
			}
		}
		want := make([]map[edge]int, len(m.counts))
		m.each(collect(want), func(int64) {})
		m.edges = func(uint64, []uint32, []uint32) { t.Error("edges were drawn again") }
		got := make([]map[edge]int, len(m.counts))
		for w := range got {
			got[w] = map[edge]int{}
		}
		for n := range passes {
			found := make([]map[edge]int, len(got))
			require.NoError(t, read(n, collect(found), nil))
			for w := range found {
				for e, k := range found[w] {
					if b := int(e.target) >> m.shift; b >= passes[n].end || n > 0 && b < passes[n-1].end {
						t.Fatalf("%s: pass %d has an edge into %d", name, n, e.target)
					}
					got[w][e] += k
				}
			}
		}
		assert.Equal(t, want, got, "%s: other edges than were drawn", name)
		require.NoError(t, f.Truncate(5))
		assert.Error(t, read(1, collect(got), nil), "%s: a file without its edges was read", name)
	}
}

// A disk without room for edges that wait costs time and nothing else.
func TestNoRoomToWait(t *testing.T) {
	fulldisk.Run(t, func(full func(uint64, func())) {
		o := Options{Kind: Uniform, Vertices: 4000, Degree: 30, Classes: 3, Seed: 2}
		want := inMemory(t, o)
		var disk *graph.Graph
		var waited bool
		var err error
		full(10_000, func() { disk, waited, err = onDisk(t, &o, 100_000) })
		require.NoError(t, err)
		if !waited {
			t.Fatal("nothing was to wait")
		}
		assert.Equal(t, "", diff(want, disk))
	})
}

// Wide keys, which graphs of very many vertices need, give the rows of narrow ones.
func TestWideKeys(t *testing.T) {
	for name, o := range examples {
		edges, draws := newEdges(&o, newClasses(&o)), uint64(300)
		if o.Vertices == 1 {
			draws = 0
		}
		vertices, _ := o.size()
		var found [2]graph.Relation
		for wide := range found {
			m := rowMaker{edges: edges, draws: draws, both: true, vertices: vertices, budget: 900}
			m.chooseBuckets()
			m.count()
			emit := func(rows *graph.Relation) error {
				found[wide].Indptr = append(found[wide].Indptr, rows.Indptr...)
				found[wide].Sources = append(found[wide].Sources, rows.Sources...)
				return nil
			}
			m.narrow = wide == 0
			run := map[bool]func(*rowMaker, emitFunc) error{
				true:  runPasses[uint32],
				false: runPasses[uint64],
			}[m.narrow]
			require.NoError(t, run(&m, emit))
		}
		assert.Equal(t, found[1], found[0], "%s: narrow keys give", name)
	}
}

// Radix sort of many keys gives what the library's sort gives.
func TestSorted(t *testing.T) {
	for _, width := range []uint{1, 11, 12, 31, 32, 40} {
		q := counter.New(uint64(width), "test").At(0)
		keys := make([]uint64, 5000)
		for k := range keys {
			keys[k] = q.Next() >> (64 - width)
		}
		want := slices.Sorted(slices.Values(keys))
		assert.Equal(t, want, sorted(keys, make([]uint64, len(keys)), width),
			"keys of %d bits are not sorted", width)
	}
}

// heap is a sink that keeps nothing, and looks how large Go's heap is.
type heap struct {
	graph.Sink
	most uint64
}

func (h *heap) look() error {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	h.most = max(h.most, now.HeapAlloc)
	return nil
}

func (h *heap) In(_ int, _ int64, _ *graph.Relation, batches graph.Batches[*graph.Relation]) error {
	return batches(func(*graph.Relation) error { return h.look() })
}

func (h *heap) Features(_, _, _ int, batches graph.Batches[*graph.Features]) error {
	return batches(func(*graph.Features) error { return h.look() })
}

func (h *heap) Classes(batches graph.Batches[[]int64]) error {
	return batches(func([]int64) error { return h.look() })
}

func (h *heap) Splits([]graph.Split) error { return nil }

// limit lets Go's runtime take so many bytes more than it has.
func limit(t *testing.T, more int64) (has uint64) {
	t.Helper()
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	before := debug.SetMemoryLimit(int64(now.Sys-now.HeapReleased) + more)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	return now.HeapAlloc
}

// A graph of three times what the runtime may take is generated within that.
func TestWithinTheLimit(t *testing.T) {
	const may = 32 << 20
	has := limit(t, may)
	o := Options{Kind: Uniform, Vertices: 100_000, Degree: 120, Features: 8, Classes: 4} // 96 MB of edges
	dir, h := filepath.Join(t.TempDir(), "store"), heap{}
	scratch := func() (*os.File, error) { return graph.Scratch(dir) }
	require.NoError(t, produce(&o, edgeBudget(), &h, scratch))
	if took := h.most - has; took > 2*may { // garbage is collected beside the work
		t.Errorf("it took %d bytes of %d", took, may)
	}
}

// What does not come in a stream is asked for before anything is written.
func TestRefusesWhatHasNoMemory(t *testing.T) {
	limit(t, 32<<20)
	for _, o := range []Options{
		{Kind: Uniform, Vertices: 1 << 30, Degree: 1, Classes: 2},
		{Kind: SBM, Vertices: 1 << 21, Degree: 1, Classes: 1 << 20, Features: 64},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		assert.RefusedFor(t, Write(dir, o), dir+": ", "needs ", o.Kind)
	}
}
