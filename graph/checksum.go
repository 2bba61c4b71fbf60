package graph

import (
	"fmt"
	"hash/crc32"

	"weft/internal/npy"
)

// Checksum tells the graph from another by all that a run reads of it: edges and their weights, features,
// labels and splits.
func (g *Graph) Checksum() (sum string, err error) {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	err = g.Guard(func() error {
		r, f, l := &g.Relation, &g.Features, &g.Labels
		arrays := [][]byte{
			npy.Bytes(r.Indptr), npy.Bytes(r.Sources), npy.Bytes(r.Weights), npy.Bytes(f.Dense), npy.Bytes(f.Indptr),
			npy.Bytes(f.Indices), npy.Bytes(f.Data), npy.Bytes(l.Class), npy.Bytes(l.Multi),
		}
		for _, s := range g.Splits {
			arrays = append(arrays, npy.Bytes(s.Train), npy.Bytes(s.Val), npy.Bytes(s.Test))
		}
		for _, a := range arrays {
			h.Write(a)
			sum += fmt.Sprintf("%x %x ", len(a), h.Sum32())
		}
		return nil
	})
	return sum, err
}
