package train

import (
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
)

// TestMovedByFormula: where all rests that may, an epoch writes and reads what formulas of the graph and its
// partitions say. They are computed here without a Meter. A run with the least memory
// that a user can ask for moves no more.
func TestMovedByFormula(t *testing.T) {
	const features, hidden, classes, partitions, rows = 24, 16, 8, 3, 1200
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: partitions * rows, Degree: 6, Features: features, Classes: classes,
		Seed: 3, Directed: true,
	})
	require.NoError(t, err)
	for i, model := range []string{"sage", "gcn", "gcn", "sage"} {
		layers, o := 2+i%3, Defaults()
		own := int64(i / 2) // passes of evaluation of an epoch's own
		o.EvalEvery = setting.Every(own)
		o.Model, o.Layers, o.Hidden, o.Dropout, o.Threads = model, layers, hidden, 0, 1
		o.Epochs, o.Select, o.Offload = 3, "loss", t.TempDir()
		o.Partitions, o.Partition = setting.Partitions(partitions), partition.Random
		job := &Job{Graph: g, Options: o}
		a, err := partition.Assign(t.Context(), g, o.Assignment(g, partitions))
		require.NoError(t, err)
		for p, n := range count(a.Parts, partitions) {
			require.Equal(t, rows, n, "partition %d", p)
		}
		all := func(columns int) int64 {
			return partitions * rests(rows, columns)
		} // of a matrix of each partition
		halo := halosOf(g, a)
		var want tensor.Moved
		for l := 1; l <= layers; l++ {
			in, out := hidden, hidden
			if l == 1 {
				in = features
			}
			if l == layers {
				out = classes
			}
			if l == 1 {
				want.Read += (2 + own) * all(in) // what it keeps of the aggregated features
			} else {
				want.Written += (2 + own) * all(out)
				want.Read += (2+own)*all(out) + (1+own)*halo.rows(out) + int64(len(halo))*rests(rows, out)
			}
			if l < layers { // the layer's output
				want.Written += (1 + own) * all(out)
				want.Read += all(out)
			}
			if model != "sage" {
				continue
			}
			switch l { // the weight of the vertices' own rows
			case 1:
				want.Read += (2 + own) * all(in)
			case layers:
				want.Read += 2 * all(in)
			default:
				want.Read += (2 + own) * all(in)
			}
		}
		// The logits are at rest in one exchange, of the loss: their metrics are read with it.
		want.Written += all(classes) - own*rests(rows, classes)
		want.Read += (1 - own) * all(classes)

		job.Options.MemoryLimit = 1 // which no plan keeps
		plan, err := job.Plan(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, plan.Disk(), "%s: planned to move", model)
		job.Options.MemoryLimit = 0
		r, err := job.RunPlanned(t.Context(), &plan)
		require.NoError(t, err)
		assert.Equal(t, want, r.Disk, "%s: moved", model)
		if got := mustRun(t, job).Disk; got.Written > want.Written ||
			got.Read > want.Read || got.Written == 0 {
			t.Errorf("%s: with the least memory moved %+v, want %+v at most", model, got, want)
		}
	}
}

// rests returns the bytes that a matrix of 32-bit elements takes on disk: whole pages of 4 KiB, and none
// below 16 KiB, as it stays then.
func rests(rows, columns int) int64 {
	const page, least = 4 << 10, 16 << 10
	bytes := (int64(rows)*int64(columns)*4 + page - 1) / page * page
	if bytes < least {
		return 0
	}
	return bytes
}

// halos are the rows that each partition reads of each other one, ascending.
type halos map[[2]int32][]int

func halosOf(g *graph.Graph, a *partition.Assignment) halos {
	row, next := make([]int, len(a.Parts)), map[int32]int{}
	for v, p := range a.Parts {
		row[v] = next[p]
		next[p]++
	}
	all := halos{}
	e := g.Relations[0].Edges()
	for k, u := range e.Source {
		if from, to := a.Parts[u], a.Parts[e.Target[k]]; from != to {
			all[[2]int32{from, to}] = append(all[[2]int32{from, to}], row[u])
		}
	}
	for pair, list := range all {
		slices.Sort(list)
		all[pair] = slices.Compact(list)
	}
	return all
}

// rows returns the bytes of the pages that hold the rows of each message, which has 512 of them at most, with
// the pages between two of which fewer than five are not needed.
func (h halos) rows(columns int) (bytes int64) {
	const page, gap = 4 << 10, 4
	for _, list := range h {
		for message := range slices.Chunk(list, 512) {
			last := -gap - 2
			for _, row := range message {
				for at := row * columns * 4 / page; at <= ((row+1)*columns*4-1)/page; at++ {
					if at-last-1 <= gap {
						bytes += int64(at-last) * page
					} else {
						bytes += page
					}
					last = max(last, at)
				}
			}
		}
	}
	return bytes
}

// count counts the vertices of each partition.
func count(parts []int32, partitions int) []int {
	n := make([]int, partitions)
	for _, p := range parts {
		n[p]++
	}
	return n
}
