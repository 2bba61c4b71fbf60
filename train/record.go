package train

import (
	"fmt"
	"hash/crc32"

	"weft/comm"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/train/engine"
	"weft/train/worker"
)

// Record is what a checkpoint holds of a run besides arrays.
type Record struct {
	Weft      string            `json:"weft"`
	Settings  map[string]string `json:"settings"`
	Seed      uint64            `json:"seed"`
	Mesh      mesh.Mesh         `json:"mesh"`
	Store     string            `json:"store"`     // checksum
	Partition string            `json:"partition"` // id
	// Chunks identifies the chunks that a history belongs to. It is "" where there is none.
	Chunks string `json:"chunks,omitempty"`
	// Columns are those that features are brought into, by vertex type; nil: they are as they are stored.
	Columns columns.ByType `json:"columns,omitempty"`
	// Standard is how features are standardised, by the number of the vertex type, in a run that began with
	// weights; nil: by the graph's own means and deviations.
	Standard []*engine.Standard `json:"standard,omitempty"`
	Curve    []Epoch            `json:"curve"`
	Best     bestRecord         `json:"best"`
}

// chunksOf identifies the division whose history a run has: the chunks and slices of a mesh. It is "" for a
// run without history.
func chunksOf(c *worker.Config, partitions string) string {
	chunks := 0
	for _, k := range c.ChunkOf {
		chunks = max(chunks, int(k)+1)
	}
	if chunks <= 1 {
		return ""
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	division := fmt.Sprintf("%d of %d %08x %s", chunks, c.Mesh.Partitions,
		crc32.Checksum(comm.Bytes(c.ChunkOf), table), partitions)
	if c.Mesh.Slices > 1 { // each has its columns of the history
		division += fmt.Sprintf(" in %d slices", c.Mesh.Slices)
	}
	return division
}

// check refuses to continue from a checkpoint whose history does not fit the mesh.
func (c *Checkpoints) check(s *worker.Config) error {
	if c == nil || c.From == nil {
		return nil
	}
	var r Record
	if err := c.From.State(&r); err != nil {
		return err
	}
	now := chunksOf(s, c.Partition)
	switch {
	case now == "" || now == r.Chunks:
		return nil
	case r.Chunks == "":
		return refusal.Errorf("--parallel %s: the chunks of a pipeline need a history, and %s has none; "+
			"take --parallel graph=%d, or one chunk for each partition: --chunks %d", s.Parallel, c.From.Path,
			s.Mesh.Workers(), s.Mesh.Partitions)
	}
	return refusal.Errorf("--parallel %s: the history in %s is of other chunks, partitions or slices; take "+
		"--parallel %s with any number of stages, or --parallel graph=%d, which needs no history", s.Parallel,
		c.From.Path, r.Settings["parallel"], s.Mesh.Workers())
}
