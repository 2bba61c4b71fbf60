package session

import (
	"path/filepath"
	"testing"

	"weft/cmd/weft/internal/cli"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
)

// stored writes a graph of so many vertices, and returns its store and ID.
func stored(t *testing.T, vertices int) (store, id string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "g")
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Features = vertices, 2
	g, err := generate.Graph(o)
	require.NoError(t, err)
	require.NoError(t, g.Write(store))
	id, err = graph.ID(store)
	require.NoError(t, err)
	return store, id
}

// TestHold: a store that was another one before a session opened it is not held.
func TestHold(t *testing.T) {
	store, id := stored(t, 20)
	_, other := stored(t, 30)
	s := &Session{Ranks: cli.Alone(), Store: store}
	require.NoError(t, s.Hold(id))
	assert.Equal(t, id, s.Stored.ID)
	require.NoError(t, s.Stored.close())
	assert.ErrorContains(t, s.Hold(other), "g: changed while it was opened; start the run again")
	require.NoError(t, s.Stored.close())
}

// TestReplacedOnce: a run's graph is compared once, whatever takes its place meanwhile, and another graph
// that is asked for anew.
func TestReplacedOnce(t *testing.T) {
	store, id := stored(t, 20)
	other, _ := stored(t, 30)
	r := Request{Graph: store, graphID: id}
	for _, c := range []struct {
		graph string
		want  bool
	}{{store, false}, {store, false}, {other, true}} {
		r.Graph = c.graph
		is, err := r.isReplaced()
		require.NoError(t, err)
		assert.Equal(t, c.want, is, c.graph)
		r.graphID = "no more" // of no graph: what is compared again is replaced
	}
}
