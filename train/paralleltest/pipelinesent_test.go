package paralleltest

import (
	"testing"

	"weft/comm"
)

// What the workers of a pipeline send each other.

// TestPipelineVolume, 11 and 12: "counted bytes equal 2(S−1)NH·4 (GCNII ×2), weight sync 0; graph 2·L·M·H·4;
// independent of K, L (pipeline), order. Per boundary N·H·4 each direction; last/first stage send only one
// direction", and "messages: per boundary K forward + K backward (×2 with h0)".
func TestPipelineVolume(t *testing.T) {
	for _, model := range []string{"gcn", "gcnii", "resgcn"} {
		for _, c := range []struct{ stages, replicas, chunks, layers int }{
			{2, 1, 4, 4},
			{4, 1, 4, 4},
			{2, 1, 7, 4},
			{3, 1, 4, 9},
			{2, 2, 3, 4},
		} {
			s := newStaged(t, model, Grid(c.stages, c.replicas, 1), c.chunks)
			s.spec.Layers, s.epochs = c.layers, 2
			state := int64(1)
			if model == "gcnii" {
				state = 2
			}
			filled := make([]map[int32]bool, c.replicas) // chunks that send something
			rows := make([]int64, c.replicas)
			for v, p := range s.owners {
				if filled[p] == nil {
					filled[p] = map[int32]bool{}
				}
				filled[p][s.chunk[v]] = true
				rows[p]++
			}
			for i, o := range s.train(t) {
				halo := comm.Traffic{}
				for rank, got := range o.sent {
					at := s.mesh.Coords(rank)
					directions := int64(2)
					if at.Stage == 0 || at.Stage == c.stages-1 {
						directions = 1
					}
					want := comm.Traffic{
						Bytes:    directions * state * rows[at.Partition] * int64(s.spec.Hidden) * 4,
						Messages: directions * state * int64(len(filled[at.Partition])),
					}
					if got.stage != want {
						t.Errorf("%s, %+v, epoch %d, rank %d: sent %+v to other stages, want %+v", model, c,
							1+i, rank, got.stage, want)
					}
					if c.replicas == 1 && (got.gradient.Bytes > 0 || got.halo.Bytes > 0) {
						t.Errorf("%s, %+v: one way sent %+v", model, c, got)
					}
					halo.Bytes += got.halo.Bytes
				}
				if want := s.mirrors() * s.haloColumns() * 2 * 4; halo.Bytes != want {
					t.Errorf("%s, %+v: replicas sent %d bytes to each other, want %d", model,
						c, halo.Bytes, want)
				}
			}
		}
	}
}

// TestSlicedPipelineVolume: slices of chunks send between stages what one slice sends. Each chunk has six
// all-to-alls for each layer: two in the forward pass, two in its recomputation and two in the backward pass.
// In one a worker sends its own rows of the chunk, without its own columns.
func TestSlicedPipelineVolume(t *testing.T) {
	const stages, slices, chunks = 2, 3, 4
	for model, state := range map[string]int64{"gcn": 1, "gcnii": 2} {
		s := newStaged(t, model, Grid(stages, 1, slices), chunks)
		s.epochs = 1
		var sizes [chunks]int
		for _, k := range s.chunk {
			sizes[k]++
		}
		want, columns := comm.Traffic{}, s.spec.Hidden
		for k, n := range sizes {
			for i := range slices {
				owner := (i + k) % slices // the remainders of the chunks spread
				rows, own := n*(i+1)/slices-n*i/slices, columns*(owner+1)/slices-columns*owner/slices
				want.Bytes += 6 * 4 * int64(s.spec.Layers*rows*(columns-own))
			}
		}
		var stage, layout comm.Traffic
		for _, got := range s.train(t)[0].sent {
			stage.Bytes += got.stage.Bytes
			layout.Bytes += got.layout.Bytes
		}
		if all := 2 * (stages - 1) * state * int64(s.graph.Vertices()*columns) * 4; stage.Bytes != all {
			t.Errorf("%s: %d bytes between stages, want %d", model, stage.Bytes, all)
		}
		if layout != want {
			t.Errorf("%s: %d bytes between slices, want %d", model, layout.Bytes, want.Bytes)
		}
	}
}

// mirrors is the number of vertices that other replicas read, once for each replica.
func (s *staged) mirrors() int64 {
	needed, e := map[[2]int32]bool{}, s.graph.Relations[0].Edges()
	for k, u := range e.Source {
		if to := s.owners[e.Target[k]]; to != s.owners[u] {
			needed[[2]int32{u, to}] = true
		}
	}
	return int64(len(needed))
}

// haloColumns is the number of columns of all aggregations. They aggregate embeddings, in the last layer too.
func (s *staged) haloColumns() int64 { return int64(s.spec.Layers * s.spec.Hidden) }
