package train

import (
	"fmt"
	"strings"
	"testing"

	"weft/device/devicetest"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/partition"
	"weft/tensor"
	"weft/train/plan"
	"weft/train/setting"
)

// TestMovedBelowCard: in an epoch matrices come and leave between a card's memory and the host's by as many
// bytes as planned. As many rest in the host's memory, and the card's has the planned peak.
func TestMovedBelowCard(t *testing.T) {
	devicetest.Library(t)
	one, several := tangle(t, 540, 100), severalTypes(t)
	typed := typesInTurns(several)["rgcn"]
	for k, c := range []struct {
		mesh  string
		share float64 // of what lies between the least memory and that in which nothing rests
		words string
	}{
		{"graph=1/4", 0, "model gcn"},
		{"graph=1/3", .2, "model gcn, dropout 0"},
		{"graph=1/7", .5, "model gcn, layers 3, hidden 64, eval-every 2"},
		{"graph=2/4", 0, "model gcn, recompute blocks, norm layer"},
		{"graph=3/6", 0, "model gcn, hidden 64, layers 3, eval-every auto"},
		{"graph=4/8", .1, "model gcn, hidden 64, layers 4, epochs 1"},
		{"tensor=2/4", .1, "model gcn, hidden 64"},
		{"graph=1/4", .1, "model sage, norm batch"},
		{"graph=1/5", .7, "model sage, epochs 5, eval-every 2"},
		{"graph=1/4", .3, "model sage, precision bf16, hidden 64"},
		{"graph=2/5", .2, "model sage, aggregation max"},
		{"graph=3/7", 0, "model sage, hidden 64, dropout 0"},
		{"graph=4/8", .1, "model sage, hidden 64, layers 3, norm layer, recompute blocks"},
		{"tensor=2/4", .5, "model sage, hidden 64, eval-every auto"},
		{"graph=1/4", 0, "model gat, heads 4"},
		{"graph=1/6", .4, "model gat, heads 2, hidden 64, attention-dropout .3"},
		{"graph=2/4", .2, "model gat, heads 4, precision bf16, hidden 32"},
		{"graph=4/8", 0, "model gat, heads 2, hidden 64, epochs 1"},
		{"tensor=2/4", 0, "model gat, heads 2, hidden 64"},
		{"graph=1/4", .2, "model gcnii, layers 3"},
		{"graph=2/6", .1, "model gcnii, layers 3, hidden 64, eval-every 2"},
		{"graph=3/6", 0, "model gcnii, layers 3, hidden 64, recompute blocks"},
		{"tensor=2/4", 0, "model gcnii, layers 2, hidden 64, epochs 3"},
		{"graph=1/4", .1, "model gin, norm batch"},
		{"graph=2/4", .2, "model gin, layers 3, dropout 0, eval-every auto"},
		{"graph=4/8", .3, "model gin, layers 3, hidden 128, precision bf16"},
		{"graph=1/4", 0, "model rgcn"},
		{"graph=2/4", .3, "model rgcn, bases 0"},
		{"graph=4/8", .2, "model rgcn, layers 3, hidden 48, dropout 0"},
		{"tensor=2/4", .4, "model rgcn, hidden 48, norm layer"},
	} {
		t.Run(fmt.Sprintf("%d %s on %s", k, c.words, c.mesh), func(t *testing.T) {
			g, o := one, Defaults()
			if strings.Contains(c.words, "rgcn") {
				g, o = several, typed
			}
			o = apply(o, fmt.Sprintf("epochs 2, hidden 32, device cuda, offload %s, seed %d", setting.RAM, k))
			j := onMesh(g, apply(o, c.words), c.mesh)
			bounds, err := j.PlanWith(t.Context(), plan.Asks{Range: true})
			require.NoError(t, err)
			limit := bounds.Least + int64(c.share*float64(bounds.All-bounds.Least))
			j.Options.MemoryLimit = setting.Bytes(limit * int64(len(bounds.Workers)))
			p, err := j.Plan(t.Context())
			require.NoError(t, err)
			r, err := j.RunPlanned(t.Context(), &p)
			require.NoError(t, err)
			_, peak := p.Most()
			assert.Equal(t, p.Disk(), r.Device.RAM, "moved")
			assert.Equal(t, p.DiskBytes(), r.Device.RAMBytes, "that rest")
			assert.Equal(t, peak, r.Device.PeakBytes, "of the card")
			assert.Equal(t, p.MessageBytes(), r.Device.MessageBytes, "for messages")
			if p.Disk() == (tensor.Moved{}) {
				t.Error("nothing moves")
			}
		})
	}
}

// TestWindowsBelowCard: workers that hold several partitions each have pinned memory for Prefetch + 1
// messages that come and for two that go, as a worker of one partition has, beside a few pages for sums.
// Nothing waits in the host's memory for a partition's turn, however many rows others need.
func TestWindowsBelowCard(t *testing.T) {
	devicetest.Library(t)
	const vertices, columns, sums = 49152, 64, 1 << 18
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: vertices, Degree: 24, Features: columns, Classes: columns, Seed: 3,
	})
	require.NoError(t, err)
	for _, model := range []string{"gcn", "gat"} { // case 1 and case 2
		for _, partitions := range []int{4, 8} {
			message := int64(1) // a sixth of a partition's rows; pinned memory is a power of two
			for message < int64(vertices/partitions/6*columns*4) {
				message *= 2
			}
			for _, prefetch := range []int{0, 1, 3} {
				o := apply(Defaults(), "heads 1, output-heads 1, device cuda, offload ram")
				o.Model, o.Hidden, o.Partition, o.Prefetch = model, columns, partition.Random, prefetch
				p, err := onMesh(g, o, fmt.Sprint("graph=2/", partitions)).PlanWith(t.Context(), plan.Asks{})
				require.NoError(t, err)
				bytes, window := p.MessageBytes()/2, int64(prefetch+1+2)*message
				if bytes < window || bytes > window+sums || p.WaitingBytes() != 0 {
					t.Errorf("%s, %d partitions, a prefetch of %d: %d bytes of a worker for messages, want %d and "+
						"few more; %d wait", model, partitions, prefetch, bytes, window, p.WaitingBytes())
				}
			}
		}
	}
}

// TestLeastOfAStage: on a card a stage needs at least what the chunk at work needs. What others keep, and the
// history that no aggregation reads now, may rest, and so may their features and edges.
func TestLeastOfAStage(t *testing.T) {
	devicetest.Library(t)
	for _, c := range []struct {
		degree   float64
		features int
		words    string
		times    float64 // as much as that is needed where nothing rests, at least
	}{
		{6, 16, "hidden 128, layers 6", 2.5},
		{2, 512, "hidden 16, layers 2", 1.9},
		{400, 4, "hidden 16, layers 2", 2.2},
	} {
		g, err := generate.Graph(generate.Options{
			Kind: generate.Uniform, Vertices: 600, Degree: c.degree, Features: c.features, Classes: 5,
			Seed: 3,
		})
		require.NoError(t, err)
		o := apply(Defaults(), "model sage, norm layer, chunks 12, chunk-order fixed, recompute none, "+
			"device cuda, offload ram, "+c.words)
		p, err := onMesh(g, o, "pipeline=2").PlanWith(t.Context(), plan.Asks{Range: true})
		require.NoError(t, err)
		if times := float64(p.All) / float64(p.Least); times < c.times {
			t.Errorf("%+v: %d bytes where nothing rests, %.2f times those that are needed", c, p.All, times)
		}
	}
}
