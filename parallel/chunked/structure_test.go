package chunked

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

var (
	along   = gnn.Along{Relation: graph.RelationName}
	against = gnn.Along{Relation: graph.RelationName, Reversed: true}
)

// TestStoresWhatIsRead: in both directions a replica stores the rows that one of its chunks reads of another
// chunk, each once, and sends another replica those of its rows that are read there. TestEveryRow finds
// whether these are the right ones.
func TestStoresWhatIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, list := drawn(t)
		d.graph = graphOf(t, len(d.part), list)
		if r := &d.graph.Relations[0]; rapid.Bool().Draw(t, "weighted") {
			r.Weights = rapid.SliceOfN(rapid.SampledFrom([]float32{1, 2, 3}), len(list),
				len(list)).Draw(t, "weights")
		}
		d.run(t, func(me int, _ *kernel.Team, g *Graph) {
			for _, a := range []gnn.Along{along, against} {
				reads := func(replica int, u int32) bool {
					return slices.ContainsFunc(list, func(e edge) bool {
						if a.Reversed {
							e = edge{e.v, e.u}
						}
						return e.u == u && int(d.part[e.v]) == replica &&
							(d.part[u] != d.part[e.v] || d.chunk[u] != d.chunk[e.v])
					})
				}
				stored, needed := 0, make([]int, d.replicas)
				for u := range int32(len(d.part)) {
					for replica := range needed {
						switch {
						case !reads(replica, u):
						case replica == me:
							stored++
						case int(d.part[u]) == me:
							needed[replica]++
						}
					}
				}
				st, err := g.structure(a)
				exchange.Must(err)
				if st.rows() != stored {
					t.Errorf("replica %d stores %d rows, want %d", me, st.rows(), stored)
				}
				for replica, lists := range st.needed {
					n := 0
					for _, rows := range lists {
						n += rows.Cols
					}
					if n != needed[replica] {
						t.Errorf("replica %d sends %d rows to %d, want %d", me, n, replica, needed[replica])
					}
				}
				checkColumns(t, st)
				d.checkWeights(t, st, a)
			}
		})
	})
}

// checkColumns: a value of a chunk's rows is the same where they are sources.
func checkColumns(t rapid.TB, st *structure) {
	vertices := func(e *edges.Edges) []int32 { return st.graph.Chunks[slices.Index(st.edges, e)].Vertices() }
	for _, e := range st.edges {
		columns, err := st.Columns(e, func(e *edges.Edges) *tensor.Matrix {
			m := st.graph.team.Memory.New(tensor.Graph, e.Rows, 1)
			for row, v := range vertices(e) {
				m.Floats()[row] = float32(v)
			}
			return m
		})
		exchange.Must(err)
		for i, b := range e.Remote() {
			for at, x := range columns[i].Floats() {
				if want := b.IDs.Int32s()[at]; x != float32(want) {
					t.Errorf("a source has %v, want %d", x, want)
				}
			}
		}
	}
}

// checkWeights compares the weights of the edges into each of this replica's vertices.
func (d *divided) checkWeights(t rapid.TB, st *structure, a gnn.Along) {
	all, got, want := d.graph.Relations[0].Edges(), map[int32][]float32{}, map[int32][]float32{}
	if all.Weights == nil {
		return
	}
	for i, u := range all.Source {
		v := all.Target[i]
		if a.Reversed {
			v = u
		}
		if int(d.part[v]) == st.graph.me {
			want[v] = append(want[v], all.Weights[i])
		}
	}
	for k, e := range st.edges {
		own := st.graph.Chunks[k].Vertices()
		blocks := append(slices.Clone(e.Blocks), e.LoopBlocks(gnn.StoredLoops)...)
		for _, b := range blocks {
			indptr := b.In.Indptr.Int64s()
			for row := range b.In.Rows {
				target := row
				if b.Targets != nil {
					target = int(b.Targets.Int32s()[row])
				}
				v := own[target]
				got[v] = append(got[v], b.In.Values.Floats()[indptr[row]:indptr[row+1]]...)
			}
		}
	}
	for v := range d.part {
		slices.Sort(got[int32(v)])
		slices.Sort(want[int32(v)])
		if !slices.Equal(got[int32(v)], want[int32(v)]) {
			t.Errorf("vertex %d has edges of the weights %v, want %v", v, got[int32(v)], want[int32(v)])
		}
	}
}

// TestManySources: a vertex reads more rows than a block has, and they read it.
func TestManySources(t *testing.T) {
	const vertices = 2700
	d, list := &divided{replicas: 2, count: 3, options: axis.Options{HistoryPeriod: 1}}, []edge(nil)
	for v := range int32(vertices) {
		d.part, d.chunk = append(d.part, v%2), append(d.chunk, v%5%3)
		list = append(list, edge{v, 0}, edge{0, v})
	}
	d.graph = graphOf(t, vertices, list)
	number := func(epoch int, v int32) float32 { return float32((int(v)*7+epoch*3)%19 - 9) }
	tr := &trial{divided: d, orders: [][]int{{2, 0, 1}, {1, 2, 0}}, x: number, dz: number}
	assert.Equal(t, tr.definition(list), tr.run(t))
}
