package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/ogb"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/partition"
	"weft/train"
	"weft/train/setting"
)

func read(t *testing.T, s shape, share float64) *graph.Graph {
	t.Helper()
	folder := filepath.Join(t.TempDir(), s.name)
	require.NoError(t, run([]string{"graph", folder, fmt.Sprint(share)}, nil, nil))
	g, err := streamedtest.Read(ogb.Open(ogb.Options{Folder: folder}))
	require.NoError(t, err)
	return g
}

// TestGraph: a hundredth of a percent has that share of the counts of ogbn-papers100M, and its split. 1.4 %
// have labels, of several classes. The most cited paper has many times the mean of citations, and most
// citations stay in the class.
func TestGraph(t *testing.T) {
	g := read(t, papers100M, 1e-4)
	if g.Vertices() != 11_106 || g.Edges() != 161_569 || g.Types[0].Features.Columns != 128 ||
		g.Types[0].Labels.Classes < 150 || g.Types[0].Labels.Classes > 172 {
		t.Errorf("%d vertices, %d edges, %d features, %d classes", g.Vertices(), g.Edges(),
			g.Types[0].Features.Columns, g.Types[0].Labels.Classes)
	}
	s := g.Types[0].Splits[0]
	if len(s.Train) != 121 || len(s.Val) != 13 || len(s.Test) != 21 {
		t.Errorf("%d train, %d validate, %d test", len(s.Train), len(s.Val), len(s.Test))
	}
	labelled, found := slices.Sorted(slices.Values(slices.Concat(s.Train, s.Val, s.Test))), []int64{}
	p, classes := papers100M.generate(1e-4), map[int64]bool{}
	for v, class := range g.Types[0].Labels.Class {
		if class >= 0 {
			found, classes[class] = append(found, int64(v)), true
			assert.Equal(t, p.class(v), int(class), "vertex %d has the class %d", v, class)
		}
	}
	if !slices.Equal(labelled, found) || len(classes) < 80 {
		t.Errorf("%d vertices of %d classes have labels", len(found), len(classes))
	}
	most, within, r := int64(0), 0, g.Relations[0]
	for v := range g.Vertices() {
		most = max(most, r.Indptr[v+1]-r.Indptr[v])
		for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
			if p.class(int(u)) == p.class(v) {
				within++
			}
		}
	}
	if most < 10*161_569/11_106 || within < 161_569*3/4 {
		t.Errorf("at most %d in-edges, %d edges within classes", most, within)
	}
}

// TestMedium: a share of igb_medium has its features and classes. All vertices have labels, and a split, and
// edges lead one way. Features of a class lie around its centre: their mean is the centre, not 0.
func TestMedium(t *testing.T) {
	g := read(t, igbMedium, 2e-4)
	if g.Vertices() != 2000 || g.Edges() != 24_016 || g.Types[0].Features.Columns != 1024 ||
		g.Types[0].Labels.Classes != 19 {
		t.Errorf("%d vertices, %d edges, %d features, %d classes", g.Vertices(), g.Edges(),
			g.Types[0].Features.Columns, g.Types[0].Labels.Classes)
	}
	s := g.Types[0].Splits[0]
	if len(s.Train) != 1200 || len(s.Val) != 400 || len(s.Test) != 400 {
		t.Errorf("%d train, %d validate, %d test", len(s.Train), len(s.Val), len(s.Test))
	}
	sums, members := make([]float64, 1024), 0
	for v, class := range g.Types[0].Labels.Class {
		if class == 7 {
			members++
			for c, x := range g.Types[0].Features.Row(v) {
				sums[c] += float64(x)
			}
		}
	}
	square := 0.0
	for _, sum := range sums {
		square += sum * sum / float64(members*members) / 1024
	}
	assert.Near(t, signal*signal+1/float64(members), square, 0.01, "the mean square of %d means", members)
}

// TestUnknownShape: a folder whose name is no shape's is refused.
func TestUnknownShape(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "ogbn_arxiv")
	assert.ErrorContains(t, run([]string{"graph", folder, "0.1"}, nil, nil), "igb_medium")
}

// TestPlan: the plan from counts sends what the formula of docs/architecture.md says. It needs nearly what a
// graph in random partitions with these counts needs, which are as equal as the counts say.
func TestPlan(t *testing.T) {
	const k = 4
	g, err := read(t, papers100M, 1e-4).Symmetrize()
	require.NoError(t, err)
	settings := map[string]string{
		"model": "sage", "layers": "3", "hidden": "256", "norm": "batch",
		"partition": "random",
	}
	c := counts{Workers: k, Vertices: g.Vertices(), Edges: g.Edges()}
	options, err := setting.FromTexts(settings)
	require.NoError(t, err)
	options.Parallel = fmt.Sprintf("graph=%d", k)
	a, err := partition.Assign(context.Background(), g, options.Assignment(g, k))
	require.NoError(t, err)
	shares, err := partition.Split(g, a)
	require.NoError(t, err)
	made := shares[0].Whole.Statistics
	c.CutShare, c.HaloRows = float64(made.CutEdges)/float64(c.Edges), made.Replication()-1
	cases := []planned{{Settings: settings, counts: c}}
	require.NoError(t, planAll(context.Background(), cases))
	p := cases[0]
	assert.Equal(t, int64(2*4*(256+172)*k*(k-1)*c.alike().Halo()), p.SentBytes, "bytes are sent")
	real, err := (&train.Job{Graph: g, Options: options}).Plan(context.Background())
	require.NoError(t, err)
	need, want := p.TensorBytes+p.GraphBytes, real.PeakTensorBytes[0]+real.GraphBytes[0]
	assert.Near(t, 1, float64(need)/float64(want), 0.05,
		"a worker needs %d bytes by counts, and %d by the graph itself", need, want)
}
