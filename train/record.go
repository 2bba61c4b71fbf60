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

// Record is what a checkpoint holds of a run in addition to arrays.
type Record struct {
	Weft      string            `json:"weft"`
	Settings  map[string]string `json:"settings"`
	Seed      uint64            `json:"seed"`
	Mesh      mesh.Mesh         `json:"mesh"`
	Store     string            `json:"store"`     // checksum
	Partition string            `json:"partition"` // id
	// Chunks identifies the chunks to which a history belongs. It is "" without a history.
	Chunks string `json:"chunks,omitempty"`
	// Columns are the columns into which features are brought, by vertex type; nil: features are as they are
	// stored.
	Columns columns.ByType `json:"columns,omitempty"`
	// Standard says how features are standardised in a run that began with weights, by the number of the
	// vertex type; nil: by the graph's own means and deviations.
	Standard []*engine.Standard `json:"standard,omitempty"`
	Curve    []Epoch            `json:"curve"`
	Best     bestRecord         `json:"best"`
}

// chunksOf identifies the division to which a run's history belongs: the chunks and slices of a mesh. It is
// "" for a run without a history.
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
	if c.Mesh.Slices > 1 { // each slice has its own columns of the history
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
