package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
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
	var said bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(context.Background())
	cmd.SetErr(&said)
	c := &trainCommand{}
	chosen, err := c.fastest(cmd, alone(), store, slow, 4)
	require.NoError(t, err)
	require.Equal(t, "graph=1", chosen, &said)
	g, err := graph.Open(store)
	require.NoError(t, err)
	defer g.Close()
	p := graphPlanner(setting.Defaults(), nil, g, store, store, &said)
	p.Machine = slow
	p.Machine.Sharers = 1
	meshes, _, err := p.Meshes(context.Background(), 1)
	p.shown.Erase()
	require.NoError(t, err)
	require.Len(t, meshes, 1)
	var want bytes.Buffer
	sayChosen(&want, &meshes[0])
	assert.Contains(t, said.String(), want.String(), "%s\nwant %s", &said, &want)
}

// TestRatesAreOfThisProgram: kept rates are those of this version of weft, this processor and these kernels.
func TestRatesAreOfThisProgram(t *testing.T) {
	before := programVersion
	defer func() { programVersion = before }()
	programVersion = "1.2.3"
	first := here()
	programVersion = "1.2.4"
	second := here()
	if first == second || strings.ReplaceAll(first, "1.2.3", "1.2.4") != second {
		t.Errorf("%q of version 1.2.3, %q of 1.2.4", first, second)
	}
	for _, part := range []string{procEntry("/proc/cpuinfo", "model name"), kernel.SIMD()} {
		assert.Contains(t, first, part, "does not name")
	}
}
