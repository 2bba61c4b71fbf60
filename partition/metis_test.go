package partition

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

// communities is a directed graph of four classes with shuffled ids. Most edges stay within a class.
func communities(t *testing.T, vertices, edges int) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	shuffled := r.Perm(vertices)
	var e graph.Edges
	for range edges {
		u, v := r.IntN(vertices), r.IntN(vertices)
		if shuffled[u]%4 == shuffled[v]%4 || r.IntN(10) == 0 {
			e.Source, e.Target = append(e.Source, int32(u)), append(e.Target, int32(v))
		}
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	return graph.Of(relation)
}

func measured(t *testing.T, g *graph.Graph, o Options) *Statistics {
	t.Helper()
	a, err := Assign(context.Background(), g, o)
	require.NoError(t, err)
	return counted(t, g, a)
}

// counted are the statistics of an assignment.
func counted(t *testing.T, g *graph.Graph, a *Assignment) *Statistics {
	t.Helper()
	s, err := measure(g, a)
	require.NoError(t, err)
	return s
}

func TestMetisCutsLittle(t *testing.T) {
	g := communities(t, 2000, 60000)
	few, many := measured(t, g, Options{K: 4}), measured(t, g, Options{K: 4, Method: Random})
	if few.CutEdges*2 > many.CutEdges || slices.Max(few.Vertices) > 530 {
		t.Errorf("metis cuts %d edges with %v vertices, random %d", few.CutEdges, few.Vertices, many.CutEdges)
	}
}

// Each balance divides evenly what it names. All edges go into every tenth vertex, and the first half of the
// vertices train.
func TestMetisBalances(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var e graph.Edges
	for range 20000 {
		e.Source, e.Target = append(e.Source, int32(r.IntN(2000))), append(e.Target, int32(r.IntN(200)))
	}
	relation, err := graph.NewRelation(2000, e)
	require.NoError(t, err)
	g := &graph.Graph{
		Types: []graph.VertexType{
			{Frame: graph.Frame{Count: len(relation.Indptr) - 1, Splits: []graph.Split{{}, {}}}},
		},
		Relations: []graph.Relation{relation},
	}
	for v := range int64(500) {
		g.Types[0].Splits[1].Train = append(g.Types[0].Splits[1].Train, v)
	}
	for _, method := range []string{Metis, Stream} {
		edges := measured(t, g, Options{K: 4, Method: method, Balance: ByEdges})
		if slices.Max(edges.Edges) > 6000 || slices.Max(edges.Vertices) > 600 {
			t.Errorf("%s, balance edges: %v edges, %v vertices", method, edges.Edges, edges.Vertices)
		}
		train := measured(t, g, Options{K: 4, Method: method, Balance: ByTrain, Split: 1})
		if slices.Max(train.TrainVertices) > 145 || slices.Max(train.Vertices) > 600 {
			t.Errorf("%s, balance train: %v train, %v vertices", method, train.TrainVertices, train.Vertices)
		}
	}
}

// TestAutoBalance: METIS's equal shares of an R-MAT graph's vertices leave one of four workers 2.9 times the
// mean of edges, so edges are balanced too. A graph of equal degrees keeps the division by vertices alone.
func TestAutoBalance(t *testing.T) {
	hubs := generate.Default(generate.RMAT)
	hubs.Scale = 12
	even := generate.Default(generate.Uniform)
	even.Vertices, even.Degree = 2000, 20
	for want, o := range map[string]generate.Options{ByEdges: hubs, ByVertices: even} {
		g, err := generate.Graph(o)
		require.NoError(t, err)
		for _, method := range []string{Metis, Stream} {
			auto, err := Assign(t.Context(), g, Options{K: 4, Method: method, Balance: AutoBalance})
			require.NoError(t, err)
			named, err := Assign(t.Context(), g, Options{K: 4, Method: method, Balance: want})
			require.NoError(t, err)
			s := counted(t, g, auto)
			if auto.Balance != want || !slices.Equal(auto.Parts, named.Parts) ||
				float64(slices.Max(s.Edges)) > 1.15*float64(g.Edges())/4 {
				t.Errorf("%s by %s balances %s, %v edges", o.Kind, method, auto.Balance, s.Edges)
			}
		}
		random, err := Assign(t.Context(), g, Options{K: 4, Method: Random, Balance: AutoBalance})
		require.NoError(t, err, "random: %+v", random)
		assert.Equal(t, ByVertices, random.Balance, "random: %+v", random)
	}
}

// TestMetisOfFewVertices: small partitions have equally many vertices, at least one, and cut no more than
// ranges do.
func TestMetisOfFewVertices(t *testing.T) {
	for vertices, ks := range map[int][]int{2: {2}, 10: {5, 9, 10}, 300: {60, 150, 299, 300}} {
		sparse, dense := communities(t, vertices, 3*vertices), communities(t, vertices, 40*vertices)
		for name, g := range map[string]*graph.Graph{"few edges": sparse, "many edges": dense} {
			for _, k := range ks {
				plain := measured(t, g, Options{K: k, Method: Range})
				for _, method := range []string{Metis, Stream} {
					got := measured(t, g, Options{K: k, Method: method})
					if least, most := slices.Min(got.Vertices), slices.Max(got.Vertices); least == 0 ||
						most > vertices/k+2 {
						t.Errorf("%d vertices with %s in %d partitions by %s: between %d and %d in each",
							vertices, name, k, method, least, most)
					}
					if got.CutEdges > plain.CutEdges {
						t.Errorf("%d vertices with %s in %d partitions by %s: %d edges are cut, %d by ranges",
							vertices, name, k, method, got.CutEdges, plain.CutEdges)
					}
				}
			}
		}
	}
}

func TestMetisTooLarge(t *testing.T) {
	assert.NoError(t, checkMetisSize(1<<31-1))
	assert.Refused(t, checkMetisSize(1<<31), "up to 2147483647, and here are 2147483648")
}

// TestUndirected compares METIS's input with a simple construction.
func TestUndirected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vertices := rapid.IntRange(1, 12).Draw(t, "vertices")
		ends := rapid.SliceOfN(rapid.IntRange(0, vertices-1), 0, 60).Draw(t, "ends")
		var e graph.Edges
		type pair struct{ u, v int32 }
		want := map[pair]int32{}
		for k := 0; k+1 < len(ends); k += 2 {
			u, v := int32(ends[k]), int32(ends[k+1])
			e.Source, e.Target = append(e.Source, u), append(e.Target, v)
			if u != v {
				want[pair{u, v}]++
				want[pair{v, u}]++
			}
		}
		relation, err := graph.NewRelation(vertices, e)
		require.NoError(t, err)
		p, err := undirected(&relation, 0)
		require.NoError(t, err)
		defer p.Close()
		got := map[pair]int32{}
		var weights []int32
		for v := range int32(vertices) {
			row := p.Neighbours[p.Indptr[v]:p.Indptr[v+1]]
			if !slices.IsSorted(row) {
				t.Errorf("neighbours of %d: %v", v, row)
			}
			for k, u := range row {
				weight := want[pair{v, u}]
				if p.EdgeWeights != nil {
					weight = p.EdgeWeights[int(p.Indptr[v])+k]
				}
				got[pair{v, u}] = weight
				weights = append(weights, weight)
			}
		}
		assert.EqualBy(t, want, got, gocmp.AllowUnexported(pair{}))
		if uniform := len(weights) == 0 ||
			slices.Min(weights) == slices.Max(weights); uniform != (p.EdgeWeights == nil) {
			t.Errorf("weights %v are kept: %v", weights, p.EdgeWeights != nil)
		}
	})
}

// TestManyRelations: the halos of 8,000 relations are stored and read again. More partitions than can be read
// again are refused before they are made.
func TestManyRelations(t *testing.T) {
	const relations = 8000
	r := &record{Format: formatVersion}
	r.K = 2
	for range relations {
		r.Relations = append(r.Relations, Halo{square[int](2), square[int](2)})
	}
	r.Vertices, r.Edges, r.TrainVertices = make([]int, 2), make([]int64, 2), make([]int, 2)
	r.HaloRows, r.HaloRowsOut, r.Cut = square[int](2), square[int](2), square[int64](2)
	for i := range 4 * relations {
		r.Store = append(r.Store, graph.FileRecord{Name: fmt.Sprint(i)})
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	_, err = parseRecord(text)
	assert.NoError(t, err)
	g := made(t, 300, 3, kinds["bare"], 1)
	relation := g.Relations[0]
	g.Types[0].Type, g.Types[0].Count, g.Relations = "a", g.Vertices(), nil
	for i := range 120 {
		r := relation
		r.Source, r.Name, r.Target = "a", fmt.Sprint("r", i), "a"
		g.Relations = append(g.Relations, r)
	}
	_, err = Assign(t.Context(), g, Options{K: 93, Method: Random})
	assert.NoError(t, err)
	_, err = Assign(t.Context(), g, Options{K: 94, Method: Random})
	assert.EqualRefusal(t, err, "94 partitions: a graph of 120 relations is divided into 93 at most")
}

// TestSmallGraphsByMetis: where METIS takes no time, no faster method is named.
func TestSmallGraphsByMetis(t *testing.T) {
	var stages []string
	say := func(stage string, _, _ int64) { stages = append(stages, stage) }
	measured(t, communities(t, 60, 200), Options{K: 2, Method: Metis, Progress: say})
	assert.Equal(t, "dividing by METIS", stages[0])
}
