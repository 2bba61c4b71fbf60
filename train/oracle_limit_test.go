package train

import (
	"context"
	"testing"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/plan"
	"weft/train/setting"
)

// TestLimitToTheByte: a worker may take exactly the limit, for tensors and graph together, and no byte more.
func TestLimitToTheByte(t *testing.T) {
	p := plan.Plan{PeakTensorBytes: []int64{600, 500}, GraphBytes: []int64{100, 300}}
	for limit, refused := range map[setting.Bytes]bool{
		0: false, 800: false, 900: false, 799: true, 700: true,
		600: true, 1: true,
	} {
		err := p.CheckLimit(limit)
		if (err != nil) != refused || err != nil && !refusal.Is(err) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	// The worker that needs most is named, whichever others exceed the limit too.
	err := p.CheckLimit(600)
	assert.ErrorContains(t, err, "worker 1 would need 800 B (tensors 500 B, graph 300 B)")
}

// TestRunKeepsToTheLimit: a run that takes exactly the limit is accepted and takes no more. One byte less
// refuses it. The graph counts: it has at least four bytes an edge.
func TestRunKeepsToTheLimit(t *testing.T) {
	g := tangled(t)
	for _, mesh := range []string{"", "graph=3"} {
		o := networks()["gcn"]
		o.Epochs, o.Recompute = 1, setting.RecomputeNone // auto would need less
		planned, err := onMesh(g, o, mesh).Plan(context.Background())
		require.NoError(t, err)
		need, graphs := int64(0), int64(0)
		for i, tensors := range planned.PeakTensorBytes {
			need, graphs = max(need, tensors+planned.GraphBytes[i]), graphs+planned.GraphBytes[i]
		}
		if edges := int64(len(g.Relations[0].Sources)); graphs < 4*edges {
			t.Errorf("%s: a graph of %d edges is %d bytes", mesh, edges, graphs)
		}
		o.MemoryLimit = setting.Bytes(need)
		r := mustRun(t, onMesh(g, o, mesh))
		for i, tensors := range r.PeakTensorBytes {
			if took := tensors + r.GraphBytes[i]; took > need {
				t.Errorf("%s: worker %d took %d bytes of %d", mesh, i, took, need)
			}
		}
		assert.Equal(t, planned.GraphBytes, r.GraphBytes, "%s: graphs", mesh)
		o.MemoryLimit--
		_, err = onMesh(g, o, mesh).Run(context.Background())
		assert.Refused(t, err, "", "%s: a byte less than %d", mesh, need)
	}
}
