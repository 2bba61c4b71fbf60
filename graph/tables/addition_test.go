package tables

import (
	"testing"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestAdd: new rows become features as the rows of the graph's table did, whatever the order of the columns;
// ids are those of the graph's vertices or of new ones, and one without a row has no values.
func TestAdd(t *testing.T) {
	vertices := graphtest.File(t, "v.csv", "id,city,age,label\na,Rome,10,x\nb,Paris,,y\nc,Rome,30,x\n")
	o := Options{
		Vertices: []string{vertices}, Label: "label",
		Edges: []string{graphtest.File(t, "e.csv", "source,target\na,b\nc,a\n")},
	}
	o.Choices.Most = 9
	read, err := Open(o)
	require.NoError(t, err)
	g, err := read.Read()
	require.NoError(t, err)
	more := Options{
		Vertices: []string{graphtest.File(t, "new.csv", "age,id,city,label\n7,d,Paris,\n,e,Oslo,x\n")},
		Edges:    []string{graphtest.File(t, "more.csv", "source,target\nd,a\nc,f\ne,d\n")},
	}
	a, err := Add(more, g)
	require.NoError(t, err)
	assert.Equal(t, []string{"d", "e", "f"}, a.Types[0].Names)
	assert.Equal(t, 3, a.Types[0].Count)
	// city=Paris, city=Rome, age (of mean 20), age missing
	assert.Equal(t, []float32{1, 0, 7, 0, 0, 0, 20, 1, 0, 0, 20, 1}, a.Types[0].Features.Dense)
	assert.Equal(t, []graph.Edges{{Source: []int32{3, 2, 4}, Target: []int32{0, 5, 3}}}, a.Edges)
	for name, c := range map[string]struct {
		vertices, edges []string
		want            string
	}{
		"known": {
			[]string{graphtest.File(t, "k.csv", "id,city,age\nb,Rome,1\n")},
			nil,
			"k.csv:2: the graph has a vertex of the id \"b\"",
		},
		"lacks": {
			[]string{graphtest.File(t, "l.csv", "id,city\nd,Rome\n")}, nil, "l.csv: there is no column age",
		},
		"twice": {more.Vertices, []string{more.Edges[0], more.Edges[0]}, "a second list of new edges"},
	} {
		_, err := Add(Options{Vertices: c.vertices, Edges: c.edges}, g)
		assert.ErrorContains(t, err, c.want, name)
	}
	g.Relations[0].Weights = []float32{1, 1}
	_, err = Add(Options{Edges: more.Edges}, g)
	assert.ErrorContains(t, err, "more.csv: the edges of the graph have weights; name their column with --edge-weights")
	g.Relations[0].Weights = nil
	g.Relations[0].Features.Columns = 2
	_, err = Add(Options{Edges: more.Edges}, g)
	assert.ErrorContains(t, err, "more.csv: the edges of the graph have 2 features, and these 0 features: name "+
		"their columns with --edge-features")
	_, err = Add(more, graph.Of(graph.Relation{Indptr: []int64{0, 0}}))
	assert.ErrorContains(t, err, "come from no table")
}

// TestAddReverses: a relation that holds the reverses of another gets those of its new edges, or its own.
func TestAddReverses(t *testing.T) {
	o := Options{
		Vertices: []string{
			graphtest.File(t, "users.csv", "id,age\na,1\nb,2\n"),
			graphtest.File(t, "items.csv", "id,price\nx,3\n"),
		},
		Edges: []string{graphtest.File(t, "buys.csv", "source,target\na,x\nb,x\n")},
	}
	o.Choices.Most = 9
	read, err := Open(o)
	require.NoError(t, err)
	plain, err := read.Read()
	require.NoError(t, err)
	g, err := plain.ReverseRelations()
	require.NoError(t, err)
	more := "buys=" + graphtest.File(t, "more.csv", "source,target\nb,y\nb,x\n")
	reverse := "rev_buys=" + graphtest.File(t, "rev.csv", "source,target\ny,b\n")
	forward := graph.Edges{Source: []int32{1, 1}, Target: []int32{1, 0}}
	a, err := Add(Options{Edges: []string{more}}, g)
	require.NoError(t, err)
	assert.Equal(t, []graph.Edges{forward, {Source: []int32{1, 0}, Target: []int32{1, 1}}}, a.Edges)
	assert.Equal(t, []string{"new edges of buys are added to rev_buys, too, reversed"}, a.Reversed)
	assert.Equal(t, []bool{false, true}, []bool{a.IsReversed(0), a.IsReversed(1)})
	a, err = Add(Options{Edges: []string{more, reverse}}, g)
	require.NoError(t, err)
	assert.Equal(t, []graph.Edges{forward, {Source: []int32{1}, Target: []int32{1}}}, a.Edges)
	a, err = Add(Options{Edges: []string{more}}, plain)
	require.NoError(t, err)
	assert.Equal(t, []graph.Edges{forward}, a.Edges)
	for _, scored := range []string{"buys", "rev_buys"} { // whichever of the two is scored
		a, err = Add(Options{Edges: []string{more}, Scored: scored}, g)
		require.NoError(t, err)
		assert.Equal(t, []graph.Edges{forward, {}}, a.Edges)
	}
}
