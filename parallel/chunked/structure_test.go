package chunked

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/tensor"
)

var (
	along   = gnn.Along{Relation: graph.RelationName}
	against = gnn.Along{Relation: graph.RelationName, Reversed: true}
)

// TestWhoReadsWhom looks at every edge. On each replica the stored rows are those that a chunk reads but does
// not own, each once. The replicas agree on the rows that they exchange. Each chunk has the edges into its
// rows, with their weights and sources.
func TestWhoReadsWhom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, list := drawn(t)
		var weights []float32
		if rapid.Bool().Draw(t, "weighted") {
			weights = rapid.SliceOfN(rapid.SampledFrom([]float32{1, 2, 3}), len(list), len(list)).Draw(t, "weights")
		}
		d.check(t, list, weights)
	})
}

// TestManySources: a vertex reads more rows than a block has, and they read it.
func TestManySources(t *testing.T) {
	const vertices = 2700
	d, list := &divided{replicas: 2, count: 3, options: axis.Options{HistoryPeriod: 1}}, []edge(nil)
	for v := range int32(vertices) {
		d.of, d.chunk = append(d.of, v%2), append(d.chunk, v%5%3)
		list = append(list, edge{v, 0}, edge{0, v})
	}
	d.check(t, list, nil)
}

// check compares the structure of both directions with the list of edges.
func (d *divided) check(t rapid.TB, list []edge, weights []float32) {
	d.graph = graphOf(t, len(d.of), list, weights)
	d.run(t, func(me int, _ *kernel.Team, g *Graph) {
		for _, a := range []gnn.Along{along, against} {
			st, err := g.structure(a)
			if err != nil {
				panic(err)
			}
			directed := make([]weighed, len(list))
			for i, e := range list {
				directed[i] = weighed{e, 1}
				if a.Reversed {
					directed[i].edge = edge{e.v, e.u}
				}
				if weights != nil {
					directed[i].w = weights[i]
				}
			}
			stored := d.checkStored(t, me, st, directed)
			for k := range g.Chunks {
				d.checkEdges(t, me, k, st, directed, stored)
			}
			d.checkColumns(t, me, st, stored)
		}
	})
}

// reads reports whether a chunk of a replica reads a vertex of another chunk.
func (d *divided) reads(list []weighed, replica int, u int32) bool {
	return slices.ContainsFunc(list, func(e weighed) bool {
		return e.u == u && int(d.of[e.v]) == replica && (int(d.of[u]) != replica || d.chunk[u] != d.chunk[e.v])
	})
}

// checkStored compares the stored rows with those that are read, and returns their vertices.
func (d *divided) checkStored(t rapid.TB, me int, st *structure, list []weighed) (stored []int32) {
	for k := range d.count {
		if st.stored[k].lo != len(stored) {
			t.Errorf("replica %d, chunk %d: stored from %d on, want %d", me, k, st.stored[k].lo, len(stored))
		}
		for i := range d.replicas {
			replica := (me + i) % d.replicas
			own := d.mine(replica, k)
			first := len(stored)
			var here, there []int32 // rows of the chunk that this replica reads, and this replica's rows that the chunk reads
			for row, u := range own {
				if d.reads(list, me, u) {
					stored = append(stored, u)
					here = append(here, int32(row))
				}
			}
			if (st.of[replica][k] != span{first, len(stored)}) {
				t.Errorf("replica %d, chunk %d: those of replica %d are %v, want %d to %d", me, k, replica, st.of[replica][k], first, len(stored))
			}
			if replica == me {
				same(t, "own rows that others read", st.own[k].Int32s(), here)
				continue
			}
			for row, u := range d.mine(me, k) {
				if slices.ContainsFunc(list, func(e weighed) bool { return e.u == u && int(d.of[e.v]) == replica }) {
					there = append(there, int32(row))
				}
			}
			same(t, "rows that another replica reads", st.needed[replica][k].Int32s(), there)
		}
	}
	if st.rows() != len(stored) {
		t.Errorf("replica %d stores %d rows, want %d", me, st.rows(), len(stored))
	}
	return stored
}

// checkEdges compares a chunk's blocks with the edges into its rows.
func (d *divided) checkEdges(t rapid.TB, me, k int, st *structure, list []weighed, stored []int32) {
	own, e := d.mine(me, k), st.edges[k]
	var got, want []weighed
	add := func(b *edges.Block, source func(column int32) int32) {
		indptr, columns := b.In.Indptr.Int64s(), b.In.Indices.Int32s()
		for row := range b.In.Rows {
			for i := indptr[row]; i < indptr[row+1]; i++ {
				one := weighed{edge{source(columns[i]), own[b.Target(row)]}, 1}
				if b.In.Values != nil {
					one.w = b.In.Values.Floats()[i]
				}
				got = append(got, one)
			}
		}
	}
	add(e.Local(), func(column int32) int32 { return own[column] })
	if loops := e.LoopBlock(edges.Stored); loops != nil {
		add(loops, func(column int32) int32 { return own[column] })
	}
	for i, b := range e.Remote() {
		sources := st.sources[k][i].Int32s()
		if len(sources) > st.most {
			t.Errorf("a block of %d sources, where %d are the most", len(sources), st.most)
		}
		add(b, func(column int32) int32 { return stored[sources[column]] })
		for column, id := range b.IDs.Int32s() {
			if id != stored[sources[column]] {
				t.Errorf("source %d of a block is vertex %d, want %d", column, id, stored[sources[column]])
			}
		}
	}
	for _, one := range list {
		if int(d.of[one.v]) == me && int(d.chunk[one.v]) == k {
			want = append(want, one)
		}
	}
	if diff := cmp.Diff(sorted(want), sorted(got), cmp.AllowUnexported(weighed{}, edge{})); diff != "" {
		t.Errorf("replica %d, chunk %d: edges: %s", me, k, diff)
	}
}

// checkColumns: a value of a chunk's rows is the same where they are sources.
func (d *divided) checkColumns(t rapid.TB, me int, st *structure, stored []int32) {
	g := st.graph
	own := func(e *edges.Edges) *tensor.Matrix {
		m := g.team.Memory.New(tensor.Graph, e.Rows, 1)
		for row, v := range d.mine(me, slices.Index(st.edges, e)) {
			m.Floats()[row] = float32(v)
		}
		return m
	}
	for k, e := range st.edges {
		columns, err := st.Columns(e, own)
		if err != nil {
			panic(err)
		}
		for i, column := range columns {
			for at, x := range column.Floats() {
				if want := stored[st.sources[k][i].Int32s()[at]]; x != float32(want) {
					t.Errorf("replica %d, chunk %d: a source has %v, want %d", me, k, x, want)
				}
			}
		}
	}
}

func same(t rapid.TB, what string, got, want []int32) {
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
