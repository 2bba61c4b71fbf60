package partition

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// Merged is a method of Chunks, besides Metis: parts that METIS made are merged at random.
const Merged = "merged"

// ChunkMethods lists the methods of Chunks, the default first.
func ChunkMethods() []string { return []string{Metis, Merged} }

// ChunkOptions choose a method for Chunks.
type ChunkOptions struct {
	K       int           // chunks of the partition, 1 to the number of its rows
	Method  string        // one of ChunkMethods; empty: the first
	Seed    uint64        // seeds METIS and the random merge
	Timeout time.Duration // as in Options
}

const (
	rowWeight   = 50 // weight of a row without in-edges
	mergedParts = 4  // parts that are merged into a chunk
)

// Chunks divides the rows of a share's partition into the chunks of a pipeline (Chen, Chen and Qian,
// "GNNPipe: Scaling Deep GNN Training with Pipelined Model Parallelism", arXiv:2308.10087, 2023). It returns
// the chunk, 0…K−1, of each row. No chunk is empty.
//
// Along an edge between two chunks a model may read embeddings of an earlier epoch. So the methods look at
// the edges between the partition's own rows, of all relations together:
//   - metis: few edges between chunks;
//   - merged: METIS makes four times as many parts, with few edges between them. Four random parts are a
//     chunk, as in GNNPipe's measurements. More edges are cut. With fewer rows than parts each row is a part.
//
// A row weighs 50, for its vertex-wise work, plus 1 for each of its in-edges, also from other partitions.
// GNNPipe takes the degree, which is the same in its undirected graphs. METIS aims at parts of equal weight:
// the heaviest part may be above the mean by 3 % and one row. METIS may leave a part empty if a row is
// heavier than a part. The parts then get equally many rows instead.
//
// The same share and options give the same chunks. A share without rows has no chunks, for any K. Chunks
// refuses a K larger than the number of rows of this or of any other partition that has rows. So the workers
// of all partitions get the same answer.
//
// The call takes memory besides the share: up to 24 bytes for each edge between its rows and 40 for each row.
// METIS runs in a process of its own. It takes some 50 bytes for each such edge, or 100 if few edges have a
// reverse, and 130 for each row.
func Chunks(ctx context.Context, s *Share, o ChunkOptions) ([]int32, error) {
	if err := o.check(&s.Edges); err != nil {
		return nil, err
	}
	if o.K == 1 || s.Edges.Types[0].Rows == 0 {
		return make([]int32, s.Edges.Types[0].Rows), nil // METIS fails on one part
	}
	var chunks []int32
	err := s.Guard(func() (err error) {
		chunks, err = o.divide(ctx, &s.Edges)
		return err
	})
	return chunks, err
}

// check refuses options that do not fit the share.
func (o *ChunkOptions) check(e *PartEdges) error {
	if method := orFirst(o.Method, ChunkMethods()); !slices.Contains(ChunkMethods(), method) {
		return refusal.Errorf("unknown chunk method %q; %s", method, suggest.OneOf(method, ChunkMethods()))
	}
	starts := e.Types[0].Starts
	partitions := e.Partitions()
	if o.K < 1 {
		return refusal.Errorf("--chunks %d: give at least %d, one in each partition",
			o.K*partitions, partitions)
	}
	least, rows := 0, 0 // the partition with rows that has the fewest
	for p := range partitions {
		if n := starts[p+1] - starts[p]; n > 0 && (rows == 0 || n < rows) {
			least, rows = p, n
		}
	}
	if rows > 0 && o.K > rows {
		return refusal.Errorf(
			"--chunks %d: %d in each partition, and partition %d has %d vertices; give at most %d",
			o.K*partitions, o.K, least, rows, rows*partitions)
	}
	return nil
}

// divide divides the rows into o.K chunks, at least two. There are at least as many rows as chunks.
func (o *ChunkOptions) divide(ctx context.Context, e *PartEdges) ([]int32, error) {
	parts := o.K
	if o.Method == Merged {
		parts = min(mergedParts*o.K, e.Types[0].Rows)
	}
	partOf, err := o.parts(ctx, e, parts)
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w; --chunks %d does without it", err, e.Partitions())
	case err != nil:
		return nil, err
	case o.Method != Merged:
		return partOf, nil
	}
	chunkOf := random(parts, o.K, o.Seed)
	for row, part := range partOf {
		partOf[row] = chunkOf[part]
	}
	return partOf, nil
}

// parts divides the rows into k parts by METIS. None is empty.
func (o *ChunkOptions) parts(ctx context.Context, e *PartEdges, k int) ([]int32, error) {
	total := int64(rowWeight) * int64(e.Types[0].Rows)
	for r := range e.Relations {
		total += e.Relations[r].In.Indptr[e.Types[0].Rows]
	}
	if err := checkMetisSize(total); err != nil {
		return nil, err
	}
	weight := func(row int) int32 {
		weight := int32(rowWeight)
		for r := range e.Relations {
			in := &e.Relations[r].In
			weight += int32(in.Indptr[row+1] - in.Indptr[row])
		}
		return weight
	}
	d := division{in: e.own(), weights: []func(int) int32{weight}, k: k, seed: o.Seed, timeout: o.Timeout}
	parts, err := d.solve(ctx)
	if err == nil && leavesEmpty(parts, k) {
		parts = rangesOfGroups(parts, k)
	}
	return parts, err
}

// own returns the edges between the partition's rows, of all relations together. Its sources are row numbers.
func (e *PartEdges) own() *graph.Relation {
	if e.Partitions() == 1 && len(e.Relations) == 1 {
		return &e.Relations[0].In
	}
	rows := &e.Types[0]
	own := &graph.Relation{Indptr: make([]int64, rows.Rows+1)}
	for row := range rows.Rows {
		own.Indptr[row+1] = own.Indptr[row]
		for k := range e.Relations {
			own.Indptr[row+1] += int64(len(e.ownSources(k, row)))
		}
	}
	own.Sources = make([]int32, own.Indptr[rows.Rows])
	first := int32(rows.Starts[e.P])
	for row := range rows.Rows {
		sources := own.Sources[own.Indptr[row]:own.Indptr[row]:own.Indptr[row+1]]
		for k := range e.Relations {
			for _, position := range e.ownSources(k, row) {
				sources = append(sources, position-first)
			}
		}
		slices.Sort(sources)
	}
	return own
}

// ownSources returns a row's in-neighbours in relation k that are rows of the same partition, as positions.
func (e *PartEdges) ownSources(k, row int) []int32 {
	in := &e.Relations[k].In
	sources := in.Sources[in.Indptr[row]:in.Indptr[row+1]]
	starts := e.Types[0].Starts
	first, _ := slices.BinarySearch(sources, int32(starts[e.P]))
	end, _ := slices.BinarySearch(sources, int32(starts[e.P+1]))
	return sources[first:end]
}

// ChunkCut counts the edges between the partition's rows, of all relations. cut is the number of edges
// between different chunks, all the number of all edges. chunks is the chunk of each row.
func (e *PartEdges) ChunkCut(chunks []int32) (cut, all int64) {
	first := int32(e.Types[0].Starts[e.P])
	for row, chunk := range chunks {
		for k := range e.Relations {
			sources := e.ownSources(k, row)
			all += int64(len(sources))
			for _, position := range sources {
				if chunks[position-first] != chunk {
					cut++
				}
			}
		}
	}
	return cut, all
}

// Count counts the edges into the partition's rows, of all relations. remote is the number of edges from
// other partitions.
func (e *PartEdges) Count() (all, remote int64) {
	types := e.Types
	for k := range e.Relations {
		r := &e.Relations[k]
		starts := types[r.Source].Starts
		first, end := int32(starts[e.P]), int32(starts[e.P+1])
		for _, position := range r.In.Sources {
			if position < first || position >= end {
				remote++
			}
		}
		all += int64(len(r.In.Sources))
	}
	return all, remote
}
