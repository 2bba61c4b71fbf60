package partition

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

func haloRows(s *Statistics) (rows int) {
	for p := range s.K {
		rows += s.Halo(p)
	}
	return rows
}

// TestStreamOfCommunities: in a graph of communities stream leaves at most 1.15 times the halo rows of METIS,
// and partitions of at most 1.05 times the mean.
func TestStreamOfCommunities(t *testing.T) {
	g := communities(t, 8000, 240_000)
	for _, k := range []int{4, 7, 16} {
		few, best := measured(t, g, Options{K: k, Method: Stream}), measured(t, g, Options{K: k})
		if haloRows(few)*100 > haloRows(best)*115 || slices.Max(few.Vertices)*100 > 105*8000/k+100 {
			t.Errorf("%d partitions: stream leaves %d halo rows with %v vertices, metis %d", k, haloRows(few),
				few.Vertices, haloRows(best))
		}
	}
}

// bipartite is a graph of two types and three relations: communities of ten users and five items.
func bipartite(t *testing.T, communities int) *graph.Graph {
	t.Helper()
	r, users, items := rand.New(rand.NewPCG(3, 1)), 10*communities, 5*communities
	var likes, liked, knows graph.Edges
	for u := range users {
		c := u / 10
		for range 3 {
			item := 5*c + r.IntN(5)
			likes.Source, likes.Target = append(likes.Source, int32(u)), append(likes.Target, int32(item))
			liked.Source, liked.Target = append(liked.Source, int32(item)), append(liked.Target, int32(u))
		}
		knows.Source, knows.Target = append(knows.Source, int32(10*c+r.IntN(10))),
			append(knows.Target, int32(u))
	}
	relation := func(source, name, target string, sources, targets int, e graph.Edges) graph.Relation {
		in, err := graph.NewBipartite(sources, targets, e)
		require.NoError(t, err)
		in.Source, in.Name, in.Target = source, name, target
		return in
	}
	g := &graph.Graph{
		Types: []graph.VertexType{
			{Type: "user", Frame: graph.Frame{Count: users}},
			{Type: "item", Frame: graph.Frame{Count: items}},
		},
		Relations: []graph.Relation{
			relation("user", "likes", "item", users, items, likes),
			relation("item", "liked", "user", items, users, liked),
			relation("user", "knows", "user", users, users, knows),
		},
	}
	require.NoError(t, g.Check())
	return g
}

// TestStreamOfTypes: communities of two types stay together, and each type is divided evenly.
func TestStreamOfTypes(t *testing.T) {
	g := bipartite(t, 400)
	got := measured(t, g, Options{K: 4, Method: Stream})
	if got.CutEdges*20 > g.Edges() {
		t.Errorf("%d of %d edges are cut", got.CutEdges, g.Edges())
	}
	for p, users := range got.Types[0] {
		if items := got.Types[1][p]; users > 1050 || items > 525 {
			t.Errorf("partition %d has %d of 4000 users and %d of 2000 items", p, users, items)
		}
	}
}

// TestStreamWithoutEdges divides evenly what has no edges, and refuses more partitions than vertices.
func TestStreamWithoutEdges(t *testing.T) {
	relation, err := graph.NewRelation(1000, graph.Edges{})
	require.NoError(t, err)
	g := graph.Of(relation)
	if got := measured(t, g, Options{K: 8, Method: Stream}); slices.Max(got.Vertices) > 131 {
		t.Errorf("%v vertices", got.Vertices)
	}
	assert.Equal(t, 1000, measured(t, g, Options{K: 1, Method: Stream}).Vertices[0],
		"vertices in one partition")
	_, err = Assign(context.Background(), g, Options{K: 1001, Method: Stream})
	assert.Error(t, err, "more partitions than vertices")
}

// TestStreamStops: the error of an Assign that is interrupted is the cause.
func TestStreamStops(t *testing.T) {
	ctx, stop := context.WithCancelCause(context.Background())
	cause := errors.New("stopped")
	o := Options{K: 4, Method: Stream, Progress: func(string, int64, int64) { stop(cause) }}
	_, err := Assign(ctx, communities(t, 100, 400), o)
	assert.ErrorIs(t, err, cause)
}

// TestAuto takes METIS unless it would take long or the memory does not suffice, and says why not.
func TestAuto(t *testing.T) {
	is := func(g *graph.Graph, want, reason string) {
		t.Helper()
		method, why := Auto(g)
		assert.Equal(t, want, method)
		assert.Equal(t, reason, why)
	}
	g := communities(t, 1000, 20_000)
	is(g, Metis, "")
	withEdges := func(edges int64) *graph.Graph {
		return graph.Of(graph.Relation{Indptr: []int64{0, edges}})
	}
	is(withEdges(20_000_000), Metis, "")
	is(withEdges(20_000_001), Stream, "METIS may take minutes")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 20))
	is(g, Stream, "METIS has too little memory")
}
