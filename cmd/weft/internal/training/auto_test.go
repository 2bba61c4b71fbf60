package training

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/planning"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/planner"
	"weft/train/setting"
)

// small is the store of a small graph.
func small(t *testing.T) string {
	t.Helper()
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Degree, o.Features, o.Classes = 200, 4, 6, 3
	g, err := generate.Graph(o)
	require.NoError(t, err)
	store := filepath.Join(t.TempDir(), "g")
	require.NoError(t, g.Write(store))
	return store
}

// TestAutoOfOneWorker: where links are slow one worker is the fastest, and it shares its cores with nobody,
// however many workers the machine would have otherwise.
func TestAutoOfOneWorker(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	store := small(t)
	slow := planner.Machine{Cores: 4, Sharers: 4, Links: planner.Links{Sends: 1, Receives: 1}}
	var stderr bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(context.Background())
	cmd.SetErr(&stderr)
	c := &trainCommand{}
	chosen, err := c.fastest(cmd, cli.Alone(), store, slow, 4)
	require.NoError(t, err)
	require.Equal(t, "graph=1", chosen, &stderr)
	g, err := graph.Open(store)
	require.NoError(t, err)
	defer g.Close()
	p := planning.GraphPlanner(setting.Defaults(), nil, g, store, store, &stderr)
	p.Machine = slow
	p.Machine.Sharers = 1
	meshes, _, err := p.Meshes(context.Background(), 1)
	p.Shown.Erase()
	require.NoError(t, err)
	require.Len(t, meshes, 1)
	var want bytes.Buffer
	sayChosen(&want, &meshes[0])
	assert.Contains(t, stderr.String(), want.String(), "%s\nwant %s", &stderr, &want)
}
