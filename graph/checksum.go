package graph

import (
	"fmt"
	"hash/crc32"
	"slices"

	"weft/internal/npy"
)

// Checksum distinguishes the graph from others by all that a run reads of it: edges with their weights and
// features, features, labels and splits. If it is several graphs, it also covers to which of them each vertex
// belongs.
func (g *Graph) Checksum() (sum string, err error) {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	err = g.Guard(func() error {
		var arrays [][]byte
		for i := range g.Relations {
			r := &g.Relations[i]
			arrays = append(arrays, npy.Bytes(r.Indptr), npy.Bytes(r.Sources), npy.Bytes(r.Weights))
			if r.Features.Columns > 0 { // so that sums of graphs without edge features stay the same
				arrays = append(arrays, npy.Bytes(r.Features.Dense))
			}
			if g.Typed() {
				source, name, target := r.Ends()
				arrays = append(arrays, []byte(source), []byte(name), []byte(target))
			}
			if l := &r.Frame; l.HasLabels() {
				arrays = append(arrays, npy.Bytes(l.Labels.Class), npy.Bytes(l.Labels.Multi),
					npy.Bytes(l.Labels.Values))
				if l.SplitBy != nil {
					arrays = append(arrays, npy.Bytes(l.SplitBy.Values))
				}
				for _, s := range l.Splits {
					arrays = append(arrays, npy.Bytes(s.Train), npy.Bytes(s.Val), npy.Bytes(s.Test))
				}
			}
			if s := r.EdgeSplit; s != nil {
				for part := range s.Edges {
					arrays = append(arrays, npy.Bytes(s.Edges[part]), npy.Bytes(s.Negative[part]))
				}
			}
		}
		for _, t := range g.Types {
			f := &t.Features
			arrays = append(arrays, npy.Bytes(f.Dense), npy.Bytes(f.Indptr),
				npy.Bytes(f.Indices), npy.Bytes(f.Data))
			if t.GraphOf != nil {
				arrays = append(arrays, npy.Bytes(t.GraphOf))
			}
		}
		arrays = append(arrays, npy.Bytes(g.Types[0].Labels.Class), npy.Bytes(g.Types[0].Labels.Multi),
			npy.Bytes(g.Types[0].Labels.Values))
		for _, s := range g.Types[0].Splits {
			arrays = append(arrays, npy.Bytes(s.Train), npy.Bytes(s.Val), npy.Bytes(s.Test))
		}
		for _, a := range arrays {
			for some := range slices.Chunk(a, 64<<20) {
				h.Write(some)
				g.Unload()
			}
			sum += fmt.Sprintf("%x %x ", len(a), h.Sum32())
		}
		return nil
	})
	return sum, err
}
